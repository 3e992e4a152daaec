"""The parts of the report of a fit on its data, labels, retrievers, truncation and time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tamis.durable import duration
from tamis.evaluation.report_subject import fact_list, scrolling
from tamis.evaluation.svg import counted, signed
from tamis.fitting.learning_curve import CurvePoint
from tamis.fitting.report_charts import learning_chart
from tamis.fitting.result import FitResult, Truncation
from tamis.fitting.workspace import Timing


def learning_curve_section(result: FitResult) -> str:
    """The section on what labels are worth; none where no curve was measured."""
    curve = result.learning_curve
    if not curve:
        return ""
    drawn = learning_chart(curve, result.measure)
    return (
        '<section><h2>What labels are worth</h2><div class="pair"><figure>'
        f"{drawn}<figcaption>Mean {escape(result.measure)} of the fine-tuned model on held-out "
        "judged queries, by the number of others it was trained on; each doubling takes about the "
        "same width.</figcaption></figure>"
        f"<div><p>{_worth(curve, result.measure)}</p></div></div></section>"
    )


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
    change = f"{escape(measure)} changed by {signed(now.mean - before.mean)}"
    rose = f"From {before.queries:,} to {now.queries:,} judged queries {change}"
    if gain <= 0:
        return f"{rose}: more labels of this kind would most likely bring little."
    return (
        f"{rose}. If it goes on like this, twice as many, {2 * now.queries:,}, would bring about "
        f"{signed(gain)} more. Such curves flatten: take it as an upper bound."
    )


def provenance_section(result: FitResult) -> str:
    """What it was made from and how long it took."""
    notes = {escape(name): escape(note) for name, note in result.retriever_notes.items()}
    return (
        "<section><h2>How it was made</h2>"
        f"<h3>Data</h3>{fact_list(dict(_plain(result.data)))}"
        f"<h3>Retrieval</h3>{fact_list(notes)}"
        f"<h3>Labels of the selected model</h3>{_labels(result)}"
        f"<h3>Truncation</h3><p>{_truncation(result.truncation)}</p>"
        f"<h3>Time</h3>{_times(result)}</section>"
    )


def _plain(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts as HTML, a mapping in one line."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            parts = ", ".join(f"{_spaced(n)} {_shown(v)}" for n, v in value.items())
            yield _spaced(name), parts
        else:
            yield _spaced(name), _shown(value)


def _spaced(key: object) -> str:
    """A key as people read it."""
    return escape(str(key).replace("_", " "))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else escape(str(value))


def _labels(result: FitResult) -> str:
    if not result.labels:
        return "<p>None: the selected system was not trained here.</p>"
    by_source = result.labels
    roles = list(dict.fromkeys(role for counts in by_source.values() for role in counts))
    head = '<th scope="col">source</th>' + "".join(
        f'<th scope="col" class="number">{escape(str(role))}</th>' for role in roles
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(str(source))}</th>'
        + "".join(f'<td class="number">{_shown(counts.get(role, 0))}</td>' for role in roles)
        + "</tr>"
        for source, counts in by_source.items()
    )
    return scrolling(f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>", "Labels by source")


def _truncation(truncation: Truncation | None) -> str:
    if truncation is None:
        return "No model scored documents of test queries, so none was truncated."
    if not truncation.truncated_documents:
        return f"None of the {truncation.documents:,} documents of test queries was truncated."
    return (
        f"Of {truncation.documents:,} documents of test queries "
        f"{truncation.truncated_documents:,} were longer than the model reads; "
        f"{truncation.truncated_tokens:,} tokens of them were truncated."
    )


def _times(result: FitResult) -> str:
    """The plan against the time taken, and every single thing that was timed."""
    planned = [step for step in result.plan.steps if step.planned]
    keys = {step.key for step in planned}
    taken: dict[str, float] = {}
    for timing in result.timings:
        step = timing.step if timing.step in keys else ""
        taken[step] = taken.get(step, 0.0) + timing.seconds
    rows = [
        _time_row(step.name, step.what, duration(step.seconds), taken.get(step.key))
        if step.planned
        else _time_row(step.name, step.what, "does not fit", None)
        for step in result.plan.steps
    ]
    if "" in taken:
        rows.append(_time_row("other", "what is not in the plan", "–", taken[""]))
    total = sum(timing.seconds for timing in result.timings)
    rows.append(_time_row("together", "", duration(result.plan.seconds), total))
    head = '<th scope="col">step</th><th scope="col">what it does</th>' + "".join(
        f'<th scope="col" class="number">{name}</th>' for name in ("planned", "taken")
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return scrolling(table, "Time planned and taken") + _every_time(result.timings)


def _time_row(name: str, what: str, planned: str, seconds: float | None) -> str:
    took = "–" if seconds is None else duration(seconds)
    cells = (
        f'<td>{escape(what)}</td><td class="number">{planned}</td><td class="number">{took}</td>'
    )
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def _every_time(timings: Sequence[Timing]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(timing.activity)}</th><td>{escape(timing.system)}</td>'
        f'<td>{escape(timing.fold)}</td><td class="number">{timing.seconds:,.1f} s</td></tr>'
        for timing in timings
    )
    heading = "Everything that was timed"
    box = scrolling(f"<tbody>{rows}</tbody>", heading)
    return f"<details><summary><h4>{heading}</h4></summary>{box}</details>" if rows else ""
