"""A collection, or queries, written in a format, with notes on what it could not hold."""

from __future__ import annotations

from pathlib import Path

from tamis.collection.base import Collection
from tamis.collection.formats import find_writer
from tamis.collection.loss_notes import LossNotes
from tamis.types import Queries


def write_collection(
    collection: Collection, path: Path | str, format: str, force: bool = False
) -> list[str]:
    """Write a collection; sentences on what was changed or left out, none where nothing was.

    `beir`, `msmarco`, `trectext` and `collection` (or `store`) are folders and hold everything;
    `jsonl csv tsv parquet` are files of documents alone, packed where the name says .gz or .zst.
    What exists is replaced only with `force`. Documents are streamed; CSV, TSV and Parquet go
    through them twice.
    """
    notes = LossNotes()
    write = find_writer(format, lambda format: format.write_collection, "a collection")
    write(collection, Path(path), notes, force)
    return notes.sentences()


def write_queries(
    queries: Queries, path: Path | str, format: str, force: bool = False
) -> list[str]:
    """Write queries as a table, `topics`, `topics-xml` or `querylog`; notes as for a collection."""
    notes = LossNotes()
    find_writer(format, lambda format: format.write_queries, "queries")(
        queries, Path(path), notes, force
    )
    return notes.sentences()
