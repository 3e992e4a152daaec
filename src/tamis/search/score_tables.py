"""What a query's terms score: a table of every pair for each term, and bounds that follow from it.

Each score is a float32 as Lucene computes it, turned into an integer in units of a power of two
that the query's highest possible score sets (31 bits). So the order in which terms are added does
not matter, and what is left out by a bound changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit_helper, jit_with
from tamis.search.segments import Postings
from tamis.search.term_counts import DOCUMENTS_PER_WINDOW, Ints, Longs
from tamis.search.topk import BUCKETS, Keys, Number

Sums = NDArray[np.int32]


class Batch(NamedTuple):
    """Queries as the kernels read them: query n has the rows `offsets[n]` to `offsets[n + 1]`."""

    offsets: Longs
    terms: Ints
    """Numbers of terms in the segment, -1 for a term it lacks."""
    weights: NDArray[np.float32]
    """BM25: weight times idf; query likelihood: the weight alone."""
    priors: NDArray[np.float64]
    """Query likelihood: mu times the term's probability in the collection."""
    scales: NDArray[np.float64]
    """Of each query: how many units a score of one has."""


class PairScores(NamedTuple):
    """What a ranking makes of a segment's pairs before any term is known."""

    likelihood: bool
    saturation: NDArray[np.float32]
    """BM25: 1 + frequency / norm of each pair."""
    frequencies: NDArray[np.float64]
    """Query likelihood: the distinct frequencies."""
    frequency_of: Ints
    """Query likelihood: which of them a pair has."""
    length_part: NDArray[np.float64]
    """Query likelihood: ln(mu / (length + mu)) of each pair."""


class Workspace(NamedTuple):
    """Memory that queries use one after another."""

    sums: Sums
    tables: NDArray[np.int32]
    frequency_scores: NDArray[np.float64]
    keys: Keys
    spare: Keys
    histogram: NDArray[np.int32]
    finished: Longs
    """How many of the keys are keys; those after them are sums above places still."""


@jit_with(error_model="numpy")
def fill_table(
    weight: np.float32,
    prior: Number,
    scale: Number,
    pairs: PairScores,
    frequency_scores: NDArray[np.float64],
    table: Ints,
) -> None:
    """The score of each pair for one term, in units, at least one."""
    if pairs.likelihood:
        for i in range(len(pairs.frequencies)):
            frequency_scores[i] = np.log(1.0 + pairs.frequencies[i] / prior)
        for i in range(len(pairs.length_part)):
            score = np.float64(weight) * (
                frequency_scores[pairs.frequency_of[i]] + pairs.length_part[i]
            )
            units = np.int32(np.float64(np.float32(max(score, 0.0))) * scale + 0.5)
            table[i] = units if units > 1 else np.int32(1)
    else:
        scale32 = np.float32(scale)  # a power of two: all of this is exact but the last step
        for i in range(len(pairs.saturation)):
            units = np.int32((weight - weight / pairs.saturation[i]) * scale32)
            table[i] = units if units > 1 else np.int32(1)


@jit_helper
def best_of_term(
    segment: Postings, term: Number, table: Ints, k: Number, threshold: Number, histogram: Ints
) -> Any:
    """A term's highest score, and a score that at least k documents reach by it.

    The latter is 0 where it is not known, or not above the threshold there is.
    """
    top = np.int32(0)
    first, last = segment.pairs_offsets[term], segment.pairs_offsets[term + 1]
    if first == last:
        start = segment.chunk_start[segment.term_chunks[term]]
        end = segment.chunk_start[segment.term_chunks[term + 1]]
        for i in range(start, end):
            top = max(top, table[segment.postings[i] & np.uint32(0xFFFF)])
        return top, np.int32(0)
    for i in range(first, last):
        top = max(top, table[segment.pairs_code[i]])
    if top <= threshold:
        return top, np.int32(0)
    shift = 0
    while top >> shift >= 256:
        shift += 1
    histogram[:256] = 0
    for i in range(first, last):
        histogram[table[segment.pairs_code[i]] >> shift] += segment.pairs_count[i]
    reached, bucket = 0, 256
    while bucket > 0 and reached < k:
        bucket -= 1
        reached += histogram[bucket]
    return top, np.int32(bucket << shift if reached >= k else 0)


@jit_helper
def just_below(score: Number) -> Number:
    """A sum that no document has whose float32 score is that of `score`."""
    return max(score - (score >> 23) - 1, 1)


@jit_helper
def prepare(
    segment: Postings,
    batch: Batch,
    query: Number,
    pairs: PairScores,
    k: Number,
    work: Workspace,
    rows: Longs,
    tops: Longs,
    numbers: Longs,
    threshold: Number,
) -> Any:
    """Fill the tables of a query's terms, in order of highest score; how many, a threshold."""
    present = 0
    for n in range(batch.offsets[query], batch.offsets[query + 1]):
        term = np.int64(batch.terms[n])
        if term < 0:
            continue
        row = n - batch.offsets[query]
        table = work.tables[row]
        fill_table(
            batch.weights[n],
            batch.priors[n],
            batch.scales[query],
            pairs,
            work.frequency_scores,
            table,
        )
        rank = k + segment.excluded
        top, reached = best_of_term(segment, term, table, rank, threshold, work.histogram)
        if reached > 0:
            threshold = max(threshold, np.int32(just_below(reached)))
        at = present
        while at > 0 and tops[at - 1] > top:
            rows[at], tops[at], numbers[at] = rows[at - 1], tops[at - 1], numbers[at - 1]
            at -= 1
        rows[at], tops[at], numbers[at] = row, top, term
        present += 1
    return present, threshold


@jit_helper
def workspace(batch: Batch, pairs: PairScores, pair_count: Number, k: Number) -> Any:
    """Memory for the queries of a batch."""
    most = 1
    for query in range(len(batch.offsets) - 1):
        most = max(most, batch.offsets[query + 1] - batch.offsets[query])
    room = max(2 * k, 64) + 64
    return Workspace(
        np.zeros(DOCUMENTS_PER_WINDOW, np.int32),
        np.empty((most, pair_count), np.int32),
        np.empty(len(pairs.frequencies), np.float64),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(BUCKETS, np.int32),
        np.zeros(1, np.int64),
    )
