"""A sieve that is served: requests run side by side, their pairs in common batches."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from tamis.explain.result import Search
from tamis.fitting.answers import Answer, AnswerHit, rerank_answer, search_answer
from tamis.fitting.own_documents import with_scorer
from tamis.fitting.sieve import Sieve
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank
from tamis.scorers.tokenized import TokenScorer
from tamis.search.dense import DenseSource
from tamis.serve.admission import Progress
from tamis.serve.batched_scorer import BatchedScorer, batched
from tamis.serve.batcher import Batcher
from tamis.serve.embedding import batchable
from tamis.serve.errors import ModelTypeError, TruncationError
from tamis.serve.jobs import Job, Request
from tamis.serve.observer import Observer
from tamis.serve.requests import (
    EmbedRequest,
    RankAnswer,
    RankedItem,
    RankRequest,
    SearchRequest,
)
from tamis.serve.served import Health, Served, estimated_tokens, new_admission
from tamis.serve.settings import Limits
from tamis.types import Scorer, Source, Stage

SEARCH_TOKENS = 200
"""What a search counts beside what its re-ranker reads."""
MEMORY = 0.8
LONGEST = 512
NO_TOKEN_LIMIT = "a sieve reads passages: the token limit per document is not used"


class ServedSieve(Served):
    """A sieve under a name."""

    kind = "sieve"

    def __init__(
        self, name: str, sieve: Sieve, limits: Limits, pool: Executor, observer: Observer
    ) -> None:
        """`pool` runs requests; every model of the sieve gets its batches."""
        super().__init__(name, sieve.path, new_admission(name, limits, observer=observer))
        self.sieve, self._pool, self._observer = sieve, pool, observer
        self._batchers = {
            id(scorer): Batcher(
                batchable(scorer), limits.batch_tokens, name, Progress(self.admission)
            )
            for scorer in {id(each): each for each in scorers_of(sieve)}.values()
            if isinstance(scorer, TokenScorer)
        }
        self._search_tokens = 0.0
        self._lock = Lock()

    @property
    def batchers(self) -> list[Batcher]:
        """See `Served.batchers`."""
        return list(self._batchers.values())

    def estimate(self, request: Request) -> int:
        """See `Served.estimate`: a search reads as many as those before."""
        if isinstance(request, EmbedRequest):
            raise ModelTypeError(
                f"{self.name!r} is a sieve, which gives no embeddings", param="model",
                hint="serve the bi-encoder too: NAME=MODEL",
            )  # fmt: skip
        if isinstance(request, RankRequest):
            return SEARCH_TOKENS + estimated_tokens(request, LONGEST * 100)
        return SEARCH_TOKENS + round(self._search_tokens)

    def start(self, job: Job) -> None:
        """See `Served.start`."""
        self._pool.submit(self._run, job)

    def _run(self, job: Job) -> None:
        if job.is_cancelled:
            self._observer.dropped(self.name)
            return
        try:
            request = job.request
            assert not isinstance(request, EmbedRequest)
            if isinstance(request, SearchRequest):
                answer = self._search(job, request)
                with self._lock:
                    kept = MEMORY * self._search_tokens
                    self._search_tokens = kept + (1 - MEMORY) * job.tokens
            else:
                answer = (
                    self._paired(job, request) if request.is_paired else self._rank(job, request)
                )
            job.succeed(answer)
        except Exception as error:  # whatever goes wrong is the outcome of this request
            job.fail(error)

    def _wrap(self, job: Job) -> Callable[[Scorer], Scorer]:
        def wrap(scorer: Scorer) -> Scorer:
            batcher = self._batchers.get(id(scorer))
            return scorer if batcher is None else batched(scorer, batcher, job)

        known: dict[int, Scorer] = {}

        def wrap_once(scorer: Scorer) -> Scorer:
            return known.setdefault(id(scorer), wrap(scorer))

        return wrap_once

    def _search(self, job: Job, request: SearchRequest) -> RankAnswer:
        found = search_answer(
            self.sieve, request.query, request.top, request.where,
            wrap=self._wrap(job), skip=job.deadline is not None, deep=request.explain,
        )  # fmt: skip
        answer = self._answer(job, found)
        return self._explained(job, request, answer, found) if request.explain else answer

    def _explained(
        self, job: Job, request: SearchRequest, answer: RankAnswer, found: Answer
    ) -> RankAnswer:
        """The answer with an explanation of every hit, best first, as long as there is time."""
        items = list(answer.items)
        steps = tuple(replace(step, of=_with_own_scorer(step.of)) for step in found.steps)
        asked = Search(self.sieve.index, request.query, steps)
        for number, item in enumerate(items):
            job.check()
            if job.is_over:
                late = f"{number} of {len(items)} hits were explained in time"
                return replace(answer, items=tuple(items), warnings=(late,))
            explanation = self.sieve.explain_search(asked, item.id)
            items[number] = replace(item, explanation=explanation.to_json())
        return replace(answer, items=tuple(items))

    def _rank(self, job: Job, request: RankRequest) -> RankAnswer:
        found = rerank_answer(
            self.sieve, request.query, request.documents, request.top,
            wrap=self._wrap(job), skip=job.deadline is not None,
        )  # fmt: skip
        if not request.truncate and found.truncated_tokens:
            raise TruncationError(
                f"{found.truncated_tokens} tokens do not fit the model", param="truncate",
                hint="shorten the texts, or send truncate: true",
            )  # fmt: skip
        answer = self._answer(job, found)
        warnings = (NO_TOKEN_LIMIT,) if request.document_tokens is not None else ()
        return replace(answer, warnings=warnings)

    def _paired(self, job: Job, request: RankRequest) -> RankAnswer:
        """Every document for a query of its own: a score does not depend on other documents."""
        answers = []
        for query, document in zip(request.queries, request.documents, strict=True):
            alone = replace(request, queries=(query,), documents=[document], top=None)
            answers.append(self._rank(job, alone))
        items = [
            replace(answer.items[0], index=number, rank=number + 1)
            for number, answer in enumerate(answers)
        ]
        depths = [answer.depth for answer in answers if answer.depth is not None]
        return replace(
            answers[-1], items=tuple(items), depth=sum(depths) if depths else None,
            candidates=len(items), tokens=job.tokens,
            truncated_tokens=sum(answer.truncated_tokens for answer in answers),
        )  # fmt: skip

    def _answer(self, job: Job, found: Answer) -> RankAnswer:
        calibration = self.sieve.calibration
        is_tested = self.sieve.manifest.get("threshold_test") is not None
        return RankAnswer(
            self.name, tuple(map(item_of, found.hits)), found.depth, found.candidates, job.tokens,
            found.truncated_tokens, job.times, found.stages, self.sieve.verified,
            calibration.threshold if calibration is not None and is_tested else None,
            out_of_time=job.out_of_time,
        )  # fmt: skip

    def health(self) -> Health:
        """See `Served.health`; the index may change, as long as it can be read."""
        health = super().health()
        if not health.readable:
            return health
        try:
            self.sieve.fresh_source()
        except Exception as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            return Health(False, True, f"the index of {self.name!r} cannot be read: {reason}")
        return health

    def _max_lengths(self) -> list[int]:
        """Tokens that each of its models reads at most."""
        known = [getattr(scorer, "max_length", None) for scorer in scorers_of(self.sieve)]
        return [length for length in known if length is not None]

    def facts(self) -> dict[str, Any]:
        """See `Served.facts`."""
        return {
            "name": self.name,
            "kind": self.kind,
            "max_length": max(lengths) if (lengths := self._max_lengths()) else None,
            "documents": self.sieve.index.num_documents,
            "selected": self.sieve.manifest.get("selected"),
            "verified": self.sieve.verified,
            "calibrated": self.sieve.calibration is not None,
        }


def _with_own_scorer(part: Source | Stage) -> Source | Stage:
    """A part of a pipeline with its scorer itself, not the one that scores with other requests."""
    if not isinstance(part, Stage):
        return part
    return with_scorer(part, lambda each: each.scorer if isinstance(each, BatchedScorer) else each)


def item_of(hit: AnswerHit) -> RankedItem:
    """A hit of a sieve in an answer."""
    found = hit.hit
    return RankedItem(
        hit.index, found.id, found.rank, found.score if hit.scored or hit.index is None else None,
        found.calibrated, found.raw_score, hit.truncated_tokens, hit,
    )  # fmt: skip


def scorers_of(sieve: Sieve) -> list[Scorer]:
    """The models of a sieve, open."""
    stage, source = sieve.stage, sieve.retriever
    inner = stage.stage if isinstance(stage, Interpolate) else stage
    sources = source.sources if isinstance(source, Hybrid) else (source,)
    scorers = [inner.scorer] if isinstance(inner, Rerank) else []
    scorers += [each.encoder for each in sources if isinstance(each, DenseSource)]  # type: ignore[misc]
    return scorers


def open_sieve(path: Path, threads: int | None, device: str = "auto") -> Sieve:
    """The sieve in a folder, warm."""
    from tamis.fitting.sieve import load_sieve

    sieve = load_sieve(path, threads=threads, device=device)
    sieve.warm_up()
    return sieve
