"""What the report of a fit says of the guard's decision and of the threshold for an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from tamis.fitting.calibration import Answers, Bin
from tamis.fitting.guard import SELECTION_LEVEL, BaselineComparison, Selection
from tamis.fitting.result import FitResult
from tamis.fitting.system import FUSION_WEIGHTS
from tamis.pages.charts import Line, Point, line_panel
from tamis.pages.svg import picture
from tamis.pages.text_format import counted, interval, listed, p_text, p_value, signed

SMALLEST_RADIUS, LARGEST_RADIUS = 3.0, 12.0
"""Of a point of one query, and of one that all are in."""


def guard_view(result: FitResult) -> dict[str, Any]:
    """What was compared, how one system was selected, and how that did in its test."""
    selection, decision = result.selection, result.decision
    if selection is None:
        paragraphs = [_default(result)]
    else:
        paragraphs = [_compared(result), _rule(result, selection)]
    systems = selection.systems if selection else ()
    comparisons = decision.test.comparisons if decision else ()
    return {
        "paragraphs": paragraphs,
        "means": {held_out.system.name: held_out.mean for held_out in systems},
        "tests": "; ".join(
            f"against {comparison.baseline} {figures(comparison)}" for comparison in comparisons
        ),
        "systems": [
            (
                held_out.system.name,
                f"{held_out.mean:.4f}",
                signed(held_out.difference),
                "–" if held_out.standard_error is None else f"{held_out.standard_error:.4f}",
                p_value(held_out.p_value),
            )
            for held_out in systems
        ],
    }


def figures(comparison: BaselineComparison) -> str:
    """A difference with its interval and its p-value, in a sentence."""
    phrases = [signed(comparison.difference)]
    if comparison.interval is not None:
        phrases.append(
            f"95% interval {interval(comparison.interval.low, comparison.interval.high)}"
        )
    if comparison.p_value is not None:
        phrases.append(p_text(comparison.p_value))
    return ", ".join(phrases)


def _default(result: FitResult) -> str:
    if not any(system.weight for system in result.systems):
        return (
            "There was no model, or no time for one: the retriever ranks documents. "
            f"Selected: {result.selected}."
        )
    none = "There are no judgements"
    if result.queries.train:
        none = "The judged queries cannot be split, so there are none"
    return f"{none} to select by. So the default was taken: {result.default_system}."


def _compared(result: FitResult) -> str:
    models = list(dict.fromkeys(system.group for system in result.systems if system.group))
    retrievers = [system.name for system in result.systems if not system.group]
    if not models:
        return f"It compared {len(result.systems)} retrievers: {listed(retrievers)}."
    weights = listed([f"{weight:.2f}".removeprefix("0") for weight in FUSION_WEIGHTS])
    return (
        f"It compared {len(result.systems)} systems: {listed(retrievers)} alone, and "
        f"{listed(models)}, each alone and fused with the score before it at the weights {weights}."
    )


def _rule(result: FitResult, selection: Selection) -> str:
    if not result.trained_on_folds:
        trained = any(system.training_minutes for system in result.systems)
        models = "no model was trained on them" if trained else "nothing was trained"
        held_out = f"{models}, so nothing had to be held out"
    elif result.plan.folds > 1:
        held_out = f"each of {result.plan.folds} folds was ranked by models trained without it"
    else:
        held_out = "one part of the judged queries was held out while systems were compared"
    return (
        f"By the mean {result.measure} of {counted(selection.queries)}: {held_out}. The "
        f"default is {result.default_system}, which is rarely far below the best. A system whose "
        f"mean is below {' or '.join(result.required)} is rejected. Of the rest, the least complex "
        f"one is taken that no more complex one beats at p < {SELECTION_LEVEL:g} (randomisation "
        "test)."
    )


def answer_rows(answers: Answers) -> list[tuple[str, float | None, str, str]]:
    """Precision and recall of the threshold, with what they are shares of."""
    answered = answers.answered / answers.queries if answers.queries else None
    return [
        ("precision", answers.precision, "of the queries answered, the share answered right",
         f"{answers.right:,} of {answers.answered:,}"),
        ("recall", answers.recall, "of the queries whose first document is right, the share "
         "answered", f"{answers.right:,} of {answers.answerable:,}"),
        ("answered", answered, "of all test queries",
         f"{answers.answered:,} of {answers.queries:,}"),
        ("calibration error", answers.error, "mean distance of predicted from observed", ""),
    ]  # fmt: skip


def reliability_chart(bins: Sequence[Bin]) -> Markup:
    """Predicted probability against what was observed, one point per bin; its area says how many.

    >>> reliability_chart([Bin(0.2, 0.1, 40), Bin(0.9, 0.8, 10)]).count("<circle")
    2
    """
    total = sum(bin_.count for bin_ in bins)
    points = [
        Point(
            bin_.predicted,
            bin_.observed,
            f"{counted(bin_.count)}: predicted {bin_.predicted:.3f}, observed {bin_.observed:.3f}",
            radius=SMALLEST_RADIUS
            + (LARGEST_RADIUS - SMALLEST_RADIUS) * math.sqrt(bin_.count / total),
        )
        for bin_ in bins
    ]
    panel = line_panel(
        [Line("", points)],
        x_name="predicted probability",
        y_name="share that is relevant",
        shares=True,
        diagonal=True,
    )
    described = "; ".join(
        f"{bin_.observed:.2f} relevant at {bin_.predicted:.2f}, {counted(bin_.count)}"
        for bin_ in bins
    )
    return picture("Predicted probability and what was observed", described, panel)
