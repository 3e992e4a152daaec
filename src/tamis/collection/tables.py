"""Documents and queries as records of named values: JSONL, CSV, TSV, Parquet and Arrow."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import orjson
import pyarrow as pa

from tamis import durable
from tamis.collection._records import Columns, JsonText, Record, documents_of, queries_of
from tamis.collection.arrow_files import (
    ROWS,
    ParquetWriter,
    arrow_batches,
    parquet_batches,
    reading,
)
from tamis.collection.base import Faults
from tamis.collection.lines import not_utf8, numbered_bytes, numbered_whole_lines, packing, writing
from tamis.collection.loss_notes import LossNotes
from tamis.errors import InputError, LineError
from tamis.types import Document, Query

__all__ = ["Columns", "read_documents", "read_queries", "write_documents", "write_queries"]

LONGEST_CELL = 1 << 28
"""Characters; a longer cell of a CSV file is taken for a quote that was never closed."""
DELIMITERS = {"csv": ",", "tsv": "\t"}
DELIMITER_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
DOCUMENT_NAMES = ("id", "title", "text")
QUERY_NAMES = ("id", "text")


def read_documents(
    path: Path, format: str, columns: Columns, faults: Faults
) -> Iterator[tuple[int, Document]]:
    """The documents of a file with their lines (in Parquet and Arrow, rows from 1)."""
    return documents_of(path, read_records(path, format, columns, faults), columns, faults)


def read_queries(
    path: Path, format: str, columns: Columns, faults: Faults
) -> Iterator[tuple[int, Query]]:
    """The queries of a file with their lines (in Parquet and Arrow, rows from 1)."""
    return queries_of(path, read_records(path, format, columns, faults), columns, faults)


def read_records(
    path: Path, format: str, columns: Columns, faults: Faults
) -> Iterator[tuple[int, Record]]:
    """The records of a file of one of the formats `jsonl csv tsv parquet arrow`."""
    if format == "jsonl":
        return read_jsonl(path, faults)
    if format in DELIMITERS:
        return read_csv(path, DELIMITERS[format], columns, faults)
    return _rows_of(path, parquet_batches if format == "parquet" else arrow_batches, columns)


def read_jsonl(path: Path, faults: Faults) -> Iterator[tuple[int, Record]]:
    """One JSON object a line; blank lines hold nothing and are passed over."""
    loads = orjson.loads
    for number, raw in numbered_bytes(path):
        try:
            record = loads(raw)
        except orjson.JSONDecodeError as error:
            if not raw.isspace():
                faults.meet(_broken(path, number, raw, error))
            continue
        if type(record) is dict:
            yield number, record
        else:
            faults.meet(
                LineError(path, number, "not a JSON object", hint='a line is {"id": …, "text": …}')
            )


def _broken(path: Path, number: int, raw: bytes, error: orjson.JSONDecodeError) -> LineError:
    try:
        raw.decode()
    except UnicodeDecodeError as undecodable:
        return not_utf8(path, number, undecodable)
    return LineError(
        path,
        number,
        f"broken JSON: {error.msg}, at character {error.pos + 1}",
        hint="a line is one whole JSON object",
    )


def read_csv(
    path: Path, delimiter: str, columns: Columns, faults: Faults
) -> Iterator[tuple[int, Record]]:
    """Rows under a header, quoted as RFC 4180 says; an empty cell is null."""
    csv.field_size_limit(max(LONGEST_CELL, csv.field_size_limit()))
    lines = numbered_whole_lines(path, faults)
    rows = _rows_of_cells(path, lines, delimiter, faults)
    _, header = next(rows, (1, []))
    _refuse_other_delimiter(path, header, delimiter)
    _check_header(path, header, columns)
    for number, cells in rows:
        if len(cells) == len(header):
            yield number, {n: cell or None for n, cell in zip(header, cells, strict=True)}
        else:
            faults.meet(
                LineError(
                    path,
                    number,
                    f"{len(cells)} columns where the header has {len(header)}",
                    hint="is a quote missing around a cell with a delimiter in it?",
                )
            )


def _rows_of_cells(
    path: Path, lines: Iterator[tuple[int, str]], delimiter: str, faults: Faults
) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of the line they begin on; blank lines are passed over."""
    last = 0

    def counted() -> Iterator[str]:
        nonlocal last
        for number, line in lines:
            last = number
            yield line

    reader = csv.reader(counted(), delimiter=delimiter, strict=True)
    while True:
        begin = last + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            hint = 'quote a cell that holds a quote, and double the quote: "say ""hello"""'
            faults.meet(LineError(path, begin, f"not a row of cells: {error}", hint=hint))
            continue
        if cells:
            yield begin, cells


def _refuse_other_delimiter(path: Path, header: list[str], delimiter: str) -> None:
    """Refuse a header of one cell that another delimiter would make several."""
    for other, name in DELIMITER_NAMES.items():
        if len(header) == 1 and other != delimiter and other in header[0]:
            raise LineError(
                path,
                1,
                f"{name} between the columns, not {DELIMITER_NAMES[delimiter]}: {header[0][:60]!r}",
                hint=delimiter_hint(other),
            )


def delimiter_hint(delimiter: str) -> str:
    """What to do with a table whose columns are separated by this."""
    formats = {character: format for format, character in DELIMITERS.items()}
    if delimiter in formats:
        return f"say --format {formats[delimiter]}"
    return "save it with commas (CSV) or tabs (TSV) between the columns"


def _check_header(path: Path, header: list[str], columns: Columns) -> None:
    if not header:
        raise InputError(f"{path} is empty", hint="the first line names the columns")
    for name, count in Counter(header).items():
        if count > 1:
            raise LineError(path, 1, f"column {name!r} occurs twice", hint="rename one of them")
    _check_named(path, header, columns)


def _check_named(path: Path, names: list[str], columns: Columns) -> None:
    for name in (columns.id, columns.text, columns.title):
        if name is not None and name not in names:
            raise InputError(
                f"{path} has no column {name!r}", hint=f"its columns: {', '.join(names)}"
            )


def _refuse_packed(path: Path) -> None:
    if packed := packing(path):
        raise InputError(
            f"{path} is packed with {packed}", hint="unpack it: Parquet and Arrow pack themselves"
        )


def _rows_of(
    path: Path, read: Callable[[Path], Iterator[pa.RecordBatch]], columns: Columns
) -> Iterator[tuple[int, Record]]:
    _refuse_packed(path)
    number = 0
    for batch in read(path):
        if number == 0:
            _check_named(path, batch.schema.names, columns)
        with reading(path):
            records = batch.to_pylist()
        for record in records:
            number += 1
            yield number, record


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
    return record | renamed(fields, record)


def renamed(fields: Mapping[str, str], taken: Iterable[str]) -> dict[str, str]:
    """Fields under names that are not taken.

    >>> renamed({"text": "a", "year": "1958"}, ["id", "text"])
    {'field_text': 'a', 'year': '1958'}
    """
    taken = {*taken}
    names: dict[str, str] = {}
    for name in fields:
        free = name
        while free in taken or (free != name and free in fields):
            free = f"field_{free}"
        names[name] = free
    return {names[name]: value for name, value in fields.items()}


def write_documents(
    documents: Iterable[Document], path: Path, format: str, notes: LossNotes, force: bool = False
) -> None:
    """Write documents as `jsonl csv tsv parquet`; CSV, TSV and Parquet go through them twice."""

    def records(notes: LossNotes) -> Iterator[Record]:
        return (document_record(document, notes) for document in documents)

    _write(records, DOCUMENT_NAMES, path, format, notes, force)


def write_queries(
    queries: Iterable[Query], path: Path, format: str, notes: LossNotes, force: bool = False
) -> None:
    """Write queries as `jsonl csv tsv parquet`."""

    def records(notes: LossNotes) -> Iterator[Record]:
        return (query_record(query, notes) for query in queries)

    _write(records, QUERY_NAMES, path, format, notes, force)


def _write(
    records: Callable[[LossNotes], Iterator[Record]],
    first: tuple[str, ...],
    path: Path,
    format: str,
    notes: LossNotes,
    force: bool,
) -> None:
    if format == "jsonl":
        write_jsonl(records(notes), path, force)
        return

    def names() -> list[str]:
        return [*dict.fromkeys([*first, *(name for row in records(LossNotes()) for name in row)])]

    if format == "parquet":
        _write_parquet(records(notes), names, path, force)
    else:
        _write_csv(records(notes), names, path, DELIMITERS[format], force)


def write_jsonl(records: Iterable[Record], path: Path, force: bool = False) -> None:
    """One JSON object a line."""
    with writing(path, force) as file:
        for record in records:
            values = {
                name: orjson.Fragment(value.encode()) if isinstance(value, JsonText) else value
                for name, value in record.items()
            }
            file.write(orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE))


def _write_csv(
    records: Iterable[Record],
    name_columns: Callable[[], list[str]],
    path: Path,
    delimiter: str,
    force: bool,
) -> None:
    special = re.compile(f'["\r\n{delimiter}]')

    def quoted(cell: str) -> str:
        if special.search(cell) is None:
            return cell
        doubled = cell.replace('"', '""')
        return f'"{doubled}"'

    def row(cells: Iterable[str]) -> bytes:
        return (delimiter.join(map(quoted, cells)) + "\n").encode()

    with writing(path, force) as file:
        names = name_columns()
        file.write(row(names))
        for record in records:
            file.write(row(record.get(name, "") for name in names))


def _write_parquet(
    records: Iterator[Record], name_columns: Callable[[], list[str]], path: Path, force: bool
) -> None:
    with durable.new_file(path, force=force) as part:
        names = name_columns()
        schema = pa.schema([pa.field(name, pa.string()) for name in names])
        with ParquetWriter(part, schema) as writer:
            while rows := [*islice(records, ROWS)]:
                cells = [pa.array([row.get(name) for row in rows], pa.string()) for name in names]
                writer.write(pa.record_batch(cells, schema=schema))
