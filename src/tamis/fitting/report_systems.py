"""What the report of a fit says of every system, those of one re-ranker together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.evaluation import Comparison, parse_measure
from tamis.evaluation.report_tables import interval, shared_limits
from tamis.fitting.result import FitResult, SystemResult
from tamis.pages.charts import whisker_scale

NO_RERANKER = "retrieval alone"


def systems_view(result: FitResult, family_note: str) -> dict[str, Any] | None:
    """The table of every system; None where nothing was measured."""
    if result.evaluation is None and result.selection is None:
        return None
    heading = "Every system" if result.evaluation else "Every system, not tested"
    held_out, tested = result.selection is not None, result.evaluation is not None
    has_base = bool(result.against_base)
    limits = shared_limits(list(_by_system(result, result.against_baseline).values()))
    groups: dict[str | None, list[SystemResult]] = {None: []}
    for system in result.systems:
        groups.setdefault(system.reranker if system.group else None, []).append(system)
    return {
        "heading": heading + _standing(result),
        "held_out": held_out,
        "has_base": has_base,
        "columns": 1 + 2 * held_out + 5 * tested + 3 * has_base,
        "scale": whisker_scale(limits),
        "groups": [_group(result, systems, limits) for systems in groups.values()],
        "notes": _notes(result, family_note),
    }


def _standing(result: FitResult) -> str:
    if result.verified:
        return ""
    return " (provisional)" if result.provisional else " (verified: no)"


def _by_system(result: FitResult, comparisons: Sequence[Comparison]) -> dict[str, Comparison]:
    """The comparisons by the measure that systems were selected by."""
    measure = parse_measure(result.measure)
    return {
        comparison.run: comparison for comparison in comparisons if comparison.measure == measure
    }


def _group(
    result: FitResult, systems: Sequence[SystemResult], limits: tuple[float, float]
) -> dict[str, Any]:
    """What ranks with one model: what it is and costs, and its rows."""
    name = systems[0].group
    facts = [systems[0].description, _cost(systems)] if name else []
    against_bm25 = _by_system(result, result.against_baseline)
    against_base = _by_system(result, result.against_base)
    rows = [
        {
            "system": system,
            "label": _label(system),
            "tags": _tags(result, system),
            "against_bm25": against_bm25.get(system.name),
            "interval": interval(against_bm25[system.name], limits)
            if system.name in against_bm25
            else "",
            "against_base": against_base.get(system.name),
        }
        for system in systems
    ]
    return {"name": name or NO_RERANKER, "facts": "; ".join(filter(None, facts)), "rows": rows}


def _label(system: SystemResult) -> str:
    """The name of a system; within a group what it adds to the model."""
    if not system.group:
        return system.name
    if system.weight is None:
        return "alone"
    return f"fused, weight {system.weight:.2f}".replace("0.", ".")


def _tags(result: FitResult, system: SystemResult) -> list[str]:
    """What stands below the name of a system."""
    tags = [] if system.group else [_milliseconds([system])]
    decision = result.decision
    if system.selected:
        tags.append("selected")
    elif decision and decision.fell_back and system.name == decision.selection.selected:
        tags.append("failed its test")
    return list(filter(None, tags))


def _cost(systems: Sequence[SystemResult]) -> str:
    """What a query and what training cost: the same for all that rank with one model."""
    minutes = max((system.training_minutes for system in systems), default=0.0)
    training = f"{minutes:g} min of training" if minutes else "no training"
    return ", ".join(filter(None, (_milliseconds(systems), training)))


def _milliseconds(systems: Sequence[SystemResult]) -> str:
    timed = [system.milliseconds for system in systems if system.milliseconds is not None]
    return f"{max(timed):,.{1 + (max(timed) < 1)}f} ms per query" if timed else ""


def _notes(result: FitResult, family_note: str) -> list[str]:
    notes = []
    if result.selection is not None:
        notes.append(
            f"Held out: the mean over {result.selection.queries:,} judged queries used for "
            "selection, by models that were not trained on them."
        )
    if result.evaluation is not None:
        notes += [
            f"Test: the mean over {len(result.evaluation.queries):,} other queries. A dot is the "
            "mean difference, its line the bootstrap interval, not corrected, grey where it holds "
            "zero. "
            "p is that of the paired t-test, two-sided, not corrected; Holm’s is corrected, and "
            "only the tests that were made together have one.",
            family_note,
            "Milliseconds include retrieval. What was not tested has a dash.",
        ]
    return notes
