"""Pictures of training as SVG files that stand alone: loss and validation, and learning curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tamis.pages.charts import Line, Point, learning_panel, line_panel
from tamis.pages.svg import WIDE, stacked_file
from tamis.training.checkpoints import History

MAX_LOSSES = 200
"""Of how many points the line of losses has at most."""


def training_curves(history: History, measure: str, kept: int) -> str:
    """The loss, and below it the validation measure, over the steps.

    >>> from tamis.training.checkpoints import Check
    >>> history = History([0.7, 0.5, 0.4, 0.3], [Check(0, 0.2), Check(4, 0.6)])
    >>> training_curves(history, "RR@10", 4).count("<polyline")
    2
    """
    losses = Line("loss", _smoothed(history.losses), marked=False)
    steps = (0.0, float(history.step))
    panels = [line_panel([losses], x_name="step", y_name="loss", frame=WIDE, x_range=steps)]
    if history.checks and measure:
        checks = [Point(c.step, c.value, f"{measure}: {c.value:.4f}") for c in history.checks]
        name = f"{measure} on held-out queries; the model after step {kept:,} is kept"
        line = Line(measure, checks)
        panels.append(line_panel([line], x_name="step", y_name=name, frame=WIDE, x_range=steps))
    return stacked_file(f"{history.step} steps of training", panels)


def learning_curves(
    curves: Sequence[Line], measure: str, baseline: float, name: str = "BM25"
) -> str:
    """A measure by the number of queries trained on, one line per starting point.

    Bars are the range over samples of the same size; the dashed line is the baseline.

    >>> one = Line("plain", [Point(32, 0.2, low=0.1, high=0.3), Point(128, 0.4)])
    >>> learning_curves([one], "RR@10", 0.3).count('class="range"')
    1
    """
    title = f"{measure} by the number of queries trained on"
    panel = learning_panel(curves, y_name=title, frame=WIDE, level=(name, baseline))
    return stacked_file(title, [panel], [curve.name for curve in curves])


def _smoothed(losses: Sequence[float]) -> list[Point]:
    """Means of neighbouring losses, each at the step in their middle."""
    size = max(1, math.ceil(len(losses) / MAX_LOSSES))
    groups = [(start, losses[start : start + size]) for start in range(0, len(losses), size)]
    return [Point(start + len(group) // 2 + 1, sum(group) / len(group)) for start, group in groups]
