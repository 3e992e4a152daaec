"""Searching a snapshot: queries as terms and weights in, the columns of a run out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.search.kernels import search_batch
from tamis.search.rankings import Doubles, Floats, Ranking, TermScores
from tamis.search.score_tables import Batch
from tamis.search.segments import Postings
from tamis.search.snapshot import Snapshot
from tamis.search.term_counts import Ints, Longs
from tamis.search.topk import Keys
from tamis.types import Queries, Run
from tamis.types.conditions import Condition

MAX_QUERIES_PER_CALL = 128
MAX_HITS_PER_CALL = 1 << 20
MAX_SUM = 2.0e9
"""What the terms of a query may add up to, with room for rounding below 2**31."""
MAX_PAIR_SCORES_PER_QUERY = 1 << 28
LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e20, 1e-20


@dataclass(frozen=True, eq=False)
class TermQueries:
    """Queries as numbers of terms and their weights; `totals` counts unknown terms too."""

    offsets: Longs
    terms: Ints
    weights: Floats
    totals: Doubles

    def select_range(self, start: int, end: int) -> TermQueries:
        """The queries from `start` to `end`."""
        low, high = int(self.offsets[start]), int(self.offsets[end])
        return TermQueries(
            self.offsets[start : end + 1] - low,
            self.terms[low:high],
            self.weights[low:high],
            self.totals[start:end],
        )


def term_queries(snapshot: Snapshot, queries: Iterable[Mapping[str, float]]) -> TermQueries:
    """Queries given as terms and weights; terms that no document has weigh in the totals only."""
    terms: list[str] = []
    weights: list[float] = []
    bounds = [0]
    for query in queries:
        terms.extend(query.keys())
        weights.extend(query.values())
        bounds.append(len(terms))
    numbers = np.array(snapshot.lexicon.numbers(terms), np.int32)
    weight, ends = np.array(weights, np.float64), np.array(bounds, np.int64)
    _check_weights(terms, weight)
    is_term = (numbers >= 0) & (weight > 0)
    counted = np.concatenate([[0], np.cumsum(is_term)])
    return TermQueries(
        counted[ends], numbers[is_term], weight[is_term].astype(np.float32), sums_of(ends, weight)
    )


def _check_weights(terms: list[str], weights: Doubles) -> None:
    good = (weights == 0) | ((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))
    if not good.all():
        where = int(np.flatnonzero(~good)[0])
        raise InputError(
            f"the term {terms[where]!r} has the weight {weights[where]}",
            hint="a weight is zero or a positive number of ordinary size",
        )


def search_terms(
    snapshot: Snapshot,
    queries: TermQueries,
    ranking: Ranking,
    top: int,
    threads: int,
    conditions: tuple[Condition, ...] = (),
) -> tuple[Longs, Ints, Floats]:
    """The best `top` documents of every query: offsets, document numbers and scores."""
    if top < 1:
        raise InputError(f"cannot keep the top {top}", hint="keep at least one")
    _check_sizes(snapshot, queries)
    count = len(queries.totals)
    k = max(1, min(top, snapshot.total("documents")))
    size = max(1, min(MAX_QUERIES_PER_CALL, MAX_HITS_PER_CALL // k, -(-count // (2 * threads))))
    ranges = [(start, min(start + size, count)) for start in range(0, count, size)]
    for n, segment in enumerate(snapshot.segments):
        segment.touch(np.unique(snapshot.lexicon.in_segment(n, queries.terms)))
    snapshot.pair_scores(ranking)
    postings = snapshot.postings(conditions)

    def search(bounds: tuple[int, int]) -> tuple[Longs, Ints, Floats]:
        selected = queries.select_range(*bounds)
        return unpack(*_search_range(snapshot, postings, selected, ranking, k))

    if threads > 1 and len(ranges) > 1:
        with ThreadPoolExecutor(threads) as pool:
            columns = list(pool.map(search, ranges))
    else:
        columns = [search(bounds) for bounds in ranges]
    sizes = np.concatenate([np.empty(0, np.int64), *(counts for counts, _, _ in columns)])
    return (
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        np.concatenate([np.empty(0, np.int32), *(doc for _, doc, _ in columns)]),
        np.concatenate([np.empty(0, np.float32), *(score for _, _, score in columns)]),
    )


def _check_sizes(snapshot: Snapshot, queries: TermQueries) -> None:
    """Refuse a query whose tables would not fit in memory."""
    pairs = max((len(segment.pair_frequency) for segment in snapshot.segments), default=0)
    longest = int(np.diff(queries.offsets).max(initial=0))
    if longest * pairs > MAX_PAIR_SCORES_PER_QUERY:
        raise InputError(
            f"a query has {longest:,} different terms",
            hint=f"keep it below {MAX_PAIR_SCORES_PER_QUERY // pairs:,}",
        )


def _search_range(
    snapshot: Snapshot, postings: list[Postings], queries: TermQueries, ranking: Ranking, k: int
) -> tuple[Keys, Longs]:
    """The best keys of some queries, one row per query, and how many each has."""
    lexicon = snapshot.lexicon
    scores = ranking.term_scores(
        queries.weights,
        lexicon.documents_of[queries.terms],
        lexicon.occurrences[queries.terms],
        snapshot.statistics,
    )
    scales = _scales(queries.offsets, scores)
    best = np.empty((len(queries.totals), k), np.uint64)
    counts = np.zeros(len(queries.totals), np.int64)
    for n, segment in enumerate(snapshot.segments):
        terms = lexicon.in_segment(n, queries.terms)
        batch = Batch(queries.offsets, terms, scores.weights, scores.priors, scales)
        pairs = snapshot.pair_scores(ranking)[n]
        pair_count = len(segment.pair_frequency)
        search_batch(postings[n], batch, pairs, pair_count, k, best, counts)
    return best, counts


def _scales(offsets: Longs, scores: TermScores) -> Doubles:
    """Of each query the power of two by which its highest possible score stays below 2**31."""
    highest = np.maximum(sums_of(offsets, scores.bounds), 1e-25)
    scales: Doubles = np.exp2(np.floor(np.log2(MAX_SUM / highest)))
    return scales


@jit
def sums_of(offsets: Longs, values: Doubles) -> Doubles:
    """The sum of `values[offsets[n]:offsets[n + 1]]` for each n."""
    sums = np.zeros(len(offsets) - 1, np.float64)
    for n in range(len(sums)):
        for i in range(offsets[n], offsets[n + 1]):
            sums[n] += values[i]
    return sums


@jit
def unpack(best: Keys, counts: Longs) -> tuple[Longs, Ints, Floats]:
    """Keys as columns: how many each query has, document numbers, scores."""
    doc, score = np.empty(counts.sum(), np.int32), np.empty(counts.sum(), np.float32)
    at = 0
    for query in range(len(counts)):
        for i in range(counts[query]):
            key = best[query, i]
            doc[at] = np.int32(key & np.uint64(0xFFFFFFFF))
            score[at] = np.uint32(key >> np.uint64(32)).view(np.float32)
            at += 1
    return counts, doc, score


def as_run(
    queries: Queries, snapshot: Snapshot, columns: tuple[Longs, Ints, NDArray[np.float32]]
) -> Run:
    """The columns as a run: they are in the order of trec_eval already."""
    return Run._unchecked(queries, snapshot.ids, *columns)
