"""Rows of a run to scores of their documents' passages, in chunks that keep memory flat.

Chunks run across queries; where one ends depends only on the run and the spec, never on time or
on what is known already, so that a job that was interrupted computes the same when it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import DocumentLookup
from tamis.text.passages import PassageSpec, Tokens, split, text_of
from tamis.text.sentences import Span
from tamis.types import Document, Pairs, Run, Scorer, Scores

FULL_CHUNK_PAIRS = 256
FULL_CHUNK_CHARACTERS = 4 << 20
DOCUMENTS_PER_FETCH = 64


@dataclass(frozen=True, eq=False)
class PassageScores:
    """Some rows of a run and what the passages of each scored: those of the n-th are `offsets[n]`
    to `offsets[n + 1]` of `values`, `truncated_tokens` and `numbers`.
    """

    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]
    numbers: NDArray[np.int32]
    values: NDArray[np.float32]
    truncated_tokens: NDArray[np.int32]
    left_out: NDArray[np.int64]
    """How many words of each document are in no passage, where the spec samples."""
    computed: int
    """How many distinct pairs were scored now rather than found in the cache."""
    refused: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows that are left out, since the score of a passage of theirs is no number."""

    def without_refused(self) -> PassageScores:
        """The same without the documents of which some score is no number."""
        sizes = np.diff(self.offsets)
        document = np.repeat(np.arange(len(sizes)), sizes)
        good = np.ones(len(sizes), bool)
        good[document[~np.isfinite(self.values)]] = False
        good_passages = good[document]
        return PassageScores(
            self.rows[good],
            np.concatenate([[0], np.cumsum(sizes[good])]),
            self.numbers[good_passages],
            self.values[good_passages],
            self.truncated_tokens[good_passages],
            self.left_out[good],
            self.computed,
            self.rows[~good],
        )


@dataclass
class _Chunk:
    """Pairs being gathered."""

    rows: list[int] = field(default_factory=list)
    query: list[int] = field(default_factory=list)
    """The number in the run of each row's query."""
    ends: list[int] = field(default_factory=lambda: [0])
    numbers: list[int] = field(default_factory=list)
    texts: dict[str, int] = field(default_factory=dict)
    text: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    characters: int = 0

    @property
    def full(self) -> bool:
        return len(self.text) >= FULL_CHUNK_PAIRS or self.characters >= FULL_CHUNK_CHARACTERS


@dataclass(frozen=True, eq=False)
class PassageScorer:
    """Scores the passages of documents; what the scorer says is checked and kept."""

    scorer: Scorer
    spec: PassageSpec
    lookup: DocumentLookup
    cache: ScoreCache | None = None
    seed: int = 0
    skip: bool = False
    """Whether a document with a score that is no number is left out, not an error."""

    def score(self, run: Run, rows: NDArray[np.int64]) -> Iterator[PassageScores]:
        """Score the documents of these rows (ascending), chunk by chunk."""
        chunk, tokens = _Chunk(), token_spans(self.scorer)
        query_of = np.searchsorted(run.offsets, rows, side="right") - 1
        for start in range(0, len(rows), DOCUMENTS_PER_FETCH):
            some = rows[start : start + DOCUMENTS_PER_FETCH].tolist()
            documents = self.lookup.fetch(run.docs.take(run.doc[some]))
            queries = query_of[start : start + DOCUMENTS_PER_FETCH].tolist()
            for row, query, document in zip(some, queries, documents, strict=True):
                self._gather(chunk, row, query, document, tokens)
                if chunk.full:
                    yield self._score_chunk(run, chunk)
                    chunk = _Chunk()
        if chunk.rows:
            yield self._score_chunk(run, chunk)

    def _gather(
        self, chunk: _Chunk, row: int, query: int, document: Document, tokens: Tokens | None
    ) -> None:
        splits = split(document, self.spec, tokens=tokens, seed=self.seed)
        for passage in splits.passages:
            text = text_of(document, passage, self.spec.title)
            chunk.text.append(chunk.texts.setdefault(text, len(chunk.texts)))
            chunk.characters += len(text)
            chunk.numbers.append(passage.number)
        chunk.rows.append(row)
        chunk.query.append(query)
        chunk.ends.append(len(chunk.text))
        chunk.left_out.append(splits.left_out)

    def _score_chunk(self, run: Run, chunk: _Chunk) -> PassageScores:
        offsets = np.array(chunk.ends, np.int64)
        query_numbers, query = np.unique(np.array(chunk.query), return_inverse=True)
        texts = run.queries.texts or ()
        asks = np.repeat(query, np.diff(offsets)) * len(chunk.texts) + np.array(
            chunk.text, np.int64
        )
        distinct, pair = np.unique(asks, return_inverse=True)
        index = np.stack(np.divmod(distinct, max(len(chunk.texts), 1)), 1).astype(np.int32)
        pairs = Pairs([texts[n] for n in query_numbers.tolist()], list(chunk.texts), index)
        scores, computed = self._scores(pairs)
        passage_scores = PassageScores(
            np.array(chunk.rows, np.int64),
            offsets,
            np.array(chunk.numbers, np.int32),
            scores.values[pair],
            scores.truncated_tokens[pair],
            np.array(chunk.left_out, np.int64),
            computed,
        )
        return passage_scores.without_refused() if self.skip else check_scores(passage_scores, run)

    def _scores(self, pairs: Pairs) -> tuple[Scores, int]:
        """The scores of pairs, from the cache where it has them, and how many it had not."""
        if self.cache is None:
            scores, new = _score_pairs(self.scorer, pairs), np.arange(len(pairs))
        else:
            keys = self.cache.keys(pairs)
            scores, is_cached = self.cache.find(keys)
            new = np.flatnonzero(~is_cached)
            if len(new):
                new_scores = _score_pairs(
                    self.scorer, Pairs(pairs.queries, pairs.texts, pairs.index[new])
                )
                good = np.isfinite(new_scores.values)
                self.cache.add(
                    keys[new[good]],
                    Scores(new_scores.values[good], new_scores.truncated_tokens[good]),
                )
                scores.values[new], scores.truncated_tokens[new] = (
                    new_scores.values,
                    new_scores.truncated_tokens,
                )
        return scores, len(new)


def _score_pairs(scorer: Scorer, pairs: Pairs) -> Scores:
    """What a scorer says of pairs: one score per pair."""
    scores = scorer.score(pairs)
    if len(scores.values) != len(pairs):
        raise InputError(f"{len(pairs)} pairs but {len(scores.values)} scores of the scorer")
    return scores


def check_scores(scores: PassageScores, run: Run) -> PassageScores:
    """The same; a score that is no number is refused, and it is said whose it is."""
    bad = np.flatnonzero(~np.isfinite(scores.values))
    if not len(bad):
        return scores
    place = int(bad[0])
    row = int(scores.rows[np.searchsorted(scores.offsets, place, side="right") - 1])
    query = run.queries.ids[int(np.searchsorted(run.offsets, row, side="right")) - 1]
    raise InputError(
        f"the score of passage {scores.numbers[place]} of document {run.docs[int(run.doc[row])]!r} "
        f"for query {query!r} is {scores.values[place]}",
        hint="the model is broken, or this text breaks it: score it alone to see; "
        "--on-error skip (missing='skip') leaves it below",
    )


def token_spans(scorer: Scorer) -> Tokens | None:
    """What measures a text in the tokens of a scorer, if the scorer has a tokenizer."""
    backend = getattr(getattr(scorer, "tokens", None), "backend", None)
    if backend is None:
        return None

    def spans(text: str) -> list[Span]:
        clean = text.encode("utf-8", "replace").decode("utf-8")
        offsets: list[Span] = backend.encode(clean, add_special_tokens=False).offsets
        return offsets

    return spans
