"""What is asked of every document and query, whatever format it came in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.collection.base import Collection, Faults, Streamed, is_blank
from tamis.errors import LineError
from tamis.types import Document, Queries, Query

_POSITIVE = (1 << 63) - 1


@dataclass
class FaultsOnce(Faults):
    """Faults in which a line or document counts once, however often its file is gone through."""

    _lines: set[int] = field(default_factory=set, repr=False)
    _empty: set[int] = field(default_factory=set, repr=False)

    def meet(self, error: LineError) -> None:
        """Raise the error, or count it if this line was not met before."""
        where = hash((error.path, error.line, error.problem))
        if not self.skip or where not in self._lines:
            self._lines.add(where)
            super().meet(error)

    def count_if_empty(self, document: Document) -> None:
        """Count a document that has neither text nor title if its id was not met before."""
        if is_blank(document.text) and (where := hash(document.id)) not in self._empty:
            self._empty.add(where)
            super().count_if_empty(document)


OR_SKIP = ", or leave it out: --on-error skip (on_error='skip')"


@jit
def enter(slots: NDArray[np.int64], key: int) -> bool:
    """Put a key that is not 0 into an open table; whether it was new. There must be room."""
    mask = len(slots) - 1
    at = key & mask
    while slots[at] != 0:
        if slots[at] == key:
            return False
        at = (at + 1) & mask
    slots[at] = key
    return True


@jit
def enter_all(slots: NDArray[np.int64], keys: NDArray[np.int64]) -> None:
    """Put the keys of one open table into another."""
    for key in keys:
        if key != 0:
            enter(slots, key)


class SeenIds:
    """Which ids were met, in about fifteen bytes an id: only a 63-bit hash of each is kept.

    Two different ids share a hash about once in ten quintillion pairs: among ten million ids, a
    false alarm has a chance of 1 in 180,000.

    >>> seen = SeenIds()
    >>> seen.is_new("d1"), seen.is_new("d2"), seen.is_new("d1")
    (True, True, False)
    """

    def __init__(self) -> None:
        self._slots = np.zeros(1 << 10, np.int64)
        self._count = 0

    def is_new(self, string: str) -> bool:
        """Note an id; whether it was not there before."""
        if 4 * self._count >= 3 * len(self._slots):
            slots = np.zeros(2 * len(self._slots), np.int64)
            enter_all(slots, self._slots)
            self._slots = slots
        key = (xxhash.xxh3_64_intdigest(string.encode()) & _POSITIVE) or 1
        new = enter(self._slots, key)
        self._count += new
        return new


class Checks:
    """The checks of one pass over a collection; ids are compared across all its files."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._lines = SeenIds()

    def documents(self, path: Path, rows: Iterable[tuple[int, Document]]) -> Iterator[Document]:
        """The documents of a file whose id is theirs alone; those that hold nothing are counted."""
        is_new = self._lines.is_new
        for line, document in rows:
            if is_blank(document.id):
                problem = "the document's id is empty"
                self._meet(path, line, problem, f"give it an id of its own{OR_SKIP}")
            elif is_new(document.id):
                self.faults.count_if_empty(document)
                yield document
            else:
                problem = f"document id {document.id!r} occurs a second time"
                self._meet(path, line, problem, f"give every document its own id{OR_SKIP}")

    def queries(self, path: Path, rows: Iterable[tuple[int, Query]]) -> Iterator[Query]:
        """The queries of a file whose id is theirs alone and that hold something."""
        for line, query in rows:
            if is_blank(query.id):
                self._meet(path, line, "the query's id is empty", "give it an id of its own")
            elif is_blank(query.text):
                self._meet(path, line, f"query {query.id!r} is empty", "give it a text")
            elif self._lines.is_new(query.id):
                yield query
            else:
                self._meet(
                    path,
                    line,
                    f"query id {query.id!r} occurs a second time",
                    "give every query its own id",
                )

    def _meet(self, path: Path, line: int, problem: str, hint: str) -> None:
        self.faults.meet(LineError(path, line, problem, hint=hint))


def checked_queries(path: Path, rows: Iterable[tuple[int, Query]], faults: Faults) -> Queries:
    """The queries of one file."""
    return Queries.of(Checks(faults).queries(path, rows))


def collection_of_files(
    path: Path,
    format: str,
    files: list[Path],
    read: Callable[[Path], Iterable[tuple[int, Document]]],
    faults: Faults,
) -> Collection:
    """The documents of one file after the other as a collection, checked each time."""

    def documents() -> Iterator[Document]:
        checks = Checks(faults)
        for file in files:
            yield from checks.documents(file, read(file))

    return Collection(path.resolve().name, format, Streamed(documents), faults=faults)
