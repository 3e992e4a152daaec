"""The parts of the HTML report that show single queries: charts, the most changed, all of them."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from tamis.evaluation.charts import bars, scatter
from tamis.evaluation.randomisation import TINY
from tamis.evaluation.report_subject import Subject, run_name, scrolling, value_cell
from tamis.evaluation.svg import shorten, signed
from tamis.types import Ranking

SHOWN_QUERIES = 10
SHOWN_DOCUMENTS = 5
SHOWN_CHARACTERS = 240
MOST_ROWS = 1000
"""More queries than this and the table of all of them is left out."""


def against_baseline(subject: Subject, run: str) -> str:
    """One run against the baseline: differences, scatter, queries helped and hurt most."""
    baseline, measure = str(subject.baseline), subject.measure
    old, new = subject.values(baseline), subject.values(run)
    change = np.where(np.abs(new - old) < TINY, 0.0, new - old)
    labels = [
        f"{subject.label(number)}\n{before:.3f} → {after:.3f} ({signed(after - before, 3)})"
        for number, (before, after) in enumerate(zip(old.tolist(), new.tolist(), strict=True))
    ]
    title = f"{measure}: {run} minus {baseline}, query by query"
    drawn = bars(change, labels, title=title, axis=f"difference in {measure}")
    title = f"{measure} of each query: {baseline} and {run}"
    points = scatter(old, new, labels, names=(baseline, run), title=title)
    heading = f'<h3>{escape(run)} <span class="tag">against {escape(baseline)}</span></h3>'
    return (
        f'<section>{heading}<div class="pair">{_figure(drawn, _bars_caption(subject, run, change))}'
        f"{_figure(points, _scatter_caption(subject, run))}</div>"
        f"{_most_changed(subject, run, change)}</section>"
    )


def _bars_caption(subject: Subject, run: str, change: NDArray[np.float64]) -> str:
    what = f"{subject.measure} of {run} minus {subject.baseline}"
    better, equal, worse = (change > 0).sum(), (change == 0).sum(), (change < 0).sum()
    return f"{escape(what)}: {better:,} better, {equal:,} equal, {worse:,} worse."


def alone(subject: Subject, run: str) -> str:
    """The values of a run that is compared to nothing."""
    values = subject.values(run)
    labels = [f"{subject.label(n)}\n{values[n]:.3f}" for n in range(len(values))]
    title = f"{subject.measure} of {run}, query by query"
    drawn = bars(values, labels, title=title, axis=subject.measure, differences=False)
    zero = int((values == 0).sum())
    return _figure(drawn, f"{escape(run)}: {zero:,} of {len(values):,} queries have zero.")


def hardest(subject: Subject) -> str:
    """The queries on which the runs do worst on average."""
    names = list(subject.runs)
    mean = np.mean([subject.values(run) for run in names], axis=0)
    order = np.argsort(mean, kind="stable")[:SHOWN_QUERIES]
    shown = names[:1] if len(names) > 3 else names
    what = "" if len(names) == 1 else ", by the mean over runs"
    heading = f"The queries with the lowest {escape(subject.measure)}{what}"
    return _query_table(subject, order, names, shown, heading)


def _figure(drawn: str, caption: str) -> str:
    return f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>"


def _scatter_caption(subject: Subject, run: str) -> str:
    where = f"Above the diagonal {escape(run)} is better, below it {escape(str(subject.baseline))}."
    return f"{where} A larger point stands for several queries."


def _most_changed(subject: Subject, run: str, change: NDArray[np.float64]) -> str:
    names = [str(subject.baseline), run]
    order = np.argsort(-change, kind="stable")
    helped = [n for n in order[:SHOWN_QUERIES].tolist() if change[n] > 0]
    hurt = [n for n in order[::-1][:SHOWN_QUERIES].tolist() if change[n] < 0]
    parts = []
    for chosen, verb, word in ((helped, "gains", "better"), (hurt, "loses", "worse")):
        if chosen:
            heading = f"Where {escape(run)} {verb} most"
            parts.append(_query_table(subject, np.array(chosen), names, names, heading, change))
        else:
            parts.append(f'<p class="note">No query gets {word}.</p>')
    return "".join(parts)


def _query_table(
    subject: Subject,
    chosen: NDArray[np.int64],
    names: list[str],
    shown: list[str],
    heading: str,
    change: NDArray[np.float64] | None = None,
) -> str:
    """Queries with their text, each run's value, and the first documents of the shown runs."""
    head = '<th scope="col">query</th>'
    head += "".join(f'<th scope="col" class="number">{run_name(n)}</th>' for n in names)
    if change is not None:
        head += '<th scope="col" class="number">difference</th>'
    head += "".join(f'<th scope="col">first documents of {run_name(n)}</th>' for n in shown)
    rows = []
    for number in chosen.tolist():
        cells = "".join(value_cell(float(subject.values(name)[number])) for name in names)
        if change is not None:
            cells += f'<td class="number">{signed(change[number])}</td>'
        cells += "".join(
            f'<td class="top">{_documents(subject, name, number)}</td>' for name in shown
        )
        rows.append(f'<tr><th scope="row" class="text">{_query(subject, number)}</th>{cells}</tr>')
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    level = "h3" if change is None else "h4"
    title = f"<summary><{level}>{heading}</{level}></summary>"
    return f"<details open>{title}{scrolling(table, heading)}</details>"


def _query(subject: Subject, number: int) -> str:
    text = shorten(subject.texts[number], 280)
    return escape(subject.evaluation.queries[number]) + (f"<p>{escape(text)}</p>" if text else "")


def _documents(subject: Subject, run: str, number: int) -> str:
    query = subject.evaluation.queries[number]
    if query not in subject.runs[run]:
        return '<span class="tag">not in this run</span>'
    ranking = subject.runs[run][query]
    ids = ranking.docs.take(ranking.doc[:SHOWN_DOCUMENTS])
    judged = subject.qrels[query]
    items = [
        f'<li>{_grade(judged.get(doc))}<span title="{escape(doc)}">{escape(doc)}</span></li>'
        for doc in ids
    ]
    return f"<ol>{''.join([*items[:1], _excerpt(subject, ranking), *items[1:]])}</ol>"


def _excerpt(subject: Subject, ranking: Ranking) -> str:
    """The passage that the first document won with, to stand under it; where texts are at hand."""
    if subject.excerpt is None or not len(ranking):
        return ""
    passage = int(ranking.extra["passage"][0]) if "passage" in ranking.extra else -1
    text = shorten(subject.excerpt(ranking.ids[0], passage), SHOWN_CHARACTERS)
    return f"<li><p>{escape(text)}</p></li>" if text else ""


def _grade(grade: int | None) -> str:
    if grade is None:
        return '<i class="grade unknown" title="not judged">–</i>'
    kind, word = ("yes", "relevant") if grade > 0 else ("no", "not relevant")
    return f'<i class="grade {kind}" title="judged {grade}, {word}">{grade}</i>'


def every_query(subject: Subject) -> str:
    """All queries with every run's value of the first measure, folded away."""
    names, count = list(subject.runs), len(subject.evaluation.queries)
    if count > MOST_ROWS:
        return ""
    head = '<th scope="col">query</th>' + "".join(
        f'<th scope="col" class="number">{run_name(n)}</th>' for n in names
    )
    columns = [subject.values(name) for name in names]
    rows = []
    for number in range(count):
        query = escape(subject.evaluation.queries[number])
        text = escape(shorten(subject.texts[number], 140))
        cells = "".join(value_cell(float(column[number])) for column in columns)
        name = f'<th scope="row" class="text" data-value="{query}">{query}'
        rows.append(f"<tr>{name}{f'<p>{text}</p>' if text else ''}</th>{cells}</tr>")
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    heading = f"{escape(subject.measure)} of all queries"
    return (
        f'<details class="all"><summary><h3>{heading}</h3></summary>'
        f"{scrolling(table, heading, 'sortable')}</details>"
    )
