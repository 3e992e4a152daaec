"""Re-rankers at work: trained on every fold, and what each makes of the candidates."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, TrainingError
from tamis.evaluation import evaluate
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.system import Reranker, System
from tamis.fitting.workspace import Timing
from tamis.pages.text_format import counted
from tamis.registry import open_stage
from tamis.types import Qrels, Run

TIMED_QUERIES = 3
"""On how many test queries the cost of a query is measured."""
_log = logging.getLogger(__name__)
Models = Mapping[Reranker, Path | None]
"""The model of each re-ranker, trained on one fold."""


@dataclass(frozen=True, eq=False)
class FoldRuns:
    """What retrievers and re-rankers make of the held-out queries of a fold."""

    candidates: Run
    retrieved: Mapping[str, Run]
    """By the key of the retriever."""
    scored: Mapping[str, Run]
    """By the key of the re-ranker."""
    qrels: Qrels

    def run_of(self, system: System) -> Run:
        """The ranking of a system."""
        if system.reranker is None:
            return self.retrieved[system.retriever.key]
        return system.rank(self.candidates, self.scored[system.reranker.key])

    def values(self, systems: Sequence[System], measure: str) -> NDArray[np.float64]:
        """The measure of every system on every held-out query: one row per system."""
        runs = (self.run_of(system) for system in systems)
        return np.array(
            [evaluate(self.qrels, {"run": run}, [measure]).values("run", measure) for run in runs]
        )


def train_rerankers(
    fit: FitContext, folds: Sequence[Fold], kinds: Sequence[Reranker]
) -> dict[Reranker, list[Path | None]]:
    """Train every re-ranker on every fold; those that fail, or lack the time, are left out."""
    models: dict[Reranker, list[Path | None]] = {}
    for kind in kinds:
        try:
            models[kind] = [_train_in_time(fit, kind, fold, len(folds)) for fold in folds]
        except (TrainingError, InputError) as error:
            _log.info("%s is left out: %s", kind.name, error)
            fit.work.on_left_out(kind.complexity_group)
    return models


def _train_in_time(fit: FitContext, kind: Reranker, fold: Fold, folds: int) -> Path | None:
    """Train on a fold, if there is time for its share of the training or nothing to train."""
    share = fit.plan.seconds_of(kind.complexity_group) / folds
    late = fit.work.elapsed + share > fit.request.max_time
    if kind.trainings and late and not kind.is_trained(fold, fit):
        raise TrainingError("there is no time left for it")
    return kind.train_fold(fold, fit)


def score_fold(fit: FitContext, fold: Fold, models: Models, step: str = "") -> FoldRuns:
    """What every model of a fold makes of the queries it was not trained on."""
    candidates = fit.retrieved.candidates.train.select(fold.held_out)
    return FoldRuns(
        candidates,
        {runs.kind.key: runs.train.select(fold.held_out) for runs in fit.retrieved.retrievers},
        {
            kind.key: score_candidates(fit, kind, model, candidates, fold.key, step)
            for kind, model in models.items()
        },
        fit.splits.train.select(fold.held_out),
    )


def score_candidates(
    fit: FitContext, kind: Reranker, model: Path | None, run: Run, query_set: str, step: str = ""
) -> Run:
    """Candidates as a re-ranker scores them; `query_set` says which queries they are of."""

    def score() -> Run:
        if len(run):
            _log.info("scoring %s with %s (%s)", counted(len(run)), kind.name, query_set)
        return fit.open_stage(kind.stage(model, fit), kind.openers)(run)

    timing = Timing(step or kind.complexity_group, "score", kind.key, query_set)
    return fit.work.run(f"{kind.key} {query_set}", score, timing)


def seconds_per_query(fit: FitContext, kind: Reranker, model: Path | None) -> float:
    """What a query costs when the stage is opened anew: no score or embedding is cached."""
    run = fit.retrieved.candidates.test.top(fit.request.depth)
    some = run.select(run.queries.ids.select(np.arange(min(TIMED_QUERIES, len(run)))))

    def measure() -> dict[str, float]:
        spec = kind.stage(model, fit)
        request = fit.request
        stage = open_stage(
            spec, threads=request.threads, openers=kind.openers, device=request.device
        )
        stage(some.top(1))  # warm up before the clock starts
        began = time.perf_counter()
        stage(some)
        return {"seconds": (time.perf_counter() - began) / max(1, len(some))}

    timing = Timing(kind.complexity_group, "query cost", kind.key)
    return float(fit.work.record(f"query cost {kind.key}", measure, timing)["seconds"])
