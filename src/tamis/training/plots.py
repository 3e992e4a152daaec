"""Pictures of training as SVG files that stand alone: loss and validation, and learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tamis.evaluation.charts import Axis, ticks
from tamis.training.checkpoints import History

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64.0, 616.0, 44.0, 244.0
COLOURS = ("#1f6f8b", "#c2571a", "#5b7f2b", "#7a4b9d", "#a8324a", "#3d3d3d")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.grid{stroke:#ddd}.tick{fill:#555}"
    ".note{fill:#555;font-size:12px}path,polyline{fill:none;stroke-width:2}"
)
POINTS = 200
"""Of how many points a line has at most."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """A line of means, and where values lay around them."""

    name: str
    points: Sequence[Point]
    ranges: Sequence[tuple[float, float, float]] = ()
    """Place, lowest, highest."""


def training_curves(history: History, measure: str, kept: int) -> str:
    """The loss, and below it the validation measure, over the steps.

    >>> from tamis.training.checkpoints import Check
    >>> history = History([0.7, 0.5, 0.4, 0.3], [Check(0, 0.2), Check(4, 0.6)])
    >>> training_curves(history, "RR@10", 4).count("<polyline")
    2
    """
    losses = [(float(step), loss) for step, loss in _smoothed(history.losses)]
    parts = [_panel([Curve("loss", losses)], "loss", "step", 0, history.step)]
    if history.checks and measure:
        checks = [(float(check.step), check.value) for check in history.checks]
        title = f"{measure} on queries held out; the model after step {kept:,} is kept"
        parts.append(_panel([Curve(measure, checks)], title, "step", 1, history.step, marks=True))
    return _svg(parts, f"{history.step} steps of training")


def learning_curves(
    curves: Sequence[Curve], measure: str, baseline: float | None, name: str = "BM25"
) -> str:
    """A measure over the number of queries learnt from, a line a starting point.

    Bars are the range over samples of the same size; the dashed line is the baseline. Each doubling
    takes the same width; none at all stands two of them left of the smallest number.

    >>> one = Curve("plain", [(32, 0.2), (128, 0.4)], [(32, 0.1, 0.3)])
    >>> learning_curves([one], "RR@10", 0.3).count("<polyline")
    1
    """
    sizes = sorted({x for curve in curves for x, _ in curve.points})
    none = math.log2(min((size for size in sizes if size), default=1)) - 2
    places = {size: math.log2(size) if size else none for size in sizes}
    moved = [
        Curve(
            curve.name,
            [(places[x], y) for x, y in curve.points],
            [(places[x], low, high) for x, low, high in curve.ranges],
        )
        for curve in curves
    ]
    names = {place: f"{size:,.0f}" for size, place in places.items()}
    title = f"{measure} over the number of queries learnt from"
    panel = _panel(
        moved, title, "queries", 0, None, marks=True, names=names, level=(name, baseline)
    )
    legend = _legend([curve.name for curve in curves])
    return _svg([panel, legend], title)


def _panel(
    curves: Sequence[Curve],
    title: str,
    below: str,
    row: int,
    steps: int | None,
    *,
    marks: bool = False,
    names: Mapping[float, str] | None = None,
    level: tuple[str, float | None] = ("", None),
) -> str:
    xs = [x for curve in curves for x, _ in curve.points]
    xs += [] if steps is None else [0.0, float(steps)]
    ys = [y for curve in curves for _, y in curve.points]
    ys += [end for curve in curves for _, *ends in curve.ranges for end in ends]
    ys += [level[1]] if level[1] is not None else []
    heights = ticks(min(ys, default=0.0), max(ys, default=1.0), 5)
    if len(heights) < 2:
        heights = [heights[0] - 1, heights[0] + 1] if heights else [0.0, 1.0]
    widths = [x for x in ticks(min(xs), max(xs), 8) if x <= max(xs)] if names is None else [*names]
    across = Axis(min(xs), max(max(xs), min(xs) + 1e-9), LEFT, RIGHT)
    up = Axis(heights[0], heights[-1], BOTTOM, TOP)
    body = [f'<text x="{LEFT:g}" y="24">{escape(title)}</text>']
    body += [_level(y, up, f"{y:g}") for y in heights]
    body += [_place(x, across, f"{x:,g}" if names is None else names[x]) for x in widths]
    body.append(f'<text x="{RIGHT:g}" y="{BOTTOM + 40:g}" text-anchor="end">{below}</text>')
    if level[1] is not None:
        y = up.at(level[1])
        body.append(
            f'<path d="M{LEFT:g} {y:.1f}H{RIGHT:g}" stroke="#222" stroke-dasharray="5 4"/>'
            f'<text class="note" x="{RIGHT:g}" y="{y - 5:.1f}" text-anchor="end">'
            f"{escape(level[0])} {level[1]:.3f}</text>"
        )
    for number, curve in enumerate(curves):
        body.append(_line(curve, COLOURS[number % len(COLOURS)], across, up, marks))
    return f'<g transform="translate(0 {row * HEIGHT})">{"".join(body)}</g>'


def _level(y: float, up: Axis, text: str) -> str:
    place = up.at(y)
    return (
        f'<path class="grid" d="M{LEFT:g} {place:.1f}H{RIGHT:g}"/>'
        f'<text class="tick" x="{LEFT - 8:g}" y="{place + 4:.1f}" text-anchor="end">{text}</text>'
    )


def _place(x: float, across: Axis, text: str) -> str:
    return (
        f'<text class="tick" x="{across.at(x):.1f}" y="{BOTTOM + 20:g}" text-anchor="middle">'
        f"{text}</text>"
    )


def _line(curve: Curve, colour: str, across: Axis, up: Axis, marks: bool) -> str:
    places = [(across.at(x), up.at(y)) for x, y in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    bars = "".join(
        f'<path d="M{across.at(x):.1f} {up.at(low):.1f}V{up.at(high):.1f}"/>'
        for x, low, high in curve.ranges
    )
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
        f"<title>{escape(curve.name)}: {value:.4f}</title></circle>"
        for (x, y), (_, value) in zip(places, curve.points, strict=True)
    )
    return f'<g stroke="{colour}"><polyline points="{line}"/>{bars}</g>' + (dots if marks else "")


def _legend(names: Sequence[str]) -> str:
    body = []
    for number, name in enumerate(names):
        y = HEIGHT + 18 * number
        colour = COLOURS[number % len(COLOURS)]
        body.append(
            f'<path d="M{LEFT:g} {y - 4}h24" stroke="{colour}"/>'
            f'<text x="{LEFT + 32:g}" y="{y}">{escape(name)}</text>'
        )
    return f'<g data-rows="{len(names)}">{"".join(body)}</g>'


def _svg(parts: Sequence[str], title: str) -> str:
    panels = sum(part.startswith("<g transform") for part in parts)
    rows = sum(int(part.split('"')[1]) for part in parts if part.startswith("<g data-rows"))
    height = panels * HEIGHT + rows * 18
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _smoothed(losses: Sequence[float]) -> list[tuple[int, float]]:
    """Means of neighbouring losses, each at the step in their middle."""
    size = max(1, math.ceil(len(losses) / POINTS))
    return [
        (start + len(losses[start : start + size]) // 2 + 1, sum(part) / len(part))
        for start in range(0, len(losses), size)
        if (part := losses[start : start + size])
    ]
