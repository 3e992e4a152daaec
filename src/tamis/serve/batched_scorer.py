"""The scorer that a pipeline runs in place of its own: pairs go to the batches of all requests."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.scorers.tokenized import TokenScorer
from tamis.search.embeddings import CountingEncoder
from tamis.serve.batcher import Batcher
from tamis.serve.embedding import TokenEncoder, embeddings_of, texts_to_encode
from tamis.serve.jobs import Job
from tamis.types import Pairs, Scorer, Scores
from tamis.types.pipeline import Scale

Pair = tuple[str, str]


class BatchedScorer:
    """A scorer of one request; its values are NaN where the time of the request is up.

    A pair that was scored for this request is not scored again: a hybrid asks for the same pairs
    twice.
    """

    def __init__(self, scorer: Scorer, batcher: Batcher, job: Job) -> None:
        """`batcher` runs `scorer`."""
        assert isinstance(scorer, TokenScorer)
        self._scorer, self._batcher, self._job = scorer, batcher, job
        self._known: dict[Pair, tuple[float, int]] = {}

    @property
    def scale(self) -> Scale:
        """See `Scorer.scale`."""
        scale: Scale = self._scorer.scale
        return scale

    @property
    def scorer(self) -> Scorer:
        """The scorer itself, which an explanation asks for more than scores."""
        return self._scorer

    @property
    def tokens(self) -> Any:
        """The tokenizer of the scorer, if it has one."""
        return getattr(self._scorer, "tokens", None)

    def score(self, pairs: Pairs) -> Scores:
        """See `Scorer.score`."""
        keys = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        new = [number for number, key in enumerate(keys) if key not in self._known]
        if new:
            part = Pairs(pairs.queries, pairs.texts, pairs.index[new])
            self._score([keys[number] for number in new], part)
        values = np.array([self._known[key][0] for key in keys], np.float32)
        return Scores(values, np.array([self._known[key][1] for key in keys], np.int32))

    def _score(self, keys: Sequence[Pair], pairs: Pairs) -> None:
        self._job.check()
        if self._job.is_over:
            self._job.out_of_time = True
            self._known.update(dict.fromkeys(keys, (np.nan, 0)))
            return
        start = perf_counter()
        tokenized = self._scorer.tokenize(pairs)
        self._job.times.tokenization += perf_counter() - start
        work = self._job.own(self._batcher.submit(tokenized, self._job.deadline))
        scored = work.result()
        self._job.note(scored)
        outcomes = zip(scored.values.tolist(), scored.truncated_tokens.tolist(), strict=True)
        self._known.update(zip(keys, outcomes, strict=True))


class BatchedEncoder(BatchedScorer):
    """The same of an encoder; its texts are encoded whatever the time, as a search needs them."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Encoder.encode`."""
        return self.encode_with_truncation(texts)[0]

    def encode_with_truncation(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """See `CountingEncoder`."""
        assert isinstance(self._scorer, CountingEncoder)
        if not isinstance(self._scorer, TokenEncoder) or not texts:
            return self._scorer.encode_with_truncation(texts)
        self._job.check()
        start = perf_counter()
        tokenized = texts_to_encode(self._scorer, texts)
        self._job.times.tokenization += perf_counter() - start
        self._job.note(self._job.own(self._batcher.submit(tokenized)).result())
        return embeddings_of(tokenized), tokenized.truncated_tokens

    @property
    def probe_rows(self) -> Any:
        """See `tamis.search.embeddings.probe`."""
        return getattr(self._scorer, "probe_rows", None)

    @property
    def documents(self) -> Any:
        """What encodes documents, where that is another."""
        return getattr(self._scorer, "documents", None)


def batched(scorer: Scorer, batcher: Batcher, job: Job) -> Scorer:
    """The scorer of one request, which scores in the batches of all."""
    kind = BatchedEncoder if isinstance(scorer, CountingEncoder) else BatchedScorer
    return kind(scorer, batcher, job)
