"""Where each judged document stands in a run: the small structure all measures derive from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.types import Ids, Qrels, Run

MAX_JUDGED_TO_SCAN = 6
"""Up to so many judged documents per query, comparing each with the whole ranking is fastest."""


@dataclass(frozen=True, eq=False, slots=True)
class Judged:
    """Every judged document of every query of the qrels, with its grade and its rank in a run.

    Rows of query n are `offsets[n]` to `offsets[n + 1]` of `query` (n itself), `doc` (a number
    in the qrels' table), `grade` and `rank`: documents retrieved come first, by rank (from 1);
    then those not retrieved, with rank 0. `retrieved` counts a query's documents in the run.
    """

    queries: Ids
    offsets: NDArray[np.int64]
    query: NDArray[np.int64]
    doc: NDArray[np.int32]
    grade: NDArray[np.int32]
    rank: NDArray[np.int32]
    retrieved: NDArray[np.int64]
    missing: Ids
    """Queries of the qrels for which the run has no document; they count as zero."""
    unjudged: Ids
    """Queries of the run that the qrels do not have; they are left out."""

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return (
            f"<Judged: {len(self):,} queries, {len(self.doc):,} judgements, "
            f"{len(self.missing):,} queries missing, {len(self.unjudged):,} not judged>"
        )

    def total(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The sum a query of values that rows have."""
        return np.bincount(self.query, values, len(self)).astype(np.float64, copy=False)

    def so_far(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each row, how many of the marked rows its query has up to there."""
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows, dtype=np.int64)])
        before: NDArray[np.int64] = running[self.offsets[:-1]]
        counted: NDArray[np.int64] = running[1:] - before[self.query]
        return counted

    def condensed(self) -> Judged:
        """As if the run had only judged documents; a grade below zero means not judged here."""
        is_kept = (self.rank > 0) & (self.grade >= 0)
        rank = np.where(is_kept, self.so_far(is_kept), 0).astype(np.int32)
        return replace(self, rank=rank, retrieved=self.total(is_kept).astype(np.int64))


def join(qrels: Qrels, run: Run) -> Judged:
    """Find every judged document in a run; a query's rows come in the order of their ranks.

    >>> qrels = Qrels.from_dict({"q1": {"d1": 1, "d2": 0, "d9": 2}, "q2": {"d1": 1}})
    >>> run = Run.from_dict({"q1": {"d1": 1.0, "d2": 2.0, "d3": 3.0}})
    >>> judged = join(qrels, run)
    >>> judged.rank.tolist(), judged.grade.tolist(), list(judged.missing)
    ([2, 3, 0, 0], [0, 1, 2, 1], ['q2'])
    """
    place = qrels.queries.positions_in(run.queries.ids)
    judged_doc = qrels.docs.positions_in(run.docs)[qrels.doc]
    row, rank = _find(place, run.offsets, run.doc, qrels.offsets, judged_doc)
    retrieved = np.where(place >= 0, run.sizes()[place] if len(run) else 0, 0)
    is_judged = np.zeros(len(run), bool)
    is_judged[place[place >= 0]] = True
    return Judged(
        qrels.queries,
        qrels.offsets,
        np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets)),
        qrels.doc[row],
        qrels.grade[row],
        rank,
        retrieved.astype(np.int64),
        qrels.queries.select(np.flatnonzero(retrieved == 0)),
        run.queries.ids.select(np.flatnonzero(~is_judged)),
    )


@jit
def _find(
    place: NDArray[np.int32],
    run_offsets: NDArray[np.int64],
    run_doc: NDArray[np.int32],
    offsets: NDArray[np.int64],
    judged_doc: NDArray[np.int32],
) -> Any:
    """The rows of the qrels, by query and then by rank with those not found last; their ranks."""
    rank = np.zeros(len(judged_doc), np.int32)
    rows = np.empty(len(judged_doc), np.int64)
    table = _table_for(offsets)
    for q in range(len(place)):
        start, end = offsets[q], offsets[q + 1]
        next_row = start
        if place[q] >= 0:
            ranking = run_doc[run_offsets[place[q]] : run_offsets[place[q] + 1]]
            if end - start <= MAX_JUDGED_TO_SCAN:
                next_row = _find_few(ranking, judged_doc, start, end, rank, rows)
            else:
                next_row = _find_many(ranking, judged_doc, start, end, rank, rows, table)
        for row in range(start, end):
            if rank[row] == 0:
                rows[next_row] = row
                next_row += 1
    return rows, rank[rows]


@jit
def _find_few(
    ranking: NDArray[np.int32],
    judged_doc: NDArray[np.int32],
    start: int,
    end: int,
    rank: NDArray[np.int32],
    rows: NDArray[np.int64],
) -> int:
    """Compare each judged document with the whole ranking, without branches."""
    next_row = start
    for row in range(start, end):
        document = judged_doc[row]
        at = np.int32(0)
        for i in range(len(ranking)):
            at += np.int32(i + 1) if ranking[i] == document else np.int32(0)
        if at == 0:
            continue
        rank[row] = at
        slot = next_row
        while slot > start and rank[rows[slot - 1]] > at:
            rows[slot] = rows[slot - 1]
            slot -= 1
        rows[slot] = row
        next_row += 1
    return next_row


@jit
def _find_many(
    ranking: NDArray[np.int32],
    judged_doc: NDArray[np.int32],
    start: int,
    end: int,
    rank: NDArray[np.int32],
    rows: NDArray[np.int64],
    table: NDArray[np.int64],
) -> int:
    """Look each document of the ranking up in a small hash table of the judged ones."""
    mask = np.int64(len(table) - 1)
    for row in range(start, end):
        if judged_doc[row] >= 0:
            slot = np.int64(judged_doc[row]) & mask
            while table[slot] >= 0:
                slot = (slot + 1) & mask
            table[slot] = row
    next_row = start
    for i in range(len(ranking)):
        slot = np.int64(ranking[i]) & mask
        while table[slot] >= 0:
            if judged_doc[table[slot]] == ranking[i]:
                rank[table[slot]] = i + 1
                rows[next_row] = table[slot]
                next_row += 1
                break
            slot = (slot + 1) & mask
    for row in range(start, end):
        slot = np.int64(judged_doc[row]) & mask
        while table[slot] >= 0:
            table[slot] = -1
            slot = (slot + 1) & mask
    return next_row


@jit
def _table_for(offsets: NDArray[np.int64]) -> Any:
    """An empty hash table, at most an eighth full for the query with the most judgements."""
    most = 1
    for q in range(len(offsets) - 1):
        most = max(most, offsets[q + 1] - offsets[q])
    size = 1024
    while size < 8 * most:
        size *= 2
    return np.full(size, -1, np.int64)
