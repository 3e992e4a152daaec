"""The HTML report of an evaluation: one file that needs nothing else, on a screen or on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from tamis.durable import new_file
from tamis.evaluation.curves import RECALL_LEVELS, precision_recall
from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.report_finding import finding
from tamis.evaluation.report_queries import MAX_ROWS, single_queries
from tamis.evaluation.report_subject import Subject
from tamis.evaluation.report_tables import differences, summary
from tamis.evaluation.significance import Comparison, bootstrap_interval
from tamis.pages.charts import (
    MAX_BARS,
    MAX_POINTS,
    Line,
    MeanRow,
    Point,
    Values,
    line_panel,
    mean_intervals,
)
from tamis.pages.render import render
from tamis.pages.svg import picture, swatch
from tamis.pages.text_format import counted, listed
from tamis.types import Ids, Qrels, Queries, Run

MIN_RUNS_TO_DRAW = 3
"""Fewer means than this are read faster in the summary than in a picture."""


def write_report(
    path: Path,
    evaluation: Evaluation,
    comparisons: Sequence[Comparison] = (),
    *,
    qrels: Qrels,
    runs: Mapping[str, Run],
    queries: Queries | None = None,
    baseline: str | None = None,
    level: float = 0.05,
    command: str = "",
    date: datetime | None = None,
    force: bool = False,
) -> None:
    """Write the report; an existing file is refused without `force`.

    `queries` gives texts, where a run does not know them; `baseline` is the run that the
    comparisons were made with; `level` is that of the marks; `command` is shown as it was typed.
    """
    page = report_page(
        evaluation,
        comparisons,
        qrels=qrels,
        runs=runs,
        queries=queries,
        baseline=baseline,
        level=level,
        command=command,
        date=date,
    )
    with new_file(path, force=force) as file:
        file.write_text(page, encoding="utf-8")


def report_page(
    evaluation: Evaluation,
    comparisons: Sequence[Comparison] = (),
    *,
    qrels: Qrels,
    runs: Mapping[str, Run],
    queries: Queries | None = None,
    baseline: str | None = None,
    level: float = 0.05,
    command: str = "",
    date: datetime | None = None,
) -> str:
    """The whole report as HTML."""
    runs = {name: runs[name] for name in evaluation.runs}
    baseline = baseline if len(runs) > 1 else None
    texts = query_texts(evaluation.queries, queries, runs)
    subject = Subject(evaluation, comparisons, qrels, runs, texts, baseline, level)
    return render(
        "evaluation.html",
        finding=finding(subject),
        basis=_basis(subject),
        facts=_facts(subject),
        date=date or datetime.now(UTC),
        command=command,
        summary=summary(subject),
        means=_means(subject),
        differences=differences(subject),
        curves=_curves(subject),
        queries=single_queries(subject),
        notes=notes(subject),
    )


def query_texts(ids: Ids, queries: Queries | None, runs: Mapping[str, Run]) -> list[str]:
    """A text for each query, from the queries or else from a run that knows it."""
    texts = [""] * len(ids)
    for source in [queries, *(run.queries for run in runs.values())]:
        if source is not None and source.texts is not None:
            for at, number in enumerate(ids.positions_in(source.ids).tolist()):
                if number >= 0 and not texts[at]:
                    texts[at] = source.texts[number]
    return texts


def _basis(subject: Subject) -> list[str]:
    """What the finding rests on: the test, and queries that a run lacks."""
    sentences = []
    if subject.comparisons and not subject.all_tie():
        tests = subject.comparisons[0].tests
        corrected = "" if tests == 1 else f", Holm-corrected for {tests} tests"
        sentences.append(f"p: paired t-test over queries, two-sided{corrected}.")
    elif not subject.comparisons and len(subject.runs) > 1 and not subject.all_tie():
        sentences.append("To test the differences, name one of the runs as --baseline.")
    for run, ids in subject.evaluation.missing.items():
        if len(ids):
            sentences.append(f"{run} lacks {counted(len(ids))}, counted as zero.")
    return sentences


def _facts(subject: Subject) -> dict[str, str]:
    qrels = subject.qrels
    relevant = int((qrels.grade > 0).sum())
    share = "all" if relevant == len(qrels.doc) else f"{relevant:,} of them"
    return {
        "Runs": listed(list(subject.runs)),
        "Measures": listed([str(measure) for measure in subject.evaluation.measures]),
        "Judgements": f"{len(qrels.doc):,}, {share} relevant, on {counted(len(qrels))}",
    }


def _means(subject: Subject) -> dict[str, Any] | None:
    """Every run's mean, drawn with an interval, the highest first; None where there are few runs.

    With a baseline the interval is that of the difference to it, so that a run whose interval
    stays clear of the baseline's line differs. Intervals of the means would hide that: runs share
    their queries, and vary with them together.
    """
    if len(subject.runs) < MIN_RUNS_TO_DRAW or subject.all_tie():
        return None
    means = {run: float(subject.values(run).mean()) for run in subject.runs}
    order = sorted(means, key=lambda run: -means[run])
    rows = []
    for run in order:
        low, high = _mean_interval(subject, run, means)
        rows.append(MeanRow(run, means[run], low, high, strong=run == order[0]))
    title = f"Mean {subject.measure} of every run"
    axis = f"mean {subject.measure} over {counted(len(subject.evaluation.queries))}"
    return {
        "heading": title,
        "drawing": mean_intervals(rows, title=title, axis=axis, reference=subject.baseline or ""),
        "caption": _means_caption(subject.baseline),
    }


def _means_caption(baseline: str | None) -> str:
    if baseline is None:
        return (
            "A bar is the 95% interval of the mean (bootstrap over queries). Bars that overlap do "
            "not show that two runs are alike: a paired test compares them query by query."
        )
    return (
        f"The dashed line is {baseline}. A bar is the 95% interval of the difference to it (paired "
        "bootstrap over queries, not corrected), drawn around the mean of the run."
    )


def _mean_interval(
    subject: Subject, run: str, means: Mapping[str, float]
) -> tuple[float, float] | tuple[None, None]:
    """The interval around a run's mean; none for the baseline, or where all values are equal."""
    if subject.baseline is None:
        interval, start = bootstrap_interval(subject.values(run)), 0.0
    else:
        compared = [
            one
            for one in subject.comparisons
            if one.run == run and str(one.measure) == subject.measure
        ]
        interval = compared[0].interval if compared else None
        start = means[subject.baseline]
    return (None, None) if interval is None else (start + interval.low, start + interval.high)


def _curves(subject: Subject) -> dict[str, Any]:
    """Precision at levels of recall: the chart, its legend, and the numbers."""
    has_baseline = subject.baseline is not None
    names = [*([subject.baseline] if subject.baseline else []), *subject.compared]
    curves = {n: precision_recall(subject.qrels, subject.runs[n]).mean(axis=0) for n in names}
    first = curves[names[0]]
    tie = len(names) > 1 and all(np.allclose(one, first) for one in curves.values())
    if tie:
        names = names[:1]
        curves = {names[0]: first}
    table = [[f"{v:.4f}" for v in values.tolist()] for values in curves.values()]
    levels = [f"{level:.1f}" for level in RECALL_LEVELS.tolist()]
    return {
        "same": "All runs have the same precision at every level of recall." if tie else "",
        "drawing": recall_curves(curves, baseline_first=has_baseline),
        "legend": [
            (swatch(number, baseline_first=has_baseline), name) for number, name in enumerate(names)
        ],
        "heads": ["recall", *names],
        "rows": list(zip(levels, *table, strict=True)),
    }


def recall_curves(curves: Mapping[str, Values], *, baseline_first: bool = False) -> Markup:
    """Precision at eleven levels of recall, one line per run.

    >>> recall_curves({"bm25": 1 - RECALL_LEVELS}).count("<polyline")
    1
    """
    lines = []
    for name, values in curves.items():
        levels = zip(RECALL_LEVELS.tolist(), values.tolist(), strict=True)
        points = [Point(r, v, f"{name}: {v:.3f} at recall {r:.1f}") for r, v in levels]
        lines.append(Line(name, points))
    ends = "; ".join(
        f"{name}: {v[0]:.3f} at recall 0, {v[-1]:.3f} at recall 1" for name, v in curves.items()
    )
    panel = line_panel(
        lines, x_name="recall", y_name="precision", shares=True, baseline_first=baseline_first
    )
    return picture("Precision at levels of recall", ends, panel)


def notes(subject: Subject) -> list[str]:
    """The foot of the page: what figures mean and what was left out."""
    evaluation = subject.evaluation
    notes = [
        "Documents are ordered by score, compared as 32-bit numbers as trec_eval does; equal "
        "scores are ordered by document id, descending. Ranks written in a run file are not used.",
        "Every judged query counts. A document that was not judged counts as not relevant.",
    ]
    for run, ids in evaluation.missing.items():
        if len(ids):
            notes.append(f"{run} has no documents for {_examples(ids)}: counted as zero.")
    for run, ids in evaluation.unjudged.items():
        if len(ids):
            notes.append(f"{run} also answers {_examples(ids)} without judgements: left out.")
    count = len(evaluation.queries)
    if count > MAX_BARS:
        notes.append("There are more queries than bars fit: a bar is the mean of neighbours.")
    if count > MAX_POINTS:
        notes.append("Points close to one another are drawn as one larger point.")
    if count > MAX_ROWS:
        notes.append(f"The table of all queries is left out, as they are more than {MAX_ROWS:,}.")
    return notes


def _examples(ids: Ids) -> str:
    """How many queries, and the first of them.

    >>> _examples(Ids.of(["q1"])), _examples(Ids.of(["q1", "q2"]))
    ('1 query (q1)', '2 queries (q1, q2)')
    """
    first_ids = ", ".join(ids[number] for number in range(min(5, len(ids))))
    return f"{counted(len(ids))} ({first_ids}{', …' if len(ids) > 5 else ''})"
