"""Text embeddings: the mean of the word vectors of a text.

Reading and training word vectors is left to `scorers/`; what is learnt from embeddings to rankers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit_with
from tamis.backends.weight_digests import has_digest, sha256_of
from tamis.durable import new_file
from tamis.errors import InputError
from tamis.registry import Opening, absolute, check_choice, check_keys
from tamis.scorers.bag_of_words import CHARACTERS_PER_BLOCK, MAX_TABLE_WORDS, text_pieces
from tamis.scorers.word_vectors import WordVectors, read_vectors
from tamis.text.analysis import analyzer
from tamis.types import Spec

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
VERSION = 1
NORMS = ("none", "l2")
"""What JSON says of embeddings as they are, and of those brought to length one."""


@dataclass(frozen=True, eq=False)
class TextEmbeddings:
    """An embedding a text, and of each text how many words it has and how many without a vector."""

    values: Floats
    num_words: Ints
    num_unknown: Ints

    @property
    def unknown_share(self) -> float:
        """The share of all words that have no vector."""
        return float(self.num_unknown.sum() / max(int(self.num_words.sum()), 1))


@dataclass(frozen=True, eq=False)
class TextEmbedder:
    """Embeds a text as the mean of the vectors of its words, each as often as it occurs.

    Words without a vector are left out of the mean and counted; a text of none but such words is
    all zeros. With `normalise` an embedding has length one (L2), unless it is all zeros.

    >>> vectors = WordVectors.of(["drum", "sieve"], np.array([[3, 0], [0, 4]], np.float32))
    >>> embedder = TextEmbedder(vectors)
    >>> embedder.embed(["A drum sieve.", "sieve, sieve, drum", ""]).round(2).tolist()
    [[1.5, 2.0], [1.0, 2.6700000762939453], [0.0, 0.0]]
    >>> embedder.embed_counted(["A drum sieve."]).num_unknown.tolist()
    [1]
    """

    vectors: WordVectors
    normalise: bool = False
    analyzer: str = "unicode"
    """What finds the words of a text; this one puts them in lower case and does not stem."""
    path: Path | None = None
    """The file or folder that the vectors were read from, if they were."""

    @classmethod
    def read(
        cls, path: Path | str, *, normalise: bool = False, analyzer: str = "unicode"
    ) -> TextEmbedder:
        """An embedder by the word vectors of a file or folder; see `read_vectors`."""
        return cls(read_vectors(path), normalise, analyzer, Path(path))

    @property
    def dimension(self) -> int:
        """How many numbers an embedding has."""
        return self.vectors.dimensions

    def embed(self, texts: Sequence[str]) -> Floats:
        """The embedding of each text, a row each."""
        return self.embed_counted(texts).values

    def embed_counted(self, texts: Sequence[str]) -> TextEmbeddings:
        """The same, with how many words each text has and how many of them have no vector."""
        values = np.zeros((len(texts), self.dimension), np.float32)
        num_words, num_unknown = np.zeros((2, len(texts)), np.int32)
        table, start = _WordTable(self), 0
        for piece in text_pieces(texts, CHARACTERS_PER_BLOCK):
            rows = slice(start, start + len(piece))
            table.add(piece, values[rows], num_words[rows], num_unknown[rows])
            start += len(piece)
            if table.size > MAX_TABLE_WORDS:
                table = _WordTable(self)
        if self.normalise:
            lengths = np.sqrt(np.einsum("nd,nd->n", values, values, dtype=np.float64))
            values /= np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
        return TextEmbeddings(values, num_words, num_unknown)

    def write(self, texts: Iterable[str], path: Path | str, *, force: bool = False) -> int:
        """Write the embeddings of many texts as one `.npy`, block by block; how many there are.

        `np.load(path, mmap_mode="r")` maps them: neither needs them in memory at once.
        """
        count = 0
        with new_file(Path(path), force=force) as unfinished:
            with unfinished.open("wb") as file:
                _write_header(file, 0, self.dimension)
                for piece in text_pieces(texts, CHARACTERS_PER_BLOCK):
                    file.write(self.embed(piece).tobytes())
                    count += len(piece)
            with unfinished.open("r+b") as file:
                _write_header(file, count, self.dimension)
        return count

    def save(self, folder: Path | str, *, force: bool = False) -> TextEmbedder:
        """Copy the word vectors to a folder, and the embedder that reads them there.

        For a model that is to be moved with its vectors; `to_json` of the result names the copy.
        """
        self.vectors.save(folder, force=force)
        return TextEmbedder.read(folder, normalise=self.normalise, analyzer=self.analyzer)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON from which `open_text_embedder` opens it again: settings, the path of the
        vectors and the SHA-256 of their files."""
        if self.path is None:
            raise InputError(
                "these word vectors are in no file", hint="save the embedder first: embedder.save"
            )
        return {
            "text_embedder": "mean",
            "version": VERSION,
            "path": str(absolute(self.path)),
            "weights": vector_digests(self.path),
            "dimension": self.dimension,
            "analyzer": self.analyzer,
            "norm": NORMS[self.normalise],
        }


_KEYS: dict[str, Any] = {
    "text_embedder": str,
    "version": int,
    "path": str,
    "weights": dict,
    "dimension": int,
    "analyzer": str,
    "norm": str,
}
_HEAD = {"text_embedder", "version"}


def open_text_embedder(values: Mapping[str, Any], base: Path | str = ".") -> TextEmbedder:
    """The embedder that `to_json` describes; a path that is not absolute lies under `base`.

    Vectors that changed since, or have another dimension, are refused.
    """
    check_keys("a text embedder", dict(values), _KEYS)
    check_choice("norm", values["norm"], NORMS)
    path = Path(base) / values["path"]
    check_vectors(path, values["weights"])
    normalise = bool(NORMS.index(values["norm"]))
    embedder = TextEmbedder.read(path, normalise=normalise, analyzer=values["analyzer"])
    if embedder.dimension != values["dimension"]:
        raise InputError(
            f"{path} has vectors of {embedder.dimension} dimensions, not {values['dimension']}",
            hint="name the vectors that the ranker was trained with",
        )
    return embedder


def open_embedder(values: Spec, opening: Opening) -> TextEmbedder:
    """See `registry.OPENERS`."""
    check_keys("a text embedder", values, {name: _KEYS[name] for name in _KEYS.keys() - _HEAD})
    head = {"text_embedder": "mean", "version": VERSION}
    return open_text_embedder({**values, **head, "path": str(opening.path(values["path"]))})


def vector_digests(path: Path) -> dict[str, str]:
    """The SHA-256 of the files of word vectors, by name."""
    return {name: sha256_of(file) for name, file in _vector_files(path).items()}


def check_vectors(path: Path, digests: Mapping[str, Any]) -> None:
    """Refuse word vectors that are not there, or not those of these digests."""
    if not path.exists():
        raise InputError(f"there are no word vectors {path}", hint="put them back where they were")
    files = _vector_files(path)
    if files.keys() != digests.keys() or not all(
        has_digest(file, str(digests[name])) for name, file in files.items()
    ):
        raise InputError(
            f"the word vectors {path} changed since the ranker was trained",
            hint="put the old ones back, or train the ranker again with these",
        )


def _vector_files(path: Path) -> dict[str, Path]:
    files = [path] if path.is_file() else sorted([*path.glob("*.npy"), *path.glob("*.parquet")])
    return {file.name: file for file in files}


def _write_header(file: Any, rows: int, columns: int) -> None:
    """The first bytes of an `.npy`; numpy leaves room in them for a larger number of rows."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)}
    np.lib.format.write_array_header_1_0(file, header)


class _WordTable:
    """The words met so far and their vectors, so that each is looked up once."""

    def __init__(self, embedder: TextEmbedder) -> None:
        self._vectors = embedder.vectors
        self._bulk = analyzer(embedder.analyzer).bulk()
        self._row = np.empty(0, np.int32)
        self._matrix = np.empty((0, embedder.dimension), np.float32)
        self._rows = 0

    @property
    def size(self) -> int:
        """How many distinct words were met."""
        return len(self._row)

    def add(self, texts: list[str], values: Floats, num_words: Ints, num_unknown: Ints) -> None:
        """Fill in the means and counts of some texts."""
        encoded = [text.encode(errors="surrogatepass") for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        tokens = self._bulk.add(np.frombuffer(b"".join(encoded), np.uint8), offsets)
        self._look_up(self._bulk.terms[self.size :])
        _add_means(
            tokens.words, tokens.offsets, self._bulk.term_of, self._row, self._matrix, values,
            num_words, num_unknown,
        )  # fmt: skip

    def _look_up(self, words: list[str]) -> None:
        with_vector, vectors = self._vectors.look_up(words)
        row = np.full(len(words), -1, np.int32)
        row[with_vector] = np.arange(self._rows, self._rows + len(with_vector))
        self._row = np.append(self._row, row)
        if self._rows + len(with_vector) > len(self._matrix):
            room = max(2 * len(self._matrix), self._rows + len(with_vector))
            grown = np.empty((room, self._matrix.shape[1]), np.float32)
            grown[: self._rows] = self._matrix[: self._rows]
            self._matrix = grown
        self._matrix[self._rows : self._rows + len(with_vector)] = vectors
        self._rows += len(with_vector)


@jit_with(error_model="numpy")
def _add_means(
    tokens: Ints,
    offsets: NDArray[np.int64],
    term_of: Ints,
    row_of: Ints,
    matrix: Floats,
    values: Floats,
    num_words: Ints,
    num_unknown: Ints,
) -> None:
    """Add the vectors of each text's words, in their order, and divide by how many there are."""
    dimension = values.shape[1]
    for text in range(len(offsets) - 1):
        count = 0
        for i in range(offsets[text], offsets[text + 1]):
            term = term_of[tokens[i]]
            if term < 0:
                continue
            num_words[text] += 1
            row = row_of[term]
            if row < 0:
                num_unknown[text] += 1
                continue
            count += 1
            for d in range(dimension):
                values[text, d] += matrix[row, d]
        if count > 1:
            for d in range(dimension):
                values[text, d] /= np.float32(count)
