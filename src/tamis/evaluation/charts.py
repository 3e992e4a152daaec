"""Small charts as inline SVG: plain arrays in, a string out; colours are left to the page's CSS.

Every chart is drawn 400 units wide so that its letters stay readable on a phone. What a colour
says is also said by a place, a marker or a dash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

WIDTH, HEIGHT = 400.0, 404.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 386.0, 30.0, 358.0
MOST_BARS = 164
"""More values than this and neighbours share a bar, so that a bar is at least two units wide."""
MOST_POINTS = 600
"""More points than this and they are gathered in cells."""
CELL = (RIGHT - LEFT) / 56
WHISKER_WIDTH, WHISKER_HEIGHT = 164.0, 22.0
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus", "down")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2")
COLOURS = 6
"""How many colours the page defines, classes s1 to s6, beside the ink of a baseline, s0."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high` on the stretch from `start` to `end` of the drawing.

    >>> Axis(0.0, 1.0, 300.0, 100.0).at(0.25)
    250.0
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies; what is outside the axis lies at its end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that enclose everything from `low` to `high`.

    >>> ticks(-0.13, 0.42)
    [-0.2, 0.0, 0.2, 0.4, 0.6]
    >>> ticks(0.0, 0.0)
    [-0.1, -0.05, 0.0, 0.05, 0.1]
    """
    if high - low <= 1e-9 * max(1.0, abs(low), abs(high)):
        room = 0.1 * max(1.0, abs(low))
        low, high = low - room, high + room
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            break
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(number * step, digits) + 0.0 for number in range(first, last + 1)]


def signed(value: float, digits: int = 4) -> str:
    """A difference with its sign; what rounds to zero has none.

    >>> signed(0.0213), signed(-0.5, 2), signed(-0.00001)
    ('+0.0213', '−0.50', '0.0000')
    """
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text[1:]


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
        _grid_y(marks, scale, signed_marks=differences),
        *drawn,
        _line(LEFT, scale.at(0), RIGHT, scale.at(0), "zero"),
        _mean(float(values.mean()), scale, differences),
        _text((LEFT + RIGHT) / 2, BOTTOM + 26, f"{counted(len(order))}, best first{shared}"),
        _name(axis),
    ]
    high, low, mean = (
        _plain(float(v), differences) for v in (values.max(), values.min(), values.mean())
    )
    return _svg(title, f"{counted(len(order))} from {high} to {low}, mean {mean}", "".join(body))


def _plain(value: float, differences: bool) -> str:
    return signed(value, 3) if differences else f"{value:.3f}"


def _bar(values: Values, labels: list[str], x: float, band: float, scale: Axis) -> str:
    value = float(values.mean())
    ends = sorted((scale.at(0), scale.at(value)))
    gap = 1.0 if band >= 4 else 0.3 if band > 2 else 0.0
    kind = "better" if value > 0 else "worse"
    label = labels[0] if len(labels) == 1 else _several(values, labels)
    return (
        f'<rect class="{kind}" x="{_n(x + gap / 2)}" y="{_n(ends[0])}" width="{_n(band - gap)}" '
        f'height="{_n(ends[1] - ends[0])}"><title>{escape(label)}</title></rect>'
    )


def _several(values: Values, labels: list[str]) -> str:
    return f"{len(labels)} queries, {values.max():.3f} to {values.min():.3f}".replace("-", "−")


def _mean(value: float, scale: Axis, differences: bool) -> str:
    """The line at the mean, named where sorted bars leave room: above right or below left."""
    y = scale.at(value)
    text = f"mean {_plain(value, differences)}"
    below = value < 0
    where = (LEFT + 4, y + 14, "start") if below else (RIGHT - 2, y - 5, "end")
    return _line(LEFT, y, RIGHT, y, "mean") + _text(*where[:2], text, where[2], "mean-label")


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
        _grid_y(marks, up),
        _grid_x(marks, across),
        _line(LEFT, BOTTOM, RIGHT, TOP, "diagonal"),
        *drawn,
        _text((LEFT + RIGHT) / 2, BOTTOM + 39, shorten(names[0], 44)),
        _name(shorten(names[1], 44)),
    ]
    above, under = int((y > x).sum()), int((y < x).sum())
    description = (
        f"{above} queries above the diagonal, {under} below, {len(x) - above - under} on it"
    )
    return _svg(title, description, "".join(body))


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
    place = f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"'
    return f'<circle class="{kind}" {place}><title>{lines}</title></circle>'


def recall_curves(curves: Mapping[str, Values], *, title: str, inked: bool = False) -> str:
    """Precision at eleven levels of recall, a line a run; see `swatch` for the legend.

    `inked` draws the first run, the baseline, in the colour of the text.

    >>> recall_curves({"bm25": np.linspace(1, 0, 11)}, title="t").count("<polyline")
    1
    """
    marks = ticks(0.0, 1.0)
    across, up = Axis(0.0, 1.0, LEFT, RIGHT), Axis(0.0, 1.0, BOTTOM, TOP)
    body = [_grid_y(marks, up), _grid_x(marks, across)]
    for style, (name, values) in enumerate(curves.items()):
        places = [(across.at(i / 10), up.at(v)) for i, v in enumerate(values.tolist())]
        line = " ".join(f"{_n(x)},{_n(y)}" for x, y in places)
        label = escape(name)
        dots = "".join(
            _marker(style, x, y, f"{label}: {value:.3f} at recall {level / 10:.1f}")
            for level, ((x, y), value) in enumerate(zip(places, values.tolist(), strict=True))
        )
        body.append(
            f'<g class="{_colour(style, inked)}">'
            f'<polyline points="{line}"{_dash(style)}/>{dots}</g>'
        )
    body += [_text((LEFT + RIGHT) / 2, BOTTOM + 39, "recall"), _name("precision")]
    ends = "; ".join(
        f"{n}: {v[0]:.3f} at recall 0, {v[-1]:.3f} at recall 1" for n, v in curves.items()
    )
    return _svg(title, ends, "".join(body))


def swatch(style: int, *, inked: bool = False) -> str:
    """The line and marker of the run with this number, for a legend in text.

    >>> swatch(1, inked=True).startswith('<svg class="swatch s1"')
    True
    """
    return (
        f'<svg class="swatch {_colour(style, inked)}" viewBox="0 0 32 12" aria-hidden="true">'
        f'<polyline points="1,6 31,6"{_dash(style)}/>{_marker(style, 16, 6)}</svg>'
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
        _line(scale.at(0), 0, scale.at(0), WHISKER_HEIGHT, "zero")
        + _line(low, middle, high, middle, f"span {kind}")
        + "".join(_line(x, middle - 4, x, middle + 4, f"span {kind}") for x in (low, high))
        + f'<circle class="{kind}" cx="{_n(scale.at(value))}" cy="{_n(middle)}" r="4"/>'
    )
    title = f"difference {signed(value)}"
    description = f"interval {signed(interval[0])} to {signed(interval[1])}"
    return _svg(title, description, body, (WHISKER_WIDTH, WHISKER_HEIGHT), "whisker")


def whisker_scale(limits: tuple[float, float]) -> str:
    """The ends and the zero of the axis that all whiskers with these limits share."""
    scale = _whisker_axis(limits)
    zero = scale.at(0)
    apart = [end for end in limits if abs(scale.at(end) - zero) > 26]
    body = _text(zero, 15, "0") + "".join(_text(scale.at(m), 15, _mark(m, False)) for m in apart)
    description = f"from {_mark(limits[0], False)} to {_mark(limits[1], False)}"
    return _svg("scale", description, body, (WHISKER_WIDTH, WHISKER_HEIGHT), "whisker")


def _whisker_axis(limits: tuple[float, float]) -> Axis:
    return Axis(*limits, 24.0, WHISKER_WIDTH - 24.0)


def counted(queries: int) -> str:
    """So many queries, in words.

    >>> counted(1), counted(5000)
    ('1 query', '5,000 queries')
    """
    return f"{queries:,} {'query' if queries == 1 else 'queries'}"


def shorten(text: str, most: int) -> str:
    """At most so many characters, on one line, with an ellipsis where something was cut.

    >>> shorten("how do  I cancel my order", 12)
    'how do I ca…'
    """
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _svg(
    title: str,
    description: str,
    body: str,
    size: tuple[float, float] = (WIDTH, HEIGHT),
    kind: str = "chart",
) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {_n(size[0])} {_n(size[1])}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{body}</svg>"
    )


def _grid_y(marks: list[float], scale: Axis, *, signed_marks: bool = False) -> str:
    return "".join(
        _line(LEFT, scale.at(mark), RIGHT, scale.at(mark), "grid")
        + _text(LEFT - 10, scale.at(mark) + 4, _mark(mark, signed_marks), "end", "tick")
        for mark in marks
    )


def _grid_x(marks: list[float], scale: Axis) -> str:
    return "".join(
        _line(scale.at(mark), TOP, scale.at(mark), BOTTOM, "grid")
        + _text(scale.at(mark), BOTTOM + 20, _mark(mark, False), "middle", "tick")
        for mark in marks
    )


def _mark(value: float, with_sign: bool) -> str:
    text = f"{value:+g}" if with_sign and value else f"{value:g}"
    return text.replace("-", "−")


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    ends = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
    return f'<line class="{kind}" {ends}/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "axis") -> str:
    place = f'x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _name(text: str) -> str:
    """The name of the vertical axis, above it, where no number can be too long for it."""
    return _text(2, 14, text, "start")


def _colour(style: int, inked: bool) -> str:
    if inked:
        return "s0" if style == 0 else _colour(style - 1, False)
    return f"s{1 + style % COLOURS}"


def _dash(style: int) -> str:
    dash = DASHES[style % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _marker(style: int, x: float, y: float, label: str = "") -> str:
    """The marker of a run at a place; `label` is escaped already."""
    shapes = {
        "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "square": "M-3.5 -3.5h7v7h-7z",
        "triangle": "M0 -4.5L4.5 3.5H-4.5z",
        "diamond": "M0 -5L5 0L0 5L-5 0z",
        "cross": "M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5",
        "plus": "M-4.5 0H4.5M0 -4.5V4.5",
        "down": "M0 4.5L4.5 -3.5H-4.5z",
    }
    shape = shapes[MARKERS[style % len(MARKERS)]]
    title = f"<title>{label}</title>" if label else ""
    return f'<path class="marker" transform="translate({_n(x)} {_n(y)})" d="{shape}">{title}</path>'


def _n(value: float) -> str:
    """A coordinate, as short as one digit after the point allows.

    >>> _n(12.04), _n(12.35), _n(-0.01)
    ('12', '12.3', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
