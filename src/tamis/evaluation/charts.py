"""Small charts as inline SVG: plain arrays in, a string out; colours are left to the page's CSS.

Every chart is drawn 400 units wide so that its letters stay readable on a phone. What a colour
says is also said by a place, a marker or a dash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from tamis.evaluation.svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Axis,
    axis_name,
    colour,
    counted,
    dash_of,
    grid_x,
    grid_y,
    marker,
    picture,
    rule,
    shorten,
    signed,
    tick_text,
    ticks,
    units,
    words,
)

__all__ = [
    "Axis",
    "bars",
    "recall_curves",
    "scatter",
    "swatch",
    "ticks",
    "whisker",
    "whisker_scale",
]

Values = NDArray[np.float64]

MOST_BARS = 164
"""More values than this and neighbours share a bar, so that a bar is at least two units wide."""
MOST_POINTS = 600
"""More points than this and they are gathered in cells."""
CELL = (RIGHT - LEFT) / 56
WHISKER_WIDTH, WHISKER_HEIGHT = 164.0, 22.0


def bars(
    values: Values, labels: Sequence[str], *, title: str, axis: str, differences: bool = True
) -> str:
    """Values as bars from high to low with their mean; a bar's label shows under the pointer.

    >>> bars(np.array([0.1, -0.2]), ["q1", "q2"], title="t", axis="AP").count("<rect")
    2
    """
    order = np.argsort(-values, kind="stable")
    marks = ticks(min(0.0, float(values.min())), max(0.0, float(values.max())), 10)
    scale = Axis(marks[0], marks[-1], BOTTOM, TOP)
    groups = np.array_split(order, min(len(order), MOST_BARS))
    band = min(36.0, (RIGHT - LEFT) / len(groups))
    start = (LEFT + RIGHT - band * len(groups)) / 2
    drawn = [
        _bar(values[group], [labels[at] for at in group], start + number * band, band, scale)
        for number, group in enumerate(groups)
    ]
    shared = "" if len(groups) == len(order) else f", {len(groups[0])} to a bar"
    body = [
        grid_y(marks, scale, signed_marks=differences),
        *drawn,
        rule(LEFT, scale.at(0), RIGHT, scale.at(0), "zero"),
        _mean(float(values.mean()), scale, differences),
        words((LEFT + RIGHT) / 2, BOTTOM + 26, f"{counted(len(order))}, best first{shared}"),
        axis_name(axis),
    ]
    high, low, mean = (
        _plain(float(v), differences) for v in (values.max(), values.min(), values.mean())
    )
    return picture(title, f"{counted(len(order))} from {high} to {low}, mean {mean}", "".join(body))


def _plain(value: float, differences: bool) -> str:
    return signed(value, 3) if differences else f"{value:.3f}"


def _bar(values: Values, labels: list[str], x: float, band: float, scale: Axis) -> str:
    value = float(values.mean())
    ends = sorted((scale.at(0), scale.at(value)))
    gap = 1.0 if band >= 4 else 0.3 if band > 2 else 0.0
    kind = "better" if value > 0 else "worse"
    label = labels[0] if len(labels) == 1 else _several(values, labels)
    place = f'x="{units(x + gap / 2)}" y="{units(ends[0])}"'
    size = f'width="{units(band - gap)}" height="{units(ends[1] - ends[0])}"'
    return f'<rect class="{kind}" {place} {size}><title>{escape(label)}</title></rect>'


def _several(values: Values, labels: list[str]) -> str:
    return f"{len(labels)} queries, {values.max():.3f} to {values.min():.3f}".replace("-", "−")


def _mean(value: float, scale: Axis, differences: bool) -> str:
    """The line at the mean, named where sorted bars leave room: above right or below left."""
    y = scale.at(value)
    text = f"mean {_plain(value, differences)}"
    below = value < 0
    where = (LEFT + 4, y + 14, "start") if below else (RIGHT - 2, y - 5, "end")
    return rule(LEFT, y, RIGHT, y, "mean") + words(*where[:2], text, where[2], "mean-label")


def scatter(
    x: Values, y: Values, labels: Sequence[str], *, names: tuple[str, str], title: str
) -> str:
    """Each query's value under two runs, with the diagonal on which they are the same.

    Queries on the same spot share a point whose area says how many they are.

    >>> values = np.array([0.5, 0.5])
    >>> scatter(values, values, ["q1", "q2"], names=("a", "b"), title="t").count("<circle")
    1
    """
    both = np.concatenate([x, y])
    inside = both.min() >= 0 and both.max() <= 1
    marks = ticks(0.0, 1.0) if inside else ticks(float(both.min()), float(both.max()))
    across, up = Axis(marks[0], marks[-1], LEFT, RIGHT), Axis(marks[0], marks[-1], BOTTOM, TOP)
    points = [(across.at(a), up.at(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    cells: dict[tuple[float, float], list[int]] = {}
    for number, point in enumerate(points):
        cells.setdefault(_cell(point, len(points) > MOST_POINTS), []).append(number)
    size = 1.8 if len(points) > MOST_POINTS else 3.2
    drawn = [_point(cell, [labels[n] for n in of], size) for cell, of in cells.items()]
    body = [
        grid_y(marks, up),
        grid_x(marks, across),
        rule(LEFT, BOTTOM, RIGHT, TOP, "diagonal"),
        *drawn,
        words((LEFT + RIGHT) / 2, BOTTOM + 39, shorten(names[0], 44)),
        axis_name(shorten(names[1], 44)),
    ]
    above, under = int((y > x).sum()), int((y < x).sum())
    description = (
        f"{above} queries above the diagonal, {under} below, {len(x) - above - under} on it"
    )
    return picture(title, description, "".join(body))


def _cell(point: tuple[float, float], coarse: bool) -> tuple[float, float]:
    """Where a point is drawn; coarse cells are laid from the corner, so the diagonal stays one."""
    x, y = point
    if not coarse:
        return round(x, 1), round(y, 1)
    across, up = round((x - LEFT) / CELL), round((BOTTOM - y) / CELL)
    return LEFT + across * CELL, BOTTOM - up * CELL


def _point(cell: tuple[float, float], labels: list[str], size: float) -> str:
    x, y = cell
    radius = min(3 * size, size * math.sqrt(len(labels)))
    others = f" and {len(labels) - 4:,} more" if len(labels) > 4 else ""
    lines = escape("\n".join(shorten(label, 90) for label in labels[:4]) + others)
    side = (x - LEFT) - (BOTTOM - y)
    kind = "even" if abs(side) < 0.2 else "better" if side < 0 else "worse"
    place = f'cx="{units(x)}" cy="{units(y)}" r="{units(radius)}"'
    return f'<circle class="{kind}" {place}><title>{lines}</title></circle>'


def recall_curves(curves: Mapping[str, Values], *, title: str, inked: bool = False) -> str:
    """Precision at eleven levels of recall, a line a run; see `swatch` for the legend.

    `inked` draws the first run, the baseline, in the colour of the text.

    >>> recall_curves({"bm25": np.linspace(1, 0, 11)}, title="t").count("<polyline")
    1
    """
    marks = ticks(0.0, 1.0)
    across, up = Axis(0.0, 1.0, LEFT, RIGHT), Axis(0.0, 1.0, BOTTOM, TOP)
    body = [grid_y(marks, up), grid_x(marks, across)]
    for style, (name, values) in enumerate(curves.items()):
        places = [(across.at(i / 10), up.at(v)) for i, v in enumerate(values.tolist())]
        line = " ".join(f"{units(x)},{units(y)}" for x, y in places)
        label = escape(name)
        dots = "".join(
            marker(style, x, y, f"{label}: {value:.3f} at recall {level / 10:.1f}")
            for level, ((x, y), value) in enumerate(zip(places, values.tolist(), strict=True))
        )
        body.append(
            f'<g class="{colour(style, inked)}">'
            f'<polyline points="{line}"{dash_of(style)}/>{dots}</g>'
        )
    body += [words((LEFT + RIGHT) / 2, BOTTOM + 39, "recall"), axis_name("precision")]
    ends = "; ".join(
        f"{n}: {v[0]:.3f} at recall 0, {v[-1]:.3f} at recall 1" for n, v in curves.items()
    )
    return picture(title, ends, "".join(body))


def swatch(style: int, *, inked: bool = False) -> str:
    """The line and marker of the run with this number, for a legend in text.

    >>> swatch(1, inked=True).startswith('<svg class="swatch s1"')
    True
    """
    return (
        f'<svg class="swatch {colour(style, inked)}" viewBox="0 0 32 12" aria-hidden="true">'
        f'<polyline points="1,6 31,6"{dash_of(style)}/>{marker(style, 16, 6)}</svg>'
    )


def whisker(value: float, interval: tuple[float, float], limits: tuple[float, float]) -> str:
    """A difference as a dot on its interval, with a line at zero.

    >>> whisker(0.1, (0.0, 0.2), (-0.5, 0.5)).count("<line")
    4
    """
    scale, middle = _whisker_axis(limits), WHISKER_HEIGHT / 2
    low, high = (scale.at(end) for end in interval)
    kind = "better" if interval[0] > 0 else "worse" if interval[1] < 0 else "even"
    body = (
        rule(scale.at(0), 0, scale.at(0), WHISKER_HEIGHT, "zero")
        + rule(low, middle, high, middle, f"span {kind}")
        + "".join(rule(x, middle - 4, x, middle + 4, f"span {kind}") for x in (low, high))
        + f'<circle class="{kind}" cx="{units(scale.at(value))}" cy="{units(middle)}" r="4"/>'
    )
    title = f"difference {signed(value)}"
    description = f"interval {signed(interval[0])} to {signed(interval[1])}"
    return picture(title, description, body, (WHISKER_WIDTH, WHISKER_HEIGHT), "whisker")


def whisker_scale(limits: tuple[float, float]) -> str:
    """The ends and the zero of the axis that all whiskers with these limits share."""
    scale = _whisker_axis(limits)
    zero = scale.at(0)
    apart = [end for end in limits if abs(scale.at(end) - zero) > 26]
    body = words(zero, 15, "0") + "".join(
        words(scale.at(m), 15, tick_text(m, False)) for m in apart
    )
    description = f"from {tick_text(limits[0], False)} to {tick_text(limits[1], False)}"
    return picture("scale", description, body, (WHISKER_WIDTH, WHISKER_HEIGHT), "whisker")


def _whisker_axis(limits: tuple[float, float]) -> Axis:
    return Axis(*limits, 24.0, WHISKER_WIDTH - 24.0)
