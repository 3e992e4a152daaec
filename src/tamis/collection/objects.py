"""Documents, queries and judgements as people have them in Python, made ours: the one edge.

Strings, dictionaries, (id, text) pairs, records, DataFrames and paths come in; `Document`s,
`Queries` and `Qrels` go out. What cannot be one is named by its place, with a hint.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tamis.collection._records import (
    DOCUMENT_IDS,
    DOCUMENT_TEXTS,
    QUERY_IDS,
    QUERY_TEXTS,
    TITLES,
    BadValueError,
    fields_of,
    find_column,
)
from tamis.collection.base import Collection, Documents, Streamed, is_blank
from tamis.collection.checks import SeenIds
from tamis.collection.loss_notes import counted
from tamis.collection.querylog import query_id
from tamis.collection.readers import is_id, open_collection, read_queries
from tamis.collection.store import DocumentStore
from tamis.durable import folder_exists
from tamis.errors import InputError
from tamis.types import Document, Queries, Query

FORMS = "a string, an (id, text) pair, a dictionary with id and text"
AnyDocuments = Iterable[Any] | Collection | str | Path
AnyQueries = Queries | Iterable[Any] | Collection | str | Path
"""What people hand in; a DataFrame is an iterable here."""


def as_documents(documents: AnyDocuments) -> Documents:
    """Documents that can be gone through again and again; strings get the ids "0", "1", ….

    >>> [document.id for document in as_documents(["A drum sieve.", "A net."])]
    ['0', '1']
    >>> next(iter(as_documents([{"_id": "d1", "title": "Tamis", "text": "A drum."}]))).title
    'Tamis'
    >>> next(iter(as_documents([("d1", "A drum.")]))).text
    'A drum.'
    """
    if isinstance(documents, str | Path):
        return open_collection(_existing(documents, "documents")).documents
    if isinstance(documents, Collection):
        return documents.documents
    if isinstance(documents, DocumentStore | Streamed):
        return documents
    listed, ids = [], SeenIds()
    for place, document in enumerate(stream_documents(documents)):
        if not ids.is_new(document.id):
            raise InputError(
                f"documents[{place}]: the id {document.id!r} occurs a second time",
                hint="give every document its own id",
            )
        listed.append(document)
    return listed


def stream_documents(documents: AnyDocuments, *, number: bool = True) -> Iterator[Document]:
    """The documents one after the other, as they come; whether ids repeat is not looked at.

    Unless they may be given a `number` for an id, strings are refused.
    """
    if isinstance(documents, str | Path | Collection):
        return iter(as_documents(documents))
    return (
        item if type(item) is Document else _document(place, item, number)
        for place, item in enumerate(_items(documents, "documents", DOCUMENT_TEXTS))
    )


def as_queries(queries: AnyQueries) -> Queries:
    """Queries in the order of their ids; a string gets the id it has in a query log.

    >>> as_queries(["drum sieve"]).ids[0]
    'qfea3c5fd0c6e914b'
    >>> as_queries({"q1": "drum sieve"})["q1"].text
    'drum sieve'
    """
    if isinstance(queries, Queries):
        return queries
    if isinstance(queries, str | Path):
        return read_queries(_existing(queries, "queries"))
    if isinstance(queries, Collection):
        return queries.queries
    by_id: dict[str, Query] = {}
    repeated = 0
    for place, item in enumerate(_items(queries, "queries", QUERY_TEXTS)):
        query = _query(place, item)
        if query.id in by_id and not isinstance(item, str):
            raise InputError(
                f"queries[{place}]: the id {query.id!r} occurs a second time",
                hint="give every query its own id",
            )
        repeated += query.id in by_id
        by_id.setdefault(query.id, query)
    if repeated:
        logging.getLogger(__name__).info(
            "repeated queries count once: %s", counted(repeated, "query")
        )
    return Queries.of(by_id.values())


def is_table(value: Any) -> bool:
    """Whether this is a DataFrame, of whatever library."""
    return hasattr(value, "columns") and hasattr(value, "to_dict")


def _items(container: Any, what: str, text_names: tuple[str, ...]) -> Iterable[Any]:
    """One after the other what a container holds, by ids where it has them as keys."""
    if is_table(container):
        rows: Iterable[Any] = (
            container.to_dicts() if hasattr(container, "to_dicts") else container.to_dict("records")
        )
        return rows
    if isinstance(container, Mapping):
        if find_column(None, text_names, container) and find_column(None, ("id", "_id"), container):
            raise InputError(f"the {what} are one dictionary", hint="put it in a list")
        return map(_with_key, container.items())
    if not isinstance(container, Iterable) or isinstance(container, bytes | Document | Query):
        raise InputError(
            f"the {what} are {_kind(container)}", hint=f"hand in a list; one is {FORMS}"
        )
    return container


def _with_key(item: tuple[Any, Any]) -> Any:
    key, value = item
    if isinstance(value, Document | Query):
        return value
    return {**value, "id": key} if isinstance(value, Mapping) else item


def _document(place: int, item: Any, number: bool) -> Document:
    where = f"documents[{place}]"
    if isinstance(item, Document):
        return item
    if isinstance(item, str) and number:
        return Document(str(place), str(item))
    if isinstance(item, str):
        raise InputError(f"{where} has no id: it is a string", hint="hand in (id, text) pairs")
    name, text, fields = _id_and_text(where, item, DOCUMENT_IDS, DOCUMENT_TEXTS)
    title = fields.pop(find_column(None, TITLES, fields) or "", "")
    return Document(
        name, text, "" if _is_missing(title) else _text(where, title), _fields(where, fields)
    )


def _query(place: int, item: Any) -> Query:
    where = f"queries[{place}]"
    if isinstance(item, Query):
        query = item
    elif isinstance(item, str):
        query = Query(query_id(item), str(item))
    else:
        name, text, fields = _id_and_text(where, item, QUERY_IDS, QUERY_TEXTS)
        query = Query(name, text, _fields(where, fields))
    if is_blank(query.text):
        raise InputError(f"{where} is empty", hint="give it a text, or leave it out")
    return query


def _id_and_text(
    where: str, item: Any, ids: tuple[str, ...], texts: tuple[str, ...]
) -> tuple[str, str, dict[str, Any]]:
    """The id and the text of a pair or a dictionary, and what else it has."""
    if isinstance(item, tuple | list) and len(item) == 2:
        return _id(where, item[0]), _text(where, item[1]), {}
    if not isinstance(item, Mapping):
        raise InputError(f"{where} is {_kind(item)}", hint=f"hand in {FORMS}")
    values = dict(item)
    name, text = find_column(None, ids, values), find_column(None, texts, values)
    for what, column, names in (("id", name, ids), ("text", text, texts)):
        if column is None:
            raise InputError(
                f"{where} has no {what}: it has {', '.join(map(str, values)) or 'nothing'}",
                hint=f"name it {' or '.join(names[:2])}; plain strings need no id",
            )
    return _id(where, values.pop(name)), _text(where, values.pop(text)), values


def _id(where: str, value: Any) -> str:
    """An id: a string, or a whole number as one."""
    is_number = hasattr(value, "__index__") and not isinstance(value, bool)
    if not isinstance(value, str) and not is_number:
        raise InputError(
            f"{where}: the id is {_kind(value)}", hint="an id is a string or a whole number"
        )
    if is_blank(str(value)):
        raise InputError(f"{where}: the id is empty", hint="give it an id of its own")
    return str(value)


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: the text is {_kind(value)}", hint="a text is a string")
    return str(value)


def _fields(where: str, values: dict[str, Any]) -> dict[str, str]:
    try:
        return fields_of({name: value for name, value in values.items() if not _is_missing(value)})
    except BadValueError as error:
        raise InputError(f"{where}: {error.problem}", hint=error.hint) from None


def _is_missing(value: Any) -> bool:
    """Whether this is what a table has where there is nothing: None, NaN, pandas' NA and NaT."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _kind(value: Any) -> str:
    return "missing" if _is_missing(value) else f"of type {type(value).__name__}"


def _existing(path: str | Path, what: str) -> str | Path:
    if not is_id(path) and not folder_exists(Path(path)) and not Path(path).exists():
        raise InputError(
            f"there is no file or folder {path}", hint=f"a string alone is the path of {what}; "
            "for texts hand in a list: [text]",
        )  # fmt: skip
    return path
