"""Scores of a bi-encoder from the embeddings that an index holds: only queries are run.

Where an index was encoded by the very model that re-ranks, and in the very passages, running it on
the documents again would give the same embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tamis.pipeline.document_lookup import IndexLookup
from tamis.pipeline.passage_scores import PassageScores, check_scores
from tamis.search.dense import count_documents_without_embeddings
from tamis.search.embeddings import CountingEncoder, Embeddings, Rows, probe, same_encoder
from tamis.search.snapshot import Snapshot
from tamis.search.term_counts import Ints, Longs
from tamis.text.passages import PassageSpec
from tamis.types import Run, Scorer

DOCUMENTS_PER_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class StoredScores:
    """The embeddings of the documents of an index, and the encoder that made them."""

    encoder: CountingEncoder
    snapshot: Snapshot
    skip: bool = False
    """Whether a document with a score that is no number is left out, not an error."""

    def score(self, run: Run, rows: NDArray[np.int64]) -> Iterator[PassageScores]:
        """Score the documents of these rows (ascending), chunk by chunk."""
        number_of = run.docs.positions_in(self.snapshot.ids)
        query_of = np.searchsorted(run.offsets, rows, side="right") - 1
        for start in range(0, len(rows), DOCUMENTS_PER_CHUNK):
            some = slice(start, start + DOCUMENTS_PER_CHUNK)
            scores = self._chunk(run, rows[some], query_of[some], number_of[run.doc[rows[some]]])
            yield scores.without_refused() if self.skip else check_scores(scores, run)

    def _chunk(
        self,
        run: Run,
        rows: NDArray[np.int64],
        query_of: NDArray[np.int64],
        numbers: Ints,
    ) -> PassageScores:
        query_numbers, query = np.unique(query_of, return_inverse=True)
        texts = run.queries.texts or ()
        queries, truncated_query_tokens = self.encoder.encode_with_truncation(
            [texts[n] for n in query_numbers.tolist()]
        )
        segment_of, first, sizes = locate_embeddings(self.snapshot, numbers)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        vector = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], sizes)
        segment_of, query = np.repeat(segment_of, sizes), np.repeat(query, sizes)
        values, truncated_tokens, passage = (
            np.empty(len(vector), kind) for kind in ("f4", "i4", "i4")
        )
        for segment, embeddings in _segments(self.snapshot):
            positions = np.flatnonzero(segment_of == segment)
            rows_needed, asks = vector[positions], query[positions]
            documents = embeddings.rows(rows_needed)[rows_needed]
            values[positions] = np.einsum("nd,nd->n", queries[asks], documents)
            truncated_tokens[positions] = (
                embeddings.truncated_tokens[rows_needed] + truncated_query_tokens[asks]
            )
            passage[positions] = embeddings.passage[rows_needed]
        nothing = np.zeros(len(rows), np.int64)
        return PassageScores(rows, offsets, passage, values, truncated_tokens, nothing, len(values))


def locate_embeddings(snapshot: Snapshot, numbers: Ints) -> tuple[Ints, Longs, Longs]:
    """The segment of each document, its first embedding there, and how many it has."""
    segment_of, document_of = (place[numbers] for place in snapshot.places)
    first, sizes = np.zeros((2, len(numbers)), np.int64)
    for segment, embeddings in _segments(snapshot):
        rows = np.flatnonzero(segment_of == segment)
        start, end = np.searchsorted(
            embeddings.document, [document_of[rows], document_of[rows] + 1]
        )
        first[rows], sizes[rows] = start, end - start
    return segment_of, first, sizes


def _segments(snapshot: Snapshot) -> list[tuple[int, Embeddings]]:
    segments = enumerate(snapshot.segment_embeddings)
    return [(segment, embeddings) for segment, embeddings in segments if embeddings is not None]


@dataclass(frozen=True, eq=False)
class ProbedEncoder:
    """An encoder and its probe, by which it is recognised."""

    encoder: CountingEncoder

    @cached_property
    def rows(self) -> Rows:
        """The embeddings of the probe texts, made once and when needed."""
        return probe(self.encoder)


def as_probed_encoder(scorer: Scorer) -> ProbedEncoder | None:
    """The scorer as an encoder, if its score is the product of two embeddings."""
    if scorer.scale == "cosine" and isinstance(scorer, CountingEncoder):
        return ProbedEncoder(scorer)
    return None


def stored_scores(
    lookup: object, spec: PassageSpec, encoder: ProbedEncoder | None, skip: bool
) -> StoredScores | None:
    """The embeddings that an encoder made of all documents in these passages, if they are there."""
    snapshot = lookup.snapshot if isinstance(lookup, IndexLookup) else None
    if encoder is None or snapshot is None or snapshot.damage:
        return None
    embeddings = snapshot.embeddings
    alike = (
        all(segment.facts["passages"] == spec.record() for segment in embeddings) and not spec.most
    )
    if not embeddings or not alike or count_documents_without_embeddings(snapshot):
        return None
    is_same = same_encoder(embeddings[0].probe, encoder.rows)
    return StoredScores(encoder.encoder, snapshot, skip) if is_same else None
