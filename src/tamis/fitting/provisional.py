"""What judged queries say of the selected system where they are too few for a test.

Its difference to BM25 comes with a word on how the queries were used: a query that was selected on
is measured with the system that the others select. What a test needs is left to `result.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import InputError
from tamis.evaluation.significance import Interval, t_interval
from tamis.pages.text_format import counted
from tamis.splits import folds
from tamis.types import Qrels, Queries

MIN_QUERIES_FOR_INTERVAL = 5
"""With fewer queries an interval means little, and a test nothing."""
SELECTION_FOLDS = 10
"""In how many parts the queries are left out of the selection, at most."""
Estimate = Literal["test", "not_selected_on", "cross_validated", "selected_on"]
ESTIMATES: dict[Estimate, str] = {
    "test": "nothing was trained or selected on them",
    "not_selected_on": "nothing was trained or selected on them",
    "cross_validated": "cross-validated, so that no query trains or selects what it measures",
    "selected_on": "the same queries selected it, so this is optimistic",
}
"""How queries were used, in words."""
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Provisional:
    """The selected system less BM25 on a few judged queries.

    >>> print(provisional("hybrid", [1, 0.5, 1], "BM25", [0.5, 0.5, 0], "RR@10", "test"))
    +.500 against BM25 on your 3 queries, too few for an interval, provisional: nothing was \
trained or selected on them
    """

    system: str
    baseline: str
    measure: str
    queries: int
    mean: float
    baseline_mean: float
    difference: float
    interval: Interval | None
    """Student's; None where queries are very few, or all differences the same."""
    estimate: Estimate
    """How the queries were used, see `ESTIMATES`."""

    def __str__(self) -> str:
        queries = f"on your {counted(self.queries)}"
        if self.system == self.baseline:
            mean = _short(self.baseline_mean)
            return f"BM25 itself was selected: {self.measure} {mean} {queries}, provisional"
        difference = f"{_short(self.difference, '+')} against {self.baseline} {queries}"
        return f"{difference}, {self._range()}, provisional: {ESTIMATES[self.estimate]}"

    def _range(self) -> str:
        if self.interval is not None:
            low, high = (_short(end, "+") for end in (self.interval.low, self.interval.high))
            return f"95% interval {low} to {high}"
        few = self.queries < MIN_QUERIES_FOR_INTERVAL
        return "too few for an interval" if few else "the same on each, so without an interval"


def provisional(
    system: str,
    values: ArrayLike,
    baseline: str,
    baseline_values: ArrayLike,
    measure: str,
    estimate: Estimate,
) -> Provisional:
    """The difference of a system to a baseline, from their values on the same queries.

    >>> values, bm25_values = [1, 1, 1, 0.5, 1], [0.5, 1, 0.5, 0.5, 0]
    >>> few = provisional("hybrid", values, "BM25", bm25_values, "RR@10", "test")
    >>> few.difference, few.interval is None
    (0.4, False)
    """
    own, theirs = np.asarray(values, np.float64), np.asarray(baseline_values, np.float64)
    difference = own - theirs
    enough = len(own) >= MIN_QUERIES_FOR_INTERVAL
    return Provisional(
        system,
        baseline,
        measure,
        len(own),
        float(own.mean()),
        float(theirs.mean()),
        float(difference.mean()),
        t_interval(difference) if enough else None,
        estimate,
    )


def cross_validated(
    table: Values, folds: Sequence[NDArray[np.int64]], select: Callable[[Values], int]
) -> Values:
    """For each query the value of the system that is selected without it.

    `table` has a row per system and a column per query, `folds` the columns left out together;
    `select` gives the row of the system selected by some of the columns.

    >>> table = np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    >>> best = lambda some: int(some.mean(axis=1).argmax())
    >>> cross_validated(table, [np.array([0]), np.array([1]), np.array([2])], best).tolist()
    [0.0, 0.0, 0.0]
    """
    values = np.empty(table.shape[1])
    for columns in folds:
        values[columns] = table[select(np.delete(table, columns, axis=1)), columns]
    return values


def selection_folds(
    queries: Queries, order: Sequence[str], answers: Qrels, seed: int
) -> list[NDArray[np.int64]]:
    """The places of queries, in an order, that are left out of the selection together; those that
    are nearly the same, or have the same answer, stay together. None where all do.
    """
    place = {query: number for number, query in enumerate(order)}
    for count in range(min(SELECTION_FOLDS, len(order)), 1, -1):
        try:
            parts = folds(queries, count, seed=seed, answers=answers)
        except InputError:  # fewer differ
            continue
        return [np.array([place[query] for query in held_out]) for _, held_out in parts]
    return []


def _short(value: float, sign: str = "") -> str:
    """A value to three decimals, without the zero before the point; `sign` is that above zero.

    >>> _short(0.106, "+"), _short(-0.02), _short(1.0), _short(-0.0001, "+")
    ('+.106', '−.020', '1.000', '.000')
    """
    text = f"{abs(value):.3f}".removeprefix("0")
    before = "" if not float(text) else "−" if value < 0 else sign
    return before + text
