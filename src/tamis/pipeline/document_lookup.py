"""Documents by id for a stage that reads them, wherever they lie, a few at a time.

What can be asked for a document is asked. What can only be read from its beginning (files, a
table) is read once, and the documents that are wanted are kept in a store on disk meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.collection.base import Collection, Streamed
from tamis.collection.store import DocumentStore, write_store
from tamis.search import Index
from tamis.types import Document, Ids

Documents = Mapping[str, Document] | DocumentStore | Index | Collection | Iterable[Document]
"""Where documents are taken from."""


class Library(Protocol):
    """Documents by id."""

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these there are."""

    def fetch(self, ids: list[str]) -> list[Document]:
        """The documents with these ids, which must be there; their further fields may be lost."""


@contextmanager
def library(documents: Documents, wanted: Ids) -> Iterator[Library]:
    """Documents that can be fetched by id for as long as the block lasts.

    >>> sieves = [Document("d1", "A drum sieve."), Document("d2", "A net.")]
    >>> with library(sieves, Ids.of(["d2", "d3"])) as opened:
    ...     opened.has(Ids.of(["d2", "d3"])).tolist(), opened.fetch(["d2"])[0].text
    ([True, False], 'A net.')
    """
    if isinstance(documents, Collection):
        documents = documents.documents
    if isinstance(documents, DocumentStore):
        yield StoreLibrary(documents)
    elif isinstance(documents, Index):
        yield IndexLibrary(documents)
    elif isinstance(documents, Mapping):
        yield MappingLibrary(documents)
    elif isinstance(documents, Sequence):
        yield MappingLibrary({document.id: document for document in documents})
    else:
        with TemporaryDirectory() as folder:
            yield StoreLibrary(_stored(documents, wanted, Path(folder) / "documents"))


class MappingLibrary:
    """Documents in memory."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """See `Library.has`."""
        return np.array([name in self._documents for name in ids], bool)

    def fetch(self, ids: list[str]) -> list[Document]:
        """See `Library.fetch`."""
        return [self._documents[name] for name in ids]


class StoreLibrary:
    """The documents of a store."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """See `Library.has`."""
        return ids.positions_in(self._store.ids) >= 0

    def fetch(self, ids: list[str]) -> list[Document]:
        """See `Library.fetch`."""
        numbers = self._store.ids.numbers(ids)
        texts, titles = self._store.texts(numbers), self._store.titles(numbers)
        return [Document(*each) for each in zip(ids, texts, titles, strict=True)]


class IndexLibrary:
    """The documents of an index, in the state it is in now."""

    def __init__(self, index: Index) -> None:
        self.snapshot = index.snapshot

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """See `Library.has`."""
        numbers = ids.positions_in(self.snapshot.ids)
        segment_of = np.append(self.snapshot.places[0], np.int32(-1))
        return segment_of[numbers] >= 0

    def fetch(self, ids: list[str]) -> list[Document]:
        """See `Library.fetch`."""
        segment_of = self.snapshot.places[0][self.snapshot.ids.numbers(ids)]
        found: dict[str, Document] = {}
        for number in np.unique(segment_of).tolist():
            here = [ids[place] for place in np.flatnonzero(segment_of == number).tolist()]
            store = StoreLibrary(self.snapshot.segments[number].store)
            found.update((document.id, document) for document in store.fetch(here))
        return [found[name] for name in ids]


def _stored(documents: Iterable[Document], wanted: Ids, path: Path) -> DocumentStore:
    """A store of those documents that are wanted."""
    names = set(wanted)

    def kept() -> Iterator[Document]:
        return (document for document in documents if document.id in names)

    write_store(Collection("documents", "stream", Streamed(kept)), path)
    return DocumentStore(path)
