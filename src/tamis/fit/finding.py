"""The first stage: BM25 tuned where judgements allow it, and vectors where there is time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.collection.runs import read_run
from tamis.errors import InputError
from tamis.evaluation import evaluate, t_test
from tamis.fit.look import sampled
from tamis.fit.options import BM25
from tamis.fit.plan import LEAST_QUERIES, SAMPLE, Plan
from tamis.fit.sieve import GIVEN, HYBRID, first_stage
from tamis.models.encoders import find_encoder
from tamis.models.folder import open_scorer
from tamis.search.tune import tune
from tamis.types import Queries, Query, Run, Source

if TYPE_CHECKING:
    from tamis.fit.job import Fitting

TUNED = 50
"""On how many judged queries BM25 is tuned at least."""
TUNED_AT_MOST = 1_500
"""And at most, drawn with the seed: two numbers need no more, and every pair is tried on all."""
LEVEL = 0.05
WARM = Queries.of([Query("warm", "words to warm up with")])


@dataclass(frozen=True, eq=False)
class Found:
    """The candidates of the queries to choose and to test on."""

    name: str
    """What found them: BM25, `hybrid`, or `first stage` where the user's own was used."""
    learn: Run
    test: Run
    others: Mapping[str, tuple[Run, Run]]
    """What other first stages found for the same queries."""
    facts: Mapping[str, Any]
    unanswered: Mapping[str, tuple[Run, Run]]
    """What each first stage found for queries that have no answer: to calibrate on, and to test
    that on."""


def some_texts(fitting: Fitting) -> list[str]:
    """Texts of the collection to measure a pace on."""
    return [document.text for document in islice(fitting.index, SAMPLE)]


def find(fitting: Fitting, plan: Plan) -> Found:
    """Search for every query that is chosen or tested on."""
    parts, work, depth = fitting.parts, fitting.work, fitting.request.depth
    facts = {"bm25": work.note("tuning", lambda: _tuned(fitting))}
    asked = {"learn": parts.asked(parts.learn), "test": parts.asked(parts.test)}

    def searched(name: str, source: Source) -> tuple[Run, Run]:
        source.search(WARM, depth)  # what is only done once is done before the clock starts
        learn, test = (
            work.run(f"{name}-{part}", partial(source.search, queries, depth))
            for part, queries in asked.items()
        )
        return learn, test

    sources = {BM25: first_stage(fitting.index, BM25, threads=fitting.request.threads)}
    stages = {BM25: searched(BM25, sources[BM25])}
    used = BM25
    if plan.has("vectors"):
        sources[HYBRID] = _hybrid(fitting)
        stages[HYBRID] = searched(HYBRID, sources[HYBRID])
        both = {name: found[0] for name, found in stages.items()}
        facts["vectors"] = work.note("recall", lambda: _compared(fitting, both))
        used = HYBRID if facts["vectors"]["used"] else BM25
    none = parts.unanswered
    unanswered = {
        name: (source.search(none[0], depth), source.search(none[1], depth))
        for name, source in sources.items()
    }
    if fitting.request.candidates is not None:
        given, used = _given(fitting), GIVEN
        stages[GIVEN] = _of(given, asked["learn"], depth), _of(given, asked["test"], depth)
        unanswered[GIVEN] = _of(given, none[0], depth), _of(given, none[1], depth)
    found = stages.pop(used)
    return Found(used, *found, stages, facts, unanswered)


def _tuned(fitting: Fitting) -> dict[str, Any]:
    """Tune BM25 and keep what was chosen where that gains on held-out folds."""
    parts, request = fitting.parts, fitting.request
    if len(parts.learn) < TUNED:
        return {"tuned": False, "why": f"{len(parts.learn)} judged queries, {TUNED} are needed"}
    judged = sampled(parts.learn, TUNED_AT_MOST, request.seed)
    try:
        done = tune(fitting.index, parts.asked(judged), judged, request.measure, seed=request.seed)
    except InputError as error:  # queries too alike to make folds of
        return {"tuned": False, "why": str(error)}
    told = {"parameters": dict(done.parameters), "gain on held-out folds": round(done.gain, 4)}
    if done.gain <= 0:
        why = "it loses on held-out folds" if done.gain < 0 else "nothing is better"
        return {"tuned": False, "why": why, **told}
    fitting.index.record_tuned(done.record(), "bm25")
    return {"tuned": True, **told}


def _hybrid(fitting: Fitting) -> Source:
    encoder: Any = open_scorer(fitting.start or "", threads=fitting.request.threads)
    if not fitting.index.snapshot.encoded:
        with fitting.work.timed("vectors"):
            _, model = find_encoder(str(fitting.request.base))
            fitting.index.encode(encoder, model, fitting.passages)
    return first_stage(fitting.index, HYBRID, encoder, fitting.request.threads)


def _compared(fitting: Fitting, stages: Mapping[str, Run]) -> dict[str, Any]:
    """What the hybrid finds and what words alone find, on judgements that nothing was trained on
    yet. It is used unless it surely finds less; fewer than ten judged queries are not asked.
    """
    qrels, measure = fitting.parts.learn, f"R@{fitting.request.depth}"
    if len(qrels) < LEAST_QUERIES:
        return {"used": True}
    found = evaluate(qrels, stages, [measure])
    p = t_test(found.values(HYBRID, measure) - found.values(BM25, measure))
    means = {name: round(found.mean(name, measure), 4) for name in stages}
    less = means[HYBRID] < means[BM25] and p is not None and p < LEVEL
    return {"measure": measure, **means, "p": p, "used": not less}


def given_run(path: Path, queries: Queries) -> Run:
    """A user's run, which must have a query of the collection."""
    run = read_run(path)
    if not (run.queries.ids.positions_in(queries.ids) >= 0).any():
        raise InputError(
            f"{path} has no query of this collection", hint="was it made for other queries?"
        )
    endless = np.flatnonzero(np.isinf(run.score))
    if len(endless):
        query = run.queries.ids[int(np.searchsorted(run.offsets, endless[0], "right")) - 1]
        raise InputError(
            f"{path} has a score of {run.score[endless[0]]:g} for query {query!r}",
            hint="a fit weighs scores: give numbers, or ranks turned into such",
        )
    return run


def _given(fitting: Fitting) -> Run:
    path, snapshot = fitting.request.candidates, fitting.index.snapshot
    assert path is not None
    run = given_run(path, fitting.parts.queries)
    # whatever else a run brings was said of another first stage
    run = Run.trusted(run.queries, run.docs, run.offsets, run.doc, run.score)
    there = np.append(snapshot.places[0], -1)[run.docs.positions_in(snapshot.ids)][run.doc] >= 0
    if not there.any():
        raise InputError(
            f"{path} has no document of this collection", hint="was it made of another one?"
        )
    if not there.all():
        gone = int((~there).sum())
        fitting.work.said(
            f"warning: {gone:,} of {len(there):,} candidates in {path} are not in the collection: "
            "they are left out"
        )
        run = run.rows(there)
    asked = fitting.parts.learn.queries.union(fitting.parts.test.queries)
    missing = int((asked.positions_in(run.queries.ids) < 0).sum())
    if missing:
        fitting.work.said(
            f"warning: {path} has nothing for {missing:,} of {len(asked):,} judged queries: they "
            "count as zero for it"
        )
    return run


def _of(run: Run, queries: Queries, depth: int) -> Run:
    """The part of a user's run that is about these queries."""
    return run.select(queries.ids).with_queries(queries).top(depth)
