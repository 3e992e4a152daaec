"""Queries as people have them: ours, strings, dictionaries or a path, made ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tamis.collection.opening import read_queries
from tamis.collection.querylog import query_id
from tamis.errors import InputError
from tamis.types import Queries, Query
from tamis.types.frames import id_text, is_frame

AnyQueries = Queries | Mapping[Any, Any] | Iterable[Any] | str | os.PathLike[str]
FORMS = 'as Queries, {"q1": "some words"}, [{"id": "q1", "text": "some words"}], strings or a path'


def as_queries(queries: AnyQueries) -> Queries:
    """Queries from whatever holds them; a string gets the id that it has in a query log.

    >>> as_queries({"q1": "drum sieve"})["q1"].text
    'drum sieve'
    >>> list(as_queries(["drum sieve"]).ids)
    ['qfea3c5fd0c6e914b']
    """
    if isinstance(queries, Queries):
        return queries
    if isinstance(queries, str | os.PathLike):
        return read_queries(queries if isinstance(queries, str) else Path(queries))
    if isinstance(queries, Mapping):
        items: Iterable[Any] = ({"id": name, "text": text} for name, text in queries.items())
    elif is_frame(queries):
        raise InputError(
            "the queries are a DataFrame",
            hint="hand them in by id: dict(zip(df['query_id'], df['text']))",
        )
    elif isinstance(queries, Iterable):
        items = queries
    else:
        raise InputError(f"the queries are of type {type(queries).__name__}", hint=FORMS)
    return Queries.of(_query(place, item) for place, item in enumerate(items))


def _query(place: int, item: Any) -> Query:
    if isinstance(item, Query):
        return item
    if isinstance(item, str):
        return Query(query_id(item), item)
    if isinstance(item, Mapping):
        name, text = id_text(item.get("id", item.get("_id"))), item.get("text")
        if name is not None and isinstance(text, str):
            return Query(name, text)
    raise InputError(
        f"query {place} is {item!r}", hint=f"each needs an id and a text; hand them in {FORMS}"
    )
