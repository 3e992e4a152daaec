"""Document lengths in one byte, as Lucene's `SmallFloat.intToByte4` writes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit

EXACT_LENGTHS = 24
"""Lengths below this have a byte of their own."""


@jit
def length_byte(length: int) -> int:
    """The byte of a length: exact below 24, then four significant bits.

    >>> length_byte(23), length_byte(40), length_byte(41), length_byte(42)
    (23, 40, 40, 41)
    """
    if length < EXACT_LENGTHS:
        return length
    excess = length - EXACT_LENGTHS
    bits = 0
    while excess >> bits != 0:
        bits += 1
    if bits < 4:
        return EXACT_LENGTHS + excess
    shift = bits - 4
    return EXACT_LENGTHS + (((excess >> shift) & 7) | ((shift + 1) << 3))


def byte_lengths() -> NDArray[np.int64]:
    """The length that each of the 256 bytes stands for.

    >>> byte_lengths()[[0, 23, 40, 41, 255]].tolist()
    [0, 23, 40, 42, 2013265944]
    """
    excess = np.arange(256) - EXACT_LENGTHS
    shift = np.maximum((excess >> 3) - 1, 0)
    coded = np.where(excess < 8, excess, ((excess & 7) | 8) << shift)
    return np.where(excess < 0, np.arange(256), EXACT_LENGTHS + coded)
