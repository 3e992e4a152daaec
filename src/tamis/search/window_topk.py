"""Kernels that pick the documents of one window whose sums reach the threshold.

What is picked waits as sums above places until there are enough; then it is turned into keys, the
best k are kept, and the threshold rises to the least of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit, jit_helper
from tamis.search.score_tables import Sums, Workspace, just_below
from tamis.search.segments import Postings
from tamis.search.term_counts import Longs
from tamis.search.topk import Number, keep_best

FRACTION = 52
"""Bits of a float64 below its exponent."""


@jit_helper
def key_of(score: Number, unit: Number, terms: Number, number: Number) -> Any:
    """The key of a document: its float32 score above its number.

    A sum of as many units as there are terms is a score of zero: see `fill_table`.
    """
    if score <= terms:
        return np.uint64(np.uint32(number))
    bits = np.float32(score * unit).view(np.uint32)
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(np.uint32(number))


@jit
def threshold_of(key: Any, scale: Number) -> Any:
    """The least sum a document needs to stand beside the document of this key."""
    value = np.uint32(key >> np.uint64(32)).view(np.float32)
    return np.int32(just_below(np.int64(np.float64(value) * scale)))


@jit_helper
def finish(
    segment: Postings, terms: Number, scale: Number, work: Workspace, count: Number
) -> Number:
    """Turn candidates, sums above places, into keys."""
    keys, number, unit = work.keys, segment.number, 1.0 / scale
    for i in range(work.finished[0], count):
        document = np.int64(keys[i] & np.uint64(0xFFFFFFFF))
        score = np.int64(keys[i] >> np.uint64(32))
        keys[i] = key_of(score, unit, terms, number[document])
    work.finished[0] = count
    return count


@jit_helper
def prune_to_k(
    segment: Postings,
    terms: Number,
    scale: Number,
    k: Number,
    work: Workspace,
    count: Number,
    threshold: Number,
) -> Any:
    """Keep the best k keys; their number, and the threshold that follows from the least."""
    count = finish(segment, terms, scale, work, count)
    count = keep_best(work.keys, count, k, work.spare, work.histogram)
    work.finished[0] = count
    if count == k:
        least = work.keys[0]
        for i in range(1, count):
            least = min(least, work.keys[i])
        threshold = max(threshold, threshold_of(least, scale))
    return count, np.int32(threshold)


@jit_helper
def reached_in_block(sums: Sums, block: Number, threshold: Any) -> Any:
    """Of 64 sums a bit each: whether it reaches the threshold.

    Unsigned indices and no branch: the compiler turns this into vectors.
    """
    bits = np.uint64(0)
    for i in range(64):
        bits |= np.uint64(sums[np.uint64(block + i)] >= threshold) << np.uint64(i)
    return bits


@jit_helper
def is_included(segment: Postings, document: Number) -> Any:
    """Whether a document may be found."""
    if segment.excluded == 0:
        return True
    bit = np.uint64(document & 63)
    return (segment.included[document >> 6] >> bit) & np.uint64(1) != np.uint64(0)


@jit_helper
def included_in_block(segment: Postings, document: Number) -> Any:
    """Of 64 documents a bit each: whether it may be found."""
    return ~np.uint64(0) if segment.excluded == 0 else segment.included[document >> 6]


@jit_helper
def clear_to_reached(
    segment: Postings, base: Number, sums: Sums, start: Number, size: Number, threshold: Any
) -> Number:
    """The first block of 64 sums from `start` on in which one reaches the threshold.

    Blocks that are passed are cleared, and those in which no document may be found.
    """
    for block in range(start, size, 64):
        reached = np.int32(0)
        if included_in_block(segment, base + block):
            for i in range(64):
                reached |= np.int32(sums[np.uint64(block + i)] >= threshold)
        if reached:
            return block
        for i in range(64):
            sums[np.uint64(block + i)] = 0
    return size


@jit_helper
def collect_candidates_by_scan(
    segment: Postings,
    base: Number,
    size: Number,
    scale: Number,
    terms: Number,
    k: Number,
    work: Workspace,
    count: Number,
    threshold: Number,
) -> Any:
    """Offer every document whose sum reaches the threshold, and clear the sums."""
    sums, keys = work.sums, work.keys
    block = clear_to_reached(segment, base, sums, np.int64(0), size, threshold)
    while block < size:
        if count + 64 > len(keys):
            count, threshold = prune_to_k(segment, terms, scale, k, work, count, threshold)
        bits = reached_in_block(sums, block, threshold) & included_in_block(segment, base + block)
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            exponent = np.float64(lowest).view(np.uint64) >> np.uint64(FRACTION)
            place = block + np.int64(exponent) - 1023
            keys[count] = np.uint64(sums[place]) << np.uint64(32) | np.uint64(base + place)
            count += 1
            bits ^= lowest
        for i in range(64):
            sums[np.uint64(block + i)] = 0
        block = clear_to_reached(segment, base, sums, block + 64, size, threshold)
    return count, threshold


@jit_helper
def collect_candidates_from_postings(
    segment: Postings,
    base: Number,
    start: Number,
    end: Number,
    scale: Number,
    terms: Number,
    k: Number,
    work: Workspace,
    count: Number,
    threshold: Number,
) -> Any:
    """The same for the documents of one term's postings: for windows with few postings."""
    sums, keys, postings = work.sums, work.keys, segment.postings
    for i in range(start, end):
        place = np.int64(postings[i] >> np.uint32(16))
        score = sums[place]
        if score >= threshold and is_included(segment, base + place):
            if count == len(keys):
                count, threshold = prune_to_k(segment, terms, scale, k, work, count, threshold)
            keys[count] = np.uint64(score) << np.uint64(32) | np.uint64(base + place)
            count += 1
        sums[place] = 0
    return count, threshold


@jit_helper
def find_posting(postings: NDArray[np.uint32], start: Number, end: Number, place: Number) -> Number:
    """Where the first posting at or after a place is: leaping ahead, then halving."""
    step = 8
    low, high = start, start
    while high < end and np.int64(postings[high] >> np.uint32(16)) < place:
        low = high + 1
        high += step
        step *= 2
    high = min(high, end)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(postings[middle] >> np.uint32(16)) < place:
            low = middle + 1
        else:
            high = middle
    return low


@jit_helper
def collect_candidates_with_lookups(
    segment: Postings,
    base: Number,
    term: Number,
    starts: Longs,
    ends: Longs,
    rows: Longs,
    tops: Longs,
    light: Number,
    terms: Number,
    scale: Number,
    k: Number,
    work: Workspace,
    count: Number,
    threshold: Number,
) -> Any:
    """The same where the first `light` terms were not added.

    They are looked up, strongest first, as long as the document can still reach the threshold.
    """
    sums, keys, postings, tables = work.sums, work.keys, segment.postings, work.tables
    at, bound = starts[:light].copy(), tops[:light].sum()
    for i in range(starts[term], ends[term]):
        place = np.int64(postings[i] >> np.uint32(16))
        score, reachable = np.int64(sums[place]), bound
        sums[place] = 0
        if score == 0 or not is_included(segment, base + place):
            continue
        for t in range(light - 1, -1, -1):
            if score + reachable < threshold:
                break
            reachable -= tops[t]
            at[t] = find_posting(postings, at[t], ends[t], place)
            if at[t] < ends[t] and np.int64(postings[at[t]] >> np.uint32(16)) == place:
                score += tables[rows[t], postings[at[t]] & np.uint32(0xFFFF)]
        if score >= threshold:
            if count == len(keys):
                count, threshold = prune_to_k(segment, terms, scale, k, work, count, threshold)
            keys[count] = np.uint64(score) << np.uint64(32) | np.uint64(base + place)
            count += 1
    return count, threshold
