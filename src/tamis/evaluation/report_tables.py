"""The tables of the HTML report: every run's values, and each run against the baseline."""

from __future__ import annotations

from html import escape

from tamis.evaluation.charts import whisker, whisker_scale
from tamis.evaluation.measures import Measure
from tamis.evaluation.report_subject import Subject, run_name, scrolling
from tamis.evaluation.significance import Comparison
from tamis.evaluation.svg import signed, ticks


def summary(subject: Subject) -> str:
    """Runs by measures: the best of a column stands out, differences that hold get a mark."""
    measures = subject.evaluation.measures
    missing = any(len(ids) for ids in subject.evaluation.missing.values())
    room = '<span class="mark"></span>' if subject.baseline else ""
    head = '<th scope="col">run</th>' + "".join(
        f'<th scope="col" class="number">{escape(str(measure))}{room}</th>' for measure in measures
    )
    if missing:
        head += '<th scope="col" class="number">queries missing</th>'
    rows = [_summary_row(subject, run, missing) for run in subject.runs]
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<section><h2>Summary</h2>{scrolling(table, 'Summary')}{_footnote(subject)}</section>"


def _summary_row(subject: Subject, run: str, missing: bool) -> str:
    tag = ' <span class="tag">baseline</span>' if run == subject.baseline else ""
    cells = "".join(_summary_cell(subject, run, m) for m in subject.evaluation.measures)
    if missing:
        cells += f'<td class="number">{len(subject.evaluation.missing[run]):,}</td>'
    return f'<tr><th scope="row">{run_name(run)}{tag}</th>{cells}</tr>'


def _summary_cell(subject: Subject, run: str, measure: Measure) -> str:
    shown = shown_value(subject, run, measure)
    values = [shown_value(subject, other, measure) for other in subject.runs]
    best = measure.says_better and len(set(values)) > 1 and shown == max(values, key=float)
    mark = _mark(subject, run, measure) if subject.baseline else ""
    return f'<td class="number{" best" if best else ""}">{shown}{mark}</td>'


def shown_value(subject: Subject, run: str, measure: Measure) -> str:
    """The value of a run as the summary shows it: four digits, or a whole number of a count."""
    value = subject.evaluation.summary(run, measure)
    return f"{value:.0f}" if measure.summed else f"{value:.4f}"


def _mark(subject: Subject, run: str, measure: Measure) -> str:
    """An arrow where the difference to the baseline holds; else its empty place."""
    verdicts = [
        comparison.verdict(subject.level)
        for comparison in subject.comparisons
        if comparison.run == run and comparison.measure == measure
    ]
    if not any(verdicts):
        return '<span class="mark"></span>'
    kind, arrow, word = ("up", "▲", "better") if verdicts[0] > 0 else ("down", "▼", "worse")
    return (
        f'<span class="mark {kind}" aria-hidden="true">{arrow}</span>'
        f'<span class="hidden"> significantly {word}</span>'
    )


def _footnote(subject: Subject) -> str:
    notes = []
    if len(subject.runs) > 1:
        notes.append("The best value of a column is set in bold.")
    if subject.comparisons:
        notes.append(_marks_note(subject))
    if any(len(ids) for ids in subject.evaluation.missing.values()):
        notes.append("A query that is missing from a run counts as zero.")
    return f'<p class="note">{" ".join(notes)}</p>' if notes else ""


def _marks_note(subject: Subject) -> str:
    tests = subject.comparisons[0].tests
    note = (
        f"▲ significantly better, ▼ significantly worse than {escape(str(subject.baseline))}: "
        f"paired t-test, two-sided, p &lt; {subject.level:g} after Holm’s correction for "
        f"{'one test' if tests == 1 else f'{tests} tests'}."
    )
    silent = not any(comparison.verdict(subject.level) for comparison in subject.comparisons)
    return f"{note} No difference reaches that level." if silent else note


def differences(subject: Subject) -> str:
    """Each run against the baseline, measure by measure, with tests and intervals."""
    if not subject.comparisons:
        return ""
    rows = []
    for measure in dict.fromkeys(one.measure for one in subject.comparisons):
        of = [one for one in subject.comparisons if one.measure == measure]
        limits = shared_limits(of)
        rows.append(
            f'<tr class="group"><th scope="rowgroup" colspan="2">{escape(str(measure))}</th>'
            f'<td class="picture">{whisker_scale(limits)}</td><td colspan="8"></td></tr>'
        )
        rows += [_difference_row(one, limits, subject.level) for one in of]
    heading = f"Differences to {escape(str(subject.baseline))}"
    table = f"{HEAD}<tbody>{''.join(rows)}</tbody>"
    box = scrolling(table, heading, "tests")
    return f"<section><h2>{heading}</h2>{box}{_tests_note(subject)}</section>"


HEAD = (
    '<thead><tr><th scope="col" rowspan="2">run</th>'
    '<th scope="col" rowspan="2" class="number">difference</th>'
    '<th scope="col" rowspan="2"><span class="hidden">interval as a picture</span></th>'
    '<th scope="col" rowspan="2" class="number">95% interval</th>'
    '<th scope="col" rowspan="2" class="number">wins / ties / losses</th>'
    '<th scope="colgroup" colspan="3" class="over">p, paired t-test</th>'
    '<th scope="colgroup" colspan="3" class="over">p, randomisation test</th>'
    "</tr><tr>"
    + 2
    * (
        '<th scope="col" class="number">raw</th><th scope="col" class="number">Holm</th>'
        '<th scope="col" class="number"><abbr title="Bonferroni">Bonf.</abbr></th>'
    )
    + "</tr></thead>"
)


def shared_limits(comparisons: list[Comparison]) -> tuple[float, float]:
    """The ends of the axis that the pictures of one measure share."""
    ends = [0.0, *(one.difference for one in comparisons)]
    for one in comparisons:
        if one.interval is not None:
            ends += [one.interval.low, one.interval.high]
    marks = ticks(min(ends), max(ends))
    return marks[0], marks[-1]


def _difference_row(one: Comparison, limits: tuple[float, float], level: float) -> str:
    ends = (one.difference, one.difference)
    interval = '<span class="tag">one query</span>'
    if one.interval is not None:
        ends = (one.interval.low, one.interval.high)
        interval = f"{signed(ends[0])} to {signed(ends[1])}"
    tests = [
        p_value(p) for t in (one.t_test, one.randomisation) for p in (t.raw, t.holm, t.bonferroni)
    ]
    counts = f"{one.wins:,} / {one.ties:,} / {one.losses:,}"
    picture = whisker(one.difference, ends, limits)
    cells = [signed(one.difference), picture, interval, counts, *tests]
    strong = "number strong" if one.verdict(level) else "number"
    kinds = [strong, "picture", *["number"] * 8]
    body = "".join(f'<td class="{k}">{c}</td>' for k, c in zip(kinds, cells, strict=True))
    return f'<tr><th scope="row">{run_name(one.run)}</th>{body}</tr>'


def p_value(value: float | None) -> str:
    """A p-value as a cell shows it."""
    if value is None:
        return "–"
    return "&lt;0.0001" if value < 0.0001 else f"{value:.4f}"


def p_text(value: float) -> str:
    """A p-value in a sentence.

    >>> p_text(0.0123), p_text(0.00001)
    ('p = 0.0123', 'p &lt; 0.0001')
    """
    return "p &lt; 0.0001" if value < 0.0001 else f"p = {value:.4f}"


def _tests_note(subject: Subject) -> str:
    tests = subject.comparisons[0].tests
    corrected = "" if tests == 1 else f" Corrected for {tests} tests made together."
    return (
        '<p class="note">A dot is the mean difference, its line the bootstrap interval, grey where '
        f"it holds zero. All tests are two-sided.{corrected}</p>"
    )
