"""Reads the HTML and SVG that tamis writes, strictly, for the tests of pages."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page of which every tag is closed where it should be: its tags, texts, words and rows.

    White space is as a browser shows it; words leave out drawings, scripts and styles.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self.words = ""
        self.feed(page)
        self.close()
        assert self.open == []
        self.words = " ".join(self.words.split())
        self.rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag in ("p", "li", "dt", "dd"):
            self.handle_data(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> while {self.open[-3:]} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.text.append((self.open[-1] if self.open else "", data.strip()))
        if not {"style", "script", "svg"} & {*self.open}:
            self.words += data
            if {"td", "th"} & {*self.open}:
                self.rows[-1][-1] += data

    def count(self, tag: str) -> int:
        """How many elements of a kind there are."""
        return sum(name == tag for name, _ in self.tags)

    def row(self, beginning: str, cells: int) -> list[str]:
        """The first row that begins so."""
        return next(r for r in self.rows if len(r) == cells and r[0].startswith(beginning))

    def headings(self) -> list[int]:
        """The level of every heading."""
        return [int(tag[1]) for tag, _ in self.tags if re.fullmatch("h[1-6]", tag)]


def assert_inside(page: Page) -> None:
    """Every coordinate of every drawing is a number inside the drawing."""
    width = height = 0.0
    for tag, attributes in page.tags:
        if tag == "svg":
            width, height = map(float, str(attributes["viewbox"]).split()[2:])
        if tag in ("rect", "circle", "line", "text", "polyline", "path"):
            for x, y in _corners(tag, {name: str(value) for name, value in attributes.items()}):
                assert math.isfinite(x) and math.isfinite(y)
                assert 0 <= x <= width and 0 <= y <= height, (tag, attributes)


def _corners(tag: str, attributes: dict[str, str]) -> list[tuple[float, float]]:
    def number(name: str) -> float:
        return float(attributes[name])

    if tag == "rect":
        x, y, wide, high = map(number, ("x", "y", "width", "height"))
        assert wide > 0 and high >= 0
        return [(x, y), (x + wide, y + high)]
    if tag == "circle":
        x, y, r = map(number, ("cx", "cy", "r"))
        return [(x - r, y - r), (x + r, y + r)]
    if tag == "line":
        return [(number("x1"), number("y1")), (number("x2"), number("y2"))]
    if tag == "text":
        return [(number("x"), number("y"))]
    if tag == "path":
        found = re.fullmatch(r"translate\((\S+) (\S+)\)", attributes["transform"])
        assert found
        return [(float(found[1]), float(found[2]))]
    pairs = [place.split(",") for place in attributes["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]
