"""Finds the words of texts in UTF-8, by an automaton, without a Python object a word.

Runs of ASCII letters, most of English, are found by counting bits; the automaton is asked where
they touch anything else, and for all other text. Texts are padded, so that the kernels may read
the flags of 64 bytes from any place at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.text._grammar import DEAD, START, Automaton

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]
Eights = NDArray[np.uint64]
Integer = Any
"""A number of 64 bits in the kernels."""
u64 = np.uint64
"""Positions in the innermost loops are unsigned: an index that may be negative costs a test."""
MAX_WORD_UNITS = 255
"""In UTF-16, as in Lucene; the rest of a longer word is the next word."""
REPLACEMENT = 0xFFFD
SKIP, RUN, RULES = 0, 1, 2
GOES_ON, ENDS, MAY_END = 0, 1, 2


@dataclass(frozen=True)
class ByteTable:
    """What the kernels need to know of each byte, derived from an automaton.

    `start`: no word starts here (SKIP), a run of letters does (RUN), or the rules must tell
    (RULES). `after`: after a run of letters the word is complete (ENDS), or is complete if the
    next byte is marked in `beyond` (MAY_END), or the rules must tell (GOES_ON).
    """

    start: Bytes
    after: Bytes
    beyond: NDArray[np.bool_]


def byte_table(automaton: Automaton) -> ByteTable:
    """The table of an automaton in which any number of letters lead to one accepting state."""
    classes, steps = automaton.classes[:128], automaton.steps
    letters = steps[START, classes[ord("a")]]
    step = steps[letters, classes]
    start, after = np.full(256, RULES, np.uint8), np.full(256, GOES_ON, np.uint8)
    start[:128][steps[START, classes] == DEAD] = SKIP
    start[:128][(classes == classes[ord("a")]) & (step == letters)] = RUN
    after[:128][step == DEAD] = ENDS
    between = steps[letters, classes[ord(".")]]
    beyond = np.zeros(256, np.bool_)
    if not automaton.accepts[between]:
        after[:128][step == between] = MAY_END
        beyond[:128] = steps[between, classes] == DEAD
    return ByteTable(start, after, beyond)


def _trailing_zeros(_context: Any, value: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.false_bit)

    return value(value), generate


trailing_zeros: Any = intrinsic(_trailing_zeros)
"""How many low bits of a number are zero; one instruction."""


@jit
def code_point(buffer: Bytes, at: int, end: int) -> Any:
    """The code point at a byte and how many bytes it takes; a stray byte is U+FFFD, one byte."""
    lead = np.int64(buffer[at])
    if lead < 0x80:
        return lead, 1
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if lead < 0xC2 or lead > 0xF4 or at + size > end:
        return REPLACEMENT, 1
    value = lead & (0x7F >> size)
    for i in range(1, size):
        byte = np.int64(buffer[at + i])
        if byte & 0xC0 != 0x80:
            return REPLACEMENT, 1
        value = (value << 6) | (byte & 0x3F)
    if value > 0x10FFFF:
        return REPLACEMENT, 1
    return value, size


@jit
def longest_match(
    buffer: Bytes,
    start: int,
    at: int,
    end: int,
    state: Integer,
    classes: Bytes,
    steps: Bytes,
    accepts: NDArray[np.bool_],
) -> int:
    """Where the word from `start` ends, read on from `at` in `state`; `at` if nothing is added.

    What lies between `start` and `at` is ASCII.
    """
    best = at
    units = at - start
    while at < end:
        value, size = code_point(buffer, at, end)
        units += 2 if size == 4 else 1
        if units > MAX_WORD_UNITS:
            break
        state = np.int64(steps[state, classes[value]])
        if state == DEAD:
            break
        at += size
        if accepts[state]:
            best = at
    return best


@jit
def flags(data: Bytes, byte_start: Bytes, letters: Eights, specials: Eights) -> None:
    """A bit for each byte that is a letter, and one for each that only the rules understand."""
    pair = np.zeros(256, np.uint64)
    for byte in range(256):
        if byte_start[byte] == RUN:
            pair[byte] = u64(1)
        elif byte_start[byte] == RULES:
            pair[byte] = u64(1 << 32)
    low_half = u64(0xFFFFFFFF)
    for n in range(len(letters) - 1):
        low, high = u64(0), u64(0)
        for i in range(32):
            low |= pair[data[64 * n + i]] << u64(i)
            high |= pair[data[64 * n + 32 + i]] << u64(i)
        letters[n] = (low & low_half) | (high << u64(32))
        specials[n] = (low >> u64(32)) | (high & ~low_half)


@jit
def window(bits: Eights, at: Integer) -> Any:
    """The 64 bits that begin at any bit; `at` is unsigned."""
    shift = at & u64(63)
    n = at >> u64(6)
    return (bits[n] >> shift) | ((bits[n + u64(1)] << (u64(63) - shift)) << u64(1))


@jit
def find_words(
    data: Bytes,
    offsets: Positions,
    letters: Eights,
    specials: Eights,
    byte_after: Bytes,
    byte_beyond: NDArray[np.bool_],
    classes: Bytes,
    steps: Bytes,
    accepts: NDArray[np.bool_],
    places: NDArray[np.int32],
    counts: Positions,
) -> int:
    """Start and end of each word of the documents `data[offsets[n]:offsets[n + 1]]`.

    `counts` receives how many words there are up to the end of each document.
    """
    after_letter = np.int64(steps[START, classes[97]])
    count = 0
    for document in range(len(offsets) - 1):
        at, end = offsets[document], offsets[document + 1]
        while at < end:
            run = window(letters, u64(at))
            any_start = run | window(specials, u64(at))
            if any_start == 0:
                at += 64
                continue
            skip = trailing_zeros(any_start)
            length = np.int64(trailing_zeros(~(run >> skip)))
            start = at + np.int64(skip)
            if start >= end:
                break
            if length == 0:
                at = longest_match(
                    data, start, start, end, np.int64(START), classes, steps, accepts
                )
                if at == start:
                    at += code_point(data, at, end)[1]
                    continue
            else:
                stop = min(end, start + MAX_WORD_UNITS)
                at = start + length
                if np.int64(skip) + length == 64:
                    while at < stop and window(letters, u64(at)) & u64(1):
                        at += 1
                if at >= stop:
                    at = stop
                else:
                    after = byte_after[data[at]]
                    is_whole = after == ENDS or (
                        after == MAY_END and (at + 1 >= end or byte_beyond[data[at + 1]])
                    )
                    if not is_whole:
                        at = longest_match(
                            data, start, at, end, after_letter, classes, steps, accepts
                        )
            places[count, 0], places[count, 1] = start, at
            count += 1
        counts[document + 1] = count
    return count


def padded(data: Bytes) -> Eights:
    """A copy of some bytes that can be read past their end."""
    copy = np.zeros(8 * (len(data) // 64 + 2), np.uint64)
    copy.view(np.uint8)[: len(data)] = data
    return copy


class Scanner:
    """Finds the words of documents by an automaton."""

    def __init__(self, automaton: Automaton) -> None:
        self._bytes = byte_table(automaton)
        self._automaton = (automaton.classes, automaton.steps, automaton.accepts)

    def find(self, text: Eights, offsets: Positions) -> tuple[NDArray[np.int32], Positions]:
        """Start and end of each word of a padded text, and where each document's words begin."""
        data = text.view(np.uint8)
        letters, specials = np.zeros((2, len(text) // 8 + 1), np.uint64)
        flags(data, self._bytes.start, letters, specials)
        places = np.empty((int(offsets[-1]), 2), np.int32)
        counts = np.zeros(len(offsets), np.int64)
        tables = (self._bytes.after, self._bytes.beyond, *self._automaton)
        count = find_words(data, offsets, letters, specials, *tables, places, counts)
        return places[:count], counts
