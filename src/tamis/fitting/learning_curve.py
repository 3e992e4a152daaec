"""The learning curve: the measure of the fine-tuned model by how many queries it was trained on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.errors import InputError, TrainingError
from tamis.fitting.candidate_models import LEARNING_CURVE
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.plan import FOLDS, HELD_OUT_SHARE, Budget, DataSizes, Step
from tamis.fitting.reranker_runs import FoldRuns, score_fold
from tamis.fitting.system import Reranker, System

CURVE_SHARES = (0.25, 0.5)
"""Of the training queries, measured beside none and all of them."""
CURVE_QUERIES = 100
"""On about how many held-out queries the curve is measured."""
MIN_TRAIN_QUERIES = 10
"""How many queries each of its points is trained on at least."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CurvePoint:
    """The mean measure on held-out queries after training on so many others."""

    queries: int
    mean: float


def plan_learning_curve(
    budget: Budget,
    texts: int,
    scoring: float,
    text_seconds: float,
    wanted_texts: Callable[[DataSizes], int],
) -> None:
    """Plan two points where they fit the time, else one; none where half of the training queries
    are too few. A training on all of them takes `texts`, `wanted_texts` if there is time.
    """
    data = budget.data
    if not data.learning_curve or data.judged * HELD_OUT_SHARE < MIN_TRAIN_QUERIES:
        return
    count = measured_folds(budget.folds, data.judged)
    step = None
    for points in range(len(CURVE_SHARES), 0, -1):
        fewer = [
            replace(data, judged=round(share * data.judged)) for share in CURVE_SHARES[-points:]
        ]
        trained = sum(min(texts, wanted_texts(sizes)) for sizes in fewer)
        seconds = text_seconds * trained * count + points * scoring * count / budget.folds
        what = "train on fewer judged queries"
        step = Step(LEARNING_CURVE, "learning curve", what, seconds, size=points)
        if seconds <= budget.left:
            break
    if step is not None:
        budget.add(step)


def measured_folds(folds: int, judged: int) -> int:
    """In how many folds the curve is measured, so that it is on a hundred queries or so.

    >>> [measured_folds(3, judged) for judged in (60, 150, 400)], measured_folds(1, 2_000)
    ([3, 2, 1], 1)
    """
    return min(folds, -(-CURVE_QUERIES // max(1, judged // FOLDS)))


def measure_learning_curve(
    fit: FitContext,
    base: Reranker,
    tuned: Reranker,
    folds: Sequence[Fold],
    results: Sequence[FoldRuns],
) -> tuple[CurvePoint, ...]:
    """The points of the curve: without training, with all queries, and between as planned."""
    count = measured_folds(len(folds), len(fit.splits.train))
    folds, results = folds[:count], results[:count]
    mean_size = float(np.mean([len(fold.train) for fold in folds]))
    points = [
        CurvePoint(0, _mean(fit, base, results)),
        CurvePoint(round(mean_size), _mean(fit, tuned, results)),
    ]
    for share in CURVE_SHARES[len(CURVE_SHARES) - fit.plan.size_of(LEARNING_CURVE) :]:
        size = round(share * mean_size)
        if size >= MIN_TRAIN_QUERIES:
            smaller_folds = [fold.with_share(share, fit.request.seed) for fold in folds]
            points += _trained_on_fewer(fit, tuned, smaller_folds, size)
    return tuple(sorted(points, key=lambda point: point.queries))


def _trained_on_fewer(
    fit: FitContext, tuned: Reranker, folds: Sequence[Fold], size: int
) -> list[CurvePoint]:
    """One point; none without the time, or where so few queries cannot be trained on."""
    try:
        if fit.work.elapsed > fit.request.max_time:
            raise TrainingError("there is no time left for it")
        results = [
            score_fold(fit, fold, {tuned: tuned.train_fold(fold, fit)}, LEARNING_CURVE)
            for fold in folds
        ]
    except (TrainingError, InputError) as error:
        _log.info("the learning curve has no point at %d queries: %s", size, error)
        return []
    return [CurvePoint(size, _mean(fit, tuned, results))]


def _mean(fit: FitContext, kind: Reranker, results: Sequence[FoldRuns]) -> float:
    alone = [System(kind.name, fit.retrieved.candidates.kind, kind)]
    values = [result.values(alone, fit.request.measure) for result in results]
    return round(float(np.concatenate(values, 1).mean()), 4)
