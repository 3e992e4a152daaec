"""Makes one score of the scores of a document's passages.

`first max sum mean` and `top:3`, the mean of the best three (of all, where there are fewer).
Sums are made of probabilities, or of whatever else is nothing at zero: a sum of logits or of
log-probabilities would reward documents of few passages, so it is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.types.pipeline import Scale

Kind = Literal["first", "max", "sum", "mean", "top"]
FORMS = "first, max, sum, mean or top:3"
_TOP = re.compile(r"top:([1-9]\d{0,6})")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How passages' scores become their document's; prints as itself.

    >>> str(parse_aggregation("top:3")), parse_aggregation("top:3")
    ('top:3', Aggregation(kind='top', k=3))
    """

    kind: Kind
    k: int = 0

    def __post_init__(self) -> None:
        if (self.k > 0) != (self.kind == "top") or self.k < 0:
            raise InputError(f"{str(self)!r} is not an aggregation", hint=f"use {FORMS}")

    def __str__(self) -> str:
        return f"{self.kind}:{self.k}" if self.k else self.kind


def parse_aggregation(text: str) -> Aggregation:
    """The aggregation that prints as this text."""
    match text:
        case "first" | "max" | "sum" | "mean":
            return Aggregation(text)
    top = _TOP.fullmatch(text)
    if top is None:
        raise InputError(f"{text!r} is not an aggregation", hint=f"use {FORMS}")
    return Aggregation("top", int(top[1]))


@dataclass(frozen=True, eq=False, slots=True)
class Aggregated:
    """A score a document, and the number of the passage that won it."""

    scores: NDArray[np.float32]
    passages: NDArray[np.int32]


def check_scale(aggregation: Aggregation, scale: Scale) -> None:
    """Refuse to add up scores that do not start at nothing; call it before anything is scored."""
    if aggregation.kind == "sum" and scale == "logit":
        raise InputError(
            "a sum of logits would reward documents of few passages",
            hint="use max, mean or top:3, or a scorer that gives probabilities",
        )


def aggregate(
    offsets: ArrayLike,
    scores: ArrayLike,
    aggregation: Aggregation,
    *,
    scale: Scale | None = None,
    numbers: ArrayLike | None = None,
) -> Aggregated:
    """The scores of documents whose passages are rows `offsets[n]` to `offsets[n + 1]`.

    A document found for two queries is there twice. The winning passage is the best one, the
    first of equals, and with `first` the first; `numbers` are the passages' numbers (without
    them their places within the document count). A document without passages scores minus
    infinity and its winner is -1: it is for the caller to place it.

    >>> best = aggregate([0, 2, 5], [0.25, 0.5, 0.75, 0.0, 0.25], parse_aggregation("top:2"))
    >>> best.scores.tolist(), best.passages.tolist()
    ([0.375, 0.5], [1, 0])
    """
    bounds = np.ascontiguousarray(offsets, np.int64)
    values = np.ascontiguousarray(scores, np.float32)
    _check(bounds, values, aggregation, scale)
    totals, rows = _KERNELS[aggregation.kind](bounds, values, aggregation.k)
    return Aggregated(totals.astype(np.float32), _numbers_of(rows, bounds, numbers))


def _numbers_of(
    rows: NDArray[np.int64], bounds: NDArray[np.int64], numbers: ArrayLike | None
) -> NDArray[np.int32]:
    """The passage number of each winning row; -1 where there is none."""
    if numbers is None:
        return np.where(rows < 0, -1, rows - bounds[:-1]).astype(np.int32)
    passage_numbers = np.asarray(numbers, np.int32)
    if len(passage_numbers) != bounds[-1]:
        raise InputError(f"{bounds[-1]} passages but {len(passage_numbers)} numbers of passages")
    return np.append(passage_numbers, np.int32(-1))[rows]


def _check(
    bounds: NDArray[np.int64],
    values: NDArray[np.float32],
    aggregation: Aggregation,
    scale: Scale | None,
) -> None:
    if scale is not None:
        check_scale(aggregation, scale)
    if len(bounds) == 0 or bounds[0] != 0 or np.any(np.diff(bounds) < 0):
        raise InputError("offsets must start at 0 and ascend")
    if bounds[-1] != len(values):
        raise InputError(f"offsets end at {bounds[-1]} but there are {len(values)} scores")
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"the score of passage {row} is {values[row]}, not a number to rank by",
            hint="is there NaN in the model's weights?",
        )
    if scale == "probability" and len(values) and (values.min() < 0 or values.max() > 1):
        raise InputError(
            f"the scores are called probabilities but reach from {values.min():g} to "
            f"{values.max():g}",
            hint="a scorer of log-probabilities must give their exponentials",
        )


@jit
def _first(bounds: NDArray[np.int64], values: NDArray[np.float32], k: int) -> Any:
    totals = np.full(len(bounds) - 1, -np.inf)
    rows = np.full(len(bounds) - 1, -1, np.int64)
    for n in range(len(rows)):
        if bounds[n] < bounds[n + 1]:
            rows[n] = bounds[n]
            totals[n] = values[bounds[n]]
    return totals, rows


@jit
def _max(bounds: NDArray[np.int64], values: NDArray[np.float32], k: int) -> Any:
    totals = np.full(len(bounds) - 1, -np.inf)
    rows = np.full(len(bounds) - 1, -1, np.int64)
    for n in range(len(rows)):
        for row in range(bounds[n], bounds[n + 1]):
            if rows[n] < 0 or values[row] > totals[n]:
                rows[n] = row
                totals[n] = values[row]
    return totals, rows


@jit
def _sum(bounds: NDArray[np.int64], values: NDArray[np.float32], k: int) -> Any:
    totals, rows = _max(bounds, values, k)
    for n in range(len(rows)):
        if rows[n] >= 0:
            total = 0.0
            for row in range(bounds[n], bounds[n + 1]):
                total += values[row]
            totals[n] = total
    return totals, rows


@jit
def _mean(bounds: NDArray[np.int64], values: NDArray[np.float32], k: int) -> Any:
    totals, rows = _sum(bounds, values, k)
    for n in range(len(rows)):
        if rows[n] >= 0:
            totals[n] /= bounds[n + 1] - bounds[n]
    return totals, rows


@jit
def _top(bounds: NDArray[np.int64], values: NDArray[np.float32], k: int) -> Any:
    totals, rows = _max(bounds, values, k)
    for n in range(len(rows)):
        if rows[n] >= 0:
            count = min(k, bounds[n + 1] - bounds[n])
            ordered = np.sort(values[bounds[n] : bounds[n + 1]])
            total = 0.0
            for place in range(len(ordered) - 1, len(ordered) - 1 - count, -1):
                total += ordered[place]
            totals[n] = total / count
    return totals, rows


_KERNELS = {"first": _first, "max": _max, "sum": _sum, "mean": _mean, "top": _top}
