"""The charts that only the report of a fit has."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tamis.evaluation.svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Axis,
    axis_name,
    counted,
    grid_x,
    grid_y,
    marker,
    picture,
    rule,
    ticks,
    units,
    words,
)
from tamis.fitting.calibration import Bin
from tamis.fitting.learning_curve import CurvePoint

SMALLEST_RADIUS, LARGEST_RADIUS = 3.0, 12.0
"""Of a point of one query, and of one that all are in."""


def reliability_chart(bins: Sequence[Bin]) -> str:
    """Predicted probability against what was observed, a point a bin; its area says how many.

    >>> reliability_chart([Bin(0.2, 0.1, 40), Bin(0.9, 0.8, 10)]).count("<circle")
    2
    """
    marks = ticks(0.0, 1.0)
    across, up = Axis(0.0, 1.0, LEFT, RIGHT), Axis(0.0, 1.0, BOTTOM, TOP)
    total = sum(each.count for each in bins)
    places = [(across.at(each.predicted), up.at(each.observed)) for each in bins]
    line = " ".join(f"{units(x)},{units(y)}" for x, y in places)
    dots = "".join(
        _dot(
            each,
            x,
            y,
            SMALLEST_RADIUS + (LARGEST_RADIUS - SMALLEST_RADIUS) * math.sqrt(each.count / total),
        )
        for each, (x, y) in zip(bins, places, strict=True)
    )
    body = [
        grid_y(marks, up),
        grid_x(marks, across),
        rule(LEFT, BOTTOM, RIGHT, TOP, "diagonal"),
        f'<g class="s1"><polyline points="{line}"/></g>{dots}',
        words((LEFT + RIGHT) / 2, BOTTOM + 39, "predicted probability"),
        axis_name("share that is relevant"),
    ]
    said = "; ".join(
        f"{each.observed:.2f} relevant at {each.predicted:.2f}, {counted(each.count)}"
        for each in bins
    )
    return picture("Predicted probability and what was observed", said, "".join(body))


def _dot(one: Bin, x: float, y: float, radius: float) -> str:
    told = f"{counted(one.count)}: predicted {one.predicted:.3f}, observed {one.observed:.3f}"
    place = f'cx="{units(x)}" cy="{units(y)}" r="{units(radius)}"'
    return f'<circle class="better" {place}><title>{told}</title></circle>'


def learning_chart(curve: Sequence[CurvePoint], measure: str) -> str:
    """A measure by the number of judged queries trained on, which doubles rightwards.

    >>> learning_chart([CurvePoint(8, 0.4), CurvePoint(32, 0.5)], "RR@10").count('class="marker"')
    2
    """
    steps = [math.log2(max(point.queries, 0) + 1) for point in curve]
    marks = ticks(min(point.mean for point in curve), max(point.mean for point in curve))
    up = Axis(marks[0], marks[-1], BOTTOM, TOP)
    low, high = min(steps), max(steps)
    across = Axis(low, high if high > low else low + 1, LEFT + 14, RIGHT - 14)
    places = [(across.at(s), up.at(point.mean)) for s, point in zip(steps, curve, strict=True)]
    line = " ".join(f"{units(x)},{units(y)}" for x, y in places)
    dots = "".join(
        marker(0, x, y, f"{point.mean:.4f} with {counted(point.queries)}")
        for point, (x, y) in zip(curve, places, strict=True)
    )
    body = [
        grid_y(marks, up),
        f'<g class="s1"><polyline points="{line}"/>{dots}</g>',
        *(_below(point.queries, x) for point, (x, _) in zip(curve, places, strict=True)),
        words((LEFT + RIGHT) / 2, BOTTOM + 39, "judged queries trained on"),
        axis_name(measure),
    ]
    said = "; ".join(f"{point.mean:.4f} with {counted(point.queries)}" for point in curve)
    return picture(f"{measure} by judged queries", said, "".join(body))


def _below(queries: int, x: float) -> str:
    return words(x, BOTTOM + 20, f"{queries:,}", "middle", "tick")
