"""How well a model that is being trained ranks the texts of queries it does not learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.labels.examples import LABEL_SOURCES, LABEL_TYPES, Examples
from tamis.splits import split
from tamis.types import Ids, Qrels, Queries, Run

HELD_OUT_SHARE = 0.1
"""Of the queries, where no validation examples are given."""
MAX_HELD_OUT_QUERIES = 100
MIN_QUERIES_TO_HOLD_OUT = 20
MAX_TEXTS_PER_QUERY = 20
"""Texts ranked per held-out query: positives, half of them at most where there are
others, and others drawn once."""
COLLAPSE_CHECK_SIZE = 8
"""So many texts of so many queries show whether a model gives all of them the same score."""
MAX_GRADE = 5


@dataclass(frozen=True, eq=False)
class Validation:
    """Examples to rank, as judgements and as an empty ranking of their rows."""

    examples: Examples
    qrels: Qrels
    measure: str

    @classmethod
    def of(cls, examples: Examples, measure: str = "") -> Validation:
        """The rows of every group are ranked; positives are what is looked for, or where values
        are scores, those with the highest.
        """
        if not len(examples):
            raise InputError("there are no examples to validate on", hint="hold out some queries")
        graded = bool((examples.kind != LABEL_TYPES.index("class")).any())
        grades = _grades(examples) if graded else (examples.value > 0).astype(np.int32)
        rows, groups = _names(examples)
        qrels = Qrels.of_rows(groups, rows, examples.group, _numbered(len(examples)), grades)
        return cls(examples, qrels, measure or ("nDCG@10" if graded else "RR@10"))

    @property
    def selects(self) -> bool:
        """Whether a state may be selected by it: held-out pseudo-labels only tell how well BM25
        is imitated.
        """
        return not (self.examples.source == LABEL_SOURCES.index("pseudo")).any()

    def value(self, scores: NDArray[np.float32]) -> float:
        """The mean measure when rows are ranked by these scores."""
        return float(self.values(scores).mean())

    def values(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """The measure of every query when rows are ranked by these scores."""
        rows, groups = _names(self.examples)
        offsets = self.examples.offsets
        run = Run(Queries(groups), rows, offsets, _numbered(len(scores)), scores)
        evaluation = evaluate(self.qrels, {"model": run}, [self.measure])
        return evaluation.values("model", self.measure)


def hold_out(examples: Examples, seed: int) -> tuple[Examples, Examples | None]:
    """Examples to learn from, and those of some queries held out; None where there are few, or
    where any order of the texts would be right.

    Queries that are nearly the same stay together, where their texts are known.
    """
    used = np.unique(examples.query)
    if len(used) < MIN_QUERIES_TO_HOLD_OUT:
        return examples, None
    share = min(HELD_OUT_SHARE, MAX_HELD_OUT_QUERIES / len(used))
    query_splits = split(
        examples.queries.select(used), {"learn": 1 - share, "held out": share}, seed=seed
    )
    held_out = examples.of_queries(query_splits["held out"])
    held_out = held_out.select(_rows_to_rank(held_out, seed))
    held_out = held_out.select(_has_distinct_values(held_out)[held_out.group])
    return (
        (examples.of_queries(query_splits["learn"]), held_out)
        if len(held_out)
        else (examples, None)
    )


def sample_rows(examples: Examples, seed: int) -> Examples:
    """Some rows of some groups, to look at what a model makes of them."""
    sample = examples.select(examples.group < COLLAPSE_CHECK_SIZE)
    return sample.select(_rows_to_rank(sample, seed, COLLAPSE_CHECK_SIZE))


def _rows_to_rank(
    examples: Examples, seed: int, max_texts: int = MAX_TEXTS_PER_QUERY
) -> NDArray[np.bool_]:
    """Which rows are ranked: of every group some positives, then others, then further positives."""
    random_keys, positive = (
        np.random.default_rng(seed).random(len(examples)),
        examples.is_role("positive"),
    )
    order = np.lexsort((random_keys, ~positive, examples.group))
    place = np.arange(len(examples)) - examples.offsets[examples.group]
    further = positive[order] & (place >= max_texts // 2)
    order = order[np.lexsort((further, examples.group))]
    selected = np.zeros(len(examples), bool)
    selected[order[place < max_texts]] = True
    return selected


def _has_distinct_values(examples: Examples) -> NDArray[np.bool_]:
    """Which groups have rows of different values."""
    starts = examples.offsets[:-1]
    low, high = (reduce.reduceat(examples.value, starts) for reduce in (np.minimum, np.maximum))
    return np.asarray(low < high)


def _names(examples: Examples) -> tuple[Ids, Ids]:
    """Ids of rows and groups, padded so that their order is that of the numbers."""
    return _padded(len(examples)), _padded(examples.groups)


def _padded(count: int) -> Ids:
    return Ids.of(f"{number:09}" for number in range(count))


def _numbered(count: int) -> NDArray[np.int32]:
    return np.arange(count, dtype=np.int32)


def _grades(examples: Examples) -> NDArray[np.int32]:
    """Values put on 0 to 5 within their group, as whole numbers."""
    starts = examples.offsets[:-1]
    low = np.minimum.reduceat(examples.value, starts)[examples.group]
    high = np.maximum.reduceat(examples.value, starts)[examples.group]
    spread = np.where(high > low, high - low, 1)
    return np.rint((examples.value - low) / spread * MAX_GRADE).astype(np.int32)
