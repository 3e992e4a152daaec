"""The small records: a document, a query, many queries, a passage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, check_type
from tamis.types.ids import Ids


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id, perhaps a title, and whatever other named fields came with it.

    >>> Document("d1", "Sieves sort grain.", title="Sieves").title
    'Sieves'
    """

    id: str
    text: str
    title: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for; other fields (description, narrative) travel along by name.

    >>> Query("q1", "sieve", {"description": "How does a drum sieve work?"}).fields["description"]
    'How does a drum sieve work?'
    """

    id: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document: characters `start` to `end` of one of its fields."""

    doc_id: str
    number: int
    start: int
    end: int
    field: str = "text"


@dataclass(frozen=True, eq=False, slots=True)
class Queries:
    """Queries in the order of their ids; texts and further fields where they are known.

    `texts` is None where only ids are known, as in a run read from a TREC file.

    >>> queries = Queries.of([Query("q2", "drum"), Query("q1", "sieve")])
    >>> len(queries), queries["q2"].text, [query.id for query in queries]
    (2, 'drum', ['q1', 'q2'])
    """

    ids: Ids
    texts: tuple[str, ...] | None = None
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, column in [("text", self.texts), *self.fields.items()]:
            if column is not None and len(column) != len(self.ids):
                raise InputError(f"{len(self.ids)} query ids but {len(column)} values of {name!r}")

    @classmethod
    def of(cls, queries: Iterable[Query]) -> Queries:
        """Queries from records in any order; a field that some lack is empty there."""
        hint = 'a list of queries: [Query("q1", "some words")]'
        check_type(queries, Iterable, "queries", hint)
        queries = list(queries)
        for query in queries:
            check_type(query, Query, "a query", hint)
        records = sorted(queries, key=lambda query: query.id.encode())
        for before, after in pairwise(records):
            if before.id == after.id:
                raise InputError(
                    f"query id {before.id!r} occurs twice", hint="give every query its own id"
                )
        names = dict.fromkeys(name for query in records for name in query.fields)
        return cls(
            Ids.of(query.id for query in records),
            tuple(query.text for query in records),
            {name: tuple(query.fields.get(name, "") for query in records) for name in names},
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Query]:
        return (self._record(number) for number in range(len(self)))

    def __getitem__(self, query_id: str) -> Query:
        return self._record(self.ids.number(query_id))

    def __contains__(self, query_id: object) -> bool:
        return query_id in self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Queries):
            return NotImplemented
        return self is other or (
            self.ids == other.ids
            and self.texts == other.texts
            and dict(self.fields) == dict(other.fields)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        texts = "ids only" if self.texts is None else "with texts"
        return f"<Queries: {len(self):,}, {texts}>"

    def _record(self, number: int) -> Query:
        return Query(
            self.ids[number],
            "" if self.texts is None else self.texts[number],
            {name: column[number] for name, column in self.fields.items()},
        )

    def select(self, numbers: NDArray[np.integer[Any]]) -> Queries:
        """The queries with these numbers (distinct, ascending)."""
        where = numbers.tolist()
        return Queries(
            self.ids.select(numbers),
            None if self.texts is None else tuple(self.texts[n] for n in where),
            {name: tuple(column[n] for n in where) for name, column in self.fields.items()},
        )

    def searching(self, name: str) -> Queries:
        """The same queries with another field as the text that is searched.

        >>> topics = Queries.of([Query("q1", "sieve", {"description": "What is a sieve?"})])
        >>> topics.searching("description").texts
        ('What is a sieve?',)
        """
        if name not in self.fields:
            names = ", ".join(sorted(self.fields)) or "none"
            raise InputError(f"queries have no field {name!r}", hint=f"fields here: {names}")
        other_fields = {other: column for other, column in self.fields.items() if other != name}
        if self.texts is not None:
            other_fields["text"] = self.texts
        return Queries(self.ids, self.fields[name], other_fields)
