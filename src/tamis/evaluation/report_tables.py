"""What the tables of a report show: every run's values, and each run against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from tamis.evaluation.report_subject import Subject
from tamis.evaluation.significance import Comparison
from tamis.evaluation.tables import run_rows
from tamis.pages.charts import whisker, whisker_scale
from tamis.pages.svg import ticks
from tamis.pages.text_format import listed


def summary(subject: Subject) -> dict[str, Any]:
    """Runs by measures: the best of a column stands out, differences that hold get a mark."""
    evaluation = subject.evaluation
    rows = run_rows(evaluation, subject.comparisons, subject.level)
    alike = [
        len({cell.text for cell in column}) == 1
        for column in zip(*dict(rows).values(), strict=True)
    ]
    rows = [
        (run, [replace(c, best=c.best and not same) for c, same in zip(cells, alike, strict=True)])
        for run, cells in rows
    ]
    missing = {run: len(ids) for run, ids in evaluation.missing.items()}
    return {
        "measures": list(map(str, evaluation.measures)),
        "baseline": subject.baseline,
        "rows": rows,
        "missing": missing if any(missing.values()) else {},
        "notes": _summary_notes(
            subject, any(missing.values()), any(cell.best for _, cells in rows for cell in cells)
        ),
    }


def _summary_notes(subject: Subject, missing: bool, has_best: bool) -> list[str]:
    notes = []
    if len(subject.runs) > 1 and has_best:
        notes.append("The best value of a column is set in bold.")
    tie = all(one.ties == one.queries for one in subject.comparisons)
    if subject.comparisons and not tie:
        tests = subject.comparisons[0].tests
        notes.append(
            f"▲ significantly better, ▼ significantly worse than {subject.baseline}: "
            f"paired t-test, two-sided, p < {subject.level:g} after Holm’s correction for "
            f"{'one test' if tests == 1 else f'{tests} tests'}."
        )
        if not any(comparison.verdict(subject.level) for comparison in subject.comparisons):
            notes.append("No difference reaches that level.")
    if missing:
        notes.append("A query that is missing from a run counts as zero.")
    return notes


def differences(subject: Subject) -> dict[str, Any] | None:
    """Each run against the baseline, measure by measure; None where nothing was compared.

    A measure that is the same for every run on every query has no rows, and is named in a note.
    """
    if not subject.comparisons:
        return None
    tests = subject.comparisons[0].tests
    notes = [
        "A dot is the mean difference, its line the bootstrap interval, grey where it holds zero.",
        "All tests are two-sided.",
        *([] if tests == 1 else [f"Corrected for {tests} tests made together."]),
    ]
    groups, same = [], []
    for measure in dict.fromkeys(comparison.measure for comparison in subject.comparisons):
        of_measure = [
            comparison for comparison in subject.comparisons if comparison.measure == measure
        ]
        if all(comparison.ties == comparison.queries for comparison in of_measure):
            same.append(str(measure))
            continue
        limits = shared_limits(of_measure)
        rows = [
            (comparison, interval(comparison, limits), comparison.verdict(subject.level))
            for comparison in of_measure
        ]
        groups.append((str(measure), whisker_scale(limits), rows))
    return {
        "heading": f"Differences to {subject.baseline}",
        "groups": groups,
        "same": _same(subject, same),
        "notes": notes if groups else [],
    }


def _same(subject: Subject, measures: Sequence[str]) -> str:
    """That runs tie on every query by these measures; empty where there is no such measure."""
    if not measures:
        return ""
    runs = list(subject.runs)
    which = listed(runs) if len(runs) == 2 else f"All {len(runs)} runs"
    return f"{which} have the same {listed(measures)} on every query."


def interval(comparison: Comparison, limits: tuple[float, float]) -> Markup:
    """A difference with its interval, drawn; of a single query without one."""
    if comparison.interval is None:
        return whisker(
            comparison.difference, (comparison.difference, comparison.difference), limits
        )
    return whisker(
        comparison.difference, (comparison.interval.low, comparison.interval.high), limits
    )


def shared_limits(comparisons: Sequence[Comparison]) -> tuple[float, float]:
    """The ends of the axis that the pictures of one measure share."""
    ends = [0.0, *(comparison.difference for comparison in comparisons)]
    for comparison in comparisons:
        if comparison.interval is not None:
            ends += [comparison.interval.low, comparison.interval.high]
    marks = ticks(min(ends), max(ends))
    return marks[0], marks[-1]
