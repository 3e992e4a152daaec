"""Rows of named values as documents and queries: which column is what, and how values read."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tamis.collection.base import Faults
from tamis.errors import LineError
from tamis.types import Document, Query

Record = dict[str, Any]
Records = Iterable[tuple[int, Record]]
Where = tuple[Path, int, Record]
"""A file, a line of it, and the record that stands there."""
Names = TypeVar("Names")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column holds the id, the text and the title; None is found among the default names.

    All other columns become fields. A value that is not a string is written as JSON; null, and an
    empty list or object, is left out.

    >>> Columns(id="sku", text="description").title is None
    True
    """

    id: str | None = None
    text: str | None = None
    title: str | None = None


DOCUMENT_IDS = ("id", "_id", "docid", "doc_id", "docno", "pid")
DOCUMENT_TEXTS = ("text", "contents", "body", "passage")
TITLES = ("title", "headline")
QUERY_IDS = ("id", "_id", "qid", "query_id", "query-id")
QUERY_TEXTS = ("text", "query", "question", "contents", "body", "title")
NULLS: tuple[Any, ...] = (None, [], {})


def find_column(
    user_name: str | None, default_names: tuple[str, ...], names: Collection[str]
) -> str | None:
    """The column that was named, or the first default name; None where it is not there.

    >>> find_column(None, DOCUMENT_IDS, ["docno", "body"])
    'docno'
    """
    if user_name is not None:
        return user_name if user_name in names else None
    return next((name for name in default_names if name in names), None)


def holds_documents(names: Collection[str], columns: Columns) -> bool:
    """Whether there is a column for the id and one for the text of documents."""
    return (
        find_column(columns.id, DOCUMENT_IDS, names) is not None
        and find_column(columns.text, DOCUMENT_TEXTS, names) is not None
    )


def holds_queries(names: Collection[str], columns: Columns) -> bool:
    """Whether there is a column for the id and one for the text of queries."""
    return (
        find_column(columns.id, QUERY_IDS, names) is not None
        and find_column(columns.text, QUERY_TEXTS, names) is not None
    )


def holds_records(names: Collection[str], columns: Columns) -> bool:
    """Whether these are columns of documents or of queries."""
    return holds_documents(names, columns) or holds_queries(names, columns)


def _needed(
    what: str,
    user_name: str | None,
    default_names: tuple[str, ...],
    where: Where,
) -> str:
    path, line, names = where
    column = find_column(user_name, default_names, names)
    if column is None:
        name = (
            repr(user_name)
            if user_name is not None
            else f"for the {what} ({', '.join(default_names)})"
        )
        raise LineError(
            path,
            line,
            f"no field {name}",
            hint=f"name it with --id, --text or --title; columns here: {', '.join(names)}",
        )
    return column


def documents_of(
    path: Path, records: Records, columns: Columns, faults: Faults
) -> Iterator[tuple[int, Document]]:
    """Records as documents; where names were left open, the first good record settles them."""
    return _converted(path, records, _document_columns, _document, columns, faults)


def queries_of(
    path: Path, records: Records, columns: Columns, faults: Faults
) -> Iterator[tuple[int, Query]]:
    """Records as queries; where names were left open, the first good record settles them."""
    return _converted(path, records, _query_columns, _query, columns, faults)


def _converted(
    path: Path,
    records: Records,
    find_names: Callable[[Where, Columns], Names],
    convert: Callable[[Record, Names], T],
    columns: Columns,
    faults: Faults,
) -> Iterator[tuple[int, T]]:
    names: Names | None = None
    for line, record in records:
        try:
            if names is None:
                names = find_names((path, line, record), columns)
            row = line, convert(record, names)
        except BadValueError as bad:
            faults.meet(LineError(path, line, bad.problem, hint=bad.hint))
            continue
        except LineError as error:
            faults.meet(error)
            continue
        yield row


def _document_columns(where: Where, columns: Columns) -> tuple[str, str, str]:
    return (
        _needed("id", columns.id, DOCUMENT_IDS, where),
        _needed("text", columns.text, DOCUMENT_TEXTS, where),
        columns.title or find_column(None, TITLES, where[2]) or "title",
    )


def _query_columns(where: Where, columns: Columns) -> tuple[str, str]:
    return (
        _needed("id", columns.id, QUERY_IDS, where),
        _needed("text", columns.text, QUERY_TEXTS, where),
    )


def _document(record: Record, names: tuple[str, str, str]) -> Document:
    id_name, text_name, title_name = names
    try:
        id, text = record.pop(id_name), record.pop(text_name)
    except KeyError as missing:
        raise _no_field(missing.args[0]) from None
    title = record.pop(title_name, "")
    return Document(
        id if type(id) is str else _id(id, id_name),
        text if type(text) is str else _text(text, text_name),
        title if type(title) is str else _text(title, title_name),
        fields_of(record) if record else {},
    )


def _query(record: Record, names: tuple[str, str]) -> Query:
    id_name, text_name = names
    try:
        id, text = record.pop(id_name), record.pop(text_name)
    except KeyError as missing:
        raise _no_field(missing.args[0]) from None
    return Query(_id(id, id_name), _text(text, text_name), fields_of(record))


class BadValueError(Exception):
    """A value that cannot be what its column says."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


def _no_field(name: str) -> BadValueError:
    return BadValueError(f"no field {name!r}", f"every record needs {name!r}")


def _id(value: Any, name: str) -> str:
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bytes):
        return _decoded(value, name)
    raise BadValueError(
        f"the id in {name!r} is {_describe_value(value)}", "an id is a string or a whole number"
    )


def _text(value: Any, name: str) -> str:
    if type(value) is str:
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return _decoded(value, name)
    if isinstance(value, list | dict):
        raise BadValueError(
            f"the text in {name!r} is {_describe_value(value)}", "a text is a string"
        )
    return as_json(value)


def fields_of(record: Record) -> dict[str, str]:
    """What is left of a record, each value as a string.

    >>> fields_of({"year": 1958, "author": "Perlis", "note": None, "tags": ["a"]})
    {'year': '1958', 'author': 'Perlis', 'tags': '["a"]'}
    """
    fields = {}
    for name, value in record.items():
        if type(value) is str:
            fields[name] = value
        elif isinstance(value, bytes):
            fields[name] = _decoded(value, name)
        elif value not in NULLS and not (isinstance(value, float) and math.isnan(value)):
            fields[name] = JsonText(as_json(value))
    return fields


class JsonText(str):
    """A field that was no string, as JSON; files of JSON get it back as it was."""

    __slots__ = ()


def as_json(value: Any) -> str:
    """A value that is not a string, as JSON; dates as ISO 8601."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError as error:
        raise BadValueError(f"a value cannot be kept: {error}", "nest it less deeply") from None


def _decoded(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadValueError(f"the bytes in {name!r} are not UTF-8", "store it as text") from None


def _describe_value(value: Any) -> str:
    kinds = {list: "a list", dict: "an object", bool: "true or false"}
    return kinds.get(type(value), repr(value))
