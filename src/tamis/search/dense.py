"""Exact search over the embeddings of an index: the dense source.

A score is the product of two embeddings as the encoder gave them (a cosine where they have length
one), worked out in double precision. Bytes are scanned, floats decide (see `dense_kernels`), so a
ranking depends neither on how many queries are searched at once nor on how many threads there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tamis.cores import usable_cores
from tamis.errors import InputError, command
from tamis.registry import Opening, check_keys, spec_of
from tamis.search.dense_search import Hits, search_embeddings
from tamis.search.embeddings import (
    EmbeddingModel,
    Rows,
    encode_with_truncation,
    probe,
    same_encoder,
)
from tamis.search.index_spec import index_spec, open_encoder, open_index, open_where, where_spec
from tamis.search.snapshot import Snapshot
from tamis.types import Condition, Encoder, Queries, Run, Source, Spec
from tamis.types.conditions import as_conditions
from tamis.types.pipeline import SPEC_VERSION

if TYPE_CHECKING:
    from tamis.search.index import Index

QUERIES_PER_BATCH = 4096


@dataclass(frozen=True)
class DenseSource(Source):
    """Finds documents by the product of their embeddings with the query's.

    Where documents were encoded in passages, the best passage counts, and its number is in the
    run's column `passage`. Where tokens were truncated, the columns `truncated_tokens` and
    `truncated_query_tokens` count those of the document (or passage) and of the query.
    """

    index: Index
    encoder: Encoder
    threads: int | None = None
    conditions: tuple[Condition, ...] = ()
    """What must hold for a document to be found."""

    def where(self, *conditions: str | Condition) -> DenseSource:
        """See `Source.where`."""
        return replace(self, conditions=(*self.conditions, *as_conditions(conditions)))

    def search(self, queries: Queries, top: int) -> Run:
        """The best `top` documents of every query; a blank query finds nothing."""
        if queries.texts is None:
            raise InputError(
                "the queries have no texts", hint="read them from a file of queries, not of a run"
            )
        if top < 1:
            raise InputError(f"cannot keep the top {top}", hint="keep at least one")
        check_complete(self.index)
        snapshot, threads = self.index.snapshot, self.threads or usable_cores()
        query_numbers = np.flatnonzero([bool(text.strip()) for text in queries.texts])
        batches = [
            query_numbers[start : start + QUERIES_PER_BATCH]
            for start in range(0, len(query_numbers), QUERIES_PER_BATCH)
        ]
        hits = Hits.concatenate(
            [
                search_embeddings(
                    snapshot, *self._encoded(queries, batch), top, threads, self.conditions
                )
                for batch in batches
            ]
        )
        counts = np.zeros(len(queries) + 1, np.int64)
        counts[1 + query_numbers] = hits.counts
        extra = _columns(hits, any(embeddings.by_passage for embeddings in snapshot.embeddings))
        return Run._unchecked(queries, snapshot.ids, np.cumsum(counts), hits.doc, hits.score, extra)

    def _encoded(
        self, queries: Queries, query_numbers: NDArray[np.int64]
    ) -> tuple[Rows, NDArray[np.int32]]:
        """The embeddings of some queries, and how many tokens of each were truncated."""
        assert queries.texts is not None
        rows, truncated_tokens = encode_with_truncation(
            self.encoder, [queries.texts[n] for n in query_numbers.tolist()]
        )
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            query = queries.ids[int(query_numbers[bad[0]])]
            raise InputError(
                f"the embedding of query {query!r} has NaN or infinity",
                hint="the encoder cannot read it: leave the query out",
            )
        return rows, truncated_tokens

    def spec(self) -> Spec:
        """See `Source.spec`."""
        return {
            "source": "dense",
            "version": SPEC_VERSION,
            "index": index_spec(self.index),
            "encoder": spec_of("scorer", self.encoder),
            **embedding_spec(self.index),
            **where_spec(self.conditions),
        }


def open_source(values: Spec, opening: Opening) -> DenseSource:
    """See `registry.OPENERS`."""
    keys = {"index": dict, "encoder": dict, **EMBEDDING_KEYS}
    check_keys("a dense source", values, keys, {"where": list})
    index = open_index(values["index"], opening)
    check_embeddings(index, values)
    source = index.dense(open_encoder(values["encoder"], opening), opening.threads)
    return source.where(*open_where(values))


EMBEDDING_KEYS = {"model": str, "passages": dict}


def embedding_spec(index: Index) -> Spec:
    """Which model made the embeddings of an index, and of which passages."""
    encoded = index.snapshot.embeddings
    if not encoded:
        return {"model": "", "passages": {}}
    return {"model": encoded[0].model.name, "passages": dict(encoded[0].facts["passages"])}


def check_embeddings(index: Index, values: Spec) -> None:
    """Refuse an index that was encoded in other passages since its spec was written."""
    passages = embedding_spec(index)["passages"]
    if passages != values["passages"]:
        raise InputError(
            f"the embeddings in {index.path} are of the passages {passages}, the spec was written "
            f"for {values['passages']}",
            hint="encode the index again in those passages, or make a new spec",
        )


def _columns(hits: Hits, by_passage: bool) -> dict[str, NDArray[np.int32]]:
    """The further columns of a run: those that say something."""
    passage = {"passage": hits.passage} if by_passage else {}
    truncated_tokens = {
        "truncated_tokens": hits.truncated_tokens,
        "truncated_query_tokens": hits.truncated_query_tokens,
    }
    return passage | {name: column for name, column in truncated_tokens.items() if column.any()}


def embedding_model(index: Index) -> EmbeddingModel | None:
    """The encoder that made the embeddings of an index, if it has any."""
    return next((embeddings.model for embeddings in index.snapshot.embeddings), None)


def check_complete(index: Index) -> None:
    """Refuse an index of which some documents have no embedding."""
    model = embedding_model(index)
    missing = count_documents_without_embeddings(index.snapshot)
    if missing:
        name = "all-MiniLM-L6-v2" if model is None else model.reference or model.name
        raise InputError(
            f"{missing:,} of {index.num_documents:,} documents in {index.path} have no embeddings",
            hint=f"encode them: {command('update', index.path, '--dense', name)}",
        )


def count_documents_without_embeddings(snapshot: Snapshot) -> int:
    """How many documents were never encoded."""
    pairs = zip(snapshot.segments, snapshot.segment_embeddings, strict=True)
    return sum(segment.fact("documents") for segment, embeddings in pairs if embeddings is None)


def check_encoder(index: Index, encoder: Encoder) -> None:
    """Refuse an encoder that is not the one that made the embeddings of an index."""
    embeddings = index.snapshot.embeddings
    if not embeddings:
        return
    recorded, model = embeddings[0].model, embeddings[0].model.of(encoder)
    if model.document_prompt != recorded.document_prompt:
        raise InputError(
            f"{index.path} was encoded with {recorded.document_prompt!r} before every document, "
            f"not with {model.document_prompt!r}",
            hint="search with the prompts it was encoded with, or encode again: tamis update with "
            "--dense and --encode-again",
        )
    if not same_encoder(embeddings[0].probe, probe(encoder), recorded.dtype, model.dtype):
        raise InputError(
            f"{index.path} was encoded by another encoder, {embeddings[0].model.name}",
            hint="search with that one, or encode again with the other: "
            "tamis update with --dense and --encode-again",
        )


def truncated_by_encoder(index: Index) -> dict[str, int]:
    """How many documents were longer than the encoder reads, and by how many tokens in all;
    nothing where none was.
    """
    facts = [embeddings.facts for embeddings in index.snapshot.embeddings]
    names = ("truncated_documents", "truncated_tokens")
    counts = {name: sum(int(record[name]) for record in facts) for name in names}
    return counts if counts["truncated_tokens"] else {}
