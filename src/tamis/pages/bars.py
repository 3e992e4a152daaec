"""One bar a table row: a value beside its neighbours, to the right of zero or to the left."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from tamis.pages.svg import Axis, Frame, element, picture, rule
from tamis.pages.text_format import signed

SIZE = 164, 22
MARGIN = 4


def value_bars(values: Sequence[float]) -> list[Markup]:
    """A bar for each value, all on one scale with a line at zero.

    >>> [bar.count("<rect") for bar in value_bars([0.5, -0.25, 0.0])]
    [1, 1, 0]
    """
    low, high = min([0.0, *values]), max([0.0, *values])
    if not low < high:
        high = low + 1
    axis = Axis(low, high, MARGIN, SIZE[0] - MARGIN)
    return [_bar(value, axis) for value in values]


def _bar(value: float, axis: Axis) -> Markup:
    ends = sorted((axis.at(0), axis.at(value)))
    body = [rule(axis.at(0), 0, axis.at(0), SIZE[1], "zero")]
    if ends[1] - ends[0] >= 0.1:
        kind = "better" if value > 0 else "worse"
        width = ends[1] - ends[0]
        body.append(element("rect", class_=kind, x=ends[0], y=5, width=width, height=SIZE[1] - 10))
    frame = Frame(*SIZE, 0, SIZE[0], 0, SIZE[1])
    return picture(signed(value), "a bar from zero", Markup().join(body), frame, "whisker")
