"""Kernels over strings that lie one after another in a buffer: compare, sort, find.

A table of strings is `data` (bytes) and `offsets` (n + 1 positions): no Python object a string.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.types._words import first_bytes, load_word, swapped

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
SMALL_GROUP = 64


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not to be written to: kernels are compiled for one kind of array only."""
    view = array.view()
    view.flags.writeable = False
    return view


@jit
def compare(a: Bytes, a_start: int, a_end: int, b: Bytes, b_start: int, b_end: int) -> int:
    """Negative, zero or positive as the first stretch of bytes sorts before, with or after."""
    length, same = min(a_end - a_start, b_end - b_start), 0
    if a_start + 8 <= len(a) and b_start + 8 <= len(b):
        first_word = swapped(first_bytes(load_word(a, a_start), a_end - a_start))
        other = swapped(first_bytes(load_word(b, b_start), b_end - b_start))
        if first_word != other:
            return -1 if first_word < other else 1
        same = 8
    for i in range(same, length):
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
    ranges = np.empty((len(large), 2), np.int64)
    for n in range(len(large)):
        ranges[n, 0], ranges[n, 1] = large[n]
    return ranges


@jit
def fill_keys(
    data: Bytes,
    offsets: Positions,
    skip: int,
    code: NDArray[np.uint64],
    bits: int,
    width: int,
    row: int,
    row_bits: int,
    keys: NDArray[np.uint64],
) -> None:
    """For each string its word (see `words_at`) above its row, the first row being `row`."""
    shift, below = np.uint64(bits), np.uint64(row_bits)
    for n in range(len(keys)):
        start, end = offsets[n] + skip, offsets[n + 1]
        word = np.uint64(0)
        for i in range(start, start + width):
            word <<= shift
            if i < end:
                word |= code[data[i]]
        keys[n] = (word << below) | np.uint64(row + n)


@jit
def distinct_words(first: NDArray[np.uint64], second: NDArray[np.uint64], row_bits: int) -> Any:
    """Of two sorted lists of words with a row below each: the distinct words, each row's number."""
    shift = np.uint64(row_bits)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    total = len(first) + len(second)
    words = np.empty(total, np.uint64)
    numbers = np.empty(total, np.int32)
    count, i, j = 0, 0, 0
    for _ in range(total):
        if j >= len(second) or (i < len(first) and first[i] < second[j]):
            key = first[i]
            i += 1
        else:
            key = second[j]
            j += 1
        if count == 0 or words[count - 1] != key >> shift:
            words[count] = key >> shift
            count += 1
        numbers[key & mask] = count - 1
    return words[:count], numbers


def sort_table(data: Bytes, offsets: Positions) -> tuple[Bytes, Positions, NDArray[np.int32]]:
    """A table of distinct strings in the order of their bytes, and the new number of each."""
    data, items = frozen(data), np.arange(len(offsets) - 1, dtype=np.int64)
    number_of = items.astype(np.int32)
    if len(items) < 2:
        return data, offsets, number_of
    code, size = alphabet(data)
    _sort(data, offsets, items, common_prefix(data, offsets), code, size.bit_length())
    number_of[items] = np.arange(len(items), dtype=np.int32)
    return *gather(data, frozen(offsets), items), number_of


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
    numbers = np.full(count, -1, np.int32)
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
            numbers[n] = low
            low += 1
    return numbers


def pack(strings: list[str]) -> tuple[Bytes, Positions]:
    """A table of Python strings."""
    encoded = [string.encode() for string in strings]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.array([len(piece) for piece in encoded], np.int64).cumsum(out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets
