"""Kernels over strings that lie one after another in a buffer: compare, sort, number, find.

A table of strings is `data` (bytes) and `offsets` (n + 1 positions): no Python object a string.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
SMALL_GROUP = 64


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
def compare(a: Bytes, a_start: int, a_end: int, b: Bytes, b_start: int, b_end: int) -> int:
    """Negative, zero or positive as the first stretch of bytes sorts before, with or after."""
    length = min(a_end - a_start, b_end - b_start)
    for i in range(length):
        difference = np.int64(a[a_start + i]) - np.int64(b[b_start + i])
        if difference != 0:
            return int(difference)
    return int((a_end - a_start) - (b_end - b_start))


@jit
def common_prefix(data: Bytes, offsets: Positions) -> int:
    """How many leading bytes all strings of the table share."""
    length = offsets[1] - offsets[0]
    for n in range(1, len(offsets) - 1):
        length = min(length, offsets[n + 1] - offsets[n])
        for i in range(length):
            if data[offsets[n] + i] != data[offsets[0] + i]:
                length = i
                break
    return int(length)


@jit
def alphabet(data: Bytes) -> Any:
    """A number from 1 on for each byte that occurs, in the bytes' order, and how many there are."""
    code = np.zeros(256, np.uint64)
    for byte in data:
        code[byte] = 1
    size = np.uint64(0)
    for byte in range(256):
        size += code[byte]
        code[byte] *= size
    return code, int(size)


@jit
def words_at(
    data: Bytes,
    offsets: Positions,
    items: Positions,
    skip: int,
    code: NDArray[np.uint64],
    bits: int,
    width: int,
) -> Any:
    """For each string the `width` bytes after its first `skip`, as a number that sorts alike."""
    words = np.empty(len(items), np.uint64)
    shift = np.uint64(bits)
    for n in range(len(items)):
        start, end = offsets[items[n]] + skip, offsets[items[n] + 1]
        word = np.uint64(0)
        for i in range(start, start + width):
            word <<= shift
            if i < end:
                word |= code[data[i]]
        words[n] = word
    return words


@jit
def settle_small_groups(
    data: Bytes, offsets: Positions, items: Positions, words: NDArray[np.uint64]
) -> Any:
    """Sort stretches of equal words in place, by insertion; the stretches too long for it."""
    large = []
    start = 0
    while start < len(items):
        end = start + 1
        while end < len(items) and words[end] == words[start]:
            end += 1
        if end - start >= SMALL_GROUP:
            large.append((start, end))
        else:
            for i in range(start + 1, end):
                item = items[i]
                j = i
                while j > start and (
                    compare(
                        data,
                        offsets[items[j - 1]],
                        offsets[items[j - 1] + 1],
                        data,
                        offsets[item],
                        offsets[item + 1],
                    )
                    > 0
                ):
                    items[j] = items[j - 1]
                    j -= 1
                items[j] = item
        start = end
    found = np.empty((len(large), 2), np.int64)
    for n in range(len(large)):
        found[n, 0], found[n, 1] = large[n]
    return found


def number_strings(data: Bytes, offsets: Positions) -> tuple[Bytes, Positions, NDArray[np.int32]]:
    """The sorted table of the distinct strings of a table, and the number each string has in it.

    Strings are compared as 64-bit words in which a byte takes only as many bits as the alphabet
    needs. Where the part in which strings differ fits one word together with the row it comes
    from, as it does for short ids, sorting those words is all; otherwise strings are hashed first.
    """
    count = len(offsets) - 1
    if count == 0:
        return data[:0], offsets[:1], np.empty(0, np.int32)
    skip = common_prefix(data, offsets)
    code, size = alphabet(data)
    bits = size.bit_length()
    rest = int(np.diff(offsets).max()) - skip
    row_bits = count.bit_length()
    if rest * bits + row_bits > 64:
        interner = Interner()
        numbers = interner.add(data, offsets[:-1], offsets[1:])
        data, offsets, number_of = sort_table(*interner.table())
        return data, offsets, number_of[numbers]
    rows = np.arange(count, dtype=np.int64)
    keys: NDArray[np.uint64] = words_at(data, offsets, rows, skip, code, bits, rest)
    keys <<= np.uint64(row_bits)
    keys |= rows.view(np.uint64)
    keys.sort()
    prefix = data[offsets[0] : offsets[0] + skip]
    words, numbers = distinct_words(keys, row_bits)
    return *spell(prefix, words, code, bits, rest), numbers


@jit
def distinct_words(keys: NDArray[np.uint64], row_bits: int) -> Any:
    """Of sorted words with a row number below each: the distinct words, and each row's number."""
    shift = np.uint64(row_bits)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    words = np.empty(len(keys), np.uint64)
    numbers = np.empty(len(keys), np.int32)
    count = 0
    for key in keys:
        if count == 0 or words[count - 1] != key >> shift:
            words[count] = key >> shift
            count += 1
        numbers[key & mask] = count - 1
    return words[:count], numbers


def sort_table(data: Bytes, offsets: Positions) -> tuple[Bytes, Positions, NDArray[np.int32]]:
    """A table of distinct strings in the order of their bytes, and the new number of each."""
    items = np.arange(len(offsets) - 1, dtype=np.int64)
    number_of = items.astype(np.int32)
    if len(items) < 2:
        return data, offsets, number_of
    code, size = alphabet(data)
    _sort(data, offsets, items, common_prefix(data, offsets), code, size.bit_length())
    number_of[items] = np.arange(len(items), dtype=np.int32)
    return *gather(data, offsets, items), number_of


@jit
def spell(
    prefix: Bytes,
    words: NDArray[np.uint64],
    code: NDArray[np.uint64],
    bits: int,
    width: int,
) -> Any:
    """The table whose strings are a common prefix and what `words_at` made these words from."""
    byte_of = np.zeros(257, np.uint8)
    for byte in range(256):
        byte_of[code[byte]] = byte
    data = np.empty(len(words) * (len(prefix) + width), np.uint8)
    offsets = np.zeros(len(words) + 1, np.int64)
    mask = np.uint64((1 << bits) - 1)
    at = 0
    for n in range(len(words)):
        for i in range(len(prefix)):
            data[at] = prefix[i]
            at += 1
        for i in range(width - 1, -1, -1):
            letter = (words[n] >> np.uint64(i * bits)) & mask
            if letter == 0:
                break
            data[at] = byte_of[letter]
            at += 1
        offsets[n + 1] = at
    return data[:at].copy(), offsets


def _sort(
    data: Bytes,
    offsets: Positions,
    items: Positions,
    skip: int,
    code: NDArray[np.uint64],
    bits: int,
) -> None:
    width = 64 // bits
    words = words_at(data, offsets, items, skip, code, bits, width)
    order = np.argsort(words)
    items[:] = items[order]
    for start, end in settle_small_groups(data, offsets, items, words[order]):
        _sort(data, offsets, items[start:end], skip + width, code, bits)


@jit
def gather(data: Bytes, offsets: Positions, items: Positions) -> Any:
    """The strings numbered `items`, laid out as a new table."""
    new_offsets = np.empty(len(items) + 1, np.int64)
    new_offsets[0] = 0
    for n in range(len(items)):
        new_offsets[n + 1] = new_offsets[n] + offsets[items[n] + 1] - offsets[items[n]]
    return gather_spans(data, offsets[items], offsets[items + 1]), new_offsets


@jit
def gather_spans(data: Bytes, starts: Positions, ends: Positions) -> Any:
    """The bytes of `data[starts:ends]`, one stretch after another."""
    new_data = np.empty((ends - starts).sum(), np.uint8)
    at = 0
    for n in range(len(starts)):
        for i in range(starts[n], ends[n]):
            new_data[at] = data[i]
            at += 1
    return new_data


@jit
def positions(
    data: Bytes, offsets: Positions, table_data: Bytes, table_offsets: Positions
) -> NDArray[np.int32]:
    """For each string of one sorted table its number in another, or -1.

    Walks both at once, leaping ahead in doubling steps, so a short list in a long one is cheap.
    """
    count, size = len(offsets) - 1, len(table_offsets) - 1
    found = np.full(count, -1, np.int32)
    low = 0
    for n in range(count):
        start, end = offsets[n], offsets[n + 1]
        step = 1
        high = low
        while high < size and (
            compare(table_data, table_offsets[high], table_offsets[high + 1], data, start, end) < 0
        ):
            low = high + 1
            high += step
            step *= 2
        high = min(high, size)
        while low < high:
            middle = (low + high) // 2
            order = compare(
                table_data, table_offsets[middle], table_offsets[middle + 1], data, start, end
            )
            if order < 0:
                low = middle + 1
            else:
                high = middle
        if low < size and (
            compare(table_data, table_offsets[low], table_offsets[low + 1], data, start, end) == 0
        ):
            found[n] = low
            low += 1
    return found


LONG = np.uint64(1 << 63)


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


def pack(strings: list[str]) -> tuple[Bytes, Positions]:
    """A table of Python strings."""
    encoded = [string.encode() for string in strings]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(piece) for piece in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets
