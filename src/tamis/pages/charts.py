"""Bars, lines, points, whiskers and a heat map, of plain arrays; drawn with `svg.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tamis.pages import text_format
from tamis.pages.svg import (
    DASHES,
    LETTER_WIDTH,
    SQUARE,
    Axis,
    Frame,
    colour,
    draw_grid,
    draw_labels,
    element,
    marker,
    picture,
    rule,
    svg_file,
    text,
    tick_text,
    ticks,
    units,
)
from tamis.pages.text_format import counted, shorten, signed

Values = NDArray[np.float64]

MAX_BARS = 164
"""More values than this and neighbours share a bar, so that a bar is at least two units wide."""
MAX_POINTS = 600
"""More points than this and they are gathered in cells."""
VIRIDIS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
"""Dark to bright, even in lightness, and told apart by the colour-blind."""
CELL_WIDTH, CELL_HEIGHT = 62, 30
WHISKER = (164.0, 22.0)
MEAN_WIDTH, MEAN_ROW = 400, 44
"""How wide the chart of means is, and how high the name and the point of one mean are."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a place, perhaps with an interval."""

    x: float
    y: float
    label: str = ""
    low: float | None = None
    high: float | None = None
    radius: float = 0.0
    """Of the circle that is drawn in place of the line's marker; 0 for the marker."""


@dataclass(frozen=True, slots=True)
class Line:
    """Points that are joined, and marked unless there are too many."""

    name: str
    points: Sequence[Point]
    marked: bool = True


def bars(
    values: Values, labels: Sequence[str], *, title: str, axis: str, differences: bool = True
) -> Markup:
    """Values as bars from high to low with their mean; a bar's label shows under the pointer.

    >>> bars(np.array([0.1, -0.2]), ["q1", "q2"], title="t", axis="AP").count("<rect")
    2
    """
    frame, order = SQUARE, np.argsort(-values, kind="stable")
    marks = ticks(min(0.0, float(values.min())), max(0.0, float(values.max())), 10)
    scale = frame.y_axis(marks)
    groups = np.array_split(order, min(len(order), MAX_BARS))
    band = min(36.0, (frame.right - frame.left) / len(groups))
    start = (frame.left + frame.right - band * len(groups)) / 2
    rects = [
        _bar(values[group], [labels[at] for at in group], start + number * band, band, scale)
        for number, group in enumerate(groups)
    ]
    shared = "" if len(groups) == len(order) else f", {len(groups[0])} to a bar"
    high, low, mean = (
        signed(float(v), 3) if differences else f"{v:.3f}"
        for v in (values.max(), values.min(), values.mean())
    )
    body = [
        draw_grid(frame, marks, with_sign=differences),
        *rects,
        rule(frame.left, scale.at(0), frame.right, scale.at(0), "zero"),
        _level(frame, scale.at(float(values.mean())), f"mean {mean}", below=values.mean() < 0),
        text(222, frame.bottom + 26, f"{counted(len(order))}, best first{shared}"),
        frame.name_y_axis(axis),
    ]
    described = f"{counted(len(order))} from {high} to {low}, mean {mean}"
    return picture(title, described, Markup().join(body))


def _bar(values: Values, labels: list[str], x: float, band: float, scale: Axis) -> Markup:
    value = float(values.mean())
    top, bottom = sorted((scale.at(0), scale.at(value)))
    gap = 1.0 if band >= 4 else 0.3 if band > 2 else 0.0
    label = labels[0]
    if len(labels) > 1:
        ends = f"{values.max():.3f} to {values.min():.3f}".replace("-", "−")
        label = f"{len(labels)} queries, {ends}"
    box = {"x": x + gap / 2, "y": top, "width": band - gap, "height": bottom - top}
    kind = "better" if value > 0 else "worse"
    return element("rect", element("title", label), class_=kind, **box)


def _level(frame: Frame, y: float, name: str, *, below: bool = False) -> Markup:
    """A dashed line across, named above its right end, or below its left one."""
    line = rule(frame.left, y, frame.right, y, "mean")
    if below:
        return line + text(frame.left + 4, y + 14, name, "start", "level")
    return line + text(frame.right - 2, y - 5, name, "end", "level")


def scatter(
    x: Values, y: Values, labels: Sequence[str], *, names: tuple[str, str], title: str
) -> Markup:
    """Each query's value under two runs, with the diagonal on which they are the same.

    Queries on the same spot share a point whose area says how many they are.

    >>> values = np.array([0.5, 0.5])
    >>> scatter(values, values, ["q1", "q2"], names=("a", "b"), title="t").count("<circle")
    1
    """
    both = np.concatenate([x, y])
    inside = both.min() >= 0 and both.max() <= 1
    marks = ticks(0.0, 1.0) if inside else ticks(float(both.min()), float(both.max()))
    across, up = SQUARE.x_axis(marks[0], marks[-1]), SQUARE.y_axis(marks)
    coarse = len(x) > MAX_POINTS
    cells: dict[tuple[float, float], list[str]] = {}
    for a, b, label in zip(x.tolist(), y.tolist(), labels, strict=True):
        cells.setdefault(_cell(across.at(a), up.at(b), coarse), []).append(label)
    body = [
        draw_grid(SQUARE, marks),
        draw_labels(SQUARE, across, {mark: tick_text(mark) for mark in marks}, grid=True),
        _diagonal(SQUARE),
        *(_cell_point(cell, within, 1.8 if coarse else 3.2) for cell, within in cells.items()),
        SQUARE.name_axes(*names),
    ]
    above, under = int((y > x).sum()), int((y < x).sum())
    described = f"{above} queries above the diagonal, {under} below, {len(x) - above - under} on it"
    return picture(title, described, Markup().join(body))


def _diagonal(frame: Frame) -> Markup:
    return rule(frame.left, frame.bottom, frame.right, frame.top, "diagonal")


def _cell(x: float, y: float, coarse: bool) -> tuple[float, float]:
    """Where a point is drawn; coarse cells are laid from the corner, so the diagonal stays one."""
    if not coarse:
        return round(x, 1), round(y, 1)
    size = (SQUARE.right - SQUARE.left) / 56
    across, up = round((x - SQUARE.left) / size), round((SQUARE.bottom - y) / size)
    return SQUARE.left + across * size, SQUARE.bottom - up * size


def _cell_point(cell: tuple[float, float], labels: list[str], size: float) -> Markup:
    x, y = cell
    radius = min(3 * size, size * math.sqrt(len(labels)))
    more = f" and {len(labels) - 4:,} more" if len(labels) > 4 else ""
    side = (x - SQUARE.left) - (SQUARE.bottom - y)
    kind = "even" if abs(side) < 0.2 else "better" if side < 0 else "worse"
    return _circle(x, y, radius, "\n".join(shorten(label, 90) for label in labels[:4]) + more, kind)


def _circle(x: float, y: float, radius: float, label: str, kind: str) -> Markup:
    return element("circle", element("title", label), class_=kind, cx=x, cy=y, r=radius)


def line_panel(
    lines: Sequence[Line],
    *,
    x_name: str,
    y_name: str,
    frame: Frame = SQUARE,
    x_labels: Mapping[float, str] | None = None,
    x_range: tuple[float, float] | None = None,
    shares: bool = False,
    level: tuple[str, float] | None = None,
    diagonal: bool = False,
    baseline_first: bool = False,
) -> Markup:
    """Lines over one pair of axes, to be put into a `picture` or a `stacked_file`.

    `x_labels` names some places in place of round numbers; `x_range` is shown at least; `shares`
    draws both axes from 0 to 1; `level` is a named line across.
    """
    xs = [*(x_range or ()), *(point.x for line in lines for point in line.points)]
    xs = [0.0, 1.0] if shares or not xs else xs
    across = frame.x_axis(min(xs), max(xs), 0 if x_labels is None else 14)
    marks = ticks(0.0, 1.0) if shares else _y_marks(lines, level)
    names = x_labels or {x: tick_text(x) for x in ticks(min(xs), max(xs), 8) if x <= max(xs)}
    up = frame.y_axis(marks)
    body = [draw_grid(frame, marks), draw_labels(frame, across, names, grid=x_labels is None)]
    body += [_diagonal(frame)] if diagonal else []
    body += [
        element(
            "g", _line(line, style, across, up), class_=colour(style, baseline_first=baseline_first)
        )
        for style, line in enumerate(lines)
    ]
    body += [_level(frame, up.at(level[1]), f"{level[0]} {level[1]:.3f}")] if level else []
    return Markup().join([*body, frame.name_axes(x_name, y_name)])


def learning_panel(
    lines: Sequence[Line],
    *,
    y_name: str,
    frame: Frame = SQUARE,
    level: tuple[str, float] | None = None,
) -> Markup:
    """A measure by the number of queries trained on, which is the place of a point.

    Each doubling takes the same width; none at all stands two of them left of the smallest number.
    """
    sizes = sorted({point.x for line in lines for point in line.points})
    none = math.log2(min((size for size in sizes if size), default=1)) - 2
    places = {size: math.log2(size) if size else none for size in sizes}
    moved = [
        replace(line, points=[replace(point, x=places[point.x]) for point in line.points])
        for line in lines
    ]
    labels = {place: f"{size:,.0f}" for size, place in places.items()}
    name = "queries trained on"
    return line_panel(moved, x_name=name, y_name=y_name, frame=frame, x_labels=labels, level=level)


def _y_marks(lines: Sequence[Line], level: tuple[str, float] | None) -> list[float]:
    points = [point for line in lines for point in line.points]
    values = [v for point in points for v in (point.y, point.low, point.high) if v is not None]
    values += [level[1]] if level else []
    return ticks(min(values, default=0.0), max(values, default=1.0))


def _line(line: Line, style: int, across: Axis, up: Axis) -> Markup:
    places = [(across.at(point.x), up.at(point.y)) for point in line.points]
    joined = " ".join(f"{units(x)},{units(y)}" for x, y in places)
    elements = [element("polyline", points=joined, stroke_dasharray=DASHES[style % len(DASHES)])]
    for (x, y), point in zip(places, line.points, strict=True):
        if point.low is not None and point.high is not None:
            elements.append(rule(x, up.at(point.low), x, up.at(point.high), "range"))
        if point.radius:
            elements.append(_circle(x, y, point.radius, point.label, "better"))
        elif line.marked:
            elements.append(marker(style, x, y, point.label))
    return Markup().join(elements)


def whisker(value: float, interval: tuple[float, float], limits: tuple[float, float]) -> Markup:
    """A difference as a dot on its interval, with a line at zero.

    >>> whisker(0.1, (0.0, 0.2), (-0.5, 0.5)).count("<line")
    4
    """
    scale, middle = _whisker_axis(limits), WHISKER[1] / 2
    low, high = (scale.at(end) for end in interval)
    kind = "better" if interval[0] > 0 else "worse" if interval[1] < 0 else "even"
    body = [
        rule(scale.at(0), 0, scale.at(0), WHISKER[1], "zero"),
        rule(low, middle, high, middle, f"span {kind}"),
        *(rule(x, middle - 4, x, middle + 4, f"span {kind}") for x in (low, high)),
        element("circle", class_=kind, cx=scale.at(value), cy=middle, r=4),
    ]
    described = f"interval {text_format.interval(*interval)}"
    return _small(f"difference {signed(value)}", described, body)


def whisker_scale(limits: tuple[float, float]) -> Markup:
    """The ends and the zero of the axis that all whiskers with these limits share."""
    scale = _whisker_axis(limits)
    apart = [end for end in limits if abs(scale.at(end) - scale.at(0)) > 26]
    body = [text(scale.at(mark), 15, tick_text(mark)) for mark in (0.0, *apart)]
    return _small("scale", f"from {tick_text(limits[0])} to {tick_text(limits[1])}", body)


def _small(title: str, description: str, body: Sequence[Markup]) -> Markup:
    frame = Frame(*WHISKER, 0, WHISKER[0], 0, WHISKER[1])
    return picture(title, description, Markup().join(body), frame, "whisker")


def _whisker_axis(limits: tuple[float, float]) -> Axis:
    return Axis(*limits, 24.0, WHISKER[0] - 24.0)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Values,
    *,
    title: str,
    x_name: str,
    selected: int,
    default: int,
) -> str:
    """A table of means in colours, as a file; the selected cell has a thick frame.

    `selected` and `default` count cells row by row.
    """
    left, top = 24 + LETTER_WIDTH * max(map(len, rows)), 64
    right, bottom = left + CELL_WIDTH * len(columns), top + CELL_HEIGHT * len(rows)
    low, high = float(values.min()), float(values.max())
    body = [
        text(16, 28, title, "start", "title"),
        text(16, 48, "thick frame: selected · dashed frame: default", "start", "tick"),
        *(text(left - 8, top + (y + 0.65) * CELL_HEIGHT, row, "end") for y, row in enumerate(rows)),
        *(
            text(left + (x + 0.5) * CELL_WIDTH, bottom + 18, column)
            for x, column in enumerate(columns)
        ),
        text((left + right) / 2, bottom + 38, x_name),
    ]
    for (y, x), value in np.ndenumerate(values):
        share = 0.5 if high == low else (float(value) - low) / (high - low)
        body.append(_heat(left + x * CELL_WIDTH, top + y * CELL_HEIGHT, share, f"{value:.4f}"))
    for number, kind in ((default, "frame default"), (selected, "frame")):
        y, x = divmod(number, len(columns))
        place = {"x": left + x * CELL_WIDTH + 2, "y": top + y * CELL_HEIGHT + 2}
        size = {"width": CELL_WIDTH - 4, "height": CELL_HEIGHT - 4}
        body.append(element("rect", class_=kind, **place, **size))
    width = max(right + 16, 32 + 9 * len(title), 360)
    return svg_file(title, Markup().join(body), width, bottom + 54)


def _heat(x: float, y: float, share: float, value: str) -> Markup:
    red, green, blue = viridis(share)
    kind = "on-dark" if 0.299 * red + 0.587 * green + 0.114 * blue < 105 else "on-light"
    box = {"x": x, "y": y, "width": CELL_WIDTH, "height": CELL_HEIGHT}
    cell = element("rect", fill=f"rgb({red},{green},{blue})", **box)
    return cell + text(x + CELL_WIDTH / 2, y + 20, value, kind=kind)


def viridis(share: float) -> tuple[int, int, int]:
    """The colour of a value that lies at `share` of the way from least to most.

    >>> viridis(0.0), viridis(1.0)
    ((68, 1, 84), (253, 231, 37))
    """
    place = share * (len(VIRIDIS) - 1)
    first = min(int(place), len(VIRIDIS) - 2)
    ends = zip(VIRIDIS[first], VIRIDIS[first + 1], strict=True)
    red, green, blue = (round(a + (b - a) * (place - first)) for a, b in ends)
    return red, green, blue


@dataclass(frozen=True, slots=True)
class MeanRow:
    """A system's mean, perhaps with an interval; `strong` for the one that is talked about."""

    name: str
    mean: float
    low: float | None = None
    high: float | None = None
    strong: bool = False


def mean_intervals(rows: Sequence[MeanRow], *, title: str, axis: str, reference: str) -> Markup:
    """Means as points below one another, with their intervals; the mean of the row that is called
    `reference` is a dashed line beside all of them. No line crosses a name.

    >>> rows = [MeanRow("hybrid", 0.5, 0.45, 0.6, strong=True), MeanRow("BM25", 0.4)]
    >>> mean_intervals(rows, title="t", axis="RR@10", reference="BM25").count('class="marker"')
    2
    """
    frame = Frame(MEAN_WIDTH, mean_height(rows), 8, MEAN_WIDTH - 8, 8, 12 + MEAN_ROW * len(rows))
    values = [v for row in rows for v in (row.mean, row.low, row.high) if v is not None]
    marks = ticks(min(values), max(values))
    across = frame.x_axis(marks[0], marks[-1], 16)
    body = [draw_labels(frame, across, {mark: tick_text(mark) for mark in marks}, grid=False)]
    lines = [(across.at(mark), "grid") for mark in marks]
    lines += [(across.at(row.mean), "mean") for row in rows if row.name == reference]
    for at, row in enumerate(rows):
        top = frame.top + MEAN_ROW * at
        body += [rule(x, top + 21, x, top + MEAN_ROW - 1, kind) for x, kind in lines]
        body.append(_mean_row(row, top, across))
    body.append(text((frame.left + frame.right) / 2, frame.bottom + 40, axis))
    described = "; ".join(f"{row.name}: {row.mean:.3f}" for row in rows)
    return picture(title, described, Markup().join(body), frame)


def mean_height(rows: Sequence[MeanRow]) -> int:
    """How high the chart of some means is; it is `MEAN_WIDTH` wide."""
    return 58 + MEAN_ROW * len(rows)


def _mean_row(row: MeanRow, top: float, across: Axis) -> Markup:
    x, y = across.at(row.mean), top + 32
    around = ""
    elements = []
    if row.low is not None and row.high is not None:
        low, high = across.at(row.low), across.at(row.high)
        elements += [rule(low, y, high, y, "range")]
        elements += [rule(end, y - 5, end, y + 5, "range") for end in (low, high)]
        around = f", {row.low:.3f} to {row.high:.3f}"
    elements.append(marker(0, x, y, f"{row.name}: {row.mean:.3f}{around}"))
    kind = "level strong" if row.strong else "level"
    label = text(12, top + 15, f"{row.mean:.3f}  {row.name}", "start", kind, room=MEAN_WIDTH - 70)
    return element("g", *elements, label, class_="s1" if row.strong else "s0")
