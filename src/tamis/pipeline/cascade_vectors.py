"""The vectors by which a cascade compares queries and documents, taken from an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.registry import Opening, check_keys, spec_of
from tamis.search import Index
from tamis.search.dense import (
    EMBEDDING_KEYS,
    check_complete,
    check_embeddings,
    check_encoder,
    embedding_spec,
)
from tamis.search.index_spec import index_spec, open_encoder, open_index
from tamis.search.snapshot import Snapshot
from tamis.search.vectors import Vectors, encode_counting
from tamis.types import Encoder, Ids, Spec
from tamis.types.pipeline import SPEC_VERSION

Rows = NDArray[np.float32]


class VectorSource(Protocol):
    """Gives the vectors of queries and of documents."""

    def queries(self, texts: Sequence[str]) -> Rows:
        """A row a query."""

    def documents(self, query: NDArray[Any], ids: list[str]) -> Rows:
        """A row a document, in the order of the ids; of several passages the query's nearest."""

    def has(self, ids: list[str]) -> NDArray[np.bool_]:
        """Which of these documents have vectors."""

    def spec(self) -> Spec:
        """Plain JSON that says whose vectors these are."""


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """The vectors of an index, and the encoder that made them for the queries."""

    index: Index
    encoder: Encoder
    snapshot: Snapshot

    @classmethod
    def of(cls, index: Index, encoder: Encoder) -> StoredVectors:
        """Refuses an index without vectors, or an encoder that did not make them."""
        check_complete(index)
        check_encoder(index, encoder)
        return cls(index, encoder, index.snapshot)

    def queries(self, texts: Sequence[str]) -> Rows:
        """See `VectorSource.queries`."""
        return encode_counting(self.encoder, texts)[0]

    def documents(self, query: NDArray[Any], ids: list[str]) -> Rows:
        """See `VectorSource.documents`."""
        segments, numbers = self._places(ids)
        document_of = self.snapshot.places[1]
        if (segments < 0).any():
            missing = ids[int(np.flatnonzero(segments < 0)[0])]
            raise InputError(
                f"document {missing!r} of the run has no vector in {self.index.path}",
                hint="is it the index that was searched? --on-error skip (missing='skip') leaves "
                "such documents below",
            )
        found = np.empty((len(ids), query.shape[-1]), np.float32)
        for segment in np.unique(segments).tolist():
            here = np.flatnonzero(segments == segment)
            vectors = self.snapshot.dense[segment]
            assert vectors is not None
            found[here] = _nearest(vectors, query, document_of[numbers[here]])
        return found

    def has(self, ids: list[str]) -> NDArray[np.bool_]:
        """See `VectorSource.has`."""
        return self._places(ids)[0] >= 0

    def _places(self, ids: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The segment of each document, -1 where there is none, and its number in the index."""
        table, place = Ids.numbering(ids)
        numbers = table.positions_in(self.snapshot.ids)[place]
        return np.append(self.snapshot.places[0], np.int32(-1))[numbers], numbers

    def spec(self) -> Spec:
        """See `VectorSource.spec`."""
        return {
            "vectors": "index",
            "version": SPEC_VERSION,
            "index": index_spec(self.index),
            "encoder": spec_of("scorer", self.encoder),
            **embedding_spec(self.index),
        }


def open_vectors(values: Spec, opening: Opening) -> StoredVectors:
    """See `registry.OPENERS`."""
    keys = {"index": dict, "encoder": dict, **EMBEDDING_KEYS}
    check_keys("the vectors of an index", values, keys)
    index = open_index(values["index"], opening)
    check_embeddings(index, values)
    return StoredVectors.of(index, open_encoder(values["encoder"], opening))


def _nearest(vectors: Vectors, query: NDArray[Any], documents: NDArray[Any]) -> Rows:
    """Of each document the row nearest to the query; zeros for a document without rows."""
    found = np.zeros((len(documents), vectors.dimensions), np.float32)
    starts = np.searchsorted(vectors.document, documents)
    ends = np.searchsorted(vectors.document, documents, side="right")
    needed = np.concatenate([np.arange(*bounds) for bounds in zip(starts, ends, strict=True)])
    rows = vectors.rows(needed.astype(np.int64))
    for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if start < end:
            found[place] = rows[start + int(np.argmax(rows[start:end] @ query))]
    return found
