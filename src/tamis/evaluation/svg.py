"""What charts are drawn with: axes, grids, lines, words and markers as bits of inline SVG.

Colours are left to the page's CSS. What a colour says is also said by a place, a marker or a dash.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 400.0, 404.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 386.0, 30.0, 358.0
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


def picture(
    title: str,
    description: str,
    body: str,
    size: tuple[float, float] = (WIDTH, HEIGHT),
    kind: str = "chart",
) -> str:
    """A whole drawing, with what it shows in words for readers who cannot see it."""
    return (
        f'<svg class="{kind}" viewBox="0 0 {units(size[0])} {units(size[1])}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{body}</svg>"
    )


def grid_y(marks: list[float], scale: Axis, *, signed_marks: bool = False) -> str:
    """Lines across with their numbers, `signed_marks` for differences."""
    return "".join(
        rule(LEFT, scale.at(mark), RIGHT, scale.at(mark), "grid")
        + words(LEFT - 10, scale.at(mark) + 4, tick_text(mark, signed_marks), "end", "tick")
        for mark in marks
    )


def grid_x(marks: list[float], scale: Axis) -> str:
    """Lines upwards with their numbers."""
    return "".join(
        rule(scale.at(mark), TOP, scale.at(mark), BOTTOM, "grid")
        + words(scale.at(mark), BOTTOM + 20, tick_text(mark, False), "middle", "tick")
        for mark in marks
    )


def tick_text(value: float, with_sign: bool) -> str:
    """A number at an axis."""
    text = f"{value:+g}" if with_sign and value else f"{value:g}"
    return text.replace("-", "−")


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line; `kind` is its class."""
    ends = f'x1="{units(x1)}" y1="{units(y1)}" x2="{units(x2)}" y2="{units(y2)}"'
    return f'<line class="{kind}" {ends}/>'


def words(x: float, y: float, text: str, anchor: str = "middle", kind: str = "axis") -> str:
    """Words at a place; they are escaped."""
    place = f'x="{units(x)}" y="{units(y)}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def axis_name(text: str) -> str:
    """The name of the vertical axis, above it, where no number can be too long for it."""
    return words(2, 14, text, "start")


def colour(style: int, inked: bool) -> str:
    """The class of a run's colour; `inked` gives the first the colour of the text."""
    if inked:
        return "s0" if style == 0 else colour(style - 1, False)
    return f"s{1 + style % COLOURS}"


def dash_of(style: int) -> str:
    """The dashes of a run's line."""
    dash = DASHES[style % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def marker(style: int, x: float, y: float, label: str = "") -> str:
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
    place = f"translate({units(x)} {units(y)})"
    return f'<path class="marker" transform="{place}" d="{shape}">{title}</path>'


def units(value: float) -> str:
    """A coordinate, as short as one digit after the point allows.

    >>> units(12.04), units(12.35), units(-0.01)
    ('12', '12.3', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
