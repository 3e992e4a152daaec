"""A table of candidates with their texts, `qid pid query passage relevancy`: its rows, and the same
as Parquet sorted by query, by an external merge sort, so that the table need not fit in memory.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from tamis import durable
from tamis.collection.arrow_files import (
    PARQUET_MAGIC,
    ParquetWriter,
    check_columns,
    parquet_batches,
    reading,
    write_parquet,
)
from tamis.collection.base import Faults
from tamis.collection.lines import numbered_lines, open_bytes
from tamis.collection.samples import is_number
from tamis.errors import InputError, LineError
from tamis.types._string_numbers import Interner
from tamis.types._strings import pack
from tamis.types.qrels import GRADES

COLUMNS = ("qid", "pid", "query", "passage", "relevancy")
INDEX_COLUMNS = ("q_idx", "p_idx")
"""What a sorted table has beside them: the number of the query, and of the passage within it."""
QUERY_COLUMNS = ("query", "queries")
"""How the column of query texts may be called in Parquet."""
BATCH_ROWS = 4096
CHUNK_CHARACTERS = 1 << 26
"""How many characters are sorted in memory at a time."""
NEEDED_COLUMNS = "needs: qid, pid, query, passage and relevancy, with tabs between"
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


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
    first, width = True, len(COLUMNS)
    for number, line in numbered_lines(path, faults):
        cells = line.split("\t")
        is_header = first and is_header_of_table(cells)
        first = False
        if is_header:
            width = len(cells)
            continue
        row = _row(path, number, cells, width)
        if isinstance(row, Row):
            yield row
        else:
            faults.meet(row)


def is_header_of_table(cells: list[str]) -> bool:
    """Whether the cells of a first line name the columns; the two of a sorted table may follow."""
    indexes = cells[len(COLUMNS) :]
    has_width = len(cells) == len(COLUMNS) or tuple(indexes) == INDEX_COLUMNS
    return has_width and not is_number(cells[len(COLUMNS) - 1])


def _parquet_rows(path: Path) -> Iterator[Row]:
    number = 0
    for batch in parquet_batches(path, BATCH_ROWS):
        table = pa.Table.from_batches([batch])
        query_column = next((n for n in QUERY_COLUMNS if n in table.column_names), "query")
        ids, texts, numbers = ["qid", "pid"], [query_column, "passage"], ["relevancy"]
        check_columns(table, path, NEEDED_COLUMNS, ids=ids, texts=texts, numbers=numbers)
        columns = table.select([*ids, *texts, *numbers])
        for qid, pid, query, passage, relevancy in rows_of(columns, path):
            number += 1
            if not _is_grade(relevancy):
                raise _bad_relevancy(path, number, relevancy)
            yield Row(number, str(qid), str(pid), query, passage, int(relevancy))


def _row(path: Path, line: int, cells: list[str], width: int) -> Row | LineError:
    if len(cells) != width:
        plural = "column" if len(cells) == 1 else "columns"
        problem = f"{len(cells)} {plural} instead of {width}"
        return LineError(path, line, problem, hint=NEEDED_COLUMNS)
    cells = cells[: len(COLUMNS)]
    for name, cell in zip(COLUMNS, cells, strict=True):
        if not cell.strip() and name != "passage":
            return LineError(path, line, f"the {name} is empty", hint=NEEDED_COLUMNS)
    qid, pid, query, passage, relevancy = cells
    if not is_number(relevancy) or not _is_grade(float(relevancy)):
        return _bad_relevancy(path, line, relevancy)
    return Row(line, qid, pid, query, passage, int(float(relevancy)))


def _is_grade(relevancy: float) -> bool:
    return float(relevancy).is_integer() and GRADES.min <= relevancy <= GRADES.max


def _bad_relevancy(path: Path, line: int, relevancy: object) -> LineError:
    return LineError(
        path,
        line,
        f"the relevancy is {relevancy!r}, not a whole number",
        hint="0 is not relevant, 1 is relevant",
    )


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


# Sorting


def reranking_to_parquet(
    table: Path, out: Path, force: bool = False, *, chunk: int = CHUNK_CHARACTERS
) -> list[str]:
    """Write a table of candidates as Parquet sorted by qid, relevancy and pid, all ascending.

    Two columns are added: `q_idx` counts the queries from 0, `p_idx` the passages of each query
    from 0. Ids that are whole numbers throughout are written and sorted as numbers, others by
    their bytes; the note that is returned says which. `chunk` characters are sorted in memory at
    a time.
    """
    with (
        durable.new_file(out, force=force) as unfinished,
        durable.scratch_folder(out) as folder,
    ):
        order = _Order({"qid": pa.int64(), "pid": pa.int64()})
        while True:
            try:
                runs = _write_runs(table, folder, order, chunk)
                break
            except _NotInteger as error:
                order = order.by_bytes(error.column)
        with durable.Progress(f"writing {out.name}", unit="rows") as progress:
            _write_merged(table, runs, unfinished, order, progress)
    return [order.describe()]


class _NotInteger(Exception):
    """An id column that was taken for numbers holds something else."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class _Order:
    """How the two columns of ids are typed, and so compared."""

    def __init__(self, types: dict[str, pa.DataType]) -> None:
        self.types = types
        self.schema = pa.schema(
            {
                **types,
                "query": pa.large_string(),
                "passage": pa.large_string(),
                "relevancy": pa.int32(),
                "line": pa.int64(),
            }
        )

    def by_bytes(self, column: str) -> _Order:
        """The same, with one column compared by bytes."""
        return _Order({**self.types, column: pa.large_string()})

    def column(self, name: str, values: list[str]) -> pa.Array:
        """Ids of one chunk, as numbers where that is the type."""
        if self.types[name] != pa.int64():
            return pa.array(values, self.types[name])
        if not all(map(INTEGER.fullmatch, values)):
            raise _NotInteger(name)
        return pa.array([int(value) for value in values], pa.int64())

    def describe(self) -> str:
        """What was done, for people."""
        kinds = {
            name: "as numbers" if kind == pa.int64() else "by bytes"
            for name, kind in self.types.items()
        }
        return f"sorted by qid {kinds['qid']}, relevancy ascending, pid {kinds['pid']}"


def _write_runs(table: Path, folder: Path, order: _Order, chunk: int) -> list[Path]:
    """Sort the table chunk by chunk, each into a file of its own."""
    runs: list[Path] = []
    with durable.Progress(f"sorting {table.name}", unit="rows") as progress:
        for rows in _chunks(table, chunk):
            columns = [
                order.column("qid", [row.qid for row in rows]),
                order.column("pid", [row.pid for row in rows]),
                [row.query for row in rows],
                [row.passage for row in rows],
                [row.relevancy for row in rows],
                [row.line for row in rows],
            ]
            keys = [(name, "ascending") for name in ("qid", "relevancy", "pid", "line")]
            runs.append(folder / f"{len(runs)}.parquet")
            run = pa.table(columns, schema=order.schema).sort_by(keys)
            write_parquet(run, runs[-1], compression="lz4", rows_in_group=BATCH_ROWS)
            progress.advance(len(rows))
    if not runs:
        raise InputError(f"{table} has no rows", hint=NEEDED_COLUMNS)
    return runs


def _chunks(table: Path, chunk: int) -> Iterator[list[Row]]:
    rows: list[Row] = []
    size = 0
    for batch in good_batches(table, Faults()):
        for row in batch:
            rows.append(row)
            size += len(row.query) + len(row.passage)
            if size >= chunk:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows


_SORT_KEY = itemgetter(0, 4, 1, 5)
"""qid, relevancy, pid, line of a row of a run; strings compare as their bytes do."""


def _write_merged(
    table: Path, runs: list[Path], out: Path, order: _Order, progress: durable.Progress
) -> None:
    schema = order.schema.remove(order.schema.get_field_index("line"))
    schema = schema.append(pa.field("q_idx", pa.int32())).append(pa.field("p_idx", pa.int32()))
    schema = schema.with_metadata({b"tamis": b"reranking"})
    rows = _indexed(table, merge(*map(_run, runs), key=_SORT_KEY))
    with ParquetWriter(out, schema) as writer:
        while batch := list(islice(rows, 16 * BATCH_ROWS)):
            columns = [list(column) for column in zip(*batch, strict=True)]
            writer.write(pa.table(columns, schema=schema))
            progress.advance(len(batch))


def _run(path: Path) -> Iterator[tuple[Any, ...]]:
    for batch in parquet_batches(path, BATCH_ROWS):
        yield from rows_of(batch, path)


def _indexed(table: Path, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows in order with the number of their query, and their own within it, instead of a line."""
    query = -1
    now: object = None
    pids: dict[object, int] = {}
    for qid, pid, text, passage, relevancy, line in rows:
        if qid != now:
            query, now, pids = query + 1, qid, {}
        if pid in pids:
            raise judged_again(table, max(line, pids[pid]), str(qid), str(pid))
        yield qid, pid, text, passage, relevancy, query, len(pids)
        pids[pid] = line
