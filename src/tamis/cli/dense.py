"""Embeddings in `tamis index`, `tamis update` and `tamis search`."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tamis.cli.common import say
from tamis.cli.options import ADVANCED_PANEL, DeviceOptions
from tamis.errors import InputError, command

if TYPE_CHECKING:
    from tamis.scorers.bi_encoder import BiEncoder
    from tamis.search import Index
    from tamis.search.cached_encoder import CachedEncoder
    from tamis.search.embeddings import EmbeddingModel
    from tamis.types import Encoder, Queries, Run, Source

Dense = Annotated[
    str | None,
    typer.Option(
        "--dense", metavar="MODEL", help="Also encode the documents with this bi-encoder."
    ),
]
DensePassages = Annotated[
    str | None,
    typer.Option(
        "--passages",
        metavar="SPEC",
        help="--dense: one embedding per passage, such as words:150:75. Default: per document.",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory that building may use, such as 2GB.",
        rich_help_panel=ADVANCED_PANEL,
    ),
]


@dataclass(frozen=True)
class EmbeddingCacheOptions:
    """Where embeddings are kept, so that no text is encoded twice."""

    embedding_cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep embeddings in DIR and reuse those there; several jobs may share it.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None
    embedding_cache_size: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="How large the embedding cache may grow; 0 keeps none.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = "4GB"

    @property
    def max_bytes(self) -> int:
        """How many bytes the embeddings may take."""
        return parse_size(self.embedding_cache_size)

    def open(self, encoder: Encoder) -> CachedEncoder | None:
        """The encoder with its embeddings on disk, if a folder is named for them."""
        from tamis.search.cached_encoder import open_cached_encoder

        if self.embedding_cache is None or not self.max_bytes:
            return None
        return open_cached_encoder(encoder, self.embedding_cache, max_bytes=self.max_bytes)


def parse_size(text: str) -> int:
    """A number of bytes from `2GB`, `500 MB` or plain digits.

    >>> parse_size("2GB"), parse_size("1500000")
    (2000000000, 1500000)
    """
    match = re.fullmatch(r"([0-9.]++)\s*+([kmgt]?)(i?)b?", text.strip().lower())
    try:
        number = float(match[1]) if match else None
    except ValueError:
        number = None
    if match is None or number is None:
        raise typer.BadParameter(f"{text!r} is no amount of memory; write 2GB or 500MB")
    return int(number * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))


def find_model(reference: str) -> tuple[Path, EmbeddingModel]:
    """See `find_encoder`."""
    from tamis.models.encoders import find_encoder

    return find_encoder(reference)


def open_encoder(
    reference: str, passages: str | None, where: DeviceOptions
) -> tuple[BiEncoder, EmbeddingModel]:
    """The bi-encoder to encode with and its identity; also refuses passages that are none."""
    from tamis.text.passages import parse_spec

    if passages is not None:
        parse_spec(passages)
    folder, model = find_model(reference)
    return _open_bi_encoder(folder, where.of(reference)), model


def _open_bi_encoder(folder: Path, run: dict[str, Any], threads: int | None = None) -> BiEncoder:
    """The bi-encoder in a folder, on the back end that it and this machine have; tried out."""
    from tamis.models.folder import export_backend
    from tamis.models.smoke_test import open_and_test
    from tamis.scorers.bi_encoder import BiEncoder

    options = {"threads": threads, "backend": export_backend(folder), **run}
    return open_and_test(lambda: BiEncoder.open(folder, **options), folder)


def encode(
    index: Index,
    encoder: BiEncoder,
    model: EmbeddingModel,
    passages: str | None,
    cache: EmbeddingCacheOptions,
    force: bool,
) -> None:
    """Encode documents without embeddings, and say what was truncated."""
    from tamis.collection.loss_notes import counted
    from tamis.pipeline.passage_scores import token_spans
    from tamis.search.embeddings import for_documents

    cached = cache.open(encoder)
    try:
        with cached or nullcontext(encoder) as documents_encoder:
            tokens = token_spans(encoder)
            index.encode(documents_encoder, model, passages, tokens=tokens, force=force)
    except KeyboardInterrupt:
        again = ["update", index.path, "--dense", model.reference or model.name]
        again += ["--passages", passages] if passages else []
        again += ["--encode-again"] if force and index.snapshot.embeddings else []
        say(f"interrupted: finished embeddings are kept; continue with: {command(*again)}")
        raise typer.Exit(130) from None
    _compile_kernels(index, encoder)
    if cached is not None:
        say(cached.in_words())
    facts = [embeddings.facts for embeddings in index.snapshot.embeddings]
    rows = counted(sum(record["rows"] for record in facts), "embedding")
    say(f"{index.path}: {rows} of {encoder.dimensions} dimensions by {model.name}")
    truncated = sum(record["truncated_tokens"] for record in facts)
    if truncated:
        documents = counted(sum(record["truncated_documents"] for record in facts), "document")
        say(
            f"warning: {counted(truncated, 'token')} of {documents} truncated at "
            f"{for_documents(encoder).max_length}; "
            "--passages reads all of a document"
        )
    left_out = sum(record["left_out"] for record in facts)
    if left_out:
        say(f"warning: {counted(left_out, 'word')} in no passage, since the spec samples")


def _compile_kernels(index: Index, encoder: Encoder) -> None:
    """Search once, so that what is compiled on first use is compiled before anyone waits for it."""
    from tamis.types import Queries, Query

    index.dense(encoder).search(Queries.of([Query("q", "a")]), 10)


def recorded_encoder(
    index: Index, reference: str | None, threads: int | None, where: DeviceOptions
) -> Encoder:
    """The encoder that made the vectors of an index, or the one named, which must be the same."""
    from tamis.models.folder import has_weights
    from tamis.models.scorer_specs import name_scorer
    from tamis.search.dense import check_complete, embedding_model

    check_complete(index)
    recorded = embedding_model(index)
    if recorded is None:
        raise InputError(f"{index.path} holds no documents", hint="index some first")
    folder, model = find_model(reference or recorded.reference or recorded.name)
    if recorded.sha256 and model.sha256 != recorded.sha256 and has_weights(folder):
        raise InputError(
            f"the embeddings in {index.path} were made by {recorded.name} "
            f"(weights {recorded.sha256[:12]}…), not {model.name} ({model.sha256[:12]}…)",
            hint="name that model with --model, or encode again: "
            + command("update", index.path, "--dense", reference or model.name, "--encode-again"),
        )
    name = reference or recorded.reference or recorded.name
    return name_scorer(_open_bi_encoder(folder, where.of(str(name)), threads), name)


def dense_source(
    index: Index,
    ranking: Literal["dense", "hybrid"],
    words: Source,
    reference: str | None,
    threads: int | None,
    where: DeviceOptions,
) -> Source:
    """The vectors of an index as a source, alone or fused with a ranking by words."""
    from tamis.pipeline.hybrid import lexical_dense_hybrid

    dense = index.dense(recorded_encoder(index, reference, threads, where), threads)
    return dense if ranking == "dense" else lexical_dense_hybrid(words, dense)


def search_and_report(source: Source, queries: Queries, top: int) -> Run:
    """Search, and say how many tokens of the queries no vector has seen."""
    from tamis.pipeline.hybrid import Hybrid

    if isinstance(source, Hybrid):
        runs = source.runs(queries, top)
        for run in runs:
            _say_truncated(run)
        return source.fuse(runs).top(top)
    run = source.search(queries, top)
    _say_truncated(run)
    return run


def _say_truncated(run: Run) -> None:
    from tamis.collection.loss_notes import counted

    if "truncated_query_tokens" in run.extra:
        truncated_tokens = run.extra["truncated_query_tokens"][run.offsets[:-1][run.sizes() > 0]]
        tokens, queries = (
            counted(int(truncated_tokens.sum()), "token"),
            counted(int((truncated_tokens > 0).sum()), "query"),
        )
        say(f"warning: {tokens} of {queries} truncated: longer than the model accepts")
