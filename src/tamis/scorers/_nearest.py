"""Kernels of alignment: cosines of a query's words with each distinct word of its texts, once.

A query's words are taken sixteen at a time, so that memory does not grow with its length, and the
cosines of a text's word with all of them lie together: the best so far is kept by a few vector
instructions per word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit, jit_with

WORDS_PER_STEP = 16
HALF_STEP = 8
"""A short query leaves the second half of the lanes out."""

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Number = Any


@jit_with(fastmath={"reassoc", "contract"})  # free to add in lanes: a sum that vectors can take
def dot(units: Floats, a: Number, b: Number) -> Any:
    """The dot product of two rows."""
    total = np.float32(0)
    for i in range(units.shape[1]):
        total += units[a, i] * units[b, i]
    return total


@jit
def fill_near(
    units: Floats,
    row: Ints,
    query_words: Ints,
    first: Number,
    size: Number,
    word: Number,
    near: Floats,
) -> None:
    """How near a word is to each of `size` query words: 1 to itself, and never more."""
    for i in range(WORDS_PER_STEP):
        near[i] = 0
    for i in range(size):
        other = query_words[first + i]
        if other == word:
            near[i] = 1
        elif row[word] > 0 and row[other] > 0:
            near[i] = min(dot(units, row[other], row[word]), np.float32(1))


@jit
def keep_best(near: Floats, place: Number, lanes: Number, best: Floats) -> None:
    """Raise the best of each query word to what one word of the text offers."""
    for i in range(HALF_STEP):
        best[i] = max(best[i], near[place, i])
    if lanes > HALF_STEP:
        for i in range(HALF_STEP, WORDS_PER_STEP):
            best[i] = max(best[i], near[place, i])


@jit
def add_words(
    units: Floats,
    row: Ints,
    query_words: Ints,
    weights: Floats,
    first: Number,
    size: Number,
    words: Ints,
    offsets: Longs,
    index: Ints,
    start: Number,
    end: Number,
    stamp: Number,
    last_use: Ints,
    near: Floats,
    values: NDArray[np.float64],
) -> None:
    """Add what `size` words of a query bring to its pairs from `start` to `end`.

    `last_use` holds for each word the stamp under which it was last met and its row in `near`.
    """
    best = np.empty(WORDS_PER_STEP, np.float32)
    count = 0
    for pair in range(start, end):
        text = index[pair, 1]
        if offsets[text] == offsets[text + 1]:
            continue
        best[:] = -1
        for i in range(offsets[text], offsets[text + 1]):
            word = words[i]
            if last_use[word, 0] != stamp:
                last_use[word, 0], last_use[word, 1] = stamp, count
                fill_near(units, row, query_words, first, size, word, near[count])
                count += 1
            keep_best(near, last_use[word, 1], size, best)
        for i in range(size):
            values[pair] += np.float64(weights[first + i]) * np.float64(best[i])


@jit
def nearest_sums(
    units: Floats,
    row: Ints,
    query_words: Ints,
    weights: Floats,
    query_offsets: Longs,
    words: Ints,
    offsets: Longs,
    index: Ints,
    last_use: Ints,
    near: Floats,
    values: NDArray[np.float64],
) -> None:
    """The score of each pair of the index; pairs of one query are best handed in side by side."""
    start, stamp = 0, 0
    while start < len(index):
        query = index[start, 0]
        end = start
        while end < len(index) and index[end, 0] == query:
            end += 1
        for first in range(query_offsets[query], query_offsets[query + 1], WORDS_PER_STEP):
            size = min(WORDS_PER_STEP, query_offsets[query + 1] - first)
            stamp += 1
            add_words(
                units, row, query_words, weights, first, size, words, offsets, index,
                start, end, stamp, last_use, near, values,
            )  # fmt: skip
        start = end
