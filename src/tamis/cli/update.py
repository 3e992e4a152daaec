"""`tamis update`."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.common import reading, say, say_faults
from tamis.cli.dense import Dense, DensePassages, Memory, encode, open_encoder, parse_size
from tamis.cli.index_search import IndexFolder, compile_kernels, say_index
from tamis.cli.options import ADVANCED_PANEL, ReadOptions, with_options


@with_options
def update(
    folder: IndexFolder,
    read: ReadOptions,
    collection: Annotated[
        str | None,
        typer.Argument(
            metavar="COLLECTION",
            help="Documents to add; one with the id of an indexed document replaces it.",
        ),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            "--delete", metavar="ID", help="Delete the document with this id. Repeatable."
        ),
    ] = None,
    delete_from: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Delete the documents whose ids are in FILE, one per line."
        ),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge all segments into one, for faster search.")
    ] = False,
    dense: Dense = None,
    passages: DensePassages = None,
    encode_again: Annotated[
        bool,
        typer.Option(
            "--encode-again",
            help="--dense: also replace the embeddings of another model.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = False,
    drop_dense: Annotated[
        bool,
        typer.Option("--drop-dense", help="Remove all embeddings.", rich_help_panel=ADVANCED_PANEL),
    ] = False,
    memory: Memory = "1GB",
) -> None:
    """Change an index: add, replace or delete documents, encode them, merge segments.

    Example: tamis update my-index new-docs.jsonl --delete old-id
    """
    from tamis.search import Index

    changes = (collection, delete, delete_from, merge, dense, drop_dense)
    if not any(changes):
        raise typer.BadParameter("nothing to change: name a collection to add, or see --help")
    if (passages or encode_again) and not dense:
        raise typer.BadParameter("--passages and --encode-again are for --dense")
    max_bytes = parse_size(memory)
    encoder = open_encoder(dense, passages) if dense else None
    documents = None if collection is None else read.open(collection)
    index = Index.open(folder)
    ids = [*(delete or []), *_read_ids(delete_from)]
    if ids:
        num_deleted = index.delete(ids)
        unknown = len(set(ids)) - num_deleted
        more = f"; warning: {unknown:,} ids are not in the index" if unknown else ""
        say(f"deleted {num_deleted:,} of {len(set(ids)):,} documents{more}")
    if documents is not None:
        index.add(documents.documents, max_bytes)
    if drop_dense:
        index.drop_embeddings()
    if encoder:
        encode(index, *encoder, passages, encode_again)
    if merge:
        index.merge(max_bytes)
    compile_kernels(index)
    if documents is not None:
        say_faults(documents.faults)
    say_index(index)


def _read_ids(file: str | None) -> list[str]:
    if file is None:
        return []
    with reading(file) as path:
        return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
