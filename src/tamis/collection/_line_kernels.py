"""The kernels that split lines of columns: one pass, in which each line is done with at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.types._strings import Bytes, Positions
from tamis.types._words import at_most, first_bytes, load_word, lowest_bit, store_word

PADDING = 64
"""Bytes that must follow the last line, for as many are read at a time."""
ALL = ~np.uint64(0)
POWERS = np.array([10.0**n for n in range(23)])
"""Powers of ten that a double holds exactly."""


@jit
def split_rows(
    buffer: Bytes,
    size: int,
    columns: int,
    doc: int,
    number: int,
    docs: Bytes,
    doc_offsets: Positions,
    values: NDArray[np.float64],
    lines: NDArray[np.int32],
    stretches: Positions,
    odd: Positions,
    bad: Positions,
) -> Any:
    """Split lines whose first column is a query and which name a document and a number.

    The first `size` bytes of the buffer are lines, the last with its break. A row a line: the bytes
    of its document, its number, which line it is. Rows that follow each other with the same query
    are a stretch: its first row, and where its query starts and ends. A number not read here is
    odd: its row, and where it starts and ends. A line with another number of columns is bad: which
    line, and how many it has. Returns how many rows, stretches, odd numbers, bad lines and lines
    there are, and whether all bytes are ASCII. Blank lines have no row.
    """
    row, many, odds, wrong, line, column, start, used = 0, 0, 0, 0, 0, 0, 0, 0
    query, query_end, doc_start, doc_end, number_start, number_end = 0, 0, 0, 0, 0, 0
    last, last_end = 0, -1
    ascii = ALL
    for low in range(0, size, 64):
        in_buffer = first_bits(size - low)
        ascii &= at_most(buffer, low, 127) | ~in_buffer
        blanks = at_most(buffer, low, 32) & in_buffer
        while blanks != 0:
            at = low + lowest_bit(blanks)
            blanks &= blanks - np.uint64(1)
            byte = buffer[at]
            if not (byte == 32 or 9 <= byte <= 13):
                continue
            if at > start:
                if column == 0:
                    query, query_end = start, at
                elif column == doc:
                    doc_start, doc_end = start, at
                elif column == number:
                    number_start, number_end = start, at
                column += 1
            start = at + 1
            if byte != 10:
                continue
            line += 1
            if column == columns:
                for i in range(0, doc_end - doc_start, 8):
                    store_word(docs, used + i, load_word(buffer, doc_start + i))
                used += doc_end - doc_start
                doc_offsets[row + 1] = used
                values[row], read = read_number(buffer, number_start, number_end)
                if not read:
                    odd[0, odds], odd[1, odds], odd[2, odds] = row, number_start, number_end
                    odds += 1
                if not same(buffer, query, query_end, last, last_end):
                    stretches[0, many] = row
                    stretches[1, many], stretches[2, many] = query, query_end
                    last, last_end = query, query_end
                    many += 1
                lines[row] = line
                row += 1
            elif column > 0:
                bad[0, wrong], bad[1, wrong] = line, column
                wrong += 1
            column = 0
    return row, many, odds, wrong, line, ascii == ALL


@jit
def first_bits(count: int) -> np.uint64:
    """A word whose first bits are set."""
    return ALL if count >= 64 else (np.uint64(1) << np.uint64(count)) - np.uint64(1)


@jit
def same(buffer: Bytes, start: int, end: int, other: int, other_end: int) -> bool:
    """Whether two stretches of a buffer are alike."""
    length = end - start
    if length != other_end - other:
        return False
    for i in range(0, length, 8):
        difference = load_word(buffer, start + i) ^ load_word(buffer, other + i)
        if first_bytes(difference, length - i) != 0:
            return False
    return True


@jit
def read_number(buffer: Bytes, start: int, end: int) -> Any:
    """A decimal number as a double, and whether it could be read exactly here."""
    negative = buffer[start] == 45
    first = start + (negative or buffer[start] == 43)
    mantissa, point = np.int64(0), end
    if end - first > 19:
        return 0.0, False
    for at in range(first, end):
        digit = np.int64(buffer[at]) - 48
        if 0 <= digit <= 9:
            mantissa = mantissa * 10 + digit
        elif digit == -2 and point == end:
            point = at
        else:
            return 0.0, False
    scale = max(end - point - 1, 0)
    digits = end - first - (point < end)
    if digits == 0 or digits > 18 or mantissa > 1 << 53:
        return 0.0, False
    value = np.float64(mantissa) / POWERS[scale]
    return -value if negative else value, True
