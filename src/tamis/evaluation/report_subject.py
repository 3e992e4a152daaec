"""What the HTML report is about, and the bits of HTML that its parts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tamis.evaluation.charts import Values
from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.significance import Comparison
from tamis.evaluation.svg import shorten
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

    def label(self, number: int) -> str:
        """A query's id and the beginning of its text."""
        query, text = self.evaluation.queries[number], shorten(self.texts[number], 100)
        return f"{query}: {text}" if text else query


def value_cell(value: float) -> str:
    """A value of a measure as a cell of a table."""
    return f'<td class="number">{value:.4f}</td>'


def scrolling(table: str, label: str, kind: str = "") -> str:
    """A table that scrolls in its own box where the page is narrow; `label` is escaped already."""
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{label}">'
        f'<table class="{kind}">{table}</table></div>'
    )


def fact_list(facts: Mapping[str, str]) -> str:
    """Names and what is to be said of each, both HTML already; empty ones are left out.

    >>> fact_list({"Runs": "bm25", "Command": ""})
    '<dl class="facts"><dt>Runs</dt><dd>bm25</dd></dl>'
    """
    rows = "".join(f"<dt>{name}</dt><dd>{fact}</dd>" for name, fact in facts.items() if fact)
    return f'<dl class="facts">{rows}</dl>'


def linked(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> linked(["a"]), linked(["a", "b", "c<"])
    ('a', 'a, b and c&lt;')
    """
    shown = [escape(name) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def run_name(run: str) -> str:
    """The name of a run in a table: a long one is broken, not cut."""
    return f'<span class="run">{escape(run)}</span>'
