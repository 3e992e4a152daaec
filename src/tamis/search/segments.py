"""A segment as it is searched: its arrays mapped, and which of its documents are still there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.collection.store import DocumentStore, verify_store
from tamis.errors import InputError, command
from tamis.search.field_values import FieldColumn, open_fields
from tamis.search.files import ArraysReader
from tamis.search.filters import ID, Included
from tamis.search.term_counts import Codes, Ints, Longs
from tamis.types import Ids
from tamis.types._strings import frozen


class Postings(NamedTuple):
    """What the search kernels read of a segment."""

    postings: NDArray[np.uint32]
    term_chunks: Longs
    chunk_window: Ints
    chunk_start: Longs
    pairs_offsets: Longs
    pairs_code: Codes
    pairs_count: Ints
    number: Ints
    """Of each document: its number among all ids of the index."""
    included: NDArray[np.uint64]
    """A bit per document that may be found, or none where all may: see `filters.Included`."""
    excluded: int
    """How many documents may not be found: deleted ones, and those that a filter leaves out."""


class Deleted:
    """Which documents of a segment are gone, and what its terms have lost with them."""

    def __init__(self, folder: Path) -> None:
        self.files = ArraysReader(folder)
        self.flags: NDArray[np.uint8] = np.asarray(self.files.array("flags"))
        self.terms: Ints = self.files.array("terms")
        self.documents_of: Ints = self.files.array("documents-of")
        self.occurrences: Longs = self.files.array("occurrences")


class Segment:
    """An opened segment. Small arrays are verified at once, large ones as they are used."""

    def __init__(self, folder: Path, deleted: Path | None = None) -> None:
        self.folder = folder
        self.files = ArraysReader(folder)
        self.deleted = None if deleted is None else Deleted(deleted)
        self.store = DocumentStore(folder / "documents")
        """The documents themselves, deleted ones included."""
        array = self.files.array
        self.terms = Ids(array("terms"), array("terms-offsets"))
        self.pair_frequency: Ints = array("pair-frequency")
        self.pair_length: Ints = array("pair-length")
        self._postings = self.files.lazy("postings")
        self._vector_term = self.files.lazy("vector-term")
        self._vector_code = self.files.lazy("vector-code")
        self.vector_offsets: Longs = array("vector-offsets")
        self.number: Ints = array("number")
        self._term_chunks, self._chunk_start = array("term-chunks"), array("chunk-start")
        self._rest = (
            array("chunk-window"),
            self._chunk_start,
            array("pairs-offsets"),
            array("pairs-code"),
            array("pairs-count"),
        )

    @property
    def ids(self) -> Ids:
        """The ids of all documents, deleted ones included."""
        return self.store.ids

    @property
    def size(self) -> int:
        """How many documents there are, deleted ones included."""
        return int(self.files.note["documents"])

    def fact(self, name: str) -> int:
        """How many documents, documents with_terms, or total_terms are left."""
        lost = 0 if self.deleted is None else int(self.deleted.files.note[name])
        return int(self.files.note[name]) - lost

    def documents_of(self) -> Ints:
        """Of each term: in how many of the documents that are left it occurs."""
        return self._counts_without_deleted(
            "documents-of", None if self.deleted is None else "documents_of"
        )

    def occurrences(self) -> Longs:
        """Of each term: how often it occurs in the documents that are left."""
        return self._counts_without_deleted(
            "occurrences", None if self.deleted is None else "occurrences"
        )

    def _counts_without_deleted(self, name: str, lost: str | None) -> NDArray[Any]:
        counts = self.files.array(name)
        if lost is not None:
            assert self.deleted is not None
            counts = counts.copy()
            counts[self.deleted.terms] -= getattr(self.deleted, lost)
        return counts

    def live(self) -> NDArray[np.bool_]:
        """Of each document: whether it is still there."""
        if self.deleted is None:
            return np.ones(self.size, bool)
        return np.asarray(self.deleted.flags == 0)

    def postings(self, number: Ints) -> Postings:
        """What the kernels read of all documents; `number` gives each its number in the index."""
        everything = Included(frozen(np.empty(0, np.uint64)), 0)
        return Postings(
            self._postings.data, self._term_chunks, *self._rest, frozen(number), *everything
        )

    @cached_property
    def columns(self) -> Mapping[str, FieldColumn]:
        """The fields of the documents by name, and their ids under `id`."""
        fields = open_fields(self.files)
        if fields is None:
            raise InputError(
                f"{self.folder} was written before indexes had fields",
                hint=f"write it again: {command('update', self.folder.parent, '--merge')}",
            )
        starts = np.arange(self.size + 1, dtype=np.int64)
        ids = FieldColumn("text", {"text": 1}, self.ids, "", starts, self.store.rows)
        return {**fields, ID: ids}

    def touch(self, terms: Ints) -> None:
        """Verify the postings of these terms (-1 for none)."""
        terms = terms[terms >= 0]
        starts, ends = self._term_chunks[terms], self._term_chunks[terms + 1]
        self._postings.touch(self._chunk_start[starts], self._chunk_start[ends])

    def term_vectors(self, documents: NDArray[np.integer[Any]]) -> tuple[Longs, Ints, Ints]:
        """Term vectors of some documents: where each begins, its terms, how often each occurs."""
        starts, ends = self.vector_offsets[documents], self.vector_offsets[documents + 1]
        self._vector_term.touch(starts, ends)
        self._vector_code.touch(starts, ends)
        sizes = ends - starts
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        rows = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
        frequencies = self.pair_frequency[self._vector_code.data[rows]]
        return offsets, self._vector_term.data[rows], frequencies

    def verify(self) -> None:
        """Read every byte of the segment."""
        self.files.verify()
        if self.deleted is not None:
            self.deleted.files.verify()
        verify_store(self.folder / "documents")
