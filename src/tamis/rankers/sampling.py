"""Which candidates a ranker learns from: all relevant ones, and a sample of the others.

A list is a query's candidates. `size` is |P|: how many candidates of a list are taken in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.types import Qrels, Run

Rows = NDArray[np.int64]
Generator = np.random.Generator


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a run, those of list n from `offsets[n]` to `offsets[n + 1]`."""

    rows: Rows
    offsets: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Rows:
        """How many rows each list has."""
        sizes: Rows = np.diff(self.offsets)
        return sizes


def relevant_rows(run: Run, qrels: Qrels) -> NDArray[np.bool_]:
    """Which rows of a run are judged relevant (a grade of 1 or more); not judged is not relevant.

    >>> run = Run.from_dict({"q1": {"a": 3.0, "b": 2.0}, "q2": {"a": 1.0}})
    >>> relevant_rows(run, Qrels.from_dict({"q1": {"b": 1}, "q2": {"b": 1}})).tolist()
    [False, True, False]
    """
    query = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    judged_query = qrels.queries.positions_in(run.queries.ids)[query]
    judged_doc = qrels.docs.positions_in(run.docs)[qrels.doc]
    use = (qrels.grade >= 1) & (judged_query >= 0) & (judged_doc >= 0)
    width = max(len(run.docs), 1)
    judged = judged_query[use].astype(np.int64) * width + judged_doc[use]
    row_query = np.repeat(np.arange(len(run)), run.sizes())
    relevant: NDArray[np.bool_] = np.isin(row_query * width + run.doc, judged)
    return relevant


def check_trainable(run: Run, relevant: NDArray[np.bool_]) -> None:
    """Refuse candidates from which nothing can be learnt."""
    if not relevant.any():
        raise InputError(
            "no candidate of the run is judged relevant",
            hint="are run and judgements from the same collection and split?",
        )
    if relevant.all():
        raise InputError(
            "every candidate of the run is judged relevant",
            hint="rankers learn from a run with other candidates too: search deeper",
        )


def sample_negatives(
    offsets: Rows, relevant: NDArray[np.bool_], size: int | None, rng: Generator
) -> Sample:
    """All relevant rows of every list, and others at random up to `size` rows in all.

    A list with fewer than `size` rows is taken whole, as is every list where `size` is None.
    Relevant rows are kept even where they are more than `size`.

    >>> relevant = np.array([True, False, False, False, True, False])
    >>> sample = sample_negatives(np.array([0, 4, 6]), relevant, 2, np.random.default_rng(0))
    >>> sample.offsets.tolist(), sample.rows[[0, 2, 3]].tolist()
    ([0, 2, 4], [0, 4, 5])
    """
    if size is not None and size < 1:
        raise InputError(f"lists of {size} candidates", hint="keep one at least, better two")
    if size is None or len(relevant) == 0:
        return Sample(np.arange(len(relevant)), offsets.astype(np.int64))
    positives, others = _split_rows(offsets, relevant)
    wanted = np.clip(size - positives.sizes, 0, others.sizes)
    rows = np.sort(np.concatenate([positives.rows, _draw(others, wanted, rng)]))
    return Sample(rows, np.concatenate([[0], np.cumsum(positives.sizes + wanted)]))


def sample_pairs(offsets: Rows, relevant: NDArray[np.bool_], rng: Generator) -> Rows:
    """Of each relevant row a pair: it, and another row of its list at random that is not relevant.

    Lists of none but relevant rows, and of none, give no pair.

    >>> relevant = np.array([True, False, True, False, True])
    >>> sample_pairs(np.array([0, 2, 4, 5]), relevant, np.random.default_rng(0)).tolist()
    [[0, 1], [2, 3]]
    """
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    others = np.flatnonzero(~relevant)
    counts = np.bincount(query[others], minlength=len(offsets) - 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.flatnonzero(relevant)
    rows = rows[counts[query[rows]] > 0]
    drawn = starts[query[rows]] + rng.integers(0, counts[query[rows]])
    return np.stack([rows, others[drawn]], axis=1)


@dataclass(frozen=True, eq=False)
class FixedLists:
    """Lists of the same length: `rows[n]` are rows of the run, of which `is_relevant` says whether
    they are relevant to list n; where `is_real` is not true there was nothing to fill in."""

    query: Rows
    rows: NDArray[np.int64]
    is_relevant: NDArray[np.bool_]
    is_real: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.query)


def sample_fixed_lists(
    offsets: Rows, relevant: NDArray[np.bool_], size: int, rng: Generator
) -> FixedLists:
    """Lists of `size` candidates; short ones are filled with relevant rows of other lists.

    What is filled in counts as not relevant. Relevant rows beyond `size` are left out, at random.
    Lists that then have no relevant or no other row teach nothing and are left out.

    >>> relevant = np.array([True, False, False, False, True])
    >>> lists = sample_fixed_lists(np.array([0, 4, 5]), relevant, 2, np.random.default_rng(0))
    >>> lists.rows[1].tolist(), lists.is_relevant.tolist()
    ([4, 0], [[True, False], [True, False]])
    """
    if size < 2:
        raise InputError(f"lists of {size} candidates", hint="a list needs two at least")
    positives, others = _split_rows(offsets, relevant)
    num_positives = np.minimum(positives.sizes, size)
    num_others = np.minimum(size - num_positives, others.sizes)
    rows = np.full((len(positives), size), -1, np.int64)
    place = np.arange(size)
    rows[place < num_positives[:, None]] = _draw(positives, num_positives, rng)
    is_other = (place >= num_positives[:, None]) & (place < (num_positives + num_others)[:, None])
    rows[is_other] = _draw(others, num_others, rng)
    is_relevant = np.append(relevant, False)[rows]  # -1, nothing, is not relevant
    _fill(rows, positives, rng)
    is_real = rows >= 0
    teaches = is_relevant.any(1) & (is_real & ~is_relevant).any(1)
    numbers = np.flatnonzero(teaches)
    return FixedLists(numbers, np.maximum(rows[numbers], 0), is_relevant[numbers], is_real[numbers])


def _fill(rows: Rows, positives: Sample, rng: Generator) -> None:
    """Put distinct relevant rows of other lists where a list has none, as far as there are any."""
    for number in np.flatnonzero((rows < 0).any(1)).tolist():
        empty = np.flatnonzero(rows[number] < 0)
        start, end = positives.offsets[number : number + 2]
        count = len(positives.rows) - (end - start)
        drawn = rng.choice(count, min(count, len(empty)), replace=False)
        drawn += (end - start) * (drawn >= start)  # its own are passed over
        rows[number, empty[: len(drawn)]] = positives.rows[drawn]


def _split_rows(offsets: Rows, relevant: NDArray[np.bool_]) -> tuple[Sample, Sample]:
    """The relevant rows of every list, and the others."""
    before = np.concatenate([[0], np.cumsum(relevant)])[offsets]
    return (
        Sample(np.flatnonzero(relevant), before),
        Sample(np.flatnonzero(~relevant), offsets - before),
    )


def _draw(rows: Sample, wanted: Rows, rng: Generator) -> Rows:
    """So many distinct rows of each list, in ascending order; all draws are equally likely.

    What is drawn twice is drawn again. Where most of a list is wanted, that would take long: there
    the rows are put in an order by chance.
    """
    sizes, start = rows.sizes, rows.offsets[:-1]
    is_dense = 2 * wanted > sizes
    dense = _first_shuffled(np.flatnonzero(is_dense), start, sizes, wanted, rng)
    drawn, missing = np.zeros(0, np.int64), np.where(is_dense, 0, wanted)
    while missing.any():
        number = np.repeat(np.arange(len(rows)), missing)
        place = (rng.random(len(number)) * sizes[number]).astype(np.int64)
        drawn = np.unique(np.concatenate([drawn, start[number] + place]))
        counts = np.diff(np.searchsorted(drawn, rows.offsets))
        missing = np.where(is_dense, 0, wanted - counts)
    chosen: Rows = rows.rows[np.sort(np.concatenate([dense, drawn]))]
    return chosen


def _first_shuffled(numbers: Rows, start: Rows, sizes: Rows, wanted: Rows, rng: Generator) -> Rows:
    """The places of the first `wanted` rows of some lists in an order by chance."""
    lengths = sizes[numbers]
    which = np.repeat(np.arange(len(numbers)), lengths)
    before = np.cumsum(lengths) - lengths
    place = np.arange(len(which)) - before[which]
    order = np.lexsort((rng.random(len(which)), which))
    return (start[numbers][which] + place)[order[place < wanted[numbers][which]]]
