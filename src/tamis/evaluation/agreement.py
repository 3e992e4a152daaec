"""How alike two runs rank: overlap and Jaccard at k, Kendall's tau, rank-biased overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.types import Ids, Run

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Agreement:
    """How alike two runs are, one value per query that both have."""

    queries: Ids
    overlap: Values
    """Documents both have in their first k, over k, or over the longer ranking if below k."""
    jaccard: Values
    """Documents both have in their first k, over those that either has."""
    tau: Values
    """Kendall's tau-b of the scores of documents both retrieved; NaN where it says nothing."""
    rbo: Values
    """Extrapolated rank-biased overlap of the whole rankings (Webber and others, 2010)."""

    def means(self) -> dict[str, float]:
        """The mean of each over queries, leaving out those where it says nothing."""
        columns = ("overlap", "jaccard", "tau", "rbo")
        return {name: _mean(getattr(self, name)) for name in columns}


def agree(first: Run, second: Run, k: int = 10, p: float = 0.9) -> Agreement:
    """Compare two runs, query by query; p is how likely a reader goes on to the next document.

    >>> a = Run.from_dict({"q": {"d1": 3.0, "d2": 2.0, "d3": 1.0}})
    >>> b = Run.from_dict({"q": {"d2": 3.0, "d1": 2.0, "d4": 1.0}})
    >>> {name: round(value, 3) for name, value in agree(a, b, k=3).means().items()}
    {'overlap': 0.667, 'jaccard': 0.5, 'tau': -1.0, 'rbo': 0.63}
    """
    if k < 1 or not 0 < p < 1:
        raise InputError(f"agreement at k={k}, p={p}", hint="k of 1 or more, p between 0 and 1")
    place = second.queries.ids.positions_in(first.queries.ids)
    shared = np.flatnonzero(place >= 0)
    other = second.docs.positions_in(first.docs)[second.doc]
    values = np.empty((len(shared), 4))
    rank_of = np.zeros(len(first.docs), np.int32)
    for row, number in enumerate(shared.tolist()):
        mine = first.ranking(int(place[number]))
        theirs = second.ranking(number)
        rows = slice(int(second.offsets[number]), int(second.offsets[number + 1]))
        ranks = _ranks_of(rank_of, mine.doc, other[rows])
        both = np.flatnonzero(ranks)
        values[row, :2] = _at(ranks, len(mine), k)
        values[row, 2] = tau_b(mine.score[ranks[both] - 1], theirs.score[both])
        values[row, 3] = rank_biased_overlap(ranks, len(mine), p)
    return Agreement(second.queries.ids.select(shared), *np.ascontiguousarray(values.T))


def _mean(values: Values) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _at(ranks: NDArray[np.int32], length: int, k: int) -> tuple[float, float]:
    """Overlap and Jaccard of the first k."""
    first_depth, second_depth = min(k, len(ranks)), min(k, length)
    shared = int(((ranks[:k] > 0) & (ranks[:k] <= k)).sum())
    either = first_depth + second_depth - shared
    return (shared / max(first_depth, second_depth), shared / either) if either else (1.0, 1.0)


@jit
def _ranks_of(
    rank_of: NDArray[np.int32], mine: NDArray[np.int32], theirs: NDArray[np.int32]
) -> Any:
    """For each document of the second ranking its rank in the first, or 0."""
    for i in range(len(mine)):
        rank_of[mine[i]] = i + 1
    ranks = np.zeros(len(theirs), np.int32)
    for i in range(len(theirs)):
        if theirs[i] >= 0:
            ranks[i] = rank_of[theirs[i]]
    for i in range(len(mine)):
        rank_of[mine[i]] = 0
    return ranks


@jit
def rank_biased_overlap(ranks: NDArray[np.int32], length: int, p: float) -> float:
    """RBO extrapolated from two lists, perhaps of unequal length (equation 32 of the paper).

    `ranks` has for each place of the second list the document's rank in the first, or 0;
    `length` is that of the first list.
    """
    short, long = min(length, len(ranks)), max(length, len(ranks))
    if short == 0:
        return 1.0 if long == 0 else 0.0
    new = np.zeros(long + 1, np.int64)  # at which depth a shared document is in both lists
    for i in range(len(ranks)):
        if ranks[i] > 0:
            new[max(i + 1, ranks[i])] += 1
    shared, shared_short, total, weight = 0, 0, 0.0, 1.0
    for depth in range(1, long + 1):
        weight *= p
        shared += new[depth]
        agreement = shared / depth
        if depth <= short:
            shared_short = shared
        else:
            agreement += shared_short * (depth - short) / (short * depth)
        total += agreement * weight
    last = (shared - shared_short) / long + shared_short / short
    return (1 - p) / p * total + last * weight


@jit
def tau_b(x: NDArray[np.float32], y: NDArray[np.float32]) -> float:
    """Kendall's tau-b; NaN where there are no two values or one side is all ties."""
    n = len(x)
    pairs = n * (n - 1) // 2
    by_y = np.argsort(y, kind="mergesort")
    order = by_y[np.argsort(x[by_y], kind="mergesort")]
    tied_x, tied_both = _ties(x[order], y[order], False), _ties(x[order], y[order], True)
    tied_y = _ties(y[by_y], y[by_y], False)
    if pairs in (tied_x, tied_y):
        return np.nan
    discordant = _inversions(y[order])
    above = pairs - tied_x - tied_y + tied_both - 2 * discordant
    return float(above / np.sqrt(float(pairs - tied_x)) / np.sqrt(float(pairs - tied_y)))


@jit
def _ties(x: NDArray[np.float32], y: NDArray[np.float32], both: bool) -> int:
    """How many pairs of sorted values are equal, in x or in x and y both."""
    ties, length = 0, 1
    for i in range(1, len(x)):
        if x[i] == x[i - 1] and (not both or y[i] == y[i - 1]):
            ties += length
            length += 1
        else:
            length = 1
    return ties


@jit
def _inversions(values: NDArray[np.float32]) -> int:
    """How many pairs stand in descending order: counted while merging ever longer stretches."""
    source, target = values.copy(), np.empty_like(values)
    count, width = 0, 1
    while width < len(source):
        for start in range(0, len(source), 2 * width):
            middle, end = min(start + width, len(source)), min(start + 2 * width, len(source))
            left, right = start, middle
            for at in range(start, end):
                if left < middle and (right >= end or source[left] <= source[right]):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
                    count += middle - left
        source, target = target, source
        width *= 2
    return count
