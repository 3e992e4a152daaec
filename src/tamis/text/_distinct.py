"""Numbers the distinct words of many texts: compiled code a word, one row of a table each.

What becomes of a word (a term, or nothing) is decided once for each distinct one, elsewhere.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.text._scan import (
    MAX_WORD_UNITS,
    Bytes,
    Eights,
    Integer,
    Positions,
    Scanner,
    padded,
    u64,
    window,
)

MOST_EIGHTS = (3 * MAX_WORD_UNITS + 7) // 8
BYTE_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
"""The bytes of eight that a word of 0 to 8 bytes fills."""
BLOCK = 1 << 18
"""About so many bytes are scanned, then numbered, while they are in the cache."""


@jit
def fold(text: Eights) -> None:
    """Put A to Z in lower case, in place."""
    byte_ones = u64(0x0101010101010101)
    for n in range(len(text)):
        low = text[n] & (byte_ones * u64(0x7F))
        upper = (low + byte_ones * u64(0x80 - 0x41)) & ~(low + byte_ones * u64(0x80 - 0x5B))
        text[n] |= ((upper & ~text[n]) >> u64(2)) & (byte_ones * u64(0x20))


@jit
def eight_at(text: Eights, start: Integer, length: Integer) -> Any:
    """The next eight bytes of a word that has `length` left; zeros past its end."""
    return window(text, start << u64(3)) & BYTE_MASKS[min(length, u64(8))]


@jit
def rest_of(text: Eights, start: Integer, length: Integer) -> Any:
    """A hash of what a word has beyond its first sixteen bytes."""
    hashed = u64(0)
    for offset in range(u64(16), length, u64(8)):
        hashed = (hashed ^ (hashed >> u64(32))) * u64(0x9E3779B97F4A7C15)
        hashed += eight_at(text, start + offset, length - offset)
    return hashed


@jit
def row_of(first: Integer, second: Integer, rest: Integer, slots: Eights) -> Any:
    """The row of slots where the search for a word begins: where its four numbers start."""
    key = (first ^ (first >> u64(32))) * u64(0xFF51AFD7ED558CCD) + second
    key = (key ^ (key >> u64(29))) * u64(0xC4CEB9FE1A85EC53) + rest
    return ((key ^ (key >> u64(32))) << u64(2)) & u64(len(slots) - 1)


@jit
def is_stored(text: Eights, start: Integer, length: Integer, stored: Eights, at: Integer) -> bool:
    """Whether a word goes on as a stored one does that has the same first sixteen bytes."""
    same = True
    for offset in range(u64(16), length, u64(8)):
        stored_eight = stored[u64(at) + (offset >> u64(3))]
        same &= stored_eight == eight_at(text, start + offset, length - offset)
    return same


@jit
def number_words(
    text: Eights,
    places: NDArray[np.int32],
    begin: int,
    slots: Eights,
    stored: Eights,
    starts: Positions,
    lengths: NDArray[np.int32],
    distinct: int,
    numbers: NDArray[np.int32],
) -> Any:
    """Number the words from `begin` on; how many words are done and how many distinct there are.

    Stops where the table is full and must grow. Four slots hold a word: its first and second eight
    bytes, a hash of the rest, and its length above its number plus one.
    """
    last = u64(len(slots) - 1)
    for n in range(begin, len(numbers)):
        start = u64(places[n, 0])
        length = u64(places[n, 1]) - start
        head = min(length, u64(8))
        first = eight_at(text, start, head)
        second = eight_at(text, start + u64(8), length - head)
        rest_hash = rest_of(text, start, length) if length > u64(16) else u64(0)
        row = row_of(first, second, rest_hash, slots)
        number = u64(0)
        while True:
            entry = slots[row + u64(3)]
            if entry == u64(0):
                break
            if (
                slots[row] == first
                and slots[row + u64(1)] == second
                and slots[row + u64(2)] == rest_hash
                and entry >> u64(32) == length
            ):
                number = entry & u64(0xFFFFFFFF)
                if length <= u64(16) or is_stored(
                    text, start, length, stored, starts[number - u64(1)]
                ):
                    break
                number = u64(0)
            row = (row + u64(4)) & last
        if number == u64(0):
            to = starts[distinct]
            if distinct >= len(lengths) or to + MOST_EIGHTS > len(stored):
                return n, distinct
            for offset in range(u64(0), length, u64(8)):
                stored[u64(to) + (offset >> u64(3))] = eight_at(
                    text, start + offset, length - offset
                )
            lengths[distinct] = length
            distinct += 1
            number = u64(distinct)
            starts[distinct] = to + np.int64((length + u64(7)) >> u64(3))
            slots[row], slots[row + u64(1)], slots[row + u64(2)] = first, second, rest_hash
            slots[row + u64(3)] = (length << u64(32)) | number
        numbers[n] = np.int64(number) - 1
    return len(numbers), distinct


@jit
def moved(slots: Eights, larger: Eights) -> None:
    """Enter what a table holds into a larger, empty one."""
    last = u64(len(larger) - 1)
    for n in range(0, len(slots), 4):
        if slots[n + 3] != 0:
            row = row_of(slots[n], slots[n + 1], slots[n + 2], larger)
            while larger[row + u64(3)] != 0:
                row = (row + u64(4)) & last
            for i in range(4):
                larger[row + u64(i)] = slots[n + i]


class Words:
    """The distinct words seen so far, numbered in the order of first sight.

    With `fold`, words that differ in ASCII case only are one.
    """

    def __init__(self, scanner: Scanner, *, fold: bool) -> None:
        self.count = 0
        self._scanner, self._fold = scanner, fold
        self._slots = np.zeros(4 << 15, np.uint64)
        self._stored = np.empty(1 << 15, np.uint64)
        self._starts = np.zeros((1 << 14) + 1, np.int64)
        self._lengths = np.zeros(1 << 14, np.int32)

    def add(self, buffer: Bytes, offsets: Positions) -> tuple[NDArray[np.int32], Positions]:
        """The number of each word of the documents, and where each document's words begin."""
        blocks = np.arange(offsets[0], offsets[-1], BLOCK)
        cuts = np.unique([0, *np.searchsorted(offsets, blocks), len(offsets) - 1])
        numbers, counts = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        for low, high in pairwise(cuts):
            text = padded(buffer[offsets[low] : offsets[high]])
            if self._fold:
                fold(text)
            places, ends = self._scanner.find(text, offsets[low : high + 1] - offsets[low])
            numbers.append(self._number(text, places))
            counts.append(counts[-1][-1] + ends[1:])
        return np.concatenate(numbers), np.concatenate(counts)

    def since(self, number: int) -> list[str]:
        """The distinct words from a number on, folded as they were counted."""
        begin, stop = 8 * int(self._starts[number]), 8 * int(self._starts[self.count])
        data = self._stored.view(np.uint8)[begin:stop].tobytes()
        starts = 8 * self._starts[number : self.count] - begin
        ends = starts + self._lengths[number : self.count]
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        return [data[start:end].decode(errors="replace") for start, end in places]

    def _number(self, text: Eights, places: NDArray[np.int32]) -> NDArray[np.int32]:
        numbers = np.empty(len(places), np.int32)
        num_done = 0
        while True:
            table = (self._slots, self._stored, self._starts, self._lengths, self.count)
            num_done, self.count = number_words(text, places, num_done, *table, numbers)
            if num_done == len(numbers):
                return numbers
            self._grow()

    def _grow(self) -> None:
        slots = np.zeros(2 * len(self._slots), np.uint64)
        moved(self._slots, slots)
        self._slots = slots
        self._stored = np.concatenate([self._stored, np.empty_like(self._stored)])
        self._starts = np.concatenate([self._starts, np.zeros_like(self._starts)])
        self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
