"""The parts of the report of a fit on the guard's decision and on the threshold for an answer."""

from __future__ import annotations

from html import escape

from tamis.evaluation.report_subject import linked, run_name, scrolling
from tamis.evaluation.report_tables import p_text, p_value
from tamis.evaluation.svg import counted, signed
from tamis.fitting.calibration import Answers, Calibration
from tamis.fitting.guard import (
    SELECTION_LEVEL,
    BaselineComparison,
    Decision,
    OptionResult,
    Selection,
)
from tamis.fitting.report_charts import reliability_chart
from tamis.fitting.result import FitResult
from tamis.fitting.system import FUSION_WEIGHTS


def guard_section(result: FitResult) -> str:
    """What was compared, how one system was selected, and how that did in its test."""
    selection, decision = result.selection, result.decision
    if selection is None:
        paragraphs, table = [_default(result)], ""
    else:
        paragraphs = [_compared(result), _rule(result, selection), _outcome(selection)]
        table = _option_table(selection)
    if decision is not None:
        paragraphs.append(_test(decision))
    elif selection is not None:
        paragraphs.append("There were no queries to test the selection on.")
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<section><h2>The guard</h2>{body}{table}</section>"


def _default(result: FitResult) -> str:
    if not any(system.weight for system in result.systems):
        return (
            "There was no model, or no time for one: the retriever ranks documents. "
            f"Selected: {escape(result.selected)}."
        )
    none = "There are no judgements"
    if result.queries.train:
        none = "The judged queries cannot be split, so there are none"
    return f"{none} to select by. So the default was taken: {escape(result.default_system)}."


def _compared(result: FitResult) -> str:
    models = list(dict.fromkeys(one.group for one in result.systems if one.group))
    retrievers = [one.name for one in result.systems if not one.group]
    if not models:
        return f"It compared {len(result.systems)} retrievers: {linked(retrievers)}."
    weights = linked([f"{weight:.2f}".removeprefix("0") for weight in FUSION_WEIGHTS])
    return (
        f"It compared {len(result.systems)} systems: {linked(retrievers)} alone, and "
        f"{linked(models)}, each alone and fused with the score before it at the weights {weights}."
    )


def _rule(result: FitResult, selection: Selection) -> str:
    if not result.trained_on_folds:
        trained = any(one.training_minutes for one in result.systems)
        models = "no model was trained on them" if trained else "nothing was trained"
        held = f"{models}, so nothing had to be held out"
    elif result.plan.folds > 1:
        held = f"each of {result.plan.folds} folds was ranked by models trained without it"
    else:
        held = "one part of the judged queries was held out while systems were compared"
    required = " or ".join(map(escape, result.required))
    return (
        f"By the mean {escape(result.measure)} of {counted(selection.queries)}: {held}. The "
        f"default is {escape(result.default_system)}, which is rarely far below the best. A "
        f"system whose mean is below {required} is rejected. Of the rest, the least complex one "
        f"is taken that no more complex one beats at p < {SELECTION_LEVEL:g} (randomisation test)."
    )


def _outcome(selection: Selection) -> str:
    means = {one.option.name: one.mean for one in selection.options}
    selected = f"<strong>{escape(selection.selected)}</strong> ({means[selection.selected]:.4f})"
    rejected = len(selection.options) - 1
    rest = f"{rejected} were rejected; the table above says why." if rejected else ""
    if selection.best == selection.selected:
        return f"Selected, with the highest mean: {selected}. {rest}"
    best = f"{escape(selection.best)} ({means[selection.best]:.4f})"
    return f"Selected: {selected}. The highest mean was that of {best}. {rest}"


def _test(decision: Decision) -> str:
    test = decision.test
    tests = "; ".join(map(_comparison, test.comparisons)) or "it is its own baseline"
    sentence = f"Tested on {counted(test.queries)} that nothing was selected on: {tests}."
    if decision.fell_back:
        return f"{sentence} <strong>It failed</strong>. Selected instead: {escape(str(decision))}."
    return f"{sentence} It is kept: it is significantly below none of them."


def _comparison(one: BaselineComparison) -> str:
    figures = [signed(one.difference)]
    if one.interval is not None:
        figures.append(f"95% interval {signed(one.interval.low)} to {signed(one.interval.high)}")
    if one.p_value is not None:
        figures.append(p_text(one.p_value))
    return f"against {escape(one.baseline)} {', '.join(figures)}"


def _option_table(selection: Selection) -> str:
    """Every system as the guard compared it, folded away."""
    heads = ["held out", f"less {run_name(selection.best)}", "standard error", "p"]
    head = '<th scope="col">system</th>' + "".join(
        f'<th scope="col" class="number">{name}</th>' for name in heads
    )
    rows = "".join(
        _option_row(one, one.option.name == selection.selected) for one in selection.options
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    heading = "Every system as the guard compared it"
    return (
        f"<details><summary><h3>{heading}</h3></summary>{scrolling(table, heading)}"
        '<p class="note">p: the randomisation test of the lead of the system over the selected '
        "one, or of a more complex system over it.</p></details>"
    )


def _option_row(one: OptionResult, selected: bool) -> str:
    error = "–" if one.standard_error is None else f"{one.standard_error:.4f}"
    cells = [f"{one.mean:.4f}", signed(one.difference), error, p_value(one.p_value)]
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    kind = ' class="chosen"' if selected else ""
    return f'<tr{kind}><th scope="row">{run_name(one.option.name)}</th>{numbers}</tr>'


def calibration_section(result: FitResult) -> str:
    """What a score is worth as a probability, and what the threshold does to test queries."""
    calibration, answers = result.calibration, result.threshold_test
    if calibration is None:
        return ""
    body = f"<p>{_threshold(calibration)}</p>"
    if answers is None:
        body += "<p>There were no queries to test it on.</p>"
    else:
        drawn = reliability_chart(answers.reliability)
        body = (
            f'<div class="pair"><div>{body}{_answers(answers)}</div><figure>{drawn}<figcaption>'
            "First documents of test queries by their probability, and the share of them that "
            "is relevant. On the diagonal a probability is right, below it too high. "
            "A larger point stands for more queries.</figcaption></figure></div>"
        )
    return f"<section><h2>When there is no good answer</h2>{body}</section>"


def _threshold(calibration: Calibration) -> str:
    fitted = (
        "Scores are turned into the probability that a document is relevant, fitted to "
        f"{calibration.positives:,} relevant and {calibration.negatives:,} other documents of "
        f"{counted(calibration.queries)}."
    )
    if calibration.threshold <= 0:
        return f"{fitted} No threshold helped there: every first document counts as an answer."
    return (
        f"{fitted} Where the first document stays below "
        f"<strong>{calibration.threshold:.3f}</strong>, the sieve says that there is probably no "
        "good answer."
    )


def _answers(answers: Answers) -> str:
    """Precision and recall of the threshold, with what they are shares of."""
    answered = answers.answered / answers.queries if answers.queries else None
    rows = [
        ("precision", answers.precision, "of the queries answered, the share answered right",
         f"{answers.right:,} of {answers.answered:,}"),
        ("recall", answers.recall, "of the queries whose first document is right, the share "
         "answered", f"{answers.right:,} of {answers.answerable:,}"),
        ("answered", answered, "of all test queries",
         f"{answers.answered:,} of {answers.queries:,}"),
        ("calibration error", answers.error, "mean distance of predicted from observed", ""),
    ]  # fmt: skip
    body = "".join(
        f'<tr><th scope="row">{name}<p>{what}</p></th>'
        f'<td class="number strong">{"–" if value is None else f"{value:.3f}"}</td>'
        f'<td class="number">{counts}</td></tr>'
        for name, value, what, counts in rows
    )
    return scrolling(f"<tbody>{body}</tbody>", "The threshold on test queries", "answers")
