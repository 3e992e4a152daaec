from __future__ import annotations

from tamis.search.lengths import byte_lengths, length_byte


def lucene(number: int) -> int:
    """SmallFloat.longToInt4, transcribed from its description: four significant bits."""
    bits = number.bit_length()
    if bits < 4:
        return number
    return (number >> (bits - 4) & 7) | (bits - 3) << 3


def test_a_length_has_lucenes_byte() -> None:
    for length in [*range(3000), 12345, 10**6, 2**31 - 1]:
        expected = length if length < 24 else 24 + lucene(length - 24)
        assert length_byte(length) == expected


def test_a_byte_stands_for_the_smallest_length_that_has_it() -> None:
    lengths = byte_lengths()
    assert lengths[:40].tolist() == list(range(40))
    for byte in range(1, 256):
        assert length_byte(int(lengths[byte])) == byte
        assert length_byte(int(lengths[byte]) - 1) == byte - 1
