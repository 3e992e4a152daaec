"""fastText's subwords: vectors of character n-grams, of which words without one of their own are
made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.types._strings import pack

WORDS_PER_BATCH = 1024
"""How many words' n-grams are gathered at a time."""
Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Subwords:
    """The n-grams of `min_n` to `max_n` characters of `<word>`; those that hash alike share a row.

    >>> subwords = Subwords(np.zeros((1000, 2), np.float32), min_n=3, max_n=6)
    >>> rows, offsets = subwords.rows_of(["sieve", "a"])
    >>> np.diff(offsets).tolist()  # <si sie iev eve ve> <sie siev … <sieve sieve>; <a>
    [14, 1]
    """

    matrix: NDArray[np.floating[Any]]
    min_n: int
    max_n: int

    def rows_of(self, words: Sequence[str]) -> tuple[NDArray[np.int32], Longs]:
        """The rows of n-grams: those of word n from `offsets[n]` to `offsets[n + 1]`."""
        data, offsets = pack([f"<{word}>" for word in words])
        ends = np.zeros(len(offsets), np.int64)
        rows = np.empty(max(self.max_n - self.min_n + 1, 0) * len(data), np.int32)
        count = ngram_rows(
            data, offsets, self.min_n, self.max_n, np.uint32(len(self.matrix)), rows, ends
        )
        return rows[:count], ends

    def means(
        self, words: Sequence[str], own: NDArray[np.floating[Any]] | None = None
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which words have an n-gram or their `own` vector, and the mean of both.

        A word too short to have an n-gram has no vector unless it has its own.
        """
        out = np.zeros((len(words), self.matrix.shape[1]), np.float32)
        has_any = np.ones(len(words), bool)
        for start in range(0, len(words), WORDS_PER_BATCH):
            batch = slice(start, start + WORDS_PER_BATCH)
            rows, offsets = self.rows_of(words[batch])
            distinct, number = np.unique(rows, return_inverse=True)
            gathered = np.ascontiguousarray(self.matrix[distinct], np.float32)
            if own is not None:
                out[batch] = own[batch]
            add_means(gathered, number.astype(np.int32), offsets, own is not None, out[batch])
            has_any[batch] = (np.diff(offsets) > 0) | (own is not None)
        bad = np.flatnonzero(~np.isfinite(out).all(1))
        if len(bad):
            raise InputError(
                f"the vector of {words[int(bad[0])]!r} is not all finite numbers",
                hint="the file of vectors is damaged: fetch it or train it again",
            )
        return has_any, out


@jit
def ngram_rows(
    data: NDArray[np.uint8],
    offsets: Longs,
    min_n: int,
    max_n: int,
    buckets: np.uint32,
    rows: NDArray[np.int32],
    ends: Longs,
) -> int:
    """The n-grams of words in UTF-8, hashed by fastText's FNV-1a, which extends a byte's sign.

    A single character is no n-gram where it is the mark of the word's beginning or end.
    """
    count = 0
    for word in range(len(offsets) - 1):
        first, end = offsets[word], offsets[word + 1]
        for i in range(first, end):
            if data[i] & 0xC0 == 0x80:
                continue
            hashed, j, n = np.uint32(2166136261), i, 1
            while j < end and n <= max_n:
                at = j
                while j == at or (j < end and data[j] & 0xC0 == 0x80):
                    hashed = np.uint32(hashed ^ np.uint32(np.int8(data[j])))
                    hashed = np.uint32(hashed * np.uint32(16777619))
                    j += 1
                if n >= min_n and not (n == 1 and (i == first or j == end)):
                    rows[count] = hashed % buckets
                    count += 1
                n += 1
        ends[word + 1] = count
    return count


@jit
def add_means(
    gathered: NDArray[np.float32],
    number: NDArray[np.int32],
    offsets: Longs,
    with_own: bool,
    out: NDArray[np.float32],
) -> None:
    """Add each word's n-grams to its row, in their order, and divide by how many were added."""
    for word in range(len(offsets) - 1):
        for i in range(offsets[word], offsets[word + 1]):
            for d in range(out.shape[1]):
                out[word, d] += gathered[number[i], d]
        count = offsets[word + 1] - offsets[word] + (1 if with_own else 0)
        if count > 1:
            for d in range(out.shape[1]):
                out[word, d] /= np.float32(count)
