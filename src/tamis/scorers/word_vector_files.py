"""Vector files as GloVe, fastText and word2vec write them: text lines, or word2vec's binary.

fastText's own models (`.bin`) are left to `fasttext_files`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tamis.collection.lines import BOM, not_utf8, numbered_bytes, open_bytes
from tamis.errors import InputError, LineError, UnknownFormatError

FORMAT_SAMPLE_BYTES = 1 << 12
LINES_PER_BLOCK = 1 << 12
BYTES_PER_READ = 1 << 22
MAX_WORD_BYTES = 1 << 16
FASTTEXT_MAGIC = (793712314).to_bytes(4, "little")
NUMPY_MAGIC = b"\x93NUMPY"
TEXT_BYTES = bytes(set(range(256)) - set(range(32)) | set(b"\t\n\r"))

Words = tuple[list[str], NDArray[np.float32]]
Line = tuple[int, bytes]


@dataclass(frozen=True)
class Shape:
    """What the start of a file says: how it goes on, and its counts if it names them."""

    binary: bool
    dimensions: int
    words: int | None
    """As the first line counts them; None where the first line is a word already."""


def shape_of(path: Path) -> Shape:
    """How a vector file is laid out, by its first bytes."""
    with open_bytes(path) as stream:
        first = stream.readline(1 << 20).removeprefix(BOM)
        sample = stream.read(FORMAT_SAMPLE_BYTES)
    _refuse_others(path, first)
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        words, dimensions = map(int, fields)
        if dimensions == 0:
            raise LineError(path, 1, "vectors of 0 numbers", hint="the second number counts them")
        return Shape(not _is_text(sample), dimensions, words)
    if len(fields) < 2:
        raise LineError(path, 1, _quote(first), hint="a line is a word and its numbers")
    return Shape(False, len(fields) - 1, None)


def is_fasttext_model(path: Path) -> bool:
    """Whether a file is a model in fastText's own format (`.bin`)."""
    with open_bytes(path) as stream:
        return stream.read(len(FASTTEXT_MAGIC)) == FASTTEXT_MAGIC


def _refuse_others(path: Path, first: bytes) -> None:
    if not first:
        raise InputError(f"{path} is empty", hint="a line is a word and its numbers")
    if first.startswith(NUMPY_MAGIC):
        raise UnknownFormatError(
            f"{path} is a matrix without words", hint="name the folder that holds it and its words"
        )
    if not _is_text(first):
        raise UnknownFormatError(
            f"{path} is neither text nor word2vec's binary",
            hint="GloVe, fastText and word2vec files are read, and folders of .npy and .parquet",
        )


def _is_text(data: bytes) -> bool:
    """Whether bytes, which may end inside a character, are UTF-8 without control characters."""
    if data.translate(None, TEXT_BYTES):
        return False
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return len(data) - error.start < 4 and error.reason == "unexpected end of data"
    return True


def _quote(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return f"found {text[:40] + '…' if len(text) > 40 else text!r}" if text else "an empty line"


# Text


def read_text(path: Path, shape: Shape) -> Words:
    """The words and vectors of a text file; a bad line is an error that names it."""
    lines = numbered_bytes(path)
    if shape.words is not None:
        next(lines)
    words: list[str] = []
    matrices = [np.empty((0, shape.dimensions), np.float32)]
    while block := list(islice(lines, LINES_PER_BLOCK)):
        split_lines = [_split(path, line, shape.dimensions) for line in block]
        words += [word for word, _ in split_lines]
        matrices.append(
            _numbers(path, block, [numbers for _, numbers in split_lines], shape.dimensions)
        )
    _check_count(path, shape, len(words))
    return words, np.concatenate(matrices)


def _split(path: Path, line: Line, dimensions: int) -> tuple[str, bytes]:
    """A line's word, which may hold blanks itself, and its numbers."""
    number, raw = line
    fields = raw.split()
    word = fields[:-dimensions]
    if not word or (len(word) > 1 and len(_parse_numbers(word[-1])) == 1):
        count = len(fields) - 1
        problem = f"{count} numbers, not {dimensions}" if count > 0 else _quote(raw)
        raise LineError(path, number, problem, hint=_hint(dimensions))
    try:
        return b" ".join(word).decode(), b" ".join(fields[-dimensions:])
    except UnicodeDecodeError as error:
        raise not_utf8(path, number, error) from None


def _hint(dimensions: int) -> str:
    return f"every line is a word and {dimensions} numbers, as the first one says"


def _parse_numbers(text: bytes) -> NDArray[np.float32]:
    """The numbers of a text; none where something in it is not a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # what an older numpy says instead
        try:
            return np.fromstring(text, np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return np.empty(0, np.float32)


def _numbers(
    path: Path, block: list[Line], number_fields: list[bytes], dimensions: int
) -> NDArray[np.float32]:
    """The numbers of many lines at once; field by field where something is wrong, to say where."""
    values = _parse_numbers(b" ".join(number_fields))
    if len(values) == len(number_fields) * dimensions and np.isfinite(values).all():
        return values.reshape(-1, dimensions)
    fields = (
        (number, field)
        for (number, _), numbers in zip(block, number_fields, strict=True)
        for field in numbers.split()
    )
    number, bad = next(
        (number, field) for number, field in fields if not _is_finite(_parse_numbers(field))
    )
    problem = f"{bad.decode(errors='replace')!r} is not a finite number"
    raise LineError(path, number, problem, hint=_hint(dimensions))


def _is_finite(values: NDArray[np.float32]) -> bool:
    return len(values) == 1 and bool(np.isfinite(values[0]))


def _check_count(path: Path, shape: Shape, count: int) -> None:
    if shape.words is not None and count != shape.words:
        raise InputError(
            f"{path} has {count:,} words, but its first line says {shape.words:,}",
            hint="it was cut short: fetch it again (or correct the first line)",
        )


# Binary


def read_binary(path: Path, shape: Shape) -> Words:
    """The words and vectors of word2vec's binary: a word, a blank, its numbers as float32.

    A word that is not UTF-8, as some trained on damaged text are, keeps a mark in place of the
    bytes that are not: no text has that word, and there is no line that could be corrected.
    """
    words: list[str] = []
    matrices = [np.empty((0, shape.dimensions), np.float32)]
    with open_bytes(path) as stream:
        stream.readline()
        for new_words, vectors in _records(path, stream, shape):
            words += new_words
            matrices.append(vectors)
    _check_count(path, shape, len(words))
    return words, np.concatenate(matrices)


def _records(path: Path, stream: BinaryIO, shape: Shape) -> Iterator[Words]:
    """The records of a binary file, as many at a time as were read."""
    size, remaining, buffer = 4 * shape.dimensions, shape.words or 0, b""
    while remaining:
        data = stream.read(max(BYTES_PER_READ, 2 * size))
        buffer += data
        words: list[str] = []
        vectors: list[bytes] = []
        at = 0
        while len(words) < remaining:
            blank = buffer.find(b" ", at)
            if blank < 0 or blank + 1 + size > len(buffer):
                break
            words.append(buffer[at:blank].lstrip(b"\n").decode(errors="replace"))
            vectors.append(buffer[blank + 1 : blank + 1 + size])
            at = blank + 1 + size
        buffer, remaining = buffer[at:], remaining - len(words)
        yield words, np.frombuffer(b"".join(vectors), "<f4").reshape(-1, shape.dimensions)
        if not data:
            return
        if buffer.find(b" ") < 0 and len(buffer) > MAX_WORD_BYTES:
            raise InputError(
                f"{path} has {len(buffer):,} bytes without a blank where a word should be",
                hint="it is damaged: fetch it again",
            )
