"""CSV and TSV: rows of cells under a header, quoted as RFC 4180 says."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tamis.collection._records import Columns, Record, holds_records
from tamis.collection.base import Faults
from tamis.collection.formats import Format
from tamis.collection.lines import numbered_whole_lines, writing
from tamis.collection.loss_notes import LossNotes
from tamis.collection.samples import FileHead
from tamis.collection.tables import RecordStream, check_named, table_format
from tamis.errors import InputError, LineError

MAX_CELL_CHARACTERS = 1 << 28
"""A longer cell is taken for a quote that was never closed."""
DELIMITER_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
SAVE_WITH_COMMAS_OR_TABS = "save it with commas (CSV) or tabs (TSV) between the columns"
FORMAT_NAMES = {",": "csv", "\t": "tsv"}


def read_csv(
    path: Path, delimiter: str, columns: Columns, faults: Faults
) -> Iterator[tuple[int, Record]]:
    """Rows under a header, quoted as RFC 4180 says; an empty cell is null."""
    csv.field_size_limit(max(MAX_CELL_CHARACTERS, csv.field_size_limit()))
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
                hint=f"say --format {FORMAT_NAMES[other]}"
                if other in FORMAT_NAMES
                else SAVE_WITH_COMMAS_OR_TABS,
            )


def _check_header(path: Path, header: list[str], columns: Columns) -> None:
    if not header:
        raise InputError(f"{path} is empty", hint="the first line names the columns")
    for name, count in Counter(header).items():
        if count > 1:
            raise LineError(path, 1, f"column {name!r} occurs twice", hint="rename one of them")
    check_named(path, header, columns)


def _write_rows(
    records: RecordStream, path: Path, notes: LossNotes, force: bool, delimiter: str
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
        names = records.column_names()
        file.write(row(names))
        for record in records.read(notes):
            file.write(row(record.get(name, "") for name in names))


def _delimited_format(delimiter: str) -> Format:
    def detect(head: FileHead) -> bool:
        return holds_records(head.cells(delimiter), head.columns)

    def read(path: Path, columns: Columns, faults: Faults) -> Iterator[tuple[int, Record]]:
        return read_csv(path, delimiter, columns, faults)

    def write(records: RecordStream, path: Path, notes: LossNotes, force: bool) -> None:
        _write_rows(records, path, notes, force, delimiter)

    description = f"table with {DELIMITER_NAMES[delimiter]} between its columns and a header"
    return table_format(FORMAT_NAMES[delimiter], description, detect, read, write)


CSV, TSV = _delimited_format(","), _delimited_format("\t")
