"""`tamis update`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import reading, say, say_faults
from tamis.cli.dense import (
    Dense,
    DensePassages,
    EmbeddingCacheOptions,
    Memory,
    encode,
    open_encoder,
    parse_size,
    recorded_encoder,
)
from tamis.cli.index_search import compile_kernels, say_index
from tamis.cli.options import ADVANCED_PANEL, DeviceOptions, ReadOptions, with_options
from tamis.cli.sieves import is_sieve, opened_sieve
from tamis.errors import command

if TYPE_CHECKING:
    from tamis.collection.base import Collection
    from tamis.fitting.sieve import Sieve
    from tamis.search.index import Changes, Index

REFIT_SHARE = 0.2
"""From which share of changed documents on a new fit is due."""
MAX_DELETED_SHARE = 0.5
"""Deleting more of a sieve's documents than this must be asked for."""


@with_options
def update(
    folder: Annotated[Path, typer.Argument(metavar="SIEVE|INDEX", help="A sieve or an index.")],
    read: ReadOptions,
    cache: EmbeddingCacheOptions,
    device: DeviceOptions,
    collection: Annotated[
        str | None,
        typer.Argument(
            metavar="COLLECTION",
            help="The documents as they are now: new ones are added, changed ones replaced.",
        ),
    ] = None,
    sync: Annotated[
        bool | None,
        typer.Option(
            "--sync/--no-sync",
            help="Also delete documents that COLLECTION no longer has. Default: for a sieve, "
            "unless that is more than half of them.",
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
    """Bring a sieve or an index up to date: add, replace and delete documents.

    Example: tamis update my.sieve my-docs
    """
    from tamis.search import Index

    changes = (collection, delete, delete_from, merge, dense, drop_dense)
    if not any(changes):
        raise typer.BadParameter("nothing to change: name a collection, or see --help")
    if (passages or encode_again) and not dense:
        raise typer.BadParameter("--passages and --encode-again are for --dense")
    ids = [*(delete or []), *_read_ids(delete_from)]
    documents = None if collection is None else read.open(collection)
    if is_sieve(folder):
        if dense or drop_dense:
            raise typer.BadParameter("a sieve has its own model: --dense is for an index")
        _update_sieve(opened_sieve(folder, run=device), documents, sync, ids, merge, cache)
        return
    max_bytes = parse_size(memory)
    encoder = open_encoder(dense, passages, device) if dense else None
    index = Index.open(folder)
    if drop_dense:
        index.drop_embeddings()
    if sync and documents is not None:
        recorded = (
            recorded_encoder(index, None, None, device) if index.snapshot.embeddings else None
        )
        keep = documents.faults.unread
        say_changes(
            index.update(
                documents.documents, delete=ids, keep=keep, encoder=recorded, memory=max_bytes
            )
        )
    else:
        _delete(index, ids)
        if documents is not None:
            index.add(documents.documents, max_bytes)
    if encoder:
        encode(index, *encoder, passages, cache, encode_again)
    if merge:
        index.merge(max_bytes)
    compile_kernels(index)
    if documents is not None:
        say_faults(documents.faults)
    say_index(index)


def _delete(index: Index, ids: list[str]) -> None:
    if not ids:
        return
    num_deleted = index.delete(ids)
    unknown = len(set(ids)) - num_deleted
    more = f"; warning: {_in_words(unknown)} not in the index" if unknown else ""
    say(f"deleted {num_deleted:,} of {len(set(ids)):,} documents{more}")


def _in_words(ids: int) -> str:
    return "1 id is" if ids == 1 else f"{ids:,} ids are"


def _update_sieve(
    sieve: Sieve,
    documents: Collection | None,
    sync: bool | None,
    ids: list[str],
    merge: bool,
    cache: EmbeddingCacheOptions,
) -> None:
    """Bring a sieve up to date, and say when a new fit is due."""
    unknown = [name for name in ids if name not in sieve.index]
    if unknown:
        say(f"warning: {_in_words(len(unknown))} not in the sieve, such as {unknown[0]}")
    changes = sieve.update(
        None if documents is None else documents.documents,
        delete_missing=sync is not False,
        delete=ids,
        keep=frozenset() if documents is None else documents.faults.unread,
        max_deleted=1.0 if sync else MAX_DELETED_SHARE,
        embedding_cache=cache.embedding_cache,
        embedding_cache_size=cache.max_bytes,
    )
    if merge:
        sieve.index.merge()
    if documents is not None:
        say_faults(documents.faults)
    say_changes(changes)
    say_index(sieve.index)
    share = sieve.changed_share
    if share >= REFIT_SHARE:
        again = command("fit", sieve.path, "-o", sieve.path, "--force")
        say(
            f"note: {share:.0%} of the documents have changed since the fit, which selected and "
            f"tested the ranking on the old ones: fit again, with your queries and judgements: "
            f"{again}"
        )


def say_changes(changes: Changes) -> None:
    """Say what an update did."""
    say(
        f"added {changes.added:,}, replaced {changes.replaced:,}, deleted {changes.deleted:,}, "
        f"unchanged {changes.unchanged:,}"
    )


def _read_ids(file: str | None) -> list[str]:
    if file is None:
        return []
    with reading(file) as path:
        return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
