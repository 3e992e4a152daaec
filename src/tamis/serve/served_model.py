"""A model that is served: pairs go straight into batches, so that no thread waits for them."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tamis.models.model import Model
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.tokenized import TokenizedPairs, TokenScorer
from tamis.search.build import searched_text
from tamis.search.hits import score_of_scale
from tamis.serve.admission import Progress
from tamis.serve.batcher import Batcher, Scored
from tamis.serve.embedding import TokenEncoder, batchable, embeddings_of, texts_to_encode
from tamis.serve.errors import (
    InferenceError,
    InvalidError,
    ModelTypeError,
    TruncationError,
    UnknownModelError,
)
from tamis.serve.jobs import Job, Request
from tamis.serve.observer import Observer
from tamis.serve.requests import (
    EmbedAnswer,
    EmbedRequest,
    RankAnswer,
    RankedItem,
    RankRequest,
    SearchRequest,
)
from tamis.serve.served import CHARACTERS_PER_TOKEN, Served, estimated_tokens, new_admission
from tamis.serve.settings import Limits
from tamis.types import Pairs

NO_TOKEN_LIMIT = "this model takes no token limit per document"


class ServedModel(Served):
    """A model under a name."""

    kind = "model"

    def __init__(
        self, name: str, model: Model, folder: Path, limits: Limits, pool: Executor,
        observer: Observer,
    ) -> None:  # fmt: skip
        """`pool` tokenises."""
        super().__init__(name, folder, new_admission(name, limits, observer=observer))
        assert isinstance(model.scorer, TokenScorer)
        self.model, self._scorer, self._pool = model, model.scorer, pool
        self.batcher = Batcher(
            batchable(self._scorer), limits.batch_tokens, name, Progress(self.admission)
        )
        self.longest = int(getattr(model.scorer, "max_length", 512))

    @property
    def batchers(self) -> list[Batcher]:
        """See `Served.batchers`."""
        return [self.batcher]

    def estimate(self, request: Request) -> int:
        """See `Served.estimate`."""
        if isinstance(request, SearchRequest):
            raise UnknownModelError(
                f"{self.name!r} is a model, which has no documents to search", param="model",
                hint="search a sieve, or rank documents of your own with POST /api/rerank",
            )  # fmt: skip
        if isinstance(request, RankRequest):
            return estimated_tokens(request, self.longest)
        if not isinstance(self._scorer, TokenEncoder):
            raise ModelTypeError(
                f"{self.name!r} has no embeddings: it is no bi-encoder", param="model",
                hint="name a bi-encoder, or rank documents with it",
            )  # fmt: skip
        tokens = (len(text) // CHARACTERS_PER_TOKEN + 3 for text in request.texts)
        return sum(min(self.longest, count) for count in tokens)

    def start(self, job: Job) -> None:
        """See `Served.start`."""
        self._pool.submit(self._tokenize, job)

    def _tokenize(self, job: Job) -> None:
        """Tokenise a request and hand it to the batches."""
        if job.is_cancelled:
            self.batcher.observer.dropped(self.name)
            return
        try:
            request = job.request
            if isinstance(request, EmbedRequest):
                self._encode(job, request)
                return
            start = perf_counter()
            assert isinstance(request, RankRequest)
            pairs = self._scorer_for(request).tokenize(pairs_of(request))
            check_fits(request, pairs)
            job.times.tokenization = perf_counter() - start
            work = job.own(self.batcher.submit(pairs, job.deadline))
            work.add_done_callback(partial(self._finish, job, request))
        except Exception as error:  # whatever goes wrong is the outcome of this request
            job.fail(error)

    def _encode(self, job: Job, request: EmbedRequest) -> None:
        """Hand the texts of a request to the batches."""
        encoder = self._scorer
        if not request.are_queries:
            encoder = getattr(self._scorer, "documents", None) or encoder
        assert isinstance(encoder, TokenEncoder)
        if request.dimensions not in (None, encoder.dimensions):
            raise InvalidError(
                f"{self.name!r} has {encoder.dimensions} dimensions", param="dimensions",
                hint="leave it out",
            )  # fmt: skip
        start = perf_counter()
        texts = texts_to_encode(encoder, request.texts)
        check_fits(request, texts)
        job.times.tokenization = perf_counter() - start
        work = job.own(self.batcher.submit(texts))
        work.add_done_callback(partial(self._finish_encoding, job, texts))

    def _finish_encoding(self, job: Job, texts: TokenizedPairs, work: Future[Scored]) -> None:
        if work.cancelled():
            return
        try:
            job.note(work.result())
            embeddings = embeddings_of(texts)
            if not np.isfinite(embeddings).all():
                raise InferenceError("an embedding is not finite", hint="is the model damaged?")
            truncated_tokens = int(texts.truncated_tokens.sum())
            job.succeed(EmbedAnswer(self.name, embeddings, job.tokens, truncated_tokens, job.times))
        except Exception as error:  # as above
            job.fail(error)

    def _finish(self, job: Job, request: RankRequest, work: Future[Scored]) -> None:
        """Make the answer of what was scored."""
        if work.cancelled():
            return
        try:
            scored = work.result()
            job.note(scored)
            job.succeed(self._answer(job, request, scored))
        except Exception as error:  # as above
            job.fail(error)

    def _scorer_for(self, request: RankRequest) -> TokenScorer:
        """The scorer, which truncates documents where the request wants it to."""
        scorer, limit = self._scorer, request.document_tokens
        if limit is None or not isinstance(scorer, CrossEncoder):
            return scorer
        return replace(scorer, document_tokens=min(limit, scorer.document_tokens or limit))

    def _answer(self, job: Job, request: RankRequest, scored: Scored) -> RankAnswer:
        values = scored.values
        if not np.isfinite(values[: scored.count]).all():
            raise InferenceError("the model gave a score that is no number", hint="is it damaged?")
        scores = score_of_scale(self.model.scale, values[: scored.count])
        order = np.argsort(-values[: scored.count], kind="stable").tolist()
        if request.is_paired:
            order = list(range(len(values)))
        else:
            order += range(scored.count, len(values))
        items = [
            RankedItem(
                number, request.documents[number].id, rank + 1,
                float(scores[number]) if number < scored.count else None,
                False, float(values[number]) if number < scored.count else None,
                int(scored.truncated_tokens[number]),
            )
            for rank, number in enumerate(order[: request.top])
        ]  # fmt: skip
        limited = request.document_tokens is not None
        unlimited = limited and not isinstance(self._scorer, CrossEncoder)
        return RankAnswer(
            self.name, tuple(items), scored.count, len(values), scored.tokens,
            int(scored.truncated_tokens[: scored.count].sum()), job.times,
            warnings=(NO_TOKEN_LIMIT,) if unlimited else (), out_of_time=job.out_of_time,
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """See `Served.facts`."""
        runtime = getattr(self._scorer, "runtime", None)
        return {
            "name": self.name,
            "kind": self.kind,
            "type": type(self._scorer).__name__,
            "scale": self.model.scale,
            "max_length": self.longest,
            "dimensions": getattr(self._scorer, "dimensions", None),
            "backend": getattr(runtime, "backend", None),
            "device": getattr(runtime, "device", None),
            "dtype": getattr(runtime, "dtype", None),
        }


def pairs_of(request: RankRequest) -> Pairs:
    """The queries and documents of a request as pairs."""
    texts = [searched_text(document) for document in request.documents]
    index = np.zeros((len(texts), 2), np.int32)
    index[:, 1] = np.arange(len(texts))
    if request.is_paired:
        index[:, 0] = np.arange(len(texts))
    return Pairs(request.queries, texts, index)


def check_fits(request: RankRequest | EmbedRequest, pairs: TokenizedPairs) -> None:
    """Refuse texts that do not fit, where the request does not want them truncated."""
    if request.truncate or not pairs.truncated_tokens.any():
        return
    number = int(pairs.truncated_tokens.argmax())
    kept, over = int(pairs.lengths[number]), int(pairs.truncated_tokens[number])
    beside = "with the query " if isinstance(request, RankRequest) else ""
    raise TruncationError(
        f"text {number} has {over} tokens too many: {beside}there is room for {kept}",
        hint="shorten it, or send truncate: true",
        param="truncate",
    )
