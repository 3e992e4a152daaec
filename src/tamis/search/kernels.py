"""Search kernels: the exact best k documents of many queries in one segment.

Sums are kept for one window of 64k documents at a time, which stays in the cache. Terms that cannot
lift a document over the threshold are, where that is cheaper, only looked up for the documents that
have another term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit, jit_helper
from tamis.search.score_tables import Batch, PairScores, Sums, Workspace, prepare, workspace
from tamis.search.segments import Postings
from tamis.search.term_counts import DOCUMENTS_PER_WINDOW, Ints, Longs
from tamis.search.topk import Number, keep_best, sort_descending
from tamis.search.window_topk import (
    collect_candidates_by_scan,
    collect_candidates_from_postings,
    collect_candidates_with_lookups,
    finish,
    prune_to_k,
    threshold_of,
)

MIN_POSTINGS_TO_SCAN = 5000
"""A window with fewer has its postings walked again instead of all its sums scanned."""
SCAN_COST = 6000
"""Of scanning and clearing all sums, in postings added."""
LOOKUP_COST = 20
"""Of looking a document up in a term's postings, in postings added."""


@jit_helper
def add_postings(
    postings: NDArray[np.uint32], start: Number, end: Number, table: Ints, sums: Sums
) -> None:
    """Add a term's scores to the sums of its documents in one window."""
    for i in range(start, end):
        posting = postings[i]
        sums[posting >> np.uint32(16)] += table[posting & np.uint32(0xFFFF)]


@jit_helper
def split(starts: Longs, ends: Longs, tops: Longs, present: Number, threshold: Number) -> Any:
    """How many terms cannot reach the threshold together, and how many of these to look up."""
    light, bound, light_size, heavy_size = 0, np.int64(0), 0, 0
    while light < present and bound + tops[light] < threshold:
        bound += tops[light]
        light_size += ends[light] - starts[light]
        light += 1
    for t in range(light, present):
        heavy_size += ends[t] - starts[t]
    if heavy_size * LOOKUP_COST * light < light_size + SCAN_COST:
        return light, light
    return light, 0


@jit_helper
def search_window(
    segment: Postings,
    base: Number,
    size: Number,
    starts: Longs,
    ends: Longs,
    rows: Longs,
    tops: Longs,
    present: Number,
    terms: Number,
    scale: Number,
    k: Number,
    work: Workspace,
    count: Number,
    threshold: Number,
) -> Any:
    """Offer the documents of one window; the terms it has come in order of their highest score."""
    hopeless, looked_up = split(starts, ends, tops, present, threshold)
    if hopeless == present:
        return count, threshold
    total = 0
    for t in range(looked_up, present):
        add_postings(segment.postings, starts[t], ends[t], work.tables[rows[t]], work.sums)
        total += ends[t] - starts[t]
    if looked_up > 0:
        for t in range(looked_up, present):
            count, threshold = collect_candidates_with_lookups(
                segment,
                base,
                t,
                starts,
                ends,
                rows,
                tops,
                looked_up,
                terms,
                scale,
                k,
                work,
                count,
                threshold,
            )
        return count, threshold
    if total < MIN_POSTINGS_TO_SCAN:
        for t in range(present):
            count, threshold = collect_candidates_from_postings(
                segment, base, starts[t], ends[t], scale, terms, k, work, count, threshold
            )
        return count, threshold
    return collect_candidates_by_scan(segment, base, size, scale, terms, k, work, count, threshold)


@jit_helper
def search_query(
    segment: Postings,
    batch: Batch,
    query: Number,
    pairs: PairScores,
    k: Number,
    work: Workspace,
    count: Number,
    threshold: Number,
) -> Number:
    """Add the best documents of this segment to the keys; how many keys there are then."""
    most = batch.offsets[query + 1] - batch.offsets[query]
    rows, tops, numbers, cursor = np.empty((4, most), np.int64)
    window_rows, window_tops, starts, ends = np.empty((4, most), np.int64)
    terms, threshold = prepare(
        segment, batch, query, pairs, k, work, rows, tops, numbers, threshold
    )
    for t in range(terms):
        cursor[t] = segment.term_chunks[numbers[t]]
    scale, documents = batch.scales[query], len(segment.number)
    enough = len(work.keys) - 64
    for base in range(0, documents, DOCUMENTS_PER_WINDOW):
        present = np.int64(0)  # not a literal, for which all below would be compiled, too
        for t in range(terms):
            chunk = cursor[t]
            if (
                chunk < segment.term_chunks[numbers[t] + 1]
                and segment.chunk_window[chunk] == base >> 16
            ):
                starts[present] = segment.chunk_start[chunk]
                ends[present] = segment.chunk_start[chunk + 1]
                window_rows[present], window_tops[present] = rows[t], tops[t]
                present += 1
                cursor[t] += 1
        size = (min(DOCUMENTS_PER_WINDOW, documents - base) + 63) // 64 * 64
        count, threshold = search_window(
            segment,
            base,
            size,
            starts,
            ends,
            window_rows,
            window_tops,
            present,
            most,
            scale,
            k,
            work,
            count,
            threshold,
        )
        if count >= enough or count >= 2 * k:
            count, threshold = prune_to_k(segment, most, scale, k, work, count, threshold)
    return finish(segment, most, scale, work, count)


@jit
def search_batch(
    segment: Postings,
    batch: Batch,
    pairs: PairScores,
    pair_count: Number,
    k: Number,
    best: Any,
    counts: Longs,
) -> None:
    """Add a segment's best documents to the best k keys of each query, best first."""
    work = workspace(batch, pairs, pair_count, k)
    for query in range(len(batch.offsets) - 1):
        count, threshold = np.int64(counts[query]), np.int32(1)
        for i in range(count):
            work.keys[i] = best[query, i]
        work.finished[0] = count
        if count == k:
            threshold = threshold_of(best[query, k - 1], batch.scales[query])
        count = search_query(segment, batch, query, pairs, k, work, count, threshold)
        count = keep_best(work.keys, count, k, work.spare, work.histogram)
        sort_descending(work.keys, count, work.spare, work.histogram)
        for i in range(count):
            best[query, i] = work.keys[i]
        counts[query] = count
