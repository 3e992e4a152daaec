"""Candidates with their texts in one table: `qid pid query passage relevancy`, tabs between.

Read as a collection, or turned into Parquet that is sorted by query: an external merge sort, so
that the table need not fit in memory.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from functools import cached_property
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
    ParquetWriter,
    check_columns,
    parquet_batches,
    reading,
    write_parquet,
)
from tamis.collection.base import Collection, Faults, Streamed
from tamis.collection.checks import SeenIds
from tamis.collection.lines import numbered_lines, open_bytes
from tamis.errors import InputError, LineError
from tamis.types import Document, Ids, Qrels, Queries, Query
from tamis.types._interning import Interner
from tamis.types._strings import pack

COLUMNS = ("qid", "pid", "query", "passage", "relevancy")
SPLIT = "all"
ROWS = 4096
CHUNK = 1 << 26
"""How many characters are sorted in memory at a time."""

_NEEDS = "needs: qid, pid, query, passage and relevancy, with tabs between"
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


class Row(NamedTuple):
    """One line of the table."""

    line: int
    qid: str
    pid: str
    query: str
    passage: str
    relevancy: int


# Reading


class _Texts:
    """The ids met so far, each with a hash of its text, which must not change."""

    def __init__(self) -> None:
        self._ids = Interner()
        self._hashes = array("Q")

    def same(self, ids: list[str], texts: list[str]) -> list[bool]:
        """Whether each id comes with the text it always had."""
        found = []
        for number, text in zip(_numbers(self._ids, ids).tolist(), texts, strict=True):
            hashed = xxhash.xxh3_64_intdigest(text.encode())
            if number == len(self._hashes):
                self._hashes.append(hashed)
            found.append(self._hashes[number] == hashed)
        return found


def _numbers(interner: Interner, strings: list[str]) -> NDArray[np.int32]:
    data, offsets = pack(strings)
    return interner.add(data, offsets[:-1], offsets[1:])


def _good_batches(path: Path, faults: Faults) -> Iterator[list[Row]]:
    """The rows that are whole and whose ids have one text throughout."""
    queries, passages = _Texts(), _Texts()
    rows = _rows(path, faults)
    while batch := list(islice(rows, ROWS)):
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
        is_parquet = stream.read(4) == b"PAR1"
    if is_parquet:
        yield from _parquet_rows(path)
        return
    first = True
    for number, line in numbered_lines(path, faults):
        cells = line.split("\t")
        is_header = first and len(cells) == len(COLUMNS) and not _is_number(cells[4])
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
    for batch in parquet_batches(path, ROWS):
        table = pa.Table.from_batches([batch])
        ids, texts, numbers = ["qid", "pid"], ["query", "passage"], ["relevancy"]
        check_columns(table, path, _NEEDS, ids=ids, texts=texts, numbers=numbers)
        for qid, pid, query, passage, relevancy in _columns(table.select(COLUMNS), path):
            number += 1
            yield Row(number, str(qid), str(pid), query, passage, int(relevancy))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _row(path: Path, line: int, cells: list[str]) -> Row | LineError:
    if len(cells) != len(COLUMNS):
        plural = "column" if len(cells) == 1 else "columns"
        problem = f"{len(cells)} {plural} instead of {len(COLUMNS)}"
        return LineError(path, line, problem, hint=_NEEDS)
    for name, cell in zip(COLUMNS, cells, strict=True):
        if not cell.strip() and name != "passage":
            return LineError(path, line, f"the {name} is empty", hint=_NEEDS)
    qid, pid, query, passage, relevancy = cells
    if not _is_number(relevancy) or not float(relevancy).is_integer():
        return LineError(
            path,
            line,
            f"the relevancy is {relevancy!r}, not a whole number",
            hint="0 is not relevant, 1 is relevant",
        )
    return Row(line, qid, pid, query, passage, int(float(relevancy)))


def open_reranking(path: Path, faults: Faults) -> Collection:
    r"""Open a table of candidates: each passage once, the queries, the judgements as split `all`.

    A header may stand first or not: it is one if its last cell is not a number. What
    `reranking_to_parquet` wrote is read as well.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "candidates.tsv"
    ...     _ = file.write_text("1\t7\tsieve\tSieves sort.\t1\n1\t9\tsieve\tDrums.\t0\n")
    ...     collection = open_reranking(file, Faults())
    ...     collection.qrels["all"]["1"]
    {'7': 1, '9': 0}
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}", hint="is the path right?")
    table = _Table(path, faults)
    return Collection(
        path.stem,
        "reranking",
        Streamed(table.documents),
        lambda: table.judged[0],
        lambda: {SPLIT: table.judged[1]},
        faults,
    )


class _Table:
    """What is read of one table, each part when it is asked for."""

    def __init__(self, path: Path, faults: Faults) -> None:
        self.path, self.faults = path, faults

    def documents(self) -> Iterator[Document]:
        """Each passage once, where it first stands."""
        seen = SeenIds()
        for batch in _good_batches(self.path, self.faults):
            for row in batch:
                if seen.is_new(row.pid):
                    document = Document(row.pid, row.passage)
                    self.faults.count_if_empty(document)
                    yield document

    @cached_property
    def judged(self) -> tuple[Queries, Qrels]:
        """Queries and judgements, in one pass."""
        texts: dict[str, str] = {}
        queries, passages = Interner(), Interner()
        parts = [np.empty((4, 0), np.int32)]
        for batch in _good_batches(self.path, self.faults):
            texts |= {row.qid: row.query for row in batch}
            query = _numbers(queries, [row.qid for row in batch])
            passage = _numbers(passages, [row.pid for row in batch])
            rest = np.array([(row.relevancy, row.line) for row in batch], np.int32).reshape(-1, 2)
            parts.append(np.stack([query, passage, *rest.T]))
        query_ids, query_number = Ids.numbering_tables([queries.table()])
        doc_ids, doc_number = Ids.numbering_tables([passages.table()])
        query, doc, grade, line = np.concatenate(parts, axis=1)
        query, doc = query_number[query], doc_number[doc]
        keep = self._judged_once(query_ids, doc_ids, query, doc, line)
        qrels = Qrels.of_rows(query_ids, doc_ids, query[keep], doc[keep], grade[keep])
        return Queries.of(Query(qid, text) for qid, text in texts.items()), qrels

    def _judged_once(
        self,
        queries: Ids,
        docs: Ids,
        query: NDArray[np.int32],
        doc: NDArray[np.int32],
        line: NDArray[np.int32],
    ) -> NDArray[np.bool_]:
        """Which rows are the first of their query and passage; the others are faults."""
        order = np.lexsort((line, doc, query))
        again = (np.diff(query[order]) == 0) & (np.diff(doc[order]) == 0)
        keep = np.ones(len(order), bool)
        for row in np.sort(order[1:][again]).tolist():
            pair = queries[int(query[row])], docs[int(doc[row])]
            self.faults.meet(_judged_again(self.path, int(line[row]), *pair))
            keep[row] = False
        return keep


def _judged_again(path: Path, line: int, qid: str, pid: str) -> LineError:
    return LineError(
        path,
        line,
        f"query {qid!r} has passage {pid!r} a second time",
        hint="keep one line a query and passage",
    )


# Sorting


def reranking_to_parquet(
    table: Path, out: Path, force: bool = False, *, chunk: int = CHUNK
) -> list[str]:
    """Write a table of candidates as Parquet sorted by qid, relevancy and pid, all ascending.

    Two columns are added: `q_idx` counts the queries from 0, `p_idx` the passages of each query
    from 0. Ids that are whole numbers throughout are written and sorted as numbers, others by
    their bytes; the note that is returned says which. `chunk` characters are sorted in memory at
    a time.
    """
    with (
        durable.new_file(out, force=force) as part,
        durable.scratch_folder(out) as folder,
    ):
        order = _Order({"qid": pa.int64(), "pid": pa.int64()})
        while True:
            try:
                runs = _write_runs(table, folder, order, chunk)
                break
            except _NotInteger as found:
                order = order.by_bytes(found.column)
        with durable.Progress(f"writing {out.name}", unit="rows") as progress:
            _write_merged(table, runs, part, order, progress)
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
        if not all(map(_INTEGER.fullmatch, values)):
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
            write_parquet(run, runs[-1], compression="lz4", rows_in_group=ROWS)
            progress.advance(len(rows))
    if not runs:
        raise InputError(f"{table} has no rows", hint=_NEEDS)
    return runs


def _chunks(table: Path, chunk: int) -> Iterator[list[Row]]:
    rows: list[Row] = []
    size = 0
    for batch in _good_batches(table, Faults()):
        for row in batch:
            rows.append(row)
            size += len(row.query) + len(row.passage)
            if size >= chunk:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows


_KEY = itemgetter(0, 4, 1, 5)
"""qid, relevancy, pid, line of a row of a run; strings compare as their bytes do."""


def _write_merged(
    table: Path, runs: list[Path], out: Path, order: _Order, progress: durable.Progress
) -> None:
    schema = order.schema.remove(order.schema.get_field_index("line"))
    schema = schema.append(pa.field("q_idx", pa.int32())).append(pa.field("p_idx", pa.int32()))
    schema = schema.with_metadata({b"tamis": b"reranking"})
    rows = _indexed(table, merge(*map(_run, runs), key=_KEY))
    with ParquetWriter(out, schema) as writer:
        while batch := list(islice(rows, 16 * ROWS)):
            columns = [list(column) for column in zip(*batch, strict=True)]
            writer.write(pa.table(columns, schema=schema))
            progress.advance(len(batch))


def _run(path: Path) -> Iterator[tuple[Any, ...]]:
    for batch in parquet_batches(path, ROWS):
        yield from _columns(batch, path)


def _columns(rows: pa.RecordBatch | pa.Table, path: Path) -> Iterator[tuple[Any, ...]]:
    with reading(path):
        columns = [column.to_pylist() for column in rows.columns]
    yield from zip(*columns, strict=True)


def _indexed(table: Path, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows in order with the number of their query, and their own within it, instead of a line."""
    query = -1
    now: object = None
    pids: dict[object, int] = {}
    for qid, pid, text, passage, relevancy, line in rows:
        if qid != now:
            query, now, pids = query + 1, qid, {}
        if pid in pids:
            raise _judged_again(table, max(line, pids[pid]), str(qid), str(pid))
        yield qid, pid, text, passage, relevancy, query, len(pids)
        pids[pid] = line
