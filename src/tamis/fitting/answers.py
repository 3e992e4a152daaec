"""What a search with a sieve tells beside its hits: ranks, scores and times of every stage.

`Sieve.search` gives hits. Whoever serves a sieve shows more: how deep was re-ranked, how long each
stage took, where every hit stood at each of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tamis.explain.trace import Step, name_of, row_of, trace
from tamis.fitting.own_documents import WrapScorer, rank_documents, with_scorer
from tamis.search.hits import Hit, make_hit
from tamis.types import Document, Queries, Query, Run, Source
from tamis.types.columns import PASSAGE, PREVIOUS_SCORE, TRUNCATED_TOKENS
from tamis.types.conditions import Where, as_conditions
from tamis.types.pipeline import DEFAULT_TOP, Then

if TYPE_CHECKING:
    from tamis.fitting.sieve import Sieve


@dataclass(frozen=True)
class StagePlace:
    """Where a hit stands in what a stage gives; None where it is not there."""

    name: str
    rank: int | None
    score: float | None


@dataclass(frozen=True)
class StageTime:
    """How long a stage took, and how many documents it gives."""

    name: str
    seconds: float
    candidates: int


@dataclass(frozen=True)
class AnswerHit:
    """A hit with what every stage made of it."""

    hit: Hit
    stages: tuple[StagePlace, ...]
    scored: bool
    """Whether the re-ranker scored it, where there is one."""
    truncated_tokens: int
    index: int | None = None
    """Its place in what was handed in, of documents of one's own."""


@dataclass(frozen=True)
class Answer:
    """The hits of one query, and how they came about."""

    hits: tuple[AnswerHit, ...]
    stages: tuple[StageTime, ...]
    candidates: int
    """How many documents the last stage gives."""
    depth: int | None
    """How many documents the re-ranker scored; None of a pipeline without one."""
    truncated_tokens: int
    steps: tuple[Step, ...] = field(default=(), repr=False)
    """What every step of the pipeline made of the query."""

    @property
    def reranked(self) -> bool:
        """Whether a re-ranker scored any."""
        return bool(self.depth)


def search_answer(
    sieve: Sieve,
    query: str,
    top: int = 10,
    where: Where = (),
    *,
    wrap: WrapScorer | None = None,
    skip: bool = False,
    deep: bool = False,
) -> Answer:
    """The best documents for some words, as `Sieve.search` finds them, with all there is to tell.

    `wrap` puts another scorer in place of the re-ranker's; with `skip` a document whose score is
    no number is left below. `deep` steps give as many candidates as an explanation goes by.
    """
    source = sieve.fresh_source()
    conditions = as_conditions(where)
    source = source.where(*conditions) if conditions else source
    has_stage = isinstance(source, Then)  # which gives more than the top: all that it looked at
    steps = trace(
        _with_scorer(source, wrap, skip),
        Queries.of([Query("q", query)]),
        sys.maxsize if has_stage else max(top, DEFAULT_TOP if deep else 0),
    )
    run = steps[-1].run
    hits = sieve.hits(run.top(top))["q"]
    return Answer(
        tuple(_answer_hit(hit, hit.id, steps) for hit in hits),
        _times(steps),
        len(run.doc),
        _depth(steps),
        _truncated(steps),
        tuple(steps),
    )


def rerank_answer(
    sieve: Sieve,
    query: str,
    documents: Sequence[Document],
    top: int | None = None,
    *,
    wrap: WrapScorer | None = None,
    skip: bool = False,
) -> Answer:
    """Documents of one's own, best first, as the pipeline ranks those of its index."""
    sieve.fresh_source()
    ranked = rank_documents(sieve, query, documents, wrap, skip)
    run, steps = ranked.run, ranked.steps
    if not documents:
        return Answer((), _times(steps), 0, None if sieve.stage is None else 0, 0)
    terms, scores = (
        sieve.index.analyzer.terms(query),
        sieve.scores(run, ranked.lexical_scores).tolist(),
    )
    passages = run.extra.get(PASSAGE, np.full(len(run.doc), -1)).tolist()
    hits: list[AnswerHit] = []
    for row, (name, raw_score) in enumerate(list(run["q"])[:top]):
        document, number = ranked.documents[name], ranked.number(name)
        hit = make_hit(
            replace(document, id=documents[number].id),
            sieve.passage_of(document, passages[row], terms),
            rank=row + 1,
            score=scores[row],
            raw_score=raw_score,
            calibrated=sieve.calibration is not None,
        )
        hits.append(replace(_answer_hit(hit, name, steps), index=number))
    return Answer(tuple(hits), _times(steps), len(run.doc), _depth(steps), _truncated(steps))


def _with_scorer(source: Source, wrap: WrapScorer | None, skip: bool) -> Source:
    if wrap is None or not isinstance(source, Then):
        return source
    return replace(source, stage=with_scorer(source.stage, wrap, skip))


def _places(steps: Sequence[Step], run_id: str) -> tuple[StagePlace, ...]:
    places = []
    for step in steps:
        sources = getattr(step.of, "sources", ())
        places += [
            _place(name_of(of), run, run_id) for of, run in zip(sources, step.runs, strict=False)
        ]
        places.append(_place(step.name, step.run, run_id))
    return tuple(places)


def _place(name: str, run: Run, run_id: str) -> StagePlace:
    row = row_of(run, run_id)
    if row is None:
        return StagePlace(name, None, None)
    return StagePlace(name, row + 1, float(run.score[row]))


def _answer_hit(hit: Hit, run_id: str, steps: Sequence[Step]) -> AnswerHit:
    run = steps[-1].run
    row = row_of(run, run_id)
    scored = PASSAGE not in run.extra or (row is not None and int(run.extra[PASSAGE][row]) >= 0)
    tokens = run.extra.get(TRUNCATED_TOKENS)
    truncated = 0 if tokens is None or row is None else int(tokens[row])
    shown = hit if scored else replace(hit, calibrated=False)
    return AnswerHit(shown, _places(steps, run_id), scored, truncated)


def _times(steps: Sequence[Step]) -> tuple[StageTime, ...]:
    return tuple(StageTime(step.name, step.seconds, len(step.run.doc)) for step in steps)


def _reranked(steps: Sequence[Step]) -> Run | None:
    """What the re-ranker gives, all of it."""
    runs = [step.run for step in steps if step.before is not None and PASSAGE in step.run.extra]
    return runs[0] if runs and PREVIOUS_SCORE in runs[0].extra else None


def _depth(steps: Sequence[Step]) -> int | None:
    run = _reranked(steps)
    return None if run is None else int((run.extra[PASSAGE] >= 0).sum())


def _truncated(steps: Sequence[Step]) -> int:
    run = _reranked(steps)
    if run is None or TRUNCATED_TOKENS not in run.extra:
        return 0
    return int(run.extra[TRUNCATED_TOKENS].sum())
