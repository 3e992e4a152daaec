"""What a collection is, and what happens to bad lines while one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from tamis.errors import LineError
from tamis.types import Document, Ids, Qrels, Queries

SHOWN_FAULTS = 10


@dataclass
class Faults:
    """Bad lines: the first is raised, or, where skipping is asked for, all are counted.

    >>> faults = Faults(skip=True)
    >>> faults.meet(LineError("docs.jsonl", 2, "empty text"))
    >>> faults.count, str(faults.first[0])
    (1, 'docs.jsonl:2: empty text')
    """

    skip: bool = False
    count: int = 0
    first: list[LineError] = field(default_factory=list)
    keep_empty: bool = False
    """Whether a document without text and title is none, but handed on."""

    def meet(self, error: LineError) -> None:
        """Raise the error, or count it and keep the first few to show."""
        if not self.skip:
            raise error
        self.count += 1
        if len(self.first) < SHOWN_FAULTS:
            self.first.append(error)


class Documents(Protocol):
    """Documents that can be gone through again and again."""

    def __iter__(self) -> Iterator[Document]: ...


@dataclass(frozen=True)
class Streamed:
    """Documents read anew from their files each time they are gone through."""

    read: Callable[[], Iterator[Document]]

    def __iter__(self) -> Iterator[Document]:
        return self.read()


def no_queries() -> Queries:
    """The queries of a collection that has none."""
    return Queries(Ids.of([]), ())


class Collection:
    """Documents, queries, and judgements by split; queries and judgements are read when asked for.

    `format` is what `open_collection` found it to be, such as `beir`.
    """

    def __init__(
        self,
        name: str,
        format: str,
        documents: Documents,
        queries: Callable[[], Queries] = no_queries,
        qrels: Callable[[], Mapping[str, Qrels]] = dict,
        faults: Faults | None = None,
    ) -> None:
        self.name, self.format, self.documents = name, format, documents
        self._read_queries, self._read_qrels = queries, qrels
        self.faults = faults or Faults()

    @cached_property
    def queries(self) -> Queries:
        """All queries of the collection, of every split."""
        return self._read_queries()

    @cached_property
    def qrels(self) -> Mapping[str, Qrels]:
        """The judgements by split: train, dev, test, or whatever the collection calls them."""
        return self._read_qrels()

    def __repr__(self) -> str:
        return f"<Collection {self.name} ({self.format})>"
