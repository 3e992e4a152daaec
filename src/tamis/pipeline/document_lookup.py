"""Documents by id for a stage that reads them, wherever they lie, a few at a time.

What can be asked for a document is asked. What can only be read from its beginning (files, a
table) is read once, and the documents that are wanted are kept in a store on disk meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.collection.base import Collection, Streamed
from tamis.collection.store import DocumentStore, write_store
from tamis.errors import InputError
from tamis.search import Index
from tamis.types import Document, Ids, Run

Documents = Mapping[str, Document] | DocumentStore | Index | Collection | Iterable[Document]
"""Where documents are taken from."""


class DocumentLookup(Protocol):
    """Documents by id."""

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these ids there are documents for."""

    def fetch(self, ids: list[str]) -> list[Document]:
        """The documents with these ids, which must be there; their further fields may be lost."""


@contextmanager
def open_lookup(documents: Documents, doc_ids: Ids) -> Iterator[DocumentLookup]:
    """Documents that can be fetched by id for as long as the block lasts.

    >>> sieves = [Document("d1", "A drum sieve."), Document("d2", "A net.")]
    >>> with open_lookup(sieves, Ids.of(["d2", "d3"])) as lookup:
    ...     lookup.has(Ids.of(["d2", "d3"])).tolist(), lookup.fetch(["d2"])[0].text
    ([True, False], 'A net.')
    """
    if isinstance(documents, Collection):
        documents = documents.documents
    if isinstance(documents, DocumentStore):
        yield StoreLookup(documents)
    elif isinstance(documents, Index):
        yield IndexLookup(documents)
    elif isinstance(documents, Mapping):
        yield MappingLookup(documents)
    elif isinstance(documents, Sequence):
        yield MappingLookup({document.id: document for document in documents})
    else:
        with TemporaryDirectory() as folder:
            yield StoreLookup(_store_documents(documents, doc_ids, Path(folder) / "documents"))


class MappingLookup:
    """Documents in memory."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """See `DocumentLookup.has`."""
        return np.array([name in self._documents for name in ids], bool)

    def fetch(self, ids: list[str]) -> list[Document]:
        """See `DocumentLookup.fetch`."""
        return [self._documents[name] for name in ids]


class StoreLookup:
    """The documents of a store."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """See `DocumentLookup.has`."""
        return ids.positions_in(self._store.ids) >= 0

    def fetch(self, ids: list[str]) -> list[Document]:
        """See `DocumentLookup.fetch`."""
        numbers = self._store.ids.numbers(ids)
        texts, titles = self._store.texts(numbers), self._store.titles(numbers)
        return [Document(*columns) for columns in zip(ids, texts, titles, strict=True)]


class IndexLookup:
    """The documents of an index, in the state it is in now."""

    def __init__(self, index: Index) -> None:
        self.snapshot = index.snapshot

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """See `DocumentLookup.has`."""
        numbers = ids.positions_in(self.snapshot.ids)
        segment_of = np.append(self.snapshot.places[0], np.int32(-1))
        return segment_of[numbers] >= 0

    def fetch(self, ids: list[str]) -> list[Document]:
        """See `DocumentLookup.fetch`."""
        segment_of = self.snapshot.places[0][self.snapshot.ids.numbers(ids)]
        documents: dict[str, Document] = {}
        for number in np.unique(segment_of).tolist():
            segment_ids = [ids[place] for place in np.flatnonzero(segment_of == number).tolist()]
            store = StoreLookup(self.snapshot.segments[number].store)
            documents.update((document.id, document) for document in store.fetch(segment_ids))
        return [documents[name] for name in ids]


def _store_documents(documents: Iterable[Document], doc_ids: Ids, path: Path) -> DocumentStore:
    """A store of the documents with these ids."""
    names = set(doc_ids)

    def read_selected() -> Iterator[Document]:
        return (document for document in documents if document.id in names)

    write_store(Collection("documents", "stream", Streamed(read_selected)), path)
    return DocumentStore(path)


def missing_document_error(run: Run, rows: NDArray[np.integer[Any]], effect: str) -> InputError:
    """The error for rows of a run whose documents are not there; `effect` is that of skipping."""
    row = int(rows[0])
    query = run.queries.ids[int(np.searchsorted(run.offsets, row, side="right")) - 1]
    more = f" (nor are {len(rows) - 1:,} others)" if len(rows) > 1 else ""
    return InputError(
        f"document {run.docs[int(run.doc[row])]!r} of query {query!r} is not in the collection"
        f"{more}",
        hint=f"was another collection searched? --on-error skip (missing='skip') {effect}",
    )
