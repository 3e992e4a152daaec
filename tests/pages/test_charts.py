"""Charts: inside their frame, true to their values, readable without colours, escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pages.page import Page, assert_inside

from tamis.evaluation.report import recall_curves
from tamis.pages.charts import (
    MAX_BARS,
    Line,
    MeanRow,
    Point,
    Values,
    bars,
    heat_map,
    line_panel,
    mean_intervals,
    scatter,
    whisker,
    whisker_scale,
)
from tamis.pages.svg import LETTER_WIDTH, WIDE, element, picture, stacked_file, ticks

values = st.floats(-1e6, 1e6, allow_nan=False) | st.sampled_from([0.0, 1.0, -1.0, 1e-9])
shares = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])


@given(values, values)
def test_ticks_enclose_in_even_steps(one: float, other: float) -> None:
    low, high = sorted((one, other))
    marks = ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), high - low)
    assert 2 <= len(marks) <= 7
    assert marks[0] <= low + slack and marks[-1] >= high - slack
    assert marks == sorted(set(marks))


@settings(deadline=None, max_examples=60)
@given(st.lists(values, min_size=1, max_size=400))
def test_bars_stay_inside(drawn: list[float]) -> None:
    labels = [f"q{number}" for number in range(len(drawn))]
    page = Page(bars(np.array(drawn), labels, title="t", axis="AP"))
    assert_inside(page)
    assert page.count("rect") == min(len(drawn), MAX_BARS)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=60), st.integers(1, 20))
def test_points_stay_inside_and_none_is_lost(
    points: list[tuple[float, float]], copies: int
) -> None:
    x, y = np.array(points * copies).T
    labels = [f"q{number}" for number in range(len(x))]
    drawn = scatter(x, y, labels, names=("old", "new"), title="t")
    page = Page(drawn)
    assert_inside(page)
    inside = [text for tag, text in page.text if tag == "title"][1:]
    more = [re.search(r" and ([\d,]+) more$", text) for text in inside]
    named = sum(len(text.splitlines()) for text in inside)
    assert named + sum(int(m[1].replace(",", "")) for m in more if m) == len(x)


def test_bars_are_sorted_and_named() -> None:
    drawn = bars(np.array([-0.25, 0.5, 0.0]), ["down -1", "up", "same"], title="t", axis="AP")
    page = Page(drawn)
    assert [text for tag, text in page.text if tag == "title"] == ["t", "up", "same", "down -1"]
    tall = [float(str(a["height"])) for tag, a in page.tags if tag == "rect"]
    assert tall[0] == pytest.approx(2 * tall[2], abs=0.2) and tall[1] == 0
    assert [a["class"] for tag, a in page.tags if tag == "rect"][::2] == ["better", "worse"]


def test_no_line_crosses_the_name_of_a_mean() -> None:
    rows = [MeanRow("hybrid", 0.5, 0.45, 0.6, strong=True), MeanRow("BM25", 0.4), MeanRow("c", 0.3)]
    page = Page(mean_intervals(rows, title="t", axis="RR@10", reference="BM25"))
    assert_inside(page)
    lines = [a for tag, a in page.tags if tag == "line" and a["class"] in ("grid", "mean")]
    names = [a for tag, a in page.tags if tag == "text" and str(a["class"]).startswith("level")]
    assert len(names) == len(rows)
    assert sum(a["class"] == "mean" for a in lines) == len(rows)
    for name in names:
        bottom = float(str(name["y"])) + 4
        for line in lines:
            ends = sorted(float(str(line[end])) for end in ("y1", "y2"))
            assert ends[1] < bottom - 16 or ends[0] > bottom


def test_runs_differ_by_more_than_colour() -> None:
    curves: dict[str, Values] = {f"r{number}": np.full(11, number / 20) for number in range(14)}
    page = Page(recall_curves(curves, baseline_first=True))
    assert_inside(page)
    dashes = [a.get("stroke-dasharray") for tag, a in page.tags if tag == "polyline"]
    shapes = [a["d"] for tag, a in page.tags if tag == "path"][::11]
    assert len(set(zip(dashes, shapes, strict=True))) == 14


def test_whiskers_on_one_scale() -> None:
    page = Page(whisker(-0.1, (-0.3, 0.1), (-0.4, 0.2)) + whisker_scale((-0.4, 0.2)))
    assert_inside(page)
    assert ("desc", "interval −0.3000 to +0.1000") in page.text
    assert [text for tag, text in page.text if tag == "text"] == ["0", "−0.4", "0.2"]


def test_labels_do_not_touch_one_another() -> None:
    sizes = [0, 1, 2, 900, 1_000, 1_001, 64_000]
    points = [Point(float(np.log2(n + 1)), 0.5) for n in sizes]
    names = {point.x: f"{n:,}" for point, n in zip(points, sizes, strict=True)}
    panel = line_panel([Line("a", points)], x_name="x", y_name="y", x_labels=names)
    page = Page(picture("t", "d", panel))
    middles = [float(str(a["x"])) for tag, a in page.tags if tag == "text" and a["y"] == "378"]
    shown = [text for tag, text in page.text if tag == "text"][-len(middles) - 2 : -2]
    halves = [LETTER_WIDTH * len(text) / 2 for text in shown]
    assert shown[0] == "0" and shown[-1] == "64,000" and "1,001" in shown and "1,000" not in shown
    for n in range(len(shown) - 1):
        assert middles[n] + halves[n] <= middles[n + 1] - halves[n + 1]


def test_long_names_stay_in_the_picture() -> None:
    name = "a name that goes on " * 20
    panel = line_panel([Line(name, [Point(0, 1), Point(5, 2)])], x_name=name, y_name=name)
    texts = [text for tag, text in Page(picture("t", "d", panel)).text if tag == "text"]
    assert max(len(text) * LETTER_WIDTH for text in texts) < 400
    assert sum(text.endswith("…") for text in texts) == 2


HOSTILE = "<script>alert(1)</script> \"'& \x00\x1b\ud800"


def test_files_are_well_formed_whatever_names_hold() -> None:
    panel = line_panel([Line(HOSTILE, [Point(0, 1, HOSTILE)])], x_name=HOSTILE, y_name="y")
    drawn = stacked_file(HOSTILE, [panel, panel], [HOSTILE])
    table = heat_map([HOSTILE], [HOSTILE, "b"], np.eye(1, 2), title=HOSTILE, x_name=HOSTILE,
                     selected=0, default=1)  # fmt: skip
    for text in (drawn, table, str(element("g", HOSTILE, data_name=HOSTILE))):
        read = xml.fromstring(text.encode())
        assert not any(each.tag.endswith("script") for each in read.iter())
        assert "alert(1)" in "".join(read.itertext())
    assert f'height="{2 * WIDE.height + 30:g}"' in drawn


def test_a_file_brings_its_style_and_loads_nothing() -> None:
    text = heat_map(["1"], ["2"], np.ones((1, 1)), title="t", x_name="x", selected=0, default=0)
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"url\(|@import|href|<script", text)


def test_a_heat_map() -> None:
    means = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    drawn = xml.fromstring(heat_map(["k1=1", "k1=2"], ["a", "b", "c"], means, title="t",
                                    x_name="b", selected=5, default=0))  # fmt: skip
    tags = [each for each in drawn.iter() if each.tag.endswith("rect")]
    framed = {each.get("class"): each for each in tags if "frame" in str(each.get("class"))}
    assert len(tags) == 1 + 6 + 2
    assert {f"{value:.4f}" for value in means.flat} <= {each.text for each in drawn.iter()}
    cells = [each for each in tags if each.get("fill")]
    assert float(str(framed["frame"].get("x"))) - float(str(cells[5].get("x"))) == 2
    assert float(str(framed["frame default"].get("x"))) - float(str(cells[0].get("x"))) == 2
