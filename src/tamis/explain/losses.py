"""Why a run is worse than a baseline: each cause is undone for the queries that got worse, and
measured.

A query counts under a cause only if its value without the cause is at least the baseline's, which
is measured without it too where both runs may have it. A query may count under several causes; what
counts under none is unexplained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.explain.causes import CAUSES, Cause, LossInputs, Rankings
from tamis.types import Ids, Run

EPSILON = 1e-9
"""Values that differ by less are equal."""


@dataclass(frozen=True)
class CauseResult:
    """What undoing one cause does to the queries that got worse."""

    key: str
    name: str
    undone_by: str
    """What is done to undo it."""
    was_run: bool
    why_not: str
    """Why it was not run, where it was not."""
    applies: int
    """To how many of the worse queries it applies: undoing it changes something there."""
    restored: int
    """For how many of them the value is at least the baseline's then."""
    share: float
    """The same as a share of all worse queries."""
    recovered: float
    """How much of what the run lacks to the baseline comes back, as a share over all worse queries,
    with what it costs others of them taken off."""


@dataclass(frozen=True)
class QueryLoss:
    """One query that got worse."""

    id: str
    text: str
    baseline: float
    run: float
    without: Mapping[str, float]
    """Its value with a cause undone, for each that was run and applies."""
    baseline_without: Mapping[str, float]
    """The baseline's value with a cause undone there too, where that is another ranking."""
    restored_by: tuple[str, ...]


@dataclass(frozen=True)
class Losses:
    """Why the queries got worse, cause by cause."""

    measure: str
    run: str
    baseline: str
    queries: int
    worse: int
    better: int
    run_mean: float
    baseline_mean: float
    causes: tuple[CauseResult, ...]
    unexplained: int
    """How many worse queries no cause restores, of those that were run."""
    unexplained_share: float
    per_query: tuple[QueryLoss, ...]
    """The worse queries, the largest loss first."""
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON (docs/reference/json.md)."""
        return asdict(self)


def find_losses(
    inputs: LossInputs,
    *,
    measure: str = "nDCG@10",
    names: tuple[str, str] = ("run", "baseline"),
    causes: Sequence[Cause] = CAUSES,
) -> Losses:
    """Undo each cause for the queries on which the run is below the baseline.

    >>> from tamis.types import Document, Qrels
    >>> run = Run.from_dict({"q": {"new": 3.0, "b": 2.0, "a": 1.0}})
    >>> baseline = Run.from_dict({"q": {"a": 3.0, "b": 2.0}})
    >>> qrels = Qrels.from_dict({"q": {"a": 1, "b": 0}})
    >>> found = find_losses(LossInputs(run, baseline, qrels, [Document("a", "")]), measure="RR")
    >>> found.worse, [(cause.key, cause.restored) for cause in found.causes if cause.was_run]
    (1, [('unjudged', 0)])
    """
    values = _values(inputs, measure)
    queries, run, baseline = values
    worse = np.flatnonzero(run < baseline - EPSILON)
    ids = [queries[n] for n in worse.tolist()]
    before = {queries[n]: (float(baseline[n]), float(run[n])) for n in worse.tolist()}
    losing = inputs.select(queries.select(worse))
    without: dict[str, dict[str, float]] = {}
    baseline_without: dict[str, dict[str, float]] = {}
    why_not: dict[str, str] = {}
    for cause in causes:
        reason = cause.why_not(losing) if ids else "no query got worse"
        if reason:
            why_not[cause.key] = reason
            continue
        without[cause.key] = _measured(cause.undo(losing), losing, measure)
        if cause.undo_in_baseline is not None:
            rankings = cause.undo_in_baseline(losing)
            baseline_without[cause.key] = _measured(rankings, losing, measure)
    per_query = tuple(
        _query_loss(inputs, name, before[name], without, baseline_without)
        for name in sorted(ids, key=lambda name: before[name][1] - before[name][0])
    )
    unexplained = sum(not query.restored_by for query in per_query)
    count = max(len(ids), 1)
    return Losses(
        measure, *names, len(queries), len(ids), int((run > baseline + EPSILON).sum()),
        float(run.mean()), float(baseline.mean()),
        tuple(_result(cause, per_query, why_not.get(cause.key, "")) for cause in causes),
        unexplained, unexplained / count, per_query, tuple(losing.notes()) if ids else (),
    )  # fmt: skip


def _values(inputs: LossInputs, measure: str) -> tuple[Ids, Any, Any]:
    """The queries that are judged and that one of the runs has, and both runs' values."""
    both = inputs.run.queries.ids.union(inputs.baseline.queries.ids)
    qrels = inputs.qrels.select(both)
    if not len(qrels):
        raise InputError(
            "no query of the two runs is judged",
            hint="are runs and judgements from the same collection and split?",
        )
    runs = {"run": inputs.run, "baseline": inputs.baseline}
    evaluation = evaluate(qrels, runs, [measure])
    return (
        evaluation.queries,
        evaluation.values("run", measure),
        evaluation.values("baseline", measure),
    )


def _measured(rankings: Rankings, inputs: LossInputs, measure: str) -> dict[str, float]:
    """The value of each query that a cause applies to."""
    if not rankings:
        return {}
    qrels = inputs.qrels.select(Ids.of(rankings))
    evaluation = evaluate(qrels, {"without": Run.from_dict(rankings)}, [measure])
    values = evaluation.values("without", measure).tolist()
    return dict(zip(evaluation.queries, values, strict=True))


def _query_loss(
    inputs: LossInputs,
    name: str,
    values: tuple[float, float],
    without: Mapping[str, Mapping[str, float]],
    baseline_without: Mapping[str, Mapping[str, float]],
) -> QueryLoss:
    baseline, run = values
    undone = {key: found[name] for key, found in without.items() if name in found}
    of_baseline = {
        key: found[name]
        for key, found in baseline_without.items()
        if name in found and key in undone
    }
    restored = tuple(
        key for key, value in undone.items() if value >= of_baseline.get(key, baseline) - EPSILON
    )
    return QueryLoss(name, inputs.text(name), baseline, run, undone, of_baseline, restored)


def _result(cause: Cause, queries: Sequence[QueryLoss], why_not: str) -> CauseResult:
    affected = [query for query in queries if cause.key in query.without]
    restored = sum(cause.key in query.restored_by for query in queries)
    lost = sum(query.baseline - query.run for query in queries)
    gained = sum(
        query.without[cause.key] - query.run
        - (query.baseline_without.get(cause.key, query.baseline) - query.baseline)
        for query in affected
    )  # fmt: skip
    return CauseResult(
        cause.key, cause.name, cause.undone_by, not why_not, why_not, len(affected), restored,
        restored / max(len(queries), 1), gained / lost if lost else 0.0,
    )  # fmt: skip
