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
from tamis.collection.layout import the_file
from tamis.collection.lines import numbered_lines, open_bytes, packing, writing
from tamis.collection.loss_notes import refuse_breaks
from tamis.collection.runs import refuse_white_space
from tamis.durable import new_file
from tamis.errors import InputError, LineError
from tamis.types import Ids, Qrels

_log = logging.getLogger(__name__)
QRELS = "qrels"
"""The folder of judgements in BEIR's layout."""
TREC_COLUMNS, BEIR_COLUMNS = 4, 3
_LONGEST_LINE = 1 << 16
BEIR_HEADER = "query-id\tcorpus-id\tscore"
KIND = {b"tamis": b"qrels"}
MOST = np.iinfo(np.int32).max
"""The largest grade there can be."""


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
    path = Path(path)
    if path.is_dir():
        path = the_split(path)[1]
    with open_bytes(path) as stream:
        start = stream.read(1 << 12)
    if start[:4] == b"PAR1":
        return _read_parquet(path)
    first = start.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    cells = first.rstrip("\r").split("\t")
    columns = BEIR_COLUMNS if len(cells) == BEIR_COLUMNS else TREC_COLUMNS
    faults = _without_torn_line(path, faults or Faults(), columns)
    if columns == BEIR_COLUMNS:
        return _read_beir(path, faults, header=not _is_number(cells[2]))
    return _read_trec(path, faults)


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
        file.seek(max(0, size - _LONGEST_LINE))
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
    splits = sorted({path.name.partition(".tsv")[0] for path in (folder / QRELS).glob("*.tsv*")})
    files = {split: the_file(folder / QRELS, f"{split}.tsv") for split in splits}
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
        hint=f"name a file: {folder / QRELS / next(iter(files))}.tsv",
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def write_qrels(qrels: Qrels, path: Path | str, *, format: str = "", force: bool = False) -> None:
    """Write `trec`, `beir` or `parquet`; unless told, Parquet or TREC by the name's ending."""
    path = Path(path)
    format = format or ("parquet" if path.suffix == ".parquet" else "trec")
    if format == "parquet":
        _write_parquet(qrels, path, force)
        return
    if format not in ("trec", "beir"):
        raise InputError(
            f"cannot write judgements as {format!r}", hint="formats: trec, beir, parquet"
        )
    for ids in (qrels.queries, qrels.docs.select(np.unique(qrels.doc))):
        if format == "trec":
            refuse_white_space(ids, "a TREC qrels file")
        else:
            refuse_breaks(ids)
    with writing(path, force) as out:
        if format == "beir":
            out.write(f"{BEIR_HEADER}\n".encode())
        for query in qrels:
            judged = qrels[query].items()
            if format == "beir":
                lines = [f"{query}\t{doc}\t{grade}\n" for doc, grade in judged]
            else:
                lines = [f"{query} 0 {doc} {grade}\n" for doc, grade in judged]
            out.write("".join(lines).encode())


def _read_trec(path: Path, faults: Faults) -> Qrels:
    return _checked(path, read_rows(path, _columns.QRELS, faults), faults)


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
        if not _is_number(cells[2]):
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
    keep = (rows.value == np.round(rows.value)) & (np.abs(rows.value) <= MOST)
    for row in np.flatnonzero(~keep).tolist():
        problem = f"the grade is {rows.value[row]:g}, not a whole number up to {MOST:,}"
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


def _write_parquet(qrels: Qrels, path: Path, force: bool) -> None:
    query = np.repeat(np.arange(len(qrels), dtype=np.int32), np.diff(qrels.offsets))
    columns = {
        "query": pa.array(qrels.queries.take(query), pa.large_string()),
        "doc": pa.array(qrels.docs.take(qrels.doc), pa.large_string()),
        "grade": pa.array(qrels.grade),
    }
    with new_file(path, force=force) as part:
        write_parquet(pa.table(columns).replace_schema_metadata(KIND), part)


def _read_parquet(path: Path) -> Qrels:
    table = read_parquet(path)
    hint = "judgements in Parquet have the columns query, doc and grade"
    check_columns(table, path, hint, ids=["query", "doc"], numbers=["grade"])
    grade = table["grade"].to_numpy()
    if not np.array_equal(grade, np.round(grade)) or (np.abs(grade) > MOST).any():
        raise InputError(f"{path} has a grade that is no whole number up to {MOST:,}", hint=hint)
    with reading(path):
        queries, query = Ids.numbering(table["query"].cast(pa.large_string()).to_pylist())
        docs, doc = Ids.numbering(table["doc"].cast(pa.large_string()).to_pylist())
        return Qrels.of_rows(queries, docs, query, doc, grade.astype(np.int32))
