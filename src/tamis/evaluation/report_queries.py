"""What a report shows of single queries: charts, the most changed ones, all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from tamis.evaluation.randomisation import VALUE_TOLERANCE
from tamis.evaluation.report_subject import Subject
from tamis.pages.charts import Values, bars, scatter
from tamis.pages.text_format import counted, shorten, signed

SHOWN_QUERIES = 10
SHOWN_DOCUMENTS = 5
SHOWN_CHARACTERS = 240
MIN_QUERIES_TO_DRAW = 3
"""Fewer queries than this are read faster in the tables than in a chart."""
MAX_ROWS = 1000
"""More queries than this and the table of all of them is left out."""


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document that a run ranks high; `grade` is None where nobody judged it."""

    id: str
    grade: int | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query with every run's value, and the first documents of the runs that are shown."""

    id: str
    text: str
    values: list[float]
    change: float | None = None
    documents: Sequence[list[RankedDocument] | None] = ()
    """None for a run that lacks the query."""


@dataclass(frozen=True, slots=True)
class QueryTable:
    """Some queries; `shown_runs` are the runs whose documents are shown."""

    heading: str
    names: list[str]
    shown_runs: list[str]
    has_change: bool
    rows: list[QueryRow]
    if_empty: str = ""


def single_queries(subject: Subject, shown: int = SHOWN_QUERIES) -> dict[str, Any]:
    """The section on single queries; charts of runs alone only where there is no baseline.

    `shown` queries that gain most, and lose most, are shown with their documents.
    """
    names, baseline = list(subject.runs), subject.baseline
    count = len(subject.evaluation.queries)
    with_baseline = subject.compared if baseline and not subject.all_tie() else []
    compared = [_compared(subject, baseline or "", run, shown) for run in with_baseline]
    alone = [] if baseline else [_alone(subject, run) for run in names if _varies(subject, run)]
    hardest = None if baseline else _hardest(subject)
    return {
        "measure": subject.measure,
        "baseline": baseline,
        "compared": compared,
        "alone": alone,
        "has_charts": bool(alone) or any(part["bars"] for part in compared),
        "has_documents": hardest is not None or any(part["tables"] for part in compared),
        "hardest": hardest,
        "all_queries": _all_queries(subject) if count <= MAX_ROWS else None,
    }


def _varies(subject: Subject, run: str) -> bool:
    """Whether a chart of the run's queries would show anything, and nothing that others show."""
    values = subject.values(run)
    return (
        len(values) >= MIN_QUERIES_TO_DRAW
        and float(np.ptp(values)) > VALUE_TOLERANCE
        and not subject.all_tie()
    )


def _compared(subject: Subject, baseline: str, run: str, shown: int) -> dict[str, Any]:
    """One run against the baseline: differences, scatter, queries helped and hurt most.

    Where no query has another value there is a sentence instead of all that.
    """
    measure, old, new = subject.measure, subject.values(baseline), subject.values(run)
    change = np.where(np.abs(new - old) < VALUE_TOLERANCE, 0.0, new - old)
    if not change.any():
        same = f"{run} and {baseline} have the same {measure} on each of {counted(len(change))}."
        return {"run": run, "bars": "", "bars_caption": same, "tables": []}
    better, equal, worse = (change > 0).sum(), (change == 0).sum(), (change < 0).sum()
    view = {
        "run": run,
        "bars": "",
        "bars_caption": f"{measure} of {run} minus {baseline}: {better:,} better, {equal:,} equal, "
        f"{worse:,} worse.",
        "tables": _most_changed(subject, [baseline, run], change, shown),
    }
    drawn = len(change) >= MIN_QUERIES_TO_DRAW
    return view | _drawn_change(subject, baseline, run, change) if drawn else view


def _drawn_change(subject: Subject, baseline: str, run: str, change: Values) -> dict[str, Any]:
    """Every query's difference as a bar, and both its values as a point."""
    measure, old, new = subject.measure, subject.values(baseline), subject.values(run)
    labels = [
        f"{subject.label(number)}\n{before:.3f} → {after:.3f} ({signed(after - before, 3)})"
        for number, (before, after) in enumerate(zip(old.tolist(), new.tolist(), strict=True))
    ]
    title = f"{measure}: {run} minus {baseline}, query by query"
    both = f"{measure} of each query: {baseline} and {run}"
    return {
        "bars": bars(change, labels, title=title, axis=f"difference in {measure}"),
        "scatter": scatter(old, new, labels, names=(baseline, run), title=both),
        "scatter_caption": f"Above the diagonal {run} is better, below it {baseline}. A larger "
        "point stands for several queries.",
    }


def _most_changed(
    subject: Subject, names: list[str], change: Values, shown: int
) -> list[QueryTable]:
    order = np.argsort(-change, kind="stable")
    gains = [n for n in order[:shown].tolist() if change[n] > 0]
    losses = [n for n in order[::-1][:shown].tolist() if change[n] < 0]
    tables = []
    for numbers, verb, word in ((gains, "gains", "better"), (losses, "loses", "worse")):
        rows = [_row(subject, n, names, names, 280, float(change[n])) for n in numbers]
        heading = f"Where {names[1]} {verb} most"
        tables.append(QueryTable(heading, names, names, True, rows, f"No query gets {word}."))
    return tables


def _alone(subject: Subject, run: str) -> tuple[Markup, str]:
    """The values of a run that is compared to nothing, with a caption."""
    values = subject.values(run)
    labels = [f"{subject.label(n)}\n{values[n]:.3f}" for n in range(len(values))]
    title = f"{subject.measure} of {run}, query by query"
    drawing = bars(values, labels, title=title, axis=subject.measure, differences=False)
    return drawing, f"{run}: {int((values == 0).sum()):,} of {len(values):,} queries have zero."


def _hardest(subject: Subject) -> QueryTable:
    """The queries on which the runs do worst on average."""
    names = list(subject.runs)
    mean = np.mean([subject.values(run) for run in names], axis=0)
    order = np.argsort(mean, kind="stable")[:SHOWN_QUERIES].tolist()
    shown_runs = names[:1] if len(names) > 3 else names
    what = "" if len(names) == 1 else ", by the mean over runs"
    heading = f"The queries with the lowest {subject.measure}{what}"
    rows = [_row(subject, number, names, shown_runs, 280) for number in order]
    return QueryTable(heading, names, shown_runs, False, rows)


def _all_queries(subject: Subject) -> QueryTable:
    names = list(subject.runs)
    rows = [_row(subject, n, names, (), 140) for n in range(len(subject.evaluation.queries))]
    return QueryTable(f"{subject.measure} of all queries", names, [], False, rows)


def _row(
    subject: Subject,
    number: int,
    names: Sequence[str],
    shown_runs: Sequence[str],
    characters: int,
    change: float | None = None,
) -> QueryRow:
    return QueryRow(
        id=subject.evaluation.queries[number],
        text=shorten(subject.texts[number], characters),
        values=[float(subject.values(name)[number]) for name in names],
        change=change,
        documents=[_first_documents(subject, name, number) for name in shown_runs],
    )


def _first_documents(subject: Subject, run: str, number: int) -> list[RankedDocument] | None:
    """What a run ranks first; under the very first, where texts are at hand, why it won."""
    query = subject.evaluation.queries[number]
    if query not in subject.runs[run]:
        return None
    ranking, judged = subject.runs[run][query], subject.qrels[query]
    excerpt = ""
    if subject.excerpt is not None and len(ranking):
        passage = int(ranking.extra["passage"][0]) if "passage" in ranking.extra else -1
        excerpt = shorten(subject.excerpt(ranking.ids[0], passage), SHOWN_CHARACTERS)
    return [
        RankedDocument(doc, judged.get(doc), "" if rank else excerpt)
        for rank, doc in enumerate(ranking.docs.take(ranking.doc[:SHOWN_DOCUMENTS]))
    ]
