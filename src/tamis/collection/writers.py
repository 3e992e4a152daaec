"""A collection, or queries, written in a format, with notes on what it could not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tamis.collection import tables
from tamis.collection.base import Collection
from tamis.collection.beir import write_beir
from tamis.collection.formats import writable_formats
from tamis.collection.loss_notes import LossNotes
from tamis.collection.msmarco import write_msmarco
from tamis.collection.querylog import write_querylog
from tamis.collection.trec_folder import write_trec
from tamis.collection.trec_topics import write_topics, write_topics_xml
from tamis.errors import InputError
from tamis.types import Queries

TABLES = ("jsonl", "csv", "tsv", "parquet")
FOLDERS: Mapping[str, Callable[[Collection, Path, LossNotes, bool], None]] = {
    "beir": write_beir,
    "msmarco": write_msmarco,
    "trectext": write_trec,
}
QUERY_WRITERS: Mapping[str, Callable[[Queries, Path, LossNotes, bool], None]] = {
    "topics": write_topics,
    "topics-xml": write_topics_xml,
    "querylog": write_querylog,
}
"""The formats of queries alone, beside tables."""


def write_collection(
    collection: Collection, path: Path | str, format: str, force: bool = False
) -> list[str]:
    """Write a collection; sentences on what was changed or left out, none where nothing was.

    `beir`, `msmarco`, `trectext` and `collection` (or `store`) are folders and hold everything;
    `jsonl csv tsv parquet` are files of documents alone, packed where the name says .gz or .zst.
    What exists is replaced only with `force`. Documents are streamed.
    """
    path, notes = Path(path), LossNotes()
    if format in ("collection", "store"):
        from tamis.collection.store import write_store

        return write_store(collection, path, force)
    if format in FOLDERS:
        _refuse_odd_splits(collection)
        FOLDERS[format](collection, path, notes, force)
    elif format in TABLES:
        tables.write_documents(collection.documents, path, format, notes, force)
        _note_left_out(collection, notes)
    else:
        known = ", ".join(writable_formats())
        raise InputError(f"cannot write a collection as {format!r}", hint=f"formats: {known}")
    return notes.sentences()


def _refuse_odd_splits(collection: Collection) -> None:
    for split in collection.qrels:
        if "/" in split or split in ("", ".", ".."):
            raise InputError(f"the split {split!r} cannot name a file", hint="rename it")


def _note_left_out(collection: Collection, notes: LossNotes) -> None:
    left_out = "left out, for the file holds documents alone: {}"
    notes.add(left_out, "query", len(collection.queries))
    judgements = sum(len(qrels.doc) for qrels in collection.qrels.values())
    notes.add(left_out, "judgement", judgements)


def write_queries(
    queries: Queries, path: Path | str, format: str, force: bool = False
) -> list[str]:
    """Write queries as a table, `topics`, `topics-xml` or `querylog`; notes as for a collection."""
    path, notes = Path(path), LossNotes()
    if format in TABLES:
        tables.write_queries(queries, path, format, notes, force)
    elif format in QUERY_WRITERS:
        QUERY_WRITERS[format](queries, path, notes, force)
    else:
        known = ", ".join([*TABLES, *QUERY_WRITERS])
        raise InputError(f"cannot write queries as {format!r}", hint=f"formats: {known}")
    return notes.sentences()
