"""Kernels that keep the best of many keys and put them in order.

A key is 64 bits: the score as float32, whose bits ascend with it, above the document's number. So
the larger key stands first in the order of trec_eval: score descending, id descending.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit

BUCKETS = 2048
Keys = NDArray[np.uint64]
Number = Any
"""A number, of Python or of numpy: kernels mix them."""


@jit
def bucket_shift(keys: Keys, count: Number) -> Any:
    """The least key, how far to shift differences from it to number buckets, and how many.

    Few keys have few buckets: going through the buckets must not cost more than the keys.
    """
    buckets = BUCKETS
    while buckets > 16 and buckets > count:
        buckets >>= 1
    low, high = keys[0], keys[0]
    for i in range(1, count):
        low, high = min(low, keys[i]), max(high, keys[i])
    shift = np.uint64(0)
    while (high - low) >> shift >= np.uint64(buckets):
        shift += np.uint64(1)
    return low, shift, buckets


@jit
def keep_best(
    keys: Keys, count: Number, k: Number, spare: Keys, histogram: NDArray[np.int32]
) -> Number:
    """Move the k largest of distinct keys to the front, in no order; how many there are then."""
    if count <= k:
        return count
    source, size = keys, 0
    while True:
        low, shift, buckets = bucket_shift(source, count)
        histogram[:buckets] = 0
        for i in range(count):
            histogram[(source[i] - low) >> shift] += 1
        edge, above = buckets - 1, 0
        while above + histogram[edge] < k - size:
            above += histogram[edge]
            edge -= 1
        on_edge = 0
        for i in range(count):
            key = source[i]
            bucket = np.int64((key - low) >> shift)
            if bucket > edge:
                keys[size] = key
                size += 1
            elif bucket == edge:
                spare[on_edge] = key
                on_edge += 1
        if on_edge == k - size:
            for i in range(on_edge):
                keys[size + i] = spare[i]
            return k
        source, count = spare, on_edge


@jit
def sort_descending(keys: Keys, count: Number, spare: Keys, histogram: NDArray[np.int32]) -> None:
    """Sort the first `count` keys: by buckets of nearly equal ones, then within each."""
    if count < 2:
        return
    low, shift, buckets = bucket_shift(keys, count)
    histogram[:buckets] = 0
    for i in range(count):
        histogram[buckets - 1 - np.int64((keys[i] - low) >> shift)] += 1
    total = 0
    for bucket in range(buckets):
        size = histogram[bucket]
        histogram[bucket] = total
        total += size
    for i in range(count):
        place = buckets - 1 - np.int64((keys[i] - low) >> shift)
        spare[histogram[place]] = keys[i]
        histogram[place] += 1
    start = np.int64(0)
    for bucket in range(buckets):
        end = np.int64(histogram[bucket])
        if end - start > 48:
            bucket_keys = np.sort(spare[start:end])
            for i in range(end - start):
                spare[start + i] = bucket_keys[end - start - 1 - i]
        else:
            for i in range(start + 1, end):
                key = spare[i]
                j = i
                while j > start and spare[j - 1] < key:
                    spare[j] = spare[j - 1]
                    j -= 1
                spare[j] = key
        start = end
    for i in range(count):
        keys[i] = spare[i]
