"""A surface of means as a picture: one self-contained SVG, readable on light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

STOPS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
"""Dark to bright, even in lightness, and told apart by the colour-blind (viridis)."""
CELL_WIDTH, CELL_HEIGHT, TOP, RIGHT, BOTTOM = 62, 30, 64, 16, 48


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    values: NDArray[np.float64],
    *,
    title: str,
    across: str,
    chosen: int,
    default: int,
) -> str:
    """The picture; the chosen cell has a thick frame, the default a dashed one.

    `chosen` and `default` count cells row by row.
    """
    left = 24 + 8 * max(map(len, rows))
    width = max(left + CELL_WIDTH * len(columns) + RIGHT, 480)
    height = TOP + CELL_HEIGHT * len(rows) + BOTTOM
    low, high = float(values.min()), float(values.max())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="15" font-weight="600" fill="#222">{escape(title)}</text>',
        '<text x="16" y="48" fill="#555">thick frame: chosen · dashed frame: default</text>',
    ]
    for y, row in enumerate(rows):
        top = TOP + y * CELL_HEIGHT
        parts.append(_label(left - 8, top + 20, row, "end"))
        for x in range(len(columns)):
            parts.append(_cell(left + x * CELL_WIDTH, top, float(values[y, x]), low, high))
    for number, dash in ((default, ' stroke-dasharray="5 3"'), (chosen, "")):
        y, x = divmod(number, len(columns))
        parts.append(
            f'<rect x="{left + x * CELL_WIDTH + 2}" y="{TOP + y * CELL_HEIGHT + 2}" '
            f'width="{CELL_WIDTH - 4}" height="{CELL_HEIGHT - 4}" fill="none" '
            f'stroke="#d7301f" stroke-width="3"{dash}/>'
        )
    below = TOP + CELL_HEIGHT * len(rows) + 18
    for x, column in enumerate(columns):
        parts.append(_label(left + (x + 0.5) * CELL_WIDTH, below, column, "middle"))
    parts.append(_label(left + CELL_WIDTH * len(columns) / 2, below + 20, across, "middle"))
    return "\n".join([*parts, "</svg>", ""])


def _label(x: float, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'


def _cell(x: int, y: int, value: float, low: float, high: float) -> str:
    share = 0.5 if high == low else (value - low) / (high - low)
    red, green, blue = colour(share)
    ink = "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else "#111111"
    return (
        f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" '
        f'fill="rgb({red},{green},{blue})"/>'
        f'<text x="{x + CELL_WIDTH / 2:g}" y="{y + 20}" text-anchor="middle" fill="{ink}">'
        f"{value:.4f}</text>"
    )


def colour(share: float) -> tuple[int, int, int]:
    """The colour of a value that lies at `share` of the way from least to most.

    >>> colour(0.0), colour(1.0)
    ((68, 1, 84), (253, 231, 37))
    """
    place = share * (len(STOPS) - 1)
    first = min(int(place), len(STOPS) - 2)
    part = place - first
    red, green, blue = (
        round(a + (b - a) * part) for a, b in zip(STOPS[first], STOPS[first + 1], strict=True)
    )
    return red, green, blue
