"""Word vectors: words and a matrix with a row for each, on disk as `.npy` and Parquet.

Reading what GloVe, fastText and word2vec write is left to `word_vector_files`,
training to `word_vector_trainer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from tamis.collection.arrow_files import read_parquet, write_parquet
from tamis.durable import checksums, folder_exists, new_folder
from tamis.errors import DamagedError, InputError
from tamis.manifest import expect, read_manifest, write_manifest
from tamis.scorers.fasttext_files import read_fasttext
from tamis.scorers.subwords import Subwords
from tamis.scorers.word_vector_files import is_fasttext_model, read_binary, read_text, shape_of
from tamis.types import Ids

KIND, LAYOUT = "vector table", 1
DAMAGED_HINT = "fetch or write it again"
MATRIX_FILE, WORDS_FILE, SUBWORDS_FILE = "vectors.npy", "words.parquet", "subwords.npy"
ROWS_PER_CHECK = 1 << 14
CHECKSUM = "matrix_checksum"
"""The manifest's key for the checksum of the matrix."""
SUBWORDS_KEY = "subwords"
"""The manifest's key for the lengths of n-grams and the checksum of their matrix."""
MIN_NORM = 1e-20
"""A shorter vector points nowhere: its word counts as one without a vector."""

Matrix = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words, each with a row of a matrix; `facts` says where they come from.

    >>> vectors = WordVectors.of(["drum", "net"], np.array([[3, 4], [0, 0]], np.float32))
    >>> known, units = vectors.units(["net", "drum", "sieve"])
    >>> known.tolist(), units.round(1).tolist()
    ([1], [[0.6000000238418579, 0.800000011920929]])
    """

    words: Ids
    row: NDArray[np.int32]
    """Of each word: its row."""
    matrix: NDArray[np.floating[Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    subwords: Subwords | None = None
    """The vectors of n-grams. With them the vector of a word is the mean of its row, where it has
    one, and of its n-grams, as in fastText."""

    @classmethod
    def of(
        cls,
        words: list[str],
        matrix: NDArray[np.floating[Any]],
        facts: Mapping[str, Any] | None = None,
        source: str = "the vectors",
        subwords: Subwords | None = None,
    ) -> WordVectors:
        """Vectors from a word for each row; of a repeated word the first row counts."""
        _check_matrix(words, matrix, source, check_numbers=subwords is None)
        ids, number = Ids.numbering(words)
        row = np.empty(len(ids), np.int32)
        row[number[::-1]] = np.arange(len(words), dtype=np.int32)[::-1]
        return cls(ids, row, matrix, dict(facts or {}), subwords)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""
        return int(self.matrix.shape[1])

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and len(self.look_up([word])[0]) == 1

    def __getitem__(self, word: str) -> NDArray[np.floating[Any]]:
        """The vector of a word as it was read; `KeyError` where there is none."""
        with_vector, vectors = self.look_up([word])
        if not len(with_vector):
            raise KeyError(word)
        vector: NDArray[np.floating[Any]] = vectors[0]
        return vector

    def __repr__(self) -> str:
        subwords = ", subwords" if self.subwords else ""
        return f"<WordVectors: {len(self):,} words, {self.dimensions} dimensions{subwords}>"

    def look_up(self, words: list[str]) -> tuple[NDArray[np.int64], NDArray[np.floating[Any]]]:
        """Which of these words have a vector, and their vectors; only their rows are read."""
        numbers = self.words.numbers(words)
        known = np.flatnonzero(numbers >= 0)
        own = self.matrix[self.row[numbers[known]]]
        if self.subwords is None:
            return known, own
        unseen = np.flatnonzero(numbers < 0)
        _, of_known = self.subwords.means([words[n] for n in known.tolist()], own)
        has_any, of_unseen = self.subwords.means([words[n] for n in unseen.tolist()])
        with_vector = np.concatenate([known, unseen[has_any]])
        order = np.argsort(with_vector)
        return with_vector[order], np.concatenate([of_known, of_unseen[has_any]])[order]

    def units(self, words: list[str]) -> tuple[NDArray[np.int64], Matrix]:
        """Which of these words have a vector, and their vectors at length one."""
        with_vector, vectors = self.look_up(words)
        vectors = vectors.astype(np.float64)
        lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
        long = lengths > MIN_NORM
        return with_vector[long], (vectors[long] / lengths[long, None]).astype(np.float32)

    def save(self, folder: Path | str, *, force: bool = False) -> None:
        """Write a folder that `read_vectors` opens: the matrix as .npy, the words as Parquet."""
        words = self.words.take(np.arange(len(self.words)))
        facts = {**self.facts, "words": len(self), "dimensions": self.dimensions}
        with new_folder(Path(folder), force=force) as temporary_folder:
            np.save(temporary_folder / MATRIX_FILE, self.matrix[self.row])
            facts[CHECKSUM] = _checksum(temporary_folder / MATRIX_FILE)
            if self.subwords is not None:
                np.save(temporary_folder / SUBWORDS_FILE, self.subwords.matrix)
                facts[SUBWORDS_KEY] = {
                    "min_n": self.subwords.min_n,
                    "max_n": self.subwords.max_n,
                    CHECKSUM: _checksum(temporary_folder / SUBWORDS_FILE),
                }
            write_parquet(
                pa.table({"word": pa.array(words, pa.string())}), temporary_folder / WORDS_FILE
            )
            write_manifest(temporary_folder, KIND, LAYOUT, **facts)


def read_vectors(path: Path | str) -> WordVectors:
    """Word vectors from a file or folder; what it holds decides how it is read, not its name.

    A file is the text of GloVe, fastText or word2vec (with a first line of counts or without), or
    word2vec's binary, packed with gzip or zstd or not; or fastText's own model (`.bin`), whose
    n-grams give words it has not seen a vector. A folder holds a matrix as one .npy and its words,
    row by row, as the only column of text of one .parquet. The matrices of a folder and of a
    fastText model are memory-mapped.
    """
    path = Path(path)
    if folder_exists(path):
        return _read_folder(path)
    if is_fasttext_model(path):
        model = read_fasttext(path)
        facts = {"source": path.name}
        return WordVectors.of(model.words, model.matrix, facts, str(path), model.subwords)
    shape = shape_of(path)
    words, matrix = read_binary(path, shape) if shape.binary else read_text(path, shape)
    return WordVectors.of(words, matrix, {"source": path.name}, str(path))


def _read_folder(folder: Path) -> WordVectors:
    manifest = expect(folder, KIND, LAYOUT) if read_manifest(folder) else {}
    facts = {
        name: manifest[name]
        for name in manifest
        if name not in ("kind", "layout", "tamis", CHECKSUM, SUBWORDS_KEY)
    }
    matrix = folder / MATRIX_FILE if SUBWORDS_KEY in manifest else _only(folder, ".npy")
    words, subwords = _only(folder, ".parquet"), None
    if SUBWORDS_KEY in manifest:
        settings = manifest[SUBWORDS_KEY]
        of_ngrams = _map_checked(folder / SUBWORDS_FILE, settings)
        subwords = Subwords(of_ngrams, settings["min_n"], settings["max_n"])
    return WordVectors.of(
        _words_of(words),
        _map_checked(matrix, manifest),
        facts or {"source": folder.name},
        str(matrix),
        subwords,
    )


def _only(folder: Path, suffix: str) -> Path:
    paths = sorted(folder.glob(f"*{suffix}"))
    if len(paths) != 1:
        raise InputError(
            f"{folder} has {len(paths)} {suffix} files",
            hint="a folder of vectors has one .npy and one .parquet",
        )
    return paths[0]


def _map_checked(path: Path, expected: Mapping[str, Any]) -> NDArray[Any]:
    """A matrix, memory-mapped, that has the checksum which is expected of it, if one is."""
    if not path.is_file():
        raise DamagedError(f"there is no {path}", hint=DAMAGED_HINT)
    if CHECKSUM in expected and _checksum(path) != expected[CHECKSUM]:
        raise DamagedError(f"{path} is not what was written", hint=DAMAGED_HINT)
    return _map_matrix(path)


def _map_matrix(path: Path) -> NDArray[Any]:
    try:
        matrix: NDArray[Any] = np.load(path, mmap_mode="r")
    except (ValueError, OSError, EOFError, SyntaxError, TypeError, OverflowError) as error:
        raise DamagedError(
            f"{path} is not a whole .npy file of numbers: {error}", hint=DAMAGED_HINT
        ) from None
    return matrix


def _checksum(path: Path) -> str:
    return str(xxhash.xxh3_64_hexdigest(checksums(path).tobytes()))


def _words_of(path: Path) -> list[str]:
    table = read_parquet(path, hint=DAMAGED_HINT)
    is_text = pa.types.is_string, pa.types.is_large_string
    names = [
        text_column.name
        for text_column in table.schema
        if any(test(text_column.type) for test in is_text)
    ]
    if len(names) != 1:
        raise InputError(
            f"{path} has {len(names)} columns of text", hint="keep the one with the words"
        )
    column = table.column(names[0])
    if column.null_count:
        raise InputError(f"{path} has {column.null_count} rows without a word", hint="remove them")
    words: list[str] = column.to_pylist()
    return words


def _check_matrix(
    words: list[str], matrix: NDArray[Any], source: str, *, check_numbers: bool = True
) -> None:
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or matrix.shape[1] == 0:
        raise InputError(
            f"{source} has {matrix.dtype} numbers of shape {matrix.shape}",
            hint="vectors are a matrix of float numbers, one row per word",
        )
    if len(matrix) != len(words):
        raise InputError(
            f"{source} has {len(matrix):,} rows for {len(words):,} words",
            hint="give one row per word",
        )
    if not words:
        raise InputError(f"{source} holds no word", hint="give a word and a vector at least")
    for start in range(0, len(matrix) if check_numbers else 0, ROWS_PER_CHECK):
        bad = np.flatnonzero(~np.isfinite(matrix[start : start + ROWS_PER_CHECK]).all(1))
        if len(bad):
            row = start + int(bad[0])
            raise InputError(
                f"{source}: the vector of {words[row]!r} (row {row}) is not all finite numbers",
                hint="remove the word or train again",
            )
