"""One way to rank is chosen, on judgements that the models did not learn from, and then tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.fit.calibrate import Calibration
from tamis.fit.finding import Found
from tamis.fit.guard import Choice, Option, Settled, choose, settled
from tamis.fit.making import Making, Tried
from tamis.fit.options import (
    BM25,
    START,
    Way,
    features,
    floors,
    ranked,
    relevant,
    usual,
    ways,
)
from tamis.fit.plan import LEAST_QUERIES, TUNED, Plan
from tamis.fit.sieve import GIVEN, HYBRID
from tamis.types import Qrels, Run

if TYPE_CHECKING:
    from tamis.fit.job import Fitting


CALIBRATED = 5
"""How many documents of a query probabilities are fitted to: what matters is whether the first are
right, and those far below would pull all probabilities down."""
NONE = Qrels.from_dict({})


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was chosen, from what, and what it gives on test queries."""

    way: Way
    model: Path | None
    ways: tuple[Way, ...]
    test_runs: Mapping[str, Run]
    """By the name of the way."""
    choice: Choice | None = None
    held_out: NDArray[np.float64] | None = None
    """Of every way on every query that was chosen on."""
    settled: Settled | None = None
    calibration: Calibration | None = None
    answers: Mapping[str, Any] | None = None
    """What the threshold is worth on test queries."""
    curve: tuple[tuple[int, float], ...] = ()
    """What so many judged queries give, on queries held out."""


def choose_model(fitting: Fitting, plan: Plan, found: Found) -> Chosen:
    """The best way to rank that can be had, by what judgements there are."""
    making = Making(fitting, plan, found)
    if fitting.start is None or not plan.has("start"):
        everything = ways(found.name, [], list(found.others))
        scored = {name: test for name, (_, test) in found.others.items()}
        runs = {way.name: ranked(way, found.test, scored) for way in everything}
        way = next(way for way in everything if way.model is None)
        decided = None
        if len(fitting.parts.test) >= LEAST_QUERIES:
            first = Choice(way.name, way.name, BM25, BM25, 0, ())
            decided = _tested(making, first, runs, way)
            way = next(each for each in everything if each.name == decided.name)
        return Chosen(way, None, tuple(everything), runs, settled=decided)
    if not len(fitting.parts.learn) or not making.rounds:
        return _by_rule(making)
    return _by_judgements(making)


def _by_rule(making: Making) -> Chosen:
    """Nothing to choose by: the usual way."""
    found, start, parts = making.found, making.start, making.fitting.parts
    everything = ways(found.name, [START], list(found.others))
    way = usual(everything)
    scored = {name: test for name, (_, test) in found.others.items()}
    scored[START] = making.scored(START, start, found.test, "test")
    if len(parts.test):
        making.seconds_a_query(START, start)
    runs = {each.name: ranked(each, found.test, scored) for each in everything}
    decided = None
    if len(parts.test) >= LEAST_QUERIES:
        rule = Choice(way.name, way.name, START, BM25, 0, ())
        decided = _tested(making, rule, runs, way)
        way = next(each for each in everything if each.name == decided.name)
    model = start if way.model == START else None
    return Chosen(way, model, tuple(everything), runs, settled=decided)


def _tested(making: Making, choice: Choice, runs: Mapping[str, Run], usually: Way) -> Settled:
    """What is left of a choice after its test: against start, BM25, the usual way and a first
    stage of the user's own.
    """
    own = [usually.name, *([GIVEN] if making.found.name == GIVEN else [])]
    return settled(choice, tested(making, runs), also=own, seed=making.fitting.request.seed)


def tested(making: Making, runs: Mapping[str, Run]) -> dict[str, NDArray[np.float64]]:
    """The measure of every ranking on every test query."""
    measure = making.fitting.request.measure
    found = evaluate(making.fitting.parts.test, runs, [measure])
    return {name: found.values(name, measure) for name in runs}


def _by_judgements(making: Making) -> Chosen:
    request, parts, found = making.fitting.request, making.fitting.parts, making.found
    models = making.models()
    everything = ways(found.name, list(models), list(found.others))
    by_name = {way.name: way for way in everything}
    tried = [making.tried(turn, models) for turn in making.rounds]
    held = np.concatenate([each.values(everything, request.measure) for each in tried], 1)
    options = [Option(way.name, way.simplicity, _about(way)) for way in everything]
    least = floors(usual(everything).name, found.name, held.shape[1])
    choice = choose(options, held, start=START, baseline=BM25, floors=least, seed=request.seed)
    chosen, decided = by_name[choice.chosen], None
    runs = making.test_runs(models, everything, chosen)
    if len(parts.test) >= LEAST_QUERIES:
        decided = _tested(making, choice, runs, usual(everything))
        chosen = by_name[decided.name]
    unanswered = making.unanswered(chosen, models)
    calibration = _calibration(chosen, tried, found.name, unanswered[0])
    answers = None
    if calibration and len(parts.test):
        both = (runs[chosen.name], parts.test), (unanswered[1], NONE)
        answers = calibration.answers(*_stacked(both, found.name == BM25)).record()
    model = models[chosen.model](making.last) if chosen.model in models else None
    curve = tuple(making.curve(tried)) if TUNED in models else ()
    return Chosen(
        chosen, model, tuple(everything), runs, choice, held, decided, calibration, answers, curve
    )


def _about(way: Way) -> str:
    return "which is simpler" if way.simplicity else "which is safer"


def _rows(
    run: Run, qrels: Qrels, comparable: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], Any]:
    """Features, relevance and query of the rows of a ranking."""
    query = np.repeat(np.arange(len(run)), run.sizes())
    return features(run, comparable), relevant(run, qrels), query


def _stacked(
    parts: Sequence[tuple[Run, Qrels]], comparable: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], Any]:
    """The same of several rankings, whose queries differ."""
    found = [_rows(run, qrels, comparable) for run, qrels in parts if len(run.doc)]
    shifts = np.cumsum([0, *(len(run) for run, _ in parts if len(run.doc))])
    query = np.concatenate([part[2] + shift for part, shift in zip(found, shifts, strict=False)])
    rows, labels = (np.concatenate([part[at] for part in found]) for at in (0, 1))
    return rows, labels, query


def _calibration(
    way: Way, tried: Sequence[Tried], first: str, unanswered: Run
) -> Calibration | None:
    """Probabilities from the queries held out and from those without an answer; None where they
    are too few for that, or where a first stage alone was chosen whose scores say nothing across
    queries.
    """
    if way.weight is None and way.name in (HYBRID, GIVEN):
        return None
    held = [(ranked(way, each.first, each.scored), each.qrels) for each in tried]
    parts = [(run.top(CALIBRATED), qrels) for run, qrels in (*held, (unanswered, NONE))]
    if not any(len(run.doc) for run, _ in parts):
        return None
    rows, labels, query = _stacked(parts, first == BM25)
    scored = any("first" in run.extra for run, _ in parts)
    names = ("model", "first stage")[: rows.shape[1]] if scored else ("first stage",)
    try:
        return Calibration.fit(rows, labels, query, names=names)
    except InputError:
        return None
