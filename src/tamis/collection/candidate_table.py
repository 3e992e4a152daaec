"""Candidates with their texts in one table, `qid pid query passage relevancy`: a collection, and a
run of the candidates of each query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.collection._records import holds_records
from tamis.collection.arrow_files import PARQUET_MAGIC, read_column_names
from tamis.collection.base import Collection, Faults, Streamed
from tamis.collection.candidate_rows import (
    COLUMNS,
    INDEX_COLUMNS,
    QUERY_COLUMNS,
    good_batches,
    judged_again,
    number_ids,
    reranking_to_parquet,
)
from tamis.collection.candidate_statistics import candidate_facts
from tamis.collection.checks import SeenIds
from tamis.collection.formats import Format
from tamis.collection.samples import FileHead, is_number, mostly
from tamis.errors import InputError
from tamis.types import Document, Ids, Qrels, Queries, Query, Run
from tamis.types._string_numbers import Interner

SPLIT = "all"
QUERY_IDS = {"qid", "query_id", "query-id"}
PASSAGE_IDS = {"pid", "docid", "doc_id", "passage_id"}


def open_reranking(path: Path, faults: Faults) -> CandidateTable:
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
    return CandidateTable(
        path.stem,
        RERANKING.name,
        Streamed(table.documents),
        lambda: table.judged[0],
        lambda: {SPLIT: table.judged[1]},
        faults,
    )


class CandidateTable(Collection):
    """A table of candidates as a collection."""

    def facts(self) -> Mapping[str, Any]:
        """Its columns, and how its candidates are spread over relevancies and queries."""
        return candidate_facts(self.qrels[SPLIT])

    def candidates(self) -> Run:
        """The candidates of each query, with the texts of the queries; see `candidate_run`."""
        return candidate_run(self.queries, self.qrels[SPLIT])


def candidate_run(queries: Queries, qrels: Qrels) -> Run:
    """Every judged document as a candidate of its query, all with the score 0.

    The order of a table says nothing, or tells what is relevant; so all are tied, and stand in the
    order of their ids.

    >>> qrels = Qrels.from_dict({"q": {"a": 1, "b": 0}})
    >>> list(candidate_run(Queries.of([Query("q", "drum")]), qrels)["q"])
    [('b', 0.0), ('a', 0.0)]
    """
    texts = queries.select(qrels.queries.positions_in(queries.ids))
    score = np.zeros(len(qrels.doc), np.float32)
    return Run._sorted_from_distinct(texts, qrels.docs, qrels.offsets, qrels.doc, score)


def read_candidates(path: Path, faults: Faults) -> Run:
    """The candidates of a table as a run, in one pass."""
    table = _Table(path, faults)
    return candidate_run(*table.judged)


def read_relevancies(path: Path, faults: Faults) -> Qrels:
    """The relevancies of a table as judgements."""
    return _Table(path, faults).judged[1]


class _Table:
    """What is read of one table, each part when it is asked for."""

    def __init__(self, path: Path, faults: Faults) -> None:
        self.path, self.faults = path, faults

    def documents(self) -> Iterator[Document]:
        """Each passage once, where it first stands."""
        ids = SeenIds()
        for batch in good_batches(self.path, self.faults):
            for row in batch:
                if ids.is_new(row.pid):
                    document = Document(row.pid, row.passage)
                    self.faults.count_if_empty(document)
                    yield document

    @cached_property
    def judged(self) -> tuple[Queries, Qrels]:
        """Queries and judgements, in one pass."""
        texts: dict[str, str] = {}
        queries, passages = Interner(), Interner()
        columns = [np.empty((4, 0), np.int32)]
        for batch in good_batches(self.path, self.faults):
            texts |= {row.qid: row.query for row in batch}
            query = number_ids(queries, [row.qid for row in batch])
            passage = number_ids(passages, [row.pid for row in batch])
            numbers = np.array([(row.relevancy, row.line) for row in batch], np.int32).reshape(
                -1, 2
            )
            columns.append(np.stack([query, passage, *numbers.T]))
        query_ids, query_number = Ids.numbering_tables([queries.table()])
        doc_ids, doc_number = Ids.numbering_tables([passages.table()])
        query, doc, grade, line = np.concatenate(columns, axis=1)
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
            self.faults.meet(judged_again(self.path, int(line[row]), *pair))
            keep[row] = False
        return keep


def _is_reranking(head: FileHead) -> bool:
    """By its columns; or by its rows, where the first names no columns of another table."""
    if head.raw.startswith(PARQUET_MAGIC):
        columns = {*read_column_names(head.path)}
        return {*COLUMNS} - {*QUERY_COLUMNS} <= columns and not columns.isdisjoint(QUERY_COLUMNS)
    rows = [line.split("\t") for line in head.rows]
    if not rows:
        return False
    names = [name.strip().lower() for name in rows[0]]
    if tuple(names[len(COLUMNS) :]) == INDEX_COLUMNS:
        names = names[: len(COLUMNS)]
    if len(names) == len(COLUMNS) and names[0] in QUERY_IDS and names[1] in PASSAGE_IDS:
        return True
    is_other_table = any(holds_records(head.cells(between), head.columns) for between in "\t,")
    return not is_other_table and mostly(map(_is_row, rows))


def _is_row(row: list[str]) -> bool:
    return len(row) == len(COLUMNS) and row[0] != "" and row[1] != "" and is_number(row[4])


RERANKING = Format(
    name="reranking",
    description="table with the header qid pid query passage relevancy",
    holds=("collection",),
    detect=_is_reranking,
    open_collection=open_reranking,
    read_run=read_candidates,
    read_qrels=read_relevancies,
    conversions={"indexed": reranking_to_parquet},
)
