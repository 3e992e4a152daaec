"""Judgements in files: TREC qrels, BEIR's table, and Parquet."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from tamis.collection import _columns
from tamis.collection._columns import Rows, read_rows
from tamis.collection.arrow_files import check_columns, read_parquet, reading, write_parquet
from tamis.collection.base import Faults
from tamis.collection.detection import find_reader
from tamis.collection.formats import Format, find_writer, target_format
from tamis.collection.layout import the_file
from tamis.collection.lines import BOM, numbered_lines, open_bytes, packing, writing
from tamis.collection.loss_notes import refuse_breaks, refuse_white_space
from tamis.collection.samples import FileHead, is_integer, is_number, mostly
from tamis.durable import new_file
from tamis.errors import InputError, LineError, check_path
from tamis.types import Ids, Qrels

_log = logging.getLogger(__name__)
QRELS_FOLDER = "qrels"
TREC_COLUMNS, BEIR_COLUMNS = 4, 3
_MAX_LINE_BYTES = 1 << 16
BEIR_HEADER = "query-id\tcorpus-id\tscore"
PARQUET_KIND = {b"tamis": b"qrels"}
MAX_GRADE = np.iinfo(np.int32).max


def read_qrels(path: Path | str, faults: Faults | None = None) -> Qrels:
    r"""Judgements from a file: TREC's four columns, BEIR's three with a header, or Parquet; or
    those of a folder in BEIR's layout that has one split.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "qrels"
    ...     _ = file.write_text("q1 0 d1 1\nq1 0 d2 0\n")
    ...     read_qrels(file)["q1"]
    {'d1': 1, 'd2': 0}
    """
    check_path(path, "a file of judgements")
    path = Path(path)
    if path.is_dir():
        path = the_split(path)[1]
    read = find_reader(path, lambda format: format.read_qrels, read_text_qrels)
    return read(path, faults or Faults())


def read_text_qrels(path: Path, faults: Faults) -> Qrels:
    """Judgements of TREC's four columns, or of BEIR's three, with or without a header."""
    with open_bytes(path) as stream:
        first = stream.read(1 << 12).removeprefix(BOM).partition(b"\n")[0]
    cells = first.decode("utf-8", "replace").rstrip("\r").split("\t")
    columns = BEIR_COLUMNS if len(cells) == BEIR_COLUMNS else TREC_COLUMNS
    faults = _without_torn_line(path, faults, columns)
    if columns == BEIR_COLUMNS:
        return _read_beir(path, faults, header=not is_number(cells[2]))
    return _checked(path, read_rows(path, _columns.QRELS, faults), faults)


class _TornLine(Faults):
    """Faults but for the last line of a file, which ends without a line break: that one was cut
    off while it was written, and is dropped with a warning.
    """

    def __init__(self, faults: Faults, line: int) -> None:
        super().__init__(faults.skip)
        self._faults, self._line = faults, line

    def meet(self, error: LineError) -> None:
        if error.line != self._line:
            self._faults.meet(error)
        else:
            _log.warning("%s; the line was not written to its end and is dropped", error)


def torn_line(path: Path, columns: int) -> bytes:
    """The last line of a file if it was cut off: it has no line break and too few columns."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MAX_LINE_BYTES))
        last = file.read().rpartition(b"\n")[2]
    cells = (
        last.split() if columns == TREC_COLUMNS else [cell for cell in last.split(b"\t") if cell]
    )
    return last if 0 < len(cells) < columns else b""


def _without_torn_line(path: Path, faults: Faults, columns: int) -> Faults:
    """Faults that forgive a last line that was cut off."""
    if packing(path) is not None or not torn_line(path, columns):
        return faults
    with path.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return _TornLine(faults, lines + 1) if lines else faults


def split_files(folder: Path) -> dict[str, Path]:
    """The files of judgements in a folder of BEIR's layout, by split."""
    splits = sorted(
        {path.name.partition(".tsv")[0] for path in (folder / QRELS_FOLDER).glob("*.tsv*")}
    )
    files = {split: the_file(folder / QRELS_FOLDER, f"{split}.tsv") for split in splits}
    return {split: path for split, path in files.items() if path}


def the_split(folder: Path) -> tuple[str, Path]:
    """The one split of a folder in BEIR's layout, and its file."""
    files = split_files(folder)
    if len(files) == 1:
        return next(iter(files.items()))
    if not files:
        raise InputError(
            f"{folder} is a folder without judgements", hint="it needs qrels/SPLIT.tsv"
        )
    raise InputError(
        f"{folder} has the splits {', '.join(files)}",
        hint=f"name a file: {folder / QRELS_FOLDER / next(iter(files))}.tsv",
    )


def split_of(path: Path | str, default: str = "test") -> str:
    """The split of judgements without a name for it: a folder's own, of a file the default."""
    return the_split(Path(path))[0] if Path(path).is_dir() else default


def write_qrels(qrels: Qrels, path: Path | str, *, format: str = "", force: bool = False) -> None:
    """Write `trec`, `beir` or `parquet`; by default, Parquet or TREC by the name's ending."""
    path = Path(path)
    format = format or target_format(path, lambda format: format.write_qrels, QRELS)
    find_writer(format, lambda format: format.write_qrels, "judgements")(qrels, path, force)


def _write_trec(qrels: Qrels, path: Path, force: bool) -> None:
    for ids in (qrels.queries, qrels.docs.select(np.unique(qrels.doc))):
        refuse_white_space(ids, "a TREC qrels file")
    with writing(path, force) as out:
        for query in qrels:
            lines = [f"{query} 0 {doc} {grade}\n" for doc, grade in qrels[query].items()]
            out.write("".join(lines).encode())


def _write_beir(qrels: Qrels, path: Path, force: bool) -> None:
    for ids in (qrels.queries, qrels.docs.select(np.unique(qrels.doc))):
        refuse_breaks(ids)
    with writing(path, force) as out:
        out.write(f"{BEIR_HEADER}\n".encode())
        for query in qrels:
            lines = [f"{query}\t{doc}\t{grade}\n" for doc, grade in qrels[query].items()]
            out.write("".join(lines).encode())


def _read_beir(path: Path, faults: Faults, header: bool) -> Qrels:
    queries, docs, grades, lines = [], [], [], []
    for number, line in numbered_lines(path, faults):
        cells = line.split("\t")
        if (header and number == 1) or not line.strip():
            continue
        if len(cells) != 3 or not cells[0] or not cells[1]:
            faults.meet(
                LineError(
                    path,
                    number,
                    f"{len(cells)} columns, or an empty one, instead of three",
                    hint="needs: query-id, corpus-id and score, with tabs between",
                )
            )
            continue
        if not is_number(cells[2]):
            faults.meet(
                LineError(
                    path,
                    number,
                    f"the score is {cells[2]!r}, not a number",
                    hint="column 3 must hold a whole number",
                )
            )
            continue
        grades.append(float(cells[2]))
        queries.append(cells[0])
        docs.append(cells[1])
        lines.append(number)
    query_ids, query = Ids.numbering(queries)
    doc_ids, doc = Ids.numbering(docs)
    columns = doc, np.array(grades), np.array(lines, np.int32)
    rows = Rows(query_ids, doc_ids, query, np.ones(len(query), np.int64), *columns)
    return _checked(path, rows, faults)


def _checked(path: Path, rows: Rows, faults: Faults) -> Qrels:
    """Judgements of rows; grades that are not whole and pairs judged twice are faults.

    A pair is judged by its first good line, and a query without a good line is not there.
    """
    keep = (rows.value == np.round(rows.value)) & (np.abs(rows.value) <= MAX_GRADE)
    for row in np.flatnonzero(~keep).tolist():
        problem = f"the grade is {rows.value[row]:g}, not a whole number up to {MAX_GRADE:,}"
        faults.meet(LineError(path, int(rows.line[row]), problem, hint="grades are whole numbers"))
    good = np.flatnonzero(keep)
    order = good[np.lexsort((rows.line[good], rows.doc[good], rows.query[good]))]
    twice = (np.diff(rows.query[order]) == 0) & (np.diff(rows.doc[order]) == 0)
    for row in order[1:][twice].tolist():
        query, doc = rows.queries[rows.query[row]], rows.docs[rows.doc[row]]
        faults.meet(
            LineError(
                path,
                int(rows.line[row]),
                f"query {query!r} judges {doc!r} a second time",
                hint="keep one judgement a query and document; --on-error skip, where a verb has "
                "it, keeps the first",
            )
        )
        keep[row] = False
    used, numbers = np.unique(rows.query[keep], return_inverse=True)
    grade = rows.value[keep].astype(np.int32)
    return Qrels.of_rows(
        rows.queries.select(used), rows.docs, numbers.astype(np.int32), rows.doc[keep], grade
    )


def write_parquet_qrels(qrels: Qrels, path: Path, force: bool) -> None:
    """Write a row a judgement, with the columns query, doc and grade."""
    query = np.repeat(np.arange(len(qrels), dtype=np.int32), np.diff(qrels.offsets))
    columns = {
        "query": pa.array(qrels.queries.take(query), pa.large_string()),
        "doc": pa.array(qrels.docs.take(qrels.doc), pa.large_string()),
        "grade": pa.array(qrels.grade),
    }
    with new_file(path, force=force) as unfinished:
        write_parquet(pa.table(columns).replace_schema_metadata(PARQUET_KIND), unfinished)


def read_parquet_qrels(path: Path, faults: Faults) -> Qrels:
    """Judgements of a Parquet file; it has no lines, so what is wrong is always raised."""
    table = read_parquet(path)
    hint = "judgements in Parquet have the columns query, doc and grade"
    check_columns(table, path, hint, ids=["query", "doc"], numbers=["grade"])
    grade = table["grade"].to_numpy()
    if not np.array_equal(grade, np.round(grade)) or (np.abs(grade) > MAX_GRADE).any():
        raise InputError(
            f"{path} has a grade that is no whole number up to {MAX_GRADE:,}", hint=hint
        )
    with reading(path):
        queries, query = Ids.numbering(table["query"].cast(pa.large_string()).to_pylist())
        docs, doc = Ids.numbering(table["doc"].cast(pa.large_string()).to_pylist())
        return Qrels.of_rows(queries, docs, query, doc, grade.astype(np.int32))


def _is_trec(head: FileHead) -> bool:
    return mostly(_is_trec_row(line.split()) for line in head.rows)


def _is_trec_row(row: list[str]) -> bool:
    is_unused = len(row) == TREC_COLUMNS and (row[1] == "Q0" or is_integer(row[1]))
    return is_unused and is_integer(row[3])


def _is_beir(head: FileHead) -> bool:
    return head.first.split("\t")[:BEIR_COLUMNS] == BEIR_HEADER.split("\t")


QRELS = Format(
    name="qrels",
    aliases=("trec",),
    description="TREC qrels, or judgements that tamis wrote as Parquet",
    holds=("qrels",),
    detect=_is_trec,
    read_qrels=read_text_qrels,
    write_qrels=_write_trec,
)
BEIR_QRELS = Format(
    name="beir-qrels",
    aliases=("beir",),
    description="table with the header query-id corpus-id score",
    holds=("qrels",),
    detect=_is_beir,
    read_qrels=read_text_qrels,
    write_qrels=_write_beir,
)
