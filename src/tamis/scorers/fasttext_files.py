"""fastText's own model files (`.bin`): words, their vectors, and those of their n-grams.

The matrix is memory-mapped where it lies in the file; nothing but the words is read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tamis.collection.lines import packing
from tamis.errors import InputError, UnknownFormatError
from tamis.scorers.subwords import Subwords

BYTES_PER_READ = 1 << 22
READABLE_VERSIONS = (11, 12)
SUPERVISED = 3
"""What a header says of a model that was trained to classify."""
MAX_NGRAM = 100
"""More characters than an n-gram of a real model has; fastText's default is 6."""
FETCH_AGAIN = "it was cut short or damaged: fetch it again"


@dataclass(frozen=True, eq=False)
class FastTextModel:
    """The words of a model in the order of their rows; n-grams, unless it was trained without."""

    words: list[str]
    matrix: NDArray[np.floating[Any]]
    subwords: Subwords | None


def read_fasttext(path: Path) -> FastTextModel:
    """Open a `.bin` of fastText's version 11 or 12; quantised models (`.ftz`) are refused."""
    if packed := packing(path):
        raise InputError(f"{path} is packed with {packed}", hint="unpack it: it is memory-mapped")
    with path.open("rb") as stream:
        _, version = _unpack(path, stream, "<2i")
        if version not in READABLE_VERSIONS:
            raise UnknownFormatError(
                f"{path} is of fastText's version {version}",
                hint="train it again with fastText 0.9",
            )
        dimensions, *_, task, buckets, min_n, max_n, _, _ = _unpack(path, stream, "<12id")
        if not 0 <= min_n <= MAX_NGRAM or not 0 <= max_n <= MAX_NGRAM:
            raise InputError(
                f"{path} has n-grams of {min_n:,} to {max_n:,} characters", hint=FETCH_AGAIN
            )
        if version == 11 and task == SUPERVISED:
            max_n = 0  # as fastText reads it
        words = _read_words(path, stream)
        rows, columns = _matrix_shape(path, stream)
        start = stream.tell()
        stream.seek(4 * rows * columns, 1)
        _check_rest(path, stream)
    has_subwords = max_n > 0 and buckets > 0
    expected = (len(words) + (buckets if has_subwords else rows - len(words)), dimensions)
    if (rows, columns) != expected or rows < len(words):
        raise InputError(
            f"{path} has a matrix of {rows:,} x {columns:,} numbers for {len(words):,} words, "
            f"{buckets:,} n-grams and {dimensions:,} dimensions",
            hint=FETCH_AGAIN,
        )
    matrix = np.memmap(path, np.dtype("<f4"), "r", start, (rows, columns))
    subwords = Subwords(matrix[len(words) :], min_n, max_n) if has_subwords else None
    return FastTextModel(words, matrix[: len(words)], subwords)


def _unpack(path: Path, stream: BinaryIO, layout: str) -> tuple[Any, ...]:
    data = stream.read(struct.calcsize(layout))
    try:
        return struct.unpack(layout, data)
    except struct.error:
        raise InputError(f"{path} ends in the middle", hint=FETCH_AGAIN) from None


def _read_words(path: Path, stream: BinaryIO) -> list[str]:
    """The dictionary without its labels; a word that is not UTF-8 keeps a mark in its place."""
    size, num_words, num_labels, _, pruned = _unpack(path, stream, "<3i2q")
    if min(size, num_words, num_labels) < 0 or size != num_words + num_labels:
        raise InputError(f"{path} counts its words wrongly", hint=FETCH_AGAIN)
    if pruned > 0:
        raise UnknownFormatError(
            f"{path} is a pruned fastText model", hint="give the .bin before it was quantised"
        )
    words: list[str] = []
    buffer, at = b"", 0
    while len(words) < size:
        end = buffer.find(b"\0", at)
        if end < 0 or end + 10 > len(buffer):
            data = stream.read(BYTES_PER_READ)
            if not data:
                raise InputError(
                    f"{path} ends after {len(words):,} of {size:,} words", hint=FETCH_AGAIN
                )
            buffer, at = buffer[at:] + data, 0
            continue
        words.append(buffer[at:end].decode(errors="replace"))
        at = end + 10  # the count, in eight bytes, and whether it is a label
    stream.seek(at - len(buffer), 1)
    return words[:num_words]


def _matrix_shape(path: Path, stream: BinaryIO) -> tuple[int, int]:
    """Rows and columns of the matrix that follows."""
    quantised, rows, columns = _unpack(path, stream, "<?2q")
    if quantised:
        raise UnknownFormatError(
            f"{path} is a quantised fastText model (.ftz)", hint="give the .bin it was made from"
        )
    if rows < 0 or columns <= 0:
        raise InputError(f"{path} has a matrix of {rows} x {columns}", hint=FETCH_AGAIN)
    return rows, columns


def _check_rest(path: Path, stream: BinaryIO) -> None:
    """Refuse a file that ends before its second matrix does; that is not needed otherwise."""
    if stream.tell() <= path.stat().st_size:
        _, rows, columns = _unpack(path, stream, "<?2q")
        stream.seek(4 * rows * columns, 1)
    if stream.tell() > path.stat().st_size:
        missing = stream.tell() - path.stat().st_size
        raise InputError(f"{path} ends {missing:,} bytes too early", hint=FETCH_AGAIN)
