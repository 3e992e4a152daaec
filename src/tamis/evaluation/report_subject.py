"""What the report of an evaluation is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.randomisation import VALUE_TOLERANCE
from tamis.evaluation.significance import Comparison
from tamis.pages.charts import Values
from tamis.pages.text_format import shorten
from tamis.types import Qrels, Run


@dataclass(frozen=True, slots=True)
class Subject:
    """An evaluation with what it was made from; single queries are shown for one measure."""

    evaluation: Evaluation
    comparisons: Sequence[Comparison]
    qrels: Qrels
    runs: Mapping[str, Run]
    texts: Sequence[str]
    """The text of each query of the evaluation; empty where it is not known."""
    baseline: str | None
    level: float
    excerpt: Callable[[str, int], str] | None = None
    """The text of a passage, from the document's id and the passage's number; for a number below
    0 the beginning of the document. None where documents are not at hand."""

    @property
    def measure(self) -> str:
        """The measure by which single queries are shown: the first that says which is better."""
        measures = self.evaluation.measures
        return str(next((measure for measure in measures if measure.says_better), measures[0]))

    @property
    def compared(self) -> list[str]:
        """The runs, without the baseline."""
        return [run for run in self.runs if run != self.baseline]

    def values(self, run: str) -> Values:
        """Every query's value of the first measure."""
        return self.evaluation.values(run, self.measure)

    def all_tie(self) -> bool:
        """Whether there are several runs, all with the same value on every query."""
        first, *others = [self.values(run) for run in self.runs]
        return bool(others) and all(
            bool(np.all(np.abs(other - first) < VALUE_TOLERANCE)) for other in others
        )

    def label(self, number: int) -> str:
        """A query's id and the beginning of its text."""
        query, text = self.evaluation.queries[number], shorten(self.texts[number], 100)
        return f"{query}: {text}" if text else query
