"""Documents and queries as records of named values: what JSONL, CSV, TSV, Parquet and Arrow share.

A table format brings records and takes them; what the columns mean is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Collection as Names
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tamis.collection._records import Columns, Record, documents_of, queries_of
from tamis.collection.base import Collection, Faults
from tamis.collection.checks import collection_of_files
from tamis.collection.formats import Format, QueryRows
from tamis.collection.layout import files_in
from tamis.collection.loss_notes import LossNotes
from tamis.collection.samples import FileHead
from tamis.errors import InputError
from tamis.types import Document, Queries, Query

__all__ = ["Columns", "RecordStream", "table_format"]

DOCUMENT_COLUMNS = ("id", "title", "text")
QUERY_COLUMNS = ("id", "text")
NOT_KEPT = "dropped, because the file holds documents only: {}"


@dataclass(frozen=True)
class RecordStream:
    """Records to write, which can be gone through again and again."""

    read: Callable[[LossNotes], Iterator[Record]]
    first_columns: tuple[str, ...]

    def column_names(self) -> list[str]:
        """The columns of all records; goes through them once."""
        names = (name for record in self.read(LossNotes()) for name in record)
        return [*dict.fromkeys([*self.first_columns, *names])]


ReadRecords = Callable[[Path, Columns, Faults], Iterator[tuple[int, Record]]]
"""The records of a file with their lines (in Parquet and Arrow, rows from 1)."""
WriteRecords = Callable[[RecordStream, Path, LossNotes, bool], None]


def table_format(
    name: str,
    description: str,
    detect: Callable[[FileHead], bool],
    read: ReadRecords,
    write: WriteRecords | None,
    columns: Columns | None = None,
) -> Format:
    """The format of a table, of which reading and writing records is all that differs."""
    user_columns = columns or Columns()

    def open_collection(path: Path, faults: Faults) -> Collection:
        def documents(file: Path) -> Iterator[tuple[int, Document]]:
            return documents_of(file, read(file, user_columns, faults), user_columns, faults)

        files = files_in(path) if path.is_dir() else [path]
        return collection_of_files(path, name, files, documents, faults)

    def read_queries(path: Path, faults: Faults) -> QueryRows:
        return queries_of(path, read(path, user_columns, faults), user_columns, faults)

    return Format(
        name=name,
        description=description,
        holds=("documents", "queries"),
        suffix=f".{name}",
        detect=detect,
        open_collection=open_collection,
        read_queries=read_queries,
        with_columns=partial(table_format, name, description, detect, read, write),
        opens_folder_of_files=True,
        write_collection=partial(_write_collection, write) if write else None,
        write_queries=partial(_write_queries, write) if write else None,
    )


def check_named(path: Path, names: Names[str], columns: Columns) -> None:
    """Refuse a file without a column that the user named."""
    for name in (columns.id, columns.text, columns.title):
        if name is not None and name not in names:
            raise InputError(
                f"{path} has no column {name!r}", hint=f"its columns: {', '.join(names)}"
            )


def document_record(document: Document, notes: LossNotes, id_name: str = "id") -> Record:
    """A document as a record; a field that has the name of a column of its own is renamed."""
    record = {id_name: document.id, "title": document.title, "text": document.text}
    return _with_fields(record, document.fields, notes) if document.fields else record


def query_record(query: Query, notes: LossNotes, id_name: str = "id") -> Record:
    """A query as a record; a field that has the name of a column of its own is renamed."""
    record = {id_name: query.id, "text": query.text}
    return _with_fields(record, query.fields, notes) if query.fields else record


def _with_fields(record: Record, fields: Mapping[str, str], notes: LossNotes) -> Record:
    for name in record.keys() & fields.keys():
        notes.add(f"the field {name!r} of {{}} was renamed: its name is taken", "record")
    return record | rename_fields(fields, record)


def rename_fields(fields: Mapping[str, str], names_in_use: Iterable[str]) -> dict[str, str]:
    """Fields under names that are not in use.

    >>> rename_fields({"text": "a", "year": "1958"}, ["id", "text"])
    {'field_text': 'a', 'year': '1958'}
    """
    names_in_use = {*names_in_use}
    names: dict[str, str] = {}
    for name in fields:
        free = name
        while free in names_in_use or (free != name and free in fields):
            free = f"field_{free}"
        names[name] = free
    return {names[name]: value for name, value in fields.items()}


def _write_collection(
    write: WriteRecords, collection: Collection, path: Path, notes: LossNotes, force: bool
) -> None:
    def records(notes: LossNotes) -> Iterator[Record]:
        return (document_record(document, notes) for document in collection.documents)

    write(RecordStream(records, DOCUMENT_COLUMNS), path, notes, force)
    notes.add(NOT_KEPT, "query", len(collection.queries))
    notes.add(NOT_KEPT, "judgement", sum(len(qrels.doc) for qrels in collection.qrels.values()))


def _write_queries(
    write: WriteRecords, queries: Queries, path: Path, notes: LossNotes, force: bool
) -> None:
    def records(notes: LossNotes) -> Iterator[Record]:
        return (query_record(query, notes) for query in queries)

    write(RecordStream(records, QUERY_COLUMNS), path, notes, force)
