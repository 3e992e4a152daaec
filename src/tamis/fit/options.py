"""What there is to choose from: rankings of the same candidates by each model, alone and fused.

A model scores the candidates once; every fusion with the first stage is computed from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.evaluation import evaluate
from tamis.fit.plan import CROSS_ENCODERS, LEAST_QUERIES, TUNED
from tamis.fit.sieve import GIVEN, HYBRID
from tamis.pipeline.hybrid import WORDS
from tamis.pipeline.placing import below, interpolated
from tamis.types import Qrels, Run

BM25, START = "BM25", "start"
HALFWAY = "half tuned"
POINTS = {"quarter tuned": 0.25, HALFWAY: 0.5, "three-quarter tuned": 0.75}
"""Models on the line from the start to the tuned one, by how far along they lie."""
WEIGHTS = (0.25, 0.5, 0.75)
"""How much a model counts beside the first stage, where the two are fused."""
PREFERRED = 0.75
"""The same of the base where there are no vectors and judgements do not surely speak for another
way: rarely far from the best (docs/explanation/guard.md)."""


@dataclass(frozen=True)
class Way:
    """One way to rank: a model, and how much it counts; without a model, what was found as it is.

    `simplicity` is what the guard prefers, the lower the better.
    """

    name: str
    model: str | None
    weight: float | None
    simplicity: int


def floors(usual: str, first: str, judged: int) -> list[str]:
    """What nothing may be below: the usual way, a first stage of the user's own, and BM25 unless
    very few queries speak for it.

    >>> floors("start .75 + BM25", "BM25", 8), floors("start .75 + first stage", "first stage", 32)
    (['start .75 + BM25'], ['start .75 + first stage', 'first stage', 'BM25'])
    """
    own = [first] if first == GIVEN else []
    return [usual, *own, *([BM25] if judged >= LEAST_QUERIES else [])]


def trained_as(name: str) -> str:
    """The model that had to be trained to make one."""
    return TUNED if name in POINTS else name


def ways(first: str, models: Sequence[str], others: Sequence[str] = ()) -> list[Way]:
    """All ways with these models, which are given from the simplest to the least simple.

    The usual way stands before all: the hybrid, or without vectors the first model fused so that
    it counts PREFERRED. Then whatever was not trained, then all that one training made, alone or
    fused with what `fused_with` says. `others` are first stages beside the one whose candidates
    are scored; they stand alone.

    >>> [way.name for way in ways("BM25", ["start"])]
    ['BM25', 'start', 'start .25 + BM25', 'start .50 + BM25', 'start .75 + BM25']
    >>> [way.name for way in ways("hybrid", [], ["BM25"])]
    ['BM25', 'hybrid']
    >>> usual(ways("BM25", ["start"])).name, usual(ways("hybrid", ["start"])).name
    ('start .75 + BM25', 'hybrid')
    """
    stages = sorted([first, *others], key=lambda name: (name != BM25, name))
    found = [Way(name, None if name == first else name, None, 1) for name in stages]
    if first == HYBRID and models:  # the model scores what it finds to tell how sure that is
        found[stages.index(HYBRID)] = Way(HYBRID, models[0], 0.0, 0)
    trainings = list(dict.fromkeys(map(trained_as, models)))
    for model in models:
        simplicity = 1 + trainings.index(trained_as(model))
        found.append(Way(model, model, None, simplicity))
        for weight in WEIGHTS:
            name = f"{model} {weight:.2f} + {fused_with(first, model)}".replace(" 0.", " .")
            preferred = model == models[0] and weight == PREFERRED and first != HYBRID
            found.append(Way(name, model, weight, 0 if preferred else simplicity))
    return found


def fused_with(first: str, model: str) -> str:
    """What a model is fused with: the first stage, but of a hybrid only BM25 where the model has
    embeddings of its own, which would count twice; a cross-encoder has none.

    >>> fused_with("hybrid", "tuned"), fused_with("hybrid", "cross-encoder")
    ('BM25', 'hybrid')
    """
    return BM25 if first == HYBRID and model not in CROSS_ENCODERS else first


def usual(found: Sequence[Way]) -> Way:
    """The way that is handed over where nothing surely speaks for another."""
    return min(found, key=lambda way: way.simplicity)


def ranked(way: Way, first: Run, scored: Mapping[str, Run]) -> Run:
    """The ranking of a way: what the re-ranking stage makes of the scores of a model."""
    if way.model is None:
        return first
    run = scored[way.model]
    if way.weight is None or "first" not in run.extra:
        return run
    own = np.where(run.extra["passage"] >= 0, run.score, np.float32(-np.inf))
    columns = {**run.extra, "model": own}
    before = Run(run.queries, run.docs, run.offsets, run.doc, run.extra["first"], columns)
    rows = before.extra["passage"] >= 0
    lexical = way.weight and way.model not in CROSS_ENCODERS
    beside = WORDS if lexical and WORDS in before.extra else None
    mixed = interpolated(before, rows, before.extra["model"], way.weight, beside)
    score = below(before, rows, mixed)
    return Run(before.queries, before.docs, before.offsets, before.doc, score, before.extra)


def values(
    found: Sequence[Way], first: Run, scored: Mapping[str, Run], qrels: Qrels, measure: str
) -> NDArray[np.float64]:
    """The measure of every way on every judged query: a row a way."""
    rows = []
    for way in found:
        run = ranked(way, first, scored)
        rows.append(evaluate(qrels, {"run": run}, [measure]).values("run", measure))
    return np.array(rows)


def features(run: Run, comparable: bool = True) -> NDArray[np.float64]:
    """What calibration looks at, a row a document: the model's score and that by words, or the
    first stage's where that is `comparable` from query to query, as BM25's is.

    `run` is what a re-ranking gave, fused or not; without one it has only its own scores.
    """
    if "first" not in run.extra:
        return run.score.astype(np.float64)[:, None]
    model = np.asarray(run.extra.get("model", run.score), np.float64)
    known = model[np.isfinite(model)]
    model = np.where(np.isfinite(model), model, known.min() if len(known) else 0.0)
    beside = WORDS if WORDS in run.extra else "first" if comparable else None
    both = [model, run.extra[beside]] if beside else [model]
    return np.stack(both, 1).astype(np.float64)


def relevant(run: Run, qrels: Qrels) -> NDArray[np.bool_]:
    """Which rows of a run were judged relevant."""
    found = np.zeros(len(run.doc), bool)
    for number, query in enumerate(run.queries.ids):
        if query in qrels:
            rows = slice(int(run.offsets[number]), int(run.offsets[number + 1]))
            grades = qrels[query]
            found[rows] = [grades.get(name, 0) > 0 for name in run.docs.take(run.doc[rows])]
    return found
