"""Distinct strings numbered: by the order of first sight, or by the order of their bytes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.types._strings import (
    Bytes,
    Positions,
    alphabet,
    common_prefix,
    compare,
    distinct_words,
    fill_keys,
    frozen,
    sort_table,
    spell,
)

LONG = np.uint64(1 << 63)


@jit
def hash_of(data: Bytes, start: int, end: int) -> Any:
    """A 64-bit hash of a stretch of bytes; distinct for distinct stretches of seven or fewer."""
    h = np.uint64(end - start) << np.uint64(56)
    at = start
    while at < end:
        stop = min(at + 7, end)
        word = np.uint64(0)
        for i in range(at, stop):
            word = (word << np.uint64(8)) | np.uint64(data[i])
        h = (h ^ word) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(33)
        at = stop
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(29))


@jit
def shift_of(slots: NDArray[np.uint64]) -> Any:
    """How far to shift a hash so that what is left numbers the slots (two words each)."""
    shift = 65
    size = len(slots)
    while size > 1:
        size //= 2
        shift -= 1
    return np.uint64(shift)


@jit
def intern(
    buffer: Bytes,
    starts: Positions,
    ends: Positions,
    slots: NDArray[np.uint64],
    data: Bytes,
    offsets: Positions,
    count: int,
    numbers: NDArray[np.int32],
) -> Any:
    """Number the strings `buffer[starts:ends]`, adding new ones to the table; the new count.

    A slot is two words: the hash, and the string's number plus one (0 where the slot is empty),
    marked where the string is longer than its hash can tell apart. Slots are looked at for many
    strings before the first is settled, so that the memory answers several at once.
    """
    mask = np.uint64(len(slots) // 2 - 1)
    shift = shift_of(slots)
    hashes = np.empty(64, np.uint64)
    touched = np.uint64(0)
    for block in range(0, len(starts), 64):
        size = min(64, len(starts) - block)
        for n in range(size):
            hashes[n] = hash_of(buffer, starts[block + n], ends[block + n])
            touched += slots[(hashes[n] >> shift) * np.uint64(2)]
        for n in range(size):
            start, end = starts[block + n], ends[block + n]
            h = hashes[n]
            mark = LONG if end - start > 7 else np.uint64(0)
            at = h >> shift
            while True:
                entry = slots[at * np.uint64(2) + np.uint64(1)]
                if entry == 0:
                    slots[at * np.uint64(2)] = h
                    slots[at * np.uint64(2) + np.uint64(1)] = np.uint64(count + 1) | mark
                    to = offsets[count]
                    for i in range(start, end):
                        data[to + i - start] = buffer[i]
                    offsets[count + 1] = to + end - start
                    numbers[block + n] = count
                    count += 1
                    break
                if slots[at * np.uint64(2)] == h and (entry & LONG) == mark:
                    number = np.int64(entry & ~LONG) - 1
                    if mark == 0 or (
                        compare(data, offsets[number], offsets[number + 1], buffer, start, end) == 0
                    ):
                        numbers[block + n] = number
                        break
                at = (at + np.uint64(1)) & mask
    return count, touched


@jit
def rehash(slots: NDArray[np.uint64], old: NDArray[np.uint64]) -> None:
    """Enter what the old slots hold into new, empty ones: nearly in order, so it is quick."""
    mask = np.uint64(len(slots) // 2 - 1)
    shift = shift_of(slots)
    for n in range(0, len(old), 2):
        if old[n + 1] != 0:
            at = old[n] >> shift
            while slots[at * np.uint64(2) + np.uint64(1)] != 0:
                at = (at + np.uint64(1)) & mask
            slots[at * np.uint64(2)] = old[n]
            slots[at * np.uint64(2) + np.uint64(1)] = old[n + 1]


class Interner:
    """Gives each distinct string a number, in the order of first sight.

    >>> from tamis.types._strings import pack
    >>> data, offsets = pack(["b", "a", "b"])
    >>> Interner().add(data, offsets[:-1], offsets[1:]).tolist()
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self.count = 0
        self._slots = np.zeros(1 << 12, np.uint64)
        self._data = np.empty(1 << 14, np.uint8)
        self._offsets = np.zeros((1 << 10) + 1, np.int64)

    def add(self, buffer: Bytes, starts: Positions, ends: Positions) -> NDArray[np.int32]:
        """The numbers of `buffer[starts:ends]`, new ones given as needed."""
        self._make_room(len(starts), int((ends - starts).sum()))
        numbers = np.empty(len(starts), np.int32)
        self.count, _ = intern(
            buffer, starts, ends, self._slots, self._data, self._offsets, self.count, numbers
        )
        return numbers

    def table(self) -> tuple[Bytes, Positions]:
        """The distinct strings seen so far, by number: their bytes and where each begins."""
        offsets = self._offsets[: self.count + 1]
        return self._data[: offsets[-1]], offsets

    def _make_room(self, rows: int, size: int) -> None:
        used = int(self._offsets[self.count])
        if used + size > len(self._data):
            data = np.empty(max(2 * len(self._data), used + size), np.uint8)
            data[:used] = self._data[:used]
            self._data = data
        if self.count + rows + 1 > len(self._offsets):
            offsets = np.zeros(max(2 * len(self._offsets), self.count + rows + 1), np.int64)
            offsets[: self.count + 1] = self._offsets[: self.count + 1]
            self._offsets = offsets
        if 3 * (self.count + rows) > len(self._slots):  # two words a slot, two thirds full at most
            old = self._slots
            self._slots = np.zeros(2 << (3 * (self.count + rows)).bit_length(), np.uint64)
            rehash(self._slots, old)


Table = tuple[Bytes, Positions]
"""Strings one after another: their bytes, and where each begins."""


def number_strings(pieces: list[Table]) -> tuple[Bytes, Positions, NDArray[np.int32]]:
    """The sorted table of the distinct strings of all pieces, and the number each string has in it.

    Strings are compared as 64-bit words in which a byte takes only as many bits as the alphabet
    needs. Where the part in which strings differ fits one word together with the row it comes
    from, as it does for short ids, sorting those words is all; otherwise strings are hashed first.
    """
    pieces = [(frozen(data), offsets) for data, offsets in pieces if len(offsets) > 1]
    count = sum(len(offsets) - 1 for _, offsets in pieces)
    if count <= MAX_STRINGS_IN_PYTHON:
        return _in_python(pieces)
    side_by_side = _in_two_threads if count >= MIN_STRINGS_FOR_TWO_THREADS else _one_by_one
    skip, code, bits, longest = _shape(pieces, side_by_side)
    row_bits = count.bit_length()
    if longest * bits + row_bits > 64:
        return _hashed(pieces)
    first, second = _sorted_keys(pieces, count, (skip, code, bits, longest), row_bits, side_by_side)
    words, numbers = distinct_words(first, second, row_bits)
    return *spell(pieces[0][0][pieces[0][1][0] :][:skip], words, code, bits, longest), numbers


def _in_python(pieces: list[Table]) -> tuple[Bytes, Positions, NDArray[np.int32]]:
    """The same for a few strings: a new process then need not read six kernels from disk, which
    takes 20 ms.
    """
    strings = [
        data[start:end].tobytes()
        for data, offsets in pieces
        for start, end in pairwise(offsets.tolist())
    ]
    table = sorted(set(strings))
    number_of = {string: number for number, string in enumerate(table)}
    bounds = np.cumsum([0, *map(len, table)], dtype=np.int64)
    numbers = np.array([number_of[string] for string in strings], np.int32)
    return np.frombuffer(b"".join(table), np.uint8), bounds, numbers


MAX_STRINGS_IN_PYTHON = 64
MIN_STRINGS_FOR_TWO_THREADS = 100_000
Call = Callable[[], Any]


def _one_by_one(calls: list[Call]) -> list[Any]:
    return [call() for call in calls]


def _in_two_threads(calls: list[Call]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return [job.result() for job in [pool.submit(call) for call in calls]]


CallRunner = Callable[[list[Call]], list[Any]]
Shape = tuple[int, NDArray[np.uint64], int, int]
"""How many leading bytes all share, the alphabet, bits a byte, most bytes after those shared."""


def _shape(pieces: list[Table], side_by_side: CallRunner) -> Shape:
    def looked_at(piece: Table) -> tuple[int, NDArray[np.uint64], int]:
        data, offsets = piece
        prefix = common_prefix(data, offsets)
        return prefix, alphabet(data[offsets[0] : offsets[-1]])[0], int(np.diff(offsets).max())

    shapes = side_by_side([partial(looked_at, piece) for piece in pieces])
    firsts = [data[offsets[0] : offsets[1]] for data, offsets in pieces]
    skip = min(prefix for prefix, _, _ in shapes)
    bounds = np.cumsum([0, *map(len, firsts)])
    skip = min(skip, common_prefix(frozen(np.concatenate(firsts)), bounds))
    occurs = np.any([code > 0 for _, code, _ in shapes], axis=0)
    code = np.cumsum(occurs).astype(np.uint64) * occurs
    bits = int(code.max()).bit_length()
    return skip, code, max(bits, 1), max(longest for _, _, longest in shapes) - skip


def _sorted_keys(
    pieces: list[Table], count: int, shape: Shape, row_bits: int, side_by_side: CallRunner
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Every string's word above its row, sorted, as two halves."""
    keys = np.empty(count, np.uint64)
    calls: list[Call] = []
    row = 0
    for data, offsets in pieces:
        piece_keys = keys[row : row + len(offsets) - 1]
        calls.append(partial(fill_keys, data, offsets, *shape, row, row_bits, piece_keys))
        row += len(piece_keys)
    side_by_side(calls)
    first, second = keys[: count // 2], keys[count // 2 :]
    side_by_side([first.sort, second.sort])
    return first, second


def _hashed(pieces: list[Table]) -> tuple[Bytes, Positions, NDArray[np.int32]]:
    interner = Interner()
    numbers = [interner.add(data, offsets[:-1], offsets[1:]) for data, offsets in pieces]
    table, bounds, number_of = sort_table(*interner.table())
    return table, bounds, number_of[np.concatenate(numbers)]
