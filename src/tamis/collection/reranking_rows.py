"""The rows of a table of candidates with their texts: `qid pid query passage relevancy`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from tamis.collection.arrow_files import PARQUET_MAGIC, check_columns, parquet_batches, reading
from tamis.collection.base import Faults
from tamis.collection.lines import numbered_lines, open_bytes
from tamis.collection.samples import is_number
from tamis.errors import LineError
from tamis.types._interning import Interner
from tamis.types._strings import pack

COLUMNS = ("qid", "pid", "query", "passage", "relevancy")
BATCH_ROWS = 4096
NEEDED_COLUMNS = "needs: qid, pid, query, passage and relevancy, with tabs between"


class Row(NamedTuple):
    """One line of the table."""

    line: int
    qid: str
    pid: str
    query: str
    passage: str
    relevancy: int


class _Texts:
    """The ids met so far, each with a hash of its text, which must not change."""

    def __init__(self) -> None:
        self._ids = Interner()
        self._hashes = array("Q")

    def same(self, ids: list[str], texts: list[str]) -> list[bool]:
        """Whether each id comes with the text it always had."""
        same = []
        for number, text in zip(number_ids(self._ids, ids).tolist(), texts, strict=True):
            hashed = xxhash.xxh3_64_intdigest(text.encode())
            if number == len(self._hashes):
                self._hashes.append(hashed)
            same.append(self._hashes[number] == hashed)
        return same


def number_ids(interner: Interner, strings: list[str]) -> NDArray[np.int32]:
    """The numbers of ids, new ones entered."""
    data, offsets = pack(strings)
    return interner.add(data, offsets[:-1], offsets[1:])


def good_batches(path: Path, faults: Faults) -> Iterator[list[Row]]:
    """The rows that are whole and whose ids have one text throughout."""
    queries, passages = _Texts(), _Texts()
    rows = _rows(path, faults)
    while batch := list(islice(rows, BATCH_ROWS)):
        same_query = queries.same([row.qid for row in batch], [row.query for row in batch])
        same_passage = passages.same([row.pid for row in batch], [row.passage for row in batch])
        good = []
        for row, query_is_good, passage_is_good in zip(
            batch, same_query, same_passage, strict=True
        ):
            if not query_is_good:
                faults.meet(_two_texts(path, row.line, "query", row.qid))
            elif not passage_is_good:
                faults.meet(_two_texts(path, row.line, "passage", row.pid))
            else:
                good.append(row)
        yield good


def _two_texts(path: Path, line: int, what: str, id: str) -> LineError:
    return LineError(
        path, line, f"{what} {id!r} had another text before", hint="one id, one text, everywhere"
    )


def _rows(path: Path, faults: Faults) -> Iterator[Row]:
    with open_bytes(path) as stream:
        is_parquet = stream.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    if is_parquet:
        yield from _parquet_rows(path)
        return
    first = True
    for number, line in numbered_lines(path, faults):
        cells = line.split("\t")
        is_header = first and len(cells) == len(COLUMNS) and not is_number(cells[4])
        first = False
        if is_header:
            continue
        row = _row(path, number, cells)
        if isinstance(row, Row):
            yield row
        else:
            faults.meet(row)


def _parquet_rows(path: Path) -> Iterator[Row]:
    number = 0
    for batch in parquet_batches(path, BATCH_ROWS):
        table = pa.Table.from_batches([batch])
        ids, texts, numbers = ["qid", "pid"], ["query", "passage"], ["relevancy"]
        check_columns(table, path, NEEDED_COLUMNS, ids=ids, texts=texts, numbers=numbers)
        for qid, pid, query, passage, relevancy in rows_of(table.select(COLUMNS), path):
            number += 1
            yield Row(number, str(qid), str(pid), query, passage, int(relevancy))


def _row(path: Path, line: int, cells: list[str]) -> Row | LineError:
    if len(cells) != len(COLUMNS):
        plural = "column" if len(cells) == 1 else "columns"
        problem = f"{len(cells)} {plural} instead of {len(COLUMNS)}"
        return LineError(path, line, problem, hint=NEEDED_COLUMNS)
    for name, cell in zip(COLUMNS, cells, strict=True):
        if not cell.strip() and name != "passage":
            return LineError(path, line, f"the {name} is empty", hint=NEEDED_COLUMNS)
    qid, pid, query, passage, relevancy = cells
    if not is_number(relevancy) or not float(relevancy).is_integer():
        return LineError(
            path,
            line,
            f"the relevancy is {relevancy!r}, not a whole number",
            hint="0 is not relevant, 1 is relevant",
        )
    return Row(line, qid, pid, query, passage, int(float(relevancy)))


def rows_of(rows: pa.RecordBatch | pa.Table, path: Path) -> Iterator[tuple[Any, ...]]:
    """The rows of a table one after the other."""
    with reading(path):
        columns = [column.to_pylist() for column in rows.columns]
    yield from zip(*columns, strict=True)


def judged_again(path: Path, line: int, qid: str, pid: str) -> LineError:
    """The error for a line that repeats a query and a passage."""
    return LineError(
        path,
        line,
        f"query {qid!r} has passage {pid!r} a second time",
        hint="keep one line a query and passage",
    )
