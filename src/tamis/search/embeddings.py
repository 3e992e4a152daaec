"""The embeddings of a segment's documents on disk: one row per document or per passage.

    float32             the rows as the encoder gave them
    int8 scale error    each row in bytes, what one step of a byte is, and the length of the
                        difference between the bytes and the row
    document passage    of each row: the segment's document, and the number of its passage
    truncated_tokens    how many tokens of the text did not fit the encoder
    probe               the embeddings of two fixed texts, by which an encoder is recognised

Rows stand in the order of their documents. How they are made is left to `dense_encode`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tamis import durable
from tamis.errors import DamagedError, InputError, command
from tamis.search.files import ArraysReader, ArraysWriter
from tamis.search.term_counts import Ints
from tamis.types import Encoder
from tamis.types._strings import frozen

Rows = NDArray[np.float32]
COLUMNS = {
    "float32": "<f4",
    "int8": "|i1",
    "scale": "<f4",
    "error": "<f4",
    "document": "<i4",
    "passage": "<i4",
    "truncated_tokens": "<i4",
}
MAX_INT8 = 127
PROBES = ("a drum sieve sorts grain", "the quick brown fox jumps over the lazy dog " * 40)
REMEMBERED_ROWS = 8
PROBE_TOLERANCE = 1e-3
HALF_PROBE_TOLERANCE = 2e-2
"""Largest difference between two probes of one encoder, relative to the embedding's length: in
float32, and where one of them is in half precision."""


@dataclass(frozen=True)
class EmbeddingModel:
    """Which encoder made embeddings: its name, the SHA-256 of its weights, and its reference."""

    name: str
    sha256: str = ""
    reference: str = ""
    query_prompt: str = ""
    document_prompt: str = ""
    """What the encoder read before every query, and before every document."""
    dtype: str = "float32"
    """The precision it ran in."""

    def of(self, encoder: object) -> EmbeddingModel:
        """The same with the prompts and the precision of the encoder itself, if it has them."""
        dtype = getattr(getattr(encoder, "runtime", None), "dtype", self.dtype)
        own = self.query_prompt, self.document_prompt
        query_prompt, document_prompt = getattr(encoder, "prompts", None) or own
        return replace(
            self, query_prompt=query_prompt, document_prompt=document_prompt, dtype=dtype
        )


@runtime_checkable
class CountingEncoder(Protocol):
    """An encoder that says how many tokens of each text it left out."""

    def encode_with_truncation(self, texts: Sequence[str]) -> tuple[Rows, NDArray[np.int32]]:
        """The embeddings of these texts, and how many tokens of each were truncated."""


def encode_with_truncation(
    encoder: Encoder | CountingEncoder, texts: Sequence[str]
) -> tuple[Rows, NDArray[np.int32]]:
    """Embeddings, one row per text, and the truncated tokens of each if the encoder counts them."""
    if isinstance(encoder, CountingEncoder):
        rows, truncated_tokens = encoder.encode_with_truncation(texts)
    else:
        rows, truncated_tokens = encoder.encode(texts), np.zeros(len(texts), np.int32)
    rows = np.ascontiguousarray(rows, np.float32)
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
        raise InputError(
            f"{len(texts)} texts were encoded as an array of shape {rows.shape}",
            hint="an encoder returns one row per text",
        )
    return rows, np.asarray(truncated_tokens, np.int32)


def for_documents(encoder: object) -> Any:
    """What encodes documents: the encoder, or the one that it names where it only reads queries."""
    other = getattr(encoder, "documents", None)
    return other if isinstance(other, CountingEncoder) else encoder


def probe(encoder: Encoder | CountingEncoder) -> Rows:
    """The embeddings of `PROBES`, by which an encoder is recognised."""
    rows: Rows | None = getattr(encoder, "probe_rows", None)
    if rows is None:
        rows = encode_with_truncation(for_documents(encoder), PROBES)[0]
    if not np.isfinite(rows).all():
        raise InputError(
            "the encoder returns embeddings with NaN or infinity",
            hint="its weights are damaged: fetch the model again",
        )
    return rows


def same_encoder(first: Rows, second: Rows, *dtypes: str) -> bool:
    """Whether two probes are of one encoder, which ran in these precisions."""
    exact = all(dtype == "float32" for dtype in dtypes)
    tolerance = PROBE_TOLERANCE if exact else HALF_PROBE_TOLERANCE
    if first.shape != second.shape:
        return False
    reach = np.abs(first - second).max(initial=0.0)
    return bool(reach <= tolerance * np.linalg.norm(first, axis=1).max(initial=0.0))


def quantise(rows: Rows) -> dict[str, NDArray[Any]]:
    """Rows in bytes, with the step of each row and how far it is from its bytes at most.

    >>> rows = quantise(np.float32([[1.27, -0.5, 0.004]]))
    >>> rows["int8"].tolist(), round(float(rows["error"][0]), 4)
    ([[127, -50, 0]], 0.004)
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    scale = (largest / np.float32(MAX_INT8)).astype(np.float32)
    steps = np.where(scale > 0, scale, np.float32(1))[:, None]
    codes = np.clip(np.rint(rows / steps), -MAX_INT8, MAX_INT8).astype(np.int8)
    exact = rows.astype(np.float64) - codes * scale.astype(np.float64)[:, None]
    error = np.linalg.norm(exact, axis=1).astype(np.float32)
    return {"int8": codes, "scale": scale, "error": np.nextafter(error, np.float32(np.inf))}


class Embeddings:
    """The embeddings of a segment, opened."""

    def __init__(self, folder: Path) -> None:
        self.files = ArraysReader(folder)
        self.facts: Mapping[str, Any] = self.files.note["vectors"]
        self.dimensions = int(self.facts["dimensions"])
        array = self.files.array
        self.document: Ints = array("document")
        self.passage: Ints = array("passage")
        self.truncated_tokens: Ints = array("truncated_tokens")
        self.scale: NDArray[np.float32] = array("scale")
        self.error: NDArray[np.float32] = array("error")
        self.probe: Rows = array("probe").reshape(-1, self.dimensions)
        self._codes, self._rows = self.files.lazy("int8"), self.files.lazy("float32")
        self._rows_of: dict[int, tuple[NDArray[np.uint64], Ints]] = {}

    @property
    def model(self) -> EmbeddingModel:
        """The encoder that made them."""
        return EmbeddingModel(**self.facts["model"])

    @property
    def by_passage(self) -> bool:
        """Whether a document may have several rows."""
        return bool(self.facts["passages"]["passages"] != "whole")

    @property
    def longest(self) -> float:
        """No row is longer than this, as floats or as bytes."""
        return float(self.facts["longest"]) + float(self.error.max(initial=0.0))

    def codes(self) -> NDArray[np.int8]:
        """All rows in bytes, verified."""
        self._codes.touch(np.array([0]), np.array([self._codes.data.size]))
        return frozen(self._codes.data.reshape(-1, self.dimensions))

    def rows(self, needed: NDArray[np.integer[Any]]) -> Rows:
        """The whole matrix, of which these rows are verified."""
        starts = needed.astype(np.int64) * self.dimensions
        self._rows.touch(starts, starts + self.dimensions)
        return frozen(self._rows.data.reshape(-1, self.dimensions))

    def rows_of(self, documents: NDArray[np.uint64]) -> Ints:
        """The rows of some documents, given as a bit per document; the last few are remembered."""
        known = self._rows_of.get(id(documents))
        if known is not None and known[0] is documents:
            return known[1]
        flags = np.unpackbits(documents.view(np.uint8), bitorder="little").view(bool)
        rows = np.flatnonzero(flags[self.document]).astype(np.int32)
        if len(self._rows_of) >= REMEMBERED_ROWS:
            self._rows_of = {}  # other threads may still read the old one
        self._rows_of[id(documents)] = documents, rows
        return rows

    def column(self, name: str) -> NDArray[Any]:
        """A column as it is stored, verified: one number or one embedding per row."""
        array = self.files.array(name)
        return array.reshape(-1, self.dimensions) if name in ("float32", "int8") else array


def open_embeddings(folder: Path, name: str | None, digest: str | None) -> Embeddings | None:
    """The embeddings that a commit names; their digest must be the one it records."""
    if name is None:
        return None
    embeddings = Embeddings(folder / name)
    if embeddings.files.digest != digest:
        model = embeddings.model.reference or embeddings.model.name
        raise DamagedError(
            f"{folder / name} holds other embeddings",
            hint=f"encode again: {command('update', folder, '--dense', model, '--encode-again')}",
        )
    return embeddings


def write_embeddings(
    folder: Path, columns: Mapping[str, Sequence[NDArray[Any]]], probes: Rows, **facts: Any
) -> str:
    """Write a folder of embeddings from the blocks of each column; its digest."""
    with durable.new_folder(folder) as unfinished:
        files = ArraysWriter(unfinished)
        for name in COLUMNS:
            files.write(name, np.empty(0, COLUMNS[name]), *columns[name])
        files.write("probe", probes)
        truncated_tokens = [np.asarray(column) for column in columns["truncated_tokens"]]
        longest = max((_longest(column) for column in columns["float32"]), default=0.0)
        counts = {
            "rows": sum(map(len, truncated_tokens)),
            "truncated_tokens": sum(int(column.sum(dtype=np.int64)) for column in truncated_tokens),
            "truncated_documents": _truncated_documents(columns),
            "longest": longest,
        }
        files.finish(vectors={**facts, **counts, "dimensions": probes.shape[1]})
    return ArraysReader(folder).digest


def _longest(rows: Rows) -> float:
    """The length of the longest row, worked out a block at a time."""
    blocks = (rows[start : start + 4096] for start in range(0, len(rows), 4096))
    return max((float(np.linalg.norm(block, axis=1).max()) for block in blocks), default=0.0)


def _truncated_documents(columns: Mapping[str, Sequence[NDArray[Any]]]) -> int:
    pairs = zip(columns["document"], columns["truncated_tokens"], strict=True)
    return (
        len(
            np.unique(
                np.concatenate(
                    [[-1], *(doc[truncated_tokens > 0] for doc, truncated_tokens in pairs)]
                )
            )
        )
        - 1
    )


def carry_columns(
    old: Sequence[tuple[Embeddings, NDArray[np.bool_]]], sizes: Sequence[int]
) -> Iterator[dict[str, list[NDArray[Any]]]]:
    """Columns for new segments of these sizes that hold, in order, what is left of old ones.

    `old` are embeddings and, for each document of their segment, whether it is still there. Columns
    are views, so that memory does not grow with the rows.
    """
    places, before = [], 0
    for embeddings, live in old:
        place = before + np.cumsum(live) - 1
        places.append(np.where(live, place, -1)[embeddings.document])
        before += int(live.sum())
    bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for first, end in pairwise(bounds):
        columns: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
        for (embeddings, _), place in zip(old, places, strict=True):
            for rows in _stretches((place >= first) & (place < end)):
                for name in COLUMNS:
                    columns[name].append(embeddings.column(name)[rows])
                columns["document"][-1] = (place[rows] - first).astype(np.int32)
        yield columns


def _stretches(mask: NDArray[np.bool_]) -> list[slice]:
    """The stretches of neighbours that are true.

    >>> _stretches(np.array([True, True, False, True]))
    [slice(0, 2, None), slice(3, 4, None)]
    """
    turns = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [slice(start, end) for start, end in turns.reshape(-1, 2).tolist()]
