"""The HTML report of an evaluation: one file that needs nothing else, on a screen or on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import numpy as np

import tamis
from tamis.durable import new_file
from tamis.evaluation.charts import MOST_BARS, MOST_POINTS, recall_curves, swatch
from tamis.evaluation.curves import RECALL_LEVELS, precision_recall
from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.report_queries import MOST_ROWS, against_baseline, alone, every_query, hardest
from tamis.evaluation.report_subject import Subject, fact_list, linked, run_name, scrolling
from tamis.evaluation.report_tables import differences, summary
from tamis.evaluation.significance import Comparison
from tamis.evaluation.svg import counted
from tamis.types import Ids, Qrels, Queries, Run


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
    with new_file(path, force=force) as part:
        part.write_text(page, encoding="utf-8")


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
    parts = [
        _header(subject, command, date or datetime.now(UTC)),
        "<main>",
        summary(subject),
        differences(subject),
        _curves(subject),
        single_queries(subject),
        "</main>",
        notes(subject),
    ]
    return framed(f"{', '.join(runs)}: {evaluation.measures[0]}", parts)


def framed(title: str, parts: Sequence[str]) -> str:
    """A whole page in the look of the report; `title` is escaped here, the parts are HTML."""
    folder = resources.files("tamis.evaluation")
    return Template((folder / "report.html").read_text("utf-8")).substitute(
        version=tamis.__version__,
        title=escape(title),
        style=(folder / "report.css").read_text("utf-8"),
        body="\n".join(part for part in parts if part),
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


def _header(subject: Subject, command: str, date: datetime) -> str:
    names, qrels = list(subject.runs), subject.qrels
    relevant = int((qrels.grade > 0).sum())
    share = "all" if relevant == len(qrels.doc) else f"{relevant:,} of them"
    facts = {
        "Runs": linked(names),
        "Measures": linked([str(measure) for measure in subject.evaluation.measures]),
        "Judgements": f"{len(qrels.doc):,}, {share} relevant, on {counted(len(qrels))}",
        **origin(command, date),
    }
    return f"<header><h1>{_title(subject)}</h1>{fact_list(facts)}</header>"


def origin(command: str, date: datetime) -> dict[str, str]:
    """When a page was made, by what, and with which command, as facts in HTML."""
    return {
        "Made": f'<time datetime="{date.isoformat(timespec="seconds")}">'
        f"{date:%-d %B %Y, %H:%M %Z}</time> by tamis {tamis.__version__}",
        "Command": f'<code class="command">{escape(command)}</code>' if command else "",
    }


def _title(subject: Subject) -> str:
    on = f"on {counted(len(subject.evaluation.queries))}"
    if subject.baseline and len(subject.compared) <= 3:
        return f"{linked(subject.compared)} against {escape(subject.baseline)}, {on}"
    if len(subject.runs) <= 3:
        return f"{linked(list(subject.runs))} {on}"
    against = f" against {escape(subject.baseline)}" if subject.baseline else ""
    count = len(subject.compared) if subject.baseline else len(subject.runs)
    return f"{count} runs{against}, {on}"


def _curves(subject: Subject) -> str:
    """Precision at levels of recall: the chart, its legend, and the numbers."""
    inked = subject.baseline is not None
    names = [*([subject.baseline] if subject.baseline else []), *subject.compared]
    curves = {n: precision_recall(subject.qrels, subject.runs[n]).mean(axis=0) for n in names}
    legend = "".join(
        f"<li>{swatch(number, inked=inked)}<span>{escape(name)}</span></li>"
        for number, name in enumerate(names)
    )
    drawn = recall_curves(curves, title="Precision at levels of recall", inked=inked)
    return (
        '<section><h2>Precision and recall</h2><div class="pair">'
        f"<figure>{drawn}<figcaption>Interpolated precision at eleven levels of recall, mean over "
        "queries; a document counts as relevant from grade 1.</figcaption></figure>"
        f'<div><ul class="legend">{legend}</ul>{_levels(curves)}</div></div></section>'
    )


def _levels(curves: Mapping[str, np.ndarray]) -> str:
    head = '<th scope="col" class="number">recall</th>' + "".join(
        f'<th scope="col" class="number">{run_name(name)}</th>' for name in curves
    )
    rows = "".join(
        f'<tr><th scope="row" class="number">{level:.1f}</th>'
        + "".join(f'<td class="number">{values[at]:.4f}</td>' for values in curves.values())
        + "</tr>"
        for at, level in enumerate(RECALL_LEVELS.tolist())
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return scrolling(table, "Precision at levels of recall", "levels")


def single_queries(subject: Subject) -> str:
    """The section on single queries: charts, the most changed ones, all of them."""
    heading = f"<h2>{escape(subject.measure)}, query by query</h2>"
    if subject.baseline:
        body = "".join(against_baseline(subject, run) for run in subject.compared)
    else:
        figures = "".join(alone(subject, run) for run in subject.runs)
        body = f'<div class="pair">{figures}</div>{hardest(subject)}'
    return f"<section>{heading}{_grades_note()}{body}{every_query(subject)}</section>"


def _grades_note() -> str:
    return (
        '<p class="note">Beside a document its grade: <i class="grade yes">1</i> relevant, '
        '<i class="grade no">0</i> judged not relevant, <i class="grade unknown">–</i> not judged. '
        "Point at a bar or a dot to see its query.</p>"
    )


def notes(subject: Subject) -> str:
    """The foot of the page: what figures mean and what was left out."""
    evaluation = subject.evaluation
    notes = [
        "Documents are ordered by score, compared as 32-bit numbers as trec_eval does; equal "
        "scores are ordered by document id, descending. Ranks written in a run file are not used.",
        "Every judged query counts. A document that was not judged counts as not relevant.",
    ]
    for run, ids in evaluation.missing.items():
        if len(ids):
            notes.append(f"{escape(run)} has no documents for {_listed(ids)}: counted as zero.")
    for run, ids in evaluation.unjudged.items():
        if len(ids):
            notes.append(f"{escape(run)} also answers {_listed(ids)} without judgements: left out.")
    count = len(evaluation.queries)
    if count > MOST_BARS:
        notes.append("There are more queries than bars fit: a bar is the mean of neighbours.")
    if count > MOST_POINTS:
        notes.append("Points close to one another are drawn as one larger point.")
    if count > MOST_ROWS:
        notes.append(f"The table of all queries is left out, as they are more than {MOST_ROWS:,}.")
    items = "".join(f"<li>{note}</li>" for note in notes)
    return f'<footer><h2>Notes</h2><ul class="notes">{items}</ul></footer>'


def _listed(ids: Ids) -> str:
    """How many queries, and the first of them.

    >>> _listed(Ids.of(["q1"])), _listed(Ids.of(["q1", "q2"]))
    ('1 query (q1)', '2 queries (q1, q2)')
    """
    shown = ", ".join(escape(ids[number]) for number in range(min(5, len(ids))))
    return f"{counted(len(ids))} ({shown}{', …' if len(ids) > 5 else ''})"
