"""What SVG is made of, and the only place that makes any: elements, axes, labels, legends, files.

Every element is made, and its text escaped, by `element`. Colours are CSS variables of
`templates/chart.css`, which a page includes and a file that stands alone carries along. What a
colour says is also said by a place, a marker or a dash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from markupsafe import Markup, escape

from tamis.pages.text_format import shorten
from tamis.terminal import visible

LETTER_WIDTH = 7.2
"""How wide a letter of a label is at most, on average."""
COLOURS = 6
"""How many colours chart.css defines, classes s1 to s6, beside the ink of a baseline, s0."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2")
MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-3.5 -3.5h7v7h-7z",
    "M0 -4.5L4.5 3.5H-4.5z",
    "M0 -5L5 0L0 5L-5 0z",
    "M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5",
    "M-4.5 0H4.5M0 -4.5V4.5",
    "M0 4.5L4.5 -3.5H-4.5z",
)
LEGEND_ROW = 20


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


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a chart, and the box in it that values are drawn in."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    def x_axis(self, low: float, high: float, margin: float = 0.0) -> Axis:
        """Values from left to right."""
        return Axis(low, max(high, low + 1e-9), self.left + margin, self.right - margin)

    def y_axis(self, marks: Sequence[float]) -> Axis:
        """Values from below upwards, between the first and the last mark."""
        return Axis(marks[0], marks[-1], self.bottom, self.top)

    def name_axes(self, x_name: str, y_name: str) -> Markup:
        """What both axes show; the vertical one is named above it, where there is room."""
        across = text((self.left + self.right) / 2, self.bottom + 39, x_name, room=self.width - 80)
        return across + self.name_y_axis(y_name)

    def name_y_axis(self, name: str) -> Markup:
        """What the vertical axis shows."""
        start = self.left - 56
        return text(start, self.top - 16, name, "start", room=self.width - start - 8)


SQUARE = Frame(400, 404, 58, 386, 30, 358)
"""Beside another one on a page; its letters stay readable on a phone."""
WIDE = Frame(640, 300, 70, 612, 36, 244)
"""In a file of its own."""


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """An element; text is escaped, and an attribute without a value left out.

    >>> element("text", "a<b", x=12.04, text_anchor="end", class_="")
    Markup('<text x="12" text-anchor="end">a&lt;b</text>')
    """
    head = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value != ""
    )
    body = "".join(
        child if isinstance(child, Markup) else escape(visible(child)) for child in children
    )
    return Markup(f"<{name}{head}>{body}</{name}>" if body else f"<{name}{head}/>")


def _attribute(value: str | float) -> str:
    return visible(value) if isinstance(value, str) else units(value)


def units(value: float) -> str:
    """A coordinate, as short as one digit after the point allows.

    >>> units(12.04), units(12.35), units(-0.01)
    ('12', '12.3', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def text(
    x: float, y: float, words: str, anchor: str = "middle", kind: str = "axis", room: float = 0.0
) -> Markup:
    """Words at a place; they are shortened to the `room` that is given."""
    label = shorten(words, int(room / LETTER_WIDTH)) if room else words
    return element("text", label, class_=kind, x=x, y=y, text_anchor=anchor)


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line; `kind` is its class."""
    return element("line", class_=kind, x1=x1, y1=y1, x2=x2, y2=y2)


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


def tick_text(value: float, *, with_sign: bool = False) -> str:
    """A number at an axis."""
    label = f"{value:+g}" if with_sign and value else f"{value:,g}"
    return label.replace("-", "−")


def draw_grid(frame: Frame, marks: Sequence[float], *, with_sign: bool = False) -> Markup:
    """Lines across with their numbers, with a sign for differences."""
    axis = frame.y_axis(marks)
    return Markup().join(
        rule(frame.left, axis.at(mark), frame.right, axis.at(mark), "grid")
        + text(
            frame.left - 10, axis.at(mark) + 4, tick_text(mark, with_sign=with_sign), "end", "tick"
        )
        for mark in marks
    )


def draw_labels(frame: Frame, axis: Axis, names: Mapping[float, str], *, grid: bool) -> Markup:
    """Labels below; one that would touch its neighbour is left out, the last one never."""
    labels: list[Markup] = []
    free = math.inf
    for value in sorted(names, reverse=True):
        x, half = axis.at(value), LETTER_WIDTH * len(names[value]) / 2
        if x + half > free:
            continue
        free = x - half - 4
        line = rule(x, frame.top, x, frame.bottom, "grid") if grid else Markup()
        labels.insert(0, line + text(x, frame.bottom + 20, names[value], kind="tick"))
    return Markup().join(labels)


def picture(
    title: str, description: str, body: str, frame: Frame = SQUARE, kind: str = "chart"
) -> Markup:
    """A drawing in a page, with what it shows in words for readers who cannot see it."""
    box = f"0 0 {units(frame.width)} {units(frame.height)}"
    described = (element("title", title), element("desc", description), body)
    return element("svg", *described, class_=kind, viewBox=box, role="img")


def svg_file(title: str, body: str, width: float, height: float) -> str:
    """A drawing that stands alone, in a file with its own style."""
    style = resources.files("tamis.pages").joinpath("templates/chart.css").read_text("utf-8")
    paper = element("rect", class_="paper", x=0, y=0, width=width, height=height)
    drawing = element(
        "svg",
        element("title", title),
        element("style", Markup(style)),
        paper,
        body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {units(width)} {units(height)}",
        width=width,
        height=height,
        role="img",
    )
    return f"{drawing}\n"


def stacked_file(title: str, panels: Sequence[str], legend: Sequence[str] = ()) -> str:
    """Wide charts below one another in a file, and what their lines are called."""
    elements = [
        element("g", panel, transform=f"translate(0 {units(number * WIDE.height)})")
        for number, panel in enumerate(panels)
    ]
    below = len(panels) * WIDE.height
    for style, name in enumerate(legend):
        y = below + LEGEND_ROW * style
        sample = element("g", _sample(style), transform=f"translate({units(WIDE.left)} {units(y)})")
        label = text(WIDE.left + 44, y + 10, name, "start", room=WIDE.width - WIDE.left - 60)
        elements.append(element("g", sample, label, class_=colour(style)))
    height = below + LEGEND_ROW * len(legend) + (10 if legend else 0)
    return svg_file(title, Markup().join(elements), WIDE.width, height)


def colour(style: int, *, baseline_first: bool = False) -> str:
    """The class of a line's colour; a baseline that comes first has the colour of the text."""
    if baseline_first:
        return f"s{0 if style == 0 else 1 + (style - 1) % COLOURS}"
    return f"s{1 + style % COLOURS}"


def marker(style: int, x: float, y: float, label: str = "") -> Markup:
    """The marker of a line at a place, with what shows under the pointer."""
    title = [element("title", label)] if label else []
    place = f"translate({units(x)} {units(y)})"
    shape = MARKERS[style % len(MARKERS)]
    return element("path", *title, class_="marker", transform=place, d=shape)


def _sample(style: int) -> Markup:
    line = element("polyline", points="1,6 31,6", stroke_dasharray=DASHES[style % len(DASHES)])
    return line + marker(style, 16, 6)


def swatch(style: int, *, baseline_first: bool = False) -> Markup:
    """The line and marker of the line with this number, for a legend in text.

    >>> swatch(1, baseline_first=True).startswith('<svg class="swatch s1"')
    True
    """
    kind = f"swatch {colour(style, baseline_first=baseline_first)}"
    return element("svg", _sample(style), class_=kind, viewBox="0 0 32 12", aria_hidden="true")
