"""BEIR's folder: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, each packed or not.

Judgements with their queries, and no documents, are a folder of the same layout without a corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tamis import durable
from tamis.collection import tables
from tamis.collection._records import Columns, documents_of, queries_of
from tamis.collection.base import Collection, Faults, Streamed, no_queries
from tamis.collection.checks import Checks, checked_queries
from tamis.collection.judgements import QRELS, read_qrels, split_files, write_qrels
from tamis.collection.layout import packed_as, the_file
from tamis.collection.loss_notes import LossNotes, refuse_breaks
from tamis.errors import InputError
from tamis.types import Document, Qrels, Queries, Query

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"


BEIR_COLUMNS = Columns("_id", "text", "title")


def is_beir(folder: Path) -> bool:
    """Whether a folder has the corpus that BEIR folders have."""
    return bool(packed_as(folder, CORPUS))


def is_judged(folder: Path) -> bool:
    """Whether a folder has queries with judgements, as BEIR has them, and no corpus."""
    there = bool(packed_as(folder, QUERIES)) and bool(split_files(folder))
    return there and not is_beir(folder)


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
    records = (tables.query_record(query, notes, "_id") for query in queries)
    tables.write_jsonl(records, path, force)


def write_judged(
    queries: Iterable[Query], qrels: Qrels, folder: Path, split: str, force: bool = False
) -> None:
    """Write judgements with their queries."""
    with durable.new_folder(folder, force=force) as part:
        (part / QRELS).mkdir()
        write_beir_queries(queries, part / QUERIES, LossNotes())
        write_qrels(qrels, part / QRELS / f"{split}.tsv", format="beir")


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
    rows = documents_of(corpus, tables.read_jsonl(corpus, faults), names, faults)
    return Checks(faults).documents(corpus, rows)


def _queries(folder: Path, names: Columns, faults: Faults) -> Queries:
    path = the_file(folder, QUERIES)
    if path is None:
        _refuse_unread(folder, "queries", QUERIES, "--queries")
        return no_queries()
    rows = queries_of(path, tables.read_jsonl(path, faults), names, faults)
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
    with durable.new_folder(folder, force=force) as part:
        documents = (tables.document_record(d, notes, "_id") for d in collection.documents)
        tables.write_jsonl(documents, part / CORPUS)
        if len(collection.queries):
            write_beir_queries(collection.queries, part / QUERIES, notes)
        if collection.qrels:
            (part / QRELS).mkdir()
        for split, qrels in collection.qrels.items():
            refuse_breaks(qrels.queries)
            refuse_breaks(qrels.docs)
            write_qrels(qrels, part / QRELS / f"{split}.tsv", format="beir")
