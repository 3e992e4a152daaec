"""Judgements in files: TREC qrels, BEIR's table, and Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tamis.collection._columns import QRELS, Rows, read_rows
from tamis.collection.arrow_files import check_columns, read_parquet, reading, write_parquet
from tamis.collection.base import Faults
from tamis.collection.lines import numbered_lines, open_bytes, writing
from tamis.collection.notes import refuse_breaks
from tamis.collection.runs import refuse_white_space
from tamis.durable import new_file
from tamis.errors import InputError, LineError
from tamis.types import Ids, Qrels

BEIR_HEADER = "query-id\tcorpus-id\tscore"
KIND = {b"tamis": b"qrels"}
MOST = np.iinfo(np.int32).max
"""The largest grade there can be."""


def read_qrels(path: Path | str, faults: Faults | None = None) -> Qrels:
    r"""Judgements from a file: TREC's four columns, BEIR's three with a header, or Parquet.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "qrels"
    ...     _ = file.write_text("q1 0 d1 1\nq1 0 d2 0\n")
    ...     read_qrels(file)["q1"]
    {'d1': 1, 'd2': 0}
    """
    path = Path(path)
    faults = faults or Faults()
    with open_bytes(path) as stream:
        start = stream.read(1 << 12)
    if start[:4] == b"PAR1":
        return _read_parquet(path)
    first = start.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    cells = first.rstrip("\r").split("\t")
    if len(cells) == 3:
        return _read_beir(path, faults, header=not _is_number(cells[2]))
    return _read_trec(path, faults)


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
    return _checked(path, read_rows(path, QRELS, faults), faults)


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
