"""Runs in files: TREC, which others read, and Parquet, which keeps everything."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.collection import _columns
from tamis.collection._columns import Rows, grouped, read_rows
from tamis.collection.arrow_files import (
    PARQUET_MAGIC,
    check_columns,
    read_metadata,
    read_parquet,
    reading,
    write_parquet,
)
from tamis.collection.base import Faults
from tamis.collection.detection import find_reader
from tamis.collection.formats import Format, find_writer, target_format
from tamis.collection.lines import open_bytes, writing
from tamis.collection.loss_notes import LossNotes, refuse_white_space
from tamis.collection.samples import FileHead, is_integer, is_number, mostly
from tamis.durable import new_file
from tamis.errors import InputError, LineError, check_path
from tamis.types import Ids, Queries, Run, Spec
from tamis.types.order import repeated

PARQUET_KIND = {b"tamis": b"run"}
SPEC_KEY = b"tamis.spec"
"""Where the metadata of a Parquet file says how the run was made."""
QUERY_FIELD_PREFIX, EXTRA_PREFIX = "query.", "extra."
"""Before the names of the queries' fields and of the run's further columns in a Parquet file."""
NOT_IN_TREC = "dropped (only .parquet can hold it):"


def read_run(path: Path | str, faults: Faults | None = None) -> Run:
    r"""A run from a TREC or a Parquet file, whichever it is inside.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "run"
    ...     _ = file.write_text("q1 Q0 d1 1 2.5 me\nq1 Q0 d2 2 2.5 me\n")
    ...     read_run(file)["q1"].ids
    ['d2', 'd1']
    """
    check_path(path, "a run")
    path = Path(path)
    read = find_reader(path, lambda format: format.read_run, _read_trec)
    return read(path, faults or Faults())


def read_spec(path: Path | str) -> Spec | None:
    """How a run in a Parquet file was made: what was written beside it, if anything was."""
    with open_bytes(Path(path)) as stream:
        if stream.read(len(PARQUET_MAGIC)) != PARQUET_MAGIC:
            return None
    metadata = read_metadata(Path(path))
    with reading(path):
        spec: Spec | None = json.loads(metadata[SPEC_KEY]) if SPEC_KEY in metadata else None
    return spec


def write_run(
    run: Run,
    path: Path | str,
    *,
    format: str = "",
    tag: str = "tamis",
    force: bool = False,
    spec: Spec | None = None,
) -> list[str]:
    """Write `trec` or `parquet`; sentences on what was left out.

    By default, Parquet where the name ends in `.parquet`, else TREC, packed where the name ends in
    `.gz` or `.zst`. The `spec` of what made the run is kept in Parquet for `read_spec`.
    """
    path, notes = Path(path), LossNotes()
    format = format or target_format(path, lambda format: format.write_run, RUN)
    write = find_writer(format, lambda format: format.write_run, "a run")
    write(run, path, notes, force, tag=tag, spec=spec)
    return notes.sentences()


def _read_trec(path: Path, faults: Faults) -> Run:
    rows = read_rows(path, _columns.RUN, faults)
    order, offsets = rows.by_query()
    with np.errstate(over="ignore"):
        doc, score = rows.doc[order], rows.value.astype(np.float32)[order]
    infinite = np.flatnonzero(np.isinf(score))
    again = repeated(offsets, doc, len(rows.docs))
    bad = []
    if len(infinite) or len(again):
        line = np.arange(len(doc))[order]
        for row in infinite.tolist():
            if np.isfinite(rows.value[line[row]]):
                faults.meet(_too_large(path, rows, int(line[row])))
                bad.append(row)
        for row in again.tolist():
            faults.meet(_listed_again(path, rows, int(line[row])))
            bad.append(row)
    if bad:
        keep = np.ones(len(doc), bool)
        keep[bad] = False
        offsets = np.concatenate([[0], np.cumsum(keep)])[offsets]
        doc, score = doc[keep], score[keep]
    return Run._sorted_from_distinct(Queries(rows.queries), rows.docs, offsets, doc, score)


def _too_large(path: Path, rows: Rows, row: int) -> LineError:
    return LineError(
        path,
        int(rows.line[row]),
        f"the score is {rows.value[row]:g}, more than a run can hold",
        hint="scores are 32-bit numbers, up to 3.4e38",
    )


def _listed_again(path: Path, rows: Rows, row: int) -> LineError:
    query, doc = rows.queries[rows.query[row]], rows.docs[rows.doc[row]]
    return LineError(
        path,
        int(rows.line[row]),
        f"query {query!r} lists document {doc!r} a second time",
        hint="a run lists a document once per query",
    )


def _write_trec(
    run: Run, path: Path, notes: LossNotes, force: bool, *, tag: str, spec: Spec | None
) -> None:
    for ids in (run.queries.ids, run.docs.select(np.unique(run.doc))):
        refuse_white_space(ids, "a TREC run")
    if tag.split() != [tag]:
        raise InputError(f"the tag {tag!r} is not one word", hint="a TREC run's tag is one word")
    with writing(path, force) as out:
        for number, query in enumerate(run.queries.ids):
            ranking = run.ranking(number)
            rows = zip(ranking.ids, ranking.score.astype(str).tolist(), strict=True)
            lines = [f"{query} Q0 {d} {n} {s} {tag}\n" for n, (d, s) in enumerate(rows, 1)]
            out.write("".join(lines).encode())
    if run.extra:
        notes.add(f"{NOT_IN_TREC} {', '.join(run.extra)}", "column")
    if run.queries.texts is not None:
        notes.add(f"{NOT_IN_TREC} the queries' texts", "text")
    notes.add(f"{NOT_IN_TREC} {{}} without results", "query", int((run.sizes() == 0).sum()))
    if spec:
        notes.add(f"{NOT_IN_TREC} how the run was made", "spec")


def write_parquet_run(
    run: Run, path: Path, notes: LossNotes, force: bool, *, tag: str, spec: Spec | None
) -> None:
    """A row a document; a query without results has one row that names no document."""
    sizes = run.sizes()
    padded = np.maximum(sizes, 1)
    rows = np.full(int(padded.sum()), -1)
    rows[np.repeat(sizes > 0, padded)] = np.arange(len(run.doc))
    absent = rows < 0
    query = np.repeat(np.arange(len(run), dtype=np.int32), padded)
    columns = {"query": _dictionary(query, list(run.queries.ids))}
    if run.queries.texts is not None:
        columns["text"] = _dictionary(query, list(run.queries.texts))
    for name, values in run.queries.fields.items():
        columns[QUERY_FIELD_PREFIX + name] = _dictionary(query, list(values))
    used, doc = np.unique(run.doc, return_inverse=True)
    doc = np.append(doc, 0).astype(np.int32)[rows]
    columns["doc"] = _dictionary(doc, run.docs.take(used), absent)
    columns["score"] = pa.array(np.append(run.score, np.float32(0))[rows], mask=absent)
    for name, column in run.extra.items():
        values = pa.array(column)
        columns[EXTRA_PREFIX + name] = values.take(pa.array(rows, mask=absent))
    spec_metadata = (
        {} if spec is None else {SPEC_KEY: json.dumps(spec, ensure_ascii=False).encode()}
    )
    table = pa.table(columns).replace_schema_metadata({**PARQUET_KIND, **spec_metadata})
    with new_file(path, force=force) as unfinished:
        write_parquet(table, unfinished)


def _dictionary(
    numbers: NDArray[np.int32], values: list[str], mask: NDArray[np.bool_] | None = None
) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers, mask=mask), pa.array(values, pa.large_string())
    )


def read_parquet_run(path: Path, faults: Faults) -> Run:
    """A run of a Parquet file; it has no lines, so what is wrong is always raised."""
    table = read_parquet(path)
    hint = "a run in Parquet has the columns query, doc and score"
    optional = [n for n in table.column_names if n == "text" or n.startswith(QUERY_FIELD_PREFIX)]
    check_columns(
        table,
        path,
        hint,
        ids=["query", "doc"],
        texts=optional,
        numbers=["score"],
        nullable=["doc", "score", *optional],
    )
    with reading(path):
        return _run_of(table)


def _run_of(table: pa.Table) -> Run:
    names, query = _numbered(table, "query")
    ids, number = Ids.numbering(names)
    order, padded = grouped(number[query], len(ids))
    table = table.take(pa.array(order))
    present = table["doc"].is_valid().to_numpy()
    offsets = np.concatenate([[0], np.cumsum(present)])[padded]
    firsts = pa.array(padded[:-1])
    texts = tuple(_strings(table, "text", firsts)) if "text" in table.column_names else None
    fields = {
        name.removeprefix(QUERY_FIELD_PREFIX): tuple(_strings(table, name, firsts))
        for name in table.column_names
        if name.startswith(QUERY_FIELD_PREFIX)
    }
    table = table.filter(pa.array(present))
    doc_names, doc = _numbered(table, "doc")
    docs, doc_number = Ids.numbering(doc_names)
    score = table["score"].to_numpy().astype(np.float32)
    extra = {
        name.removeprefix(EXTRA_PREFIX): _plain(table[name])
        for name in table.column_names
        if name.startswith(EXTRA_PREFIX)
    }
    return Run(Queries(ids, texts, fields), docs, offsets, doc_number[doc], score, extra)


def _plain(column: pa.ChunkedArray) -> NDArray[np.generic]:
    """A column as numpy has it; strings as numpy's own string type, not as objects."""
    if pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
        return np.array(column.to_pylist(), dtype=np.str_)
    return np.asarray(column.to_numpy())


def _numbered(table: pa.Table, name: str) -> tuple[list[str], NDArray[np.int32]]:
    """The distinct strings of a column, and each row's number among them."""
    column = table[name].cast(pa.large_string()).combine_chunks().dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    numbers = column.indices.to_numpy().astype(np.int32)
    return column.dictionary.to_pylist(), numbers


def _strings(table: pa.Table, name: str, rows: pa.Array) -> list[str]:
    return [value or "" for value in table[name].take(rows).to_pylist()]


def _is_trec(head: FileHead) -> bool:
    return mostly(_is_trec_row(line.split()) for line in head.rows)


def _is_trec_row(row: list[str]) -> bool:
    return len(row) == 6 and row[1] == "Q0" and is_integer(row[3]) and is_number(row[4])


RUN = Format(
    name="run",
    aliases=("trec",),
    description="TREC run, or a run that tamis wrote as Parquet",
    holds=("run",),
    detect=_is_trec,
    read_run=_read_trec,
    write_run=_write_trec,
)
