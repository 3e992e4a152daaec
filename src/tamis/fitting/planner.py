"""Makes the plan: every kind of system adds its steps, and queries are held out as time allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tamis.fitting.plan import (
    ENOUGH_SELECTION_QUERIES,
    FOLDS,
    HELD_OUT_SHARE,
    MAX_SELECTION_QUERIES,
    MIN_QUERIES,
    Budget,
    DataSizes,
    Plan,
)
from tamis.fitting.system import Reranker, SystemKind
from tamis.fitting.systems import KINDS

ALWAYS_FOLDS_BELOW = 150
"""Fewer judged queries than this are always compared on in folds."""
ONE_PART_FROM = 600
"""From so many on one part is held out; between the two numbers folds are used if time allows."""


def make_plan(
    data: DataSizes,
    pace: float,
    seconds: float,
    spent: float = 0.0,
    kinds: Sequence[SystemKind] = KINDS,
) -> Plan:
    """The steps that fit into so many seconds, of which some are spent.

    >>> data = DataSizes(1000, 100, 100, 100, 50, 1.0, "bi-encoder")
    >>> [step.name for step in make_plan(data, 0.01, 1200).steps if step.planned]
    ['BM25', 'hybrid', 'base model', 'fine-tuned', 'interpolated weights', 'learning curve']
    >>> [step.name for step in make_plan(data, 0.01, 5).steps if step.planned]
    ['BM25']
    """

    def planned(folds: int, compared: int) -> Plan:
        budget = Budget(data, folds, compared, pace, seconds, spent)
        for kind in kinds:
            kind.plan(budget)
        return budget.plan()

    judged, num_held_out = data.judged, round(HELD_OUT_SHARE * data.judged)
    folds = 0 if judged < MIN_QUERIES else FOLDS if judged < ONE_PART_FROM else 1
    plan = planned(folds, min(MAX_SELECTION_QUERIES, num_held_out if folds == 1 else judged))
    if judged < ALWAYS_FOLDS_BELOW or _is_full(plan):
        return plan
    held_out = planned(1, min(ENOUGH_SELECTION_QUERIES, num_held_out))
    if trains_on_folds(held_out, kinds):
        return held_out
    untrained = planned(0, min(MAX_SELECTION_QUERIES, judged))
    folded = {kind.key for kind in kinds if isinstance(kind, Reranker) and kind.needs_folds}
    left_out = tuple(step for step in held_out.steps if step.key in folded)
    return replace(untrained, steps=untrained.steps + left_out)


def trains_on_folds(plan: Plan, kinds: Sequence[SystemKind] = KINDS) -> bool:
    """Whether anything is planned that is trained without the queries it is compared on."""
    return any(
        kind.needs_folds and plan.has(kind.key) for kind in kinds if isinstance(kind, Reranker)
    )


def _is_full(plan: Plan) -> bool:
    """Whether what decides on folds is planned, at the size it would have with more time."""
    wanting = [step for step in plan.steps if step.planned and step.wanted_size]
    return bool(wanting) and all(step.size >= step.wanted_size for step in wanting)
