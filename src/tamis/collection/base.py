"""What a collection is, and what happens to bad lines while one is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tamis.collection.loss_notes import counted
from tamis.errors import LineError
from tamis.types import Document, Ids, Qrels, Queries

if TYPE_CHECKING:
    from tamis.collection._records import Columns

MAX_SHOWN_FAULTS, MAX_SHOWN_EMPTY = 10, 5


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
    empty: int = 0
    """How many documents have neither text nor title: they are no faults and are handed on."""
    first_empty: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """The files of a folder that are not read, by suffix."""
    bad_front_matter: dict[str, LineError] = field(default_factory=dict)
    """By file: what is wrong with its front matter, which is left out."""
    read_as_windows: dict[str, LineError] = field(default_factory=dict)
    """By file: where it is not UTF-8, for which it is read as Windows-1252."""
    unread: set[str] = field(default_factory=set)
    """The ids of documents that are there and could not be read."""
    missing_extras: list[str] = field(default_factory=list)
    """Sentences on files that would be read, or read better, with another package."""

    def meet(self, error: LineError) -> None:
        """Raise the error, or count it and keep the first few to show."""
        if not self.skip:
            raise error
        self.count += 1
        if len(self.first) < MAX_SHOWN_FAULTS:
            self.first.append(error)

    def count_if_empty(self, document: Document) -> None:
        """Count a document that has neither text nor title, and keep the first ids to show."""
        if is_blank(document.text) and is_blank(document.title):
            self.empty += 1
            if len(self.first_empty) < MAX_SHOWN_EMPTY:
                self.first_empty.append(document.id)

    def notes(self) -> list[str]:
        """Sentences on what is no fault and yet worth knowing: empty documents, files left out.

        >>> Faults(empty=2, first_empty=["d1", "d7"]).notes()
        ['2 documents without text are kept, though no word finds them: d1, d7']
        """
        notes = []
        if self.empty:
            verb = "is" if self.empty == 1 else "are"
            more = ", …" if self.empty > len(self.first_empty) else ""
            notes.append(
                f"{counted(self.empty, 'document')} without text {verb} kept, though no word finds "
                f"{'it' if self.empty == 1 else 'them'}: {', '.join(self.first_empty)}{more}"
            )
        if self.left_out:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.left_out.most_common())
            files = counted(self.left_out.total(), "file")
            notes.append(f"{files} of other kinds left out: {kinds}")
        return [*notes, *self.file_notes()]

    def all_notes(self) -> list[str]:
        """The same after a sentence on what was skipped.

        >>> Faults(count=1, first=[LineError("a.pdf", 1, "no PDF")]).all_notes()
        ['1 bad line skipped, first: a.pdf:1: no PDF']
        """
        skipped = f"{counted(self.count, 'bad line')} skipped, first: " if self.count else ""
        return [*([f"{skipped}{self.first[0]}"] if skipped else []), *self.notes()]

    def file_notes(self) -> list[str]:
        """Sentences on files whose front matter is left out, which are read as Windows-1252, or
        which need another package.

        >>> problem = LineError("a.md", 3, "the front matter is not YAML")
        >>> Faults(bad_front_matter={"a.md": problem}).file_notes()
        ['front matter of 1 file left out, first: a.md:3: the front matter is not YAML']
        """
        notes = list(self.missing_extras)
        if self.bad_front_matter:
            files = counted(len(self.bad_front_matter), "file")
            first = next(iter(self.bad_front_matter.values()))
            notes.insert(0, f"front matter of {files} left out, first: {first}")
        if self.read_as_windows:
            files = counted(len(self.read_as_windows), "file")
            first = next(iter(self.read_as_windows.values()))
            notes.insert(0, f"{files} read as Windows-1252, first: {first}")
        return notes


def is_blank(text: str) -> bool:
    """Whether nothing can be seen."""
    return not text or text.isspace()


class Documents(Protocol):
    """Documents that can be gone through again and again."""

    def __iter__(self) -> Iterator[Document]: ...


@dataclass(frozen=True)
class Streamed:
    """Documents read anew from their files each time they are gone through."""

    read: Callable[[], Iterator[Document]]

    def __iter__(self) -> Iterator[Document]:
        return self.read()


OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class Reference:
    """What a collection was opened by, so that it can be opened again."""

    place: str
    is_id: bool
    """Whether the place is an id such as `tamis:pydocs`, not a path."""
    format: str | None
    columns: Columns
    on_error: OnError


def no_queries() -> Queries:
    """The queries of a collection that has none."""
    return Queries(Ids.of([]), ())


class Collection:
    """Documents, queries, and judgements by split; queries and judgements are read when asked for.

    `format` is what `open_collection` found it to be, such as `beir`; `reference` is what it was
    opened by, if anything.
    """

    def __init__(
        self,
        name: str,
        format: str,
        documents: Documents,
        queries: Callable[[], Queries] = no_queries,
        qrels: Callable[[], Mapping[str, Qrels]] = dict,
        faults: Faults | None = None,
        reference: Reference | None = None,
    ) -> None:
        self.reference = reference
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

    def replaced(
        self,
        queries: Callable[[], Queries] | None = None,
        qrels: Callable[[], Mapping[str, Qrels]] | None = None,
    ) -> Collection:
        """The same documents with other queries or judgements."""
        return Collection(
            self.name,
            self.format,
            self.documents,
            queries or (lambda: self.queries),
            qrels or (lambda: self.qrels),
            self.faults,
            self.reference,
        )

    def facts(self) -> Mapping[str, Any]:
        """What else there is to say of this collection, by name."""
        return {}

    def __repr__(self) -> str:
        return f"<Collection {self.name} ({self.format})>"
