"""What the report of a fit says of data, labels, truncation and time, and what labels are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from tamis.durable import duration
from tamis.fitting.learning_curve import CurvePoint
from tamis.fitting.result import TRUNCATION_BOUNDS, FitResult, Truncation
from tamis.pages.charts import Line, Point, learning_panel
from tamis.pages.svg import picture
from tamis.pages.text_format import counted, signed


def learning_view(result: FitResult) -> dict[str, Any] | None:
    """What labels are worth; None where no curve was measured."""
    curve = result.learning_curve
    if not curve:
        return None
    return {
        "drawing": learning_chart(curve, result.measure) if len(curve) > 2 else None,
        "caption": f"Mean {result.measure} of the fine-tuned model on held-out judged queries, by "
        "the number of others it was trained on; each doubling takes about the same width.",
        "worth": _worth(curve, result.measure),
    }


def learning_chart(curve: Sequence[CurvePoint], measure: str) -> Markup:
    """A measure by the number of judged queries trained on, which doubles rightwards.

    >>> learning_chart([CurvePoint(8, 0.4), CurvePoint(32, 0.5)], "RR@10").count('class="marker"')
    2
    """
    points = [
        Point(point.queries, point.mean, f"{point.mean:.4f} with {counted(point.queries)}")
        for point in curve
    ]
    panel = learning_panel([Line(measure, points)], y_name=measure)
    described = "; ".join(point.label for point in points)
    return picture(f"{measure} by judged queries", described, panel)


def _worth(curve: Sequence[CurvePoint], measure: str) -> str:
    """What twice the labels would bring, if it goes on as between the last two points."""
    before, now = curve[-2:] if len(curve) > 1 else (curve[0], curve[0])
    if now.queries <= before.queries or not before.queries:
        without = (
            f"Without judgements {before.mean:.4f}, w" if now.queries > before.queries else "W"
        )
        return (
            f"{without}ith {counted(now.queries)} {now.mean:.4f}. That alone does not tell what "
            "more would bring: with more judged queries, or more time, points between are measured."
        )
    gain = (now.mean - before.mean) / math.log2(now.queries / before.queries)
    change = f"{measure} changed by {signed(now.mean - before.mean)}"
    rose = f"From {before.queries:,} to {now.queries:,} judged queries {change}"
    if gain <= 0:
        return f"{rose}: more labels of this kind would most likely bring little."
    return (
        f"{rose}. If it goes on like this, twice as many, {2 * now.queries:,}, would bring about "
        f"{signed(gain)} more. Such curves flatten: take it as an upper bound."
    )


def provenance_view(result: FitResult) -> dict[str, Any]:
    """What it was made from and how long it took."""
    return {
        "data": {_spaced(name): _fact(value) for name, value in result.data.items()},
        "labels": _labels(result.labels) if result.labels else None,
        "truncation": _truncation(result.truncation, result.data),
        "truncation_bars": _truncation_bars(result.truncation),
        "times": _times(result),
        "timings": [
            (timing.activity, _spaced(timing.system), timing.fold, f"{timing.seconds:,.1f} s")
            for timing in result.timings
        ],
    }


def _fact(value: object) -> str:
    """A fact as people read it, a mapping in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{_spaced(name)} {_fact(item)}" for name, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _spaced(key: object) -> str:
    """A key as people read it."""
    return str(key).replace("_", " ")


def _labels(by_source: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    roles = list(dict.fromkeys(role for counts in by_source.values() for role in counts))
    rows = [
        [source, *(_fact(counts.get(role, 0)) for role in roles)]
        for source, counts in by_source.items()
    ]
    return {"heads": ["source", *roles], "rows": rows}


def _truncation(truncation: Truncation | None, data: Mapping[str, Any]) -> str:
    if truncated := data.get("truncated_documents"):
        return (
            f"Of {data['documents']:,} documents {truncated:,} are longer than the model reads: "
            f"{data['truncated_tokens']:,} tokens of them were truncated. To read all of them, fit "
            "with --passages words:150:75."
        )
    if truncation is None:
        return "No document was truncated: no model scored documents of test queries."
    if not truncation.truncated_documents:
        return f"None of the {truncation.documents:,} documents of test queries was truncated."
    return (
        f"Of {truncation.documents:,} documents of test queries "
        f"{truncation.truncated_documents:,} were longer than the model reads; "
        f"{truncation.truncated_tokens:,} tokens of them were truncated."
    )


def _truncation_bars(truncation: Truncation | None) -> list[tuple[str, int, float]]:
    """How many documents lost so many tokens, and what share of the longest bar that is.

    Documents that lost none have no bar: beside theirs the others would be too short to compare.
    """
    if truncation is None or not truncation.truncated_documents or not truncation.histogram:
        return []
    names = ["none", *(f"{a + 1:,} to {b:,}" for a, b in pairwise(TRUNCATION_BOUNDS))]
    names.append(f"more than {TRUNCATION_BOUNDS[-1]:,}")
    most = max(truncation.histogram[1:])
    return [
        (name, count, count / most if at else 0.0)
        for at, (name, count) in enumerate(zip(names, truncation.histogram, strict=True))
    ]


def _times(result: FitResult) -> list[tuple[str, str, str, str]]:
    """The plan against the time taken."""
    keys = {step.key for step in result.plan.steps if step.planned}
    seconds_by_step: dict[str, float] = {}
    for timing in result.timings:
        key = timing.step if timing.step in keys else ""
        seconds_by_step[key] = seconds_by_step.get(key, 0.0) + timing.seconds
    rows = []
    for step in result.plan.steps:
        took = duration(seconds_by_step[step.key]) if step.key in seconds_by_step else "–"
        planned = duration(step.seconds) if step.planned else "does not fit"
        rows.append((step.name, step.what, planned, took))
    if "" in seconds_by_step:
        rows.append(("other", "what is not in the plan", "–", duration(seconds_by_step[""])))
    total = duration(sum(timing.seconds for timing in result.timings))
    return [*rows, ("together", "", duration(result.plan.seconds), total)]
