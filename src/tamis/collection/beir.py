"""BEIR's folder: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, each packed or not.

Judgements with their queries, and no documents, are a folder of the same layout without a corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tamis import durable
from tamis.collection._records import Columns, documents_of, queries_of
from tamis.collection.base import Collection, Faults, Streamed, no_queries
from tamis.collection.checks import Checks, checked_queries
from tamis.collection.formats import Format
from tamis.collection.jsonl import read_jsonl, write_jsonl
from tamis.collection.judgements import QRELS_FOLDER, read_qrels, split_files, write_qrels
from tamis.collection.layout import packed_as, refuse_odd_splits, the_file
from tamis.collection.loss_notes import LossNotes
from tamis.collection.samples import FolderSample
from tamis.collection.tables import document_record, query_record
from tamis.errors import InputError
from tamis.types import Document, Qrels, Queries, Query

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
BEIR_COLUMNS = Columns("_id", "text", "title")


def _has_corpus(folder: FolderSample) -> bool:
    return bool(packed_as(folder.path, CORPUS))


def _has_judged_queries(folder: FolderSample) -> bool:
    has_queries = bool(packed_as(folder.path, QUERIES))
    return has_queries and bool(split_files(folder.path)) and not _has_corpus(folder)


def open_judged(folder: Path, faults: Faults) -> Collection:
    """A folder of queries with judgements as a collection; its documents are elsewhere."""

    def documents() -> Iterator[Document]:
        raise InputError(
            f"{folder} has queries and judgements but no documents",
            hint=f"name the collection of the documents, and add --qrels {folder}",
        )

    return Collection(
        folder.resolve().name,
        "judged",
        Streamed(documents),
        lambda: _queries(folder, BEIR_COLUMNS, faults),
        lambda: _qrels(folder, faults),
        faults,
    )


def write_beir_queries(
    queries: Iterable[Query], path: Path, notes: LossNotes, force: bool = False
) -> None:
    """Write queries as BEIR names their columns."""
    records = (query_record(query, notes, "_id") for query in queries)
    write_jsonl(records, path, force)


def write_judged(
    queries: Iterable[Query], qrels: Qrels, folder: Path, split: str, force: bool = False
) -> None:
    """Write judgements with their queries."""
    with durable.new_folder(folder, force=force) as unfinished:
        (unfinished / QRELS_FOLDER).mkdir()
        write_beir_queries(queries, unfinished / QUERIES, LossNotes())
        write_qrels(qrels, unfinished / QRELS_FOLDER / f"{split}.tsv", format="beir")


def open_beir(folder: Path, faults: Faults, columns: Columns | None = None) -> Collection:
    """A BEIR folder as a collection; queries and judgements may be missing.

    `columns` stand in for `_id`, `text` and `title`, the names BEIR has for them.
    """
    columns = columns or Columns()
    names = Columns(columns.id or "_id", columns.text or "text", columns.title or "title")
    corpus = the_file(folder, CORPUS)
    if corpus is None:
        raise InputError(f"{folder} has no {CORPUS}", hint="a BEIR folder has one")
    return Collection(
        folder.resolve().name,
        "beir",
        Streamed(lambda: _documents(corpus, names, faults)),
        lambda: _queries(folder, names, faults),
        lambda: _qrels(folder, faults),
        faults,
    )


def _documents(corpus: Path, names: Columns, faults: Faults) -> Iterator[Document]:
    rows = documents_of(corpus, read_jsonl(corpus, faults), names, faults)
    return Checks(faults).documents(corpus, rows)


def _queries(folder: Path, names: Columns, faults: Faults) -> Queries:
    path = the_file(folder, QUERIES)
    if path is None:
        _refuse_unread(folder, "queries", QUERIES, "--queries")
        return no_queries()
    rows = queries_of(path, read_jsonl(path, faults), names, faults)
    return checked_queries(path, rows, faults)


def _qrels(folder: Path, faults: Faults) -> Mapping[str, Qrels]:
    files = split_files(folder)
    if not files:
        _refuse_unread(folder, "qrels", "qrels/SPLIT.tsv", "--qrels")
    return {split: read_qrels(path, faults) for split, path in files.items()}


def _refuse_unread(folder: Path, what: str, name: str, option: str) -> None:
    """Refuse to pass over a file that is called otherwise than BEIR calls it."""
    unread = sorted(path for path in folder.glob(f"{what}.*") if path.is_file())
    if unread:
        raise InputError(
            f"{unread[0]} would not be read: a BEIR folder has {name}",
            hint=f"give it with {option} where there is that option, or rename it",
        )


def write_beir(collection: Collection, folder: Path, notes: LossNotes, force: bool = False) -> None:
    """Write a BEIR folder; documents are streamed."""
    refuse_odd_splits(collection.qrels)
    with durable.new_folder(folder, force=force) as unfinished:
        documents = (document_record(d, notes, "_id") for d in collection.documents)
        write_jsonl(documents, unfinished / CORPUS)
        if len(collection.queries):
            write_beir_queries(collection.queries, unfinished / QUERIES, notes)
        if collection.qrels:
            (unfinished / QRELS_FOLDER).mkdir()
        for split, qrels in collection.qrels.items():
            write_qrels(qrels, unfinished / QRELS_FOLDER / f"{split}.tsv", format="beir")


def _with_columns(columns: Columns) -> Format:
    return replace(BEIR, open_collection=partial(open_beir, columns=columns))


BEIR = Format(
    name="beir",
    description="folder with corpus.jsonl (BEIR), queries.jsonl and qrels/SPLIT.tsv",
    holds=("collection",),
    detect_folder=_has_corpus,
    open_collection=open_beir,
    with_columns=_with_columns,
    write_collection=write_beir,
)
JUDGED = Format(
    name="judged",
    description="folder with queries.jsonl and qrels/SPLIT.tsv",
    holds=("queries", "qrels"),
    detect_folder=_has_judged_queries,
    open_collection=open_judged,
)
