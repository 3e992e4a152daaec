"""The parts of the report of a fit that say what the guard did and what the threshold is worth."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from tamis.evaluation.drawing import counted, signed
from tamis.evaluation.report_subject import linked, run_name, scrolling
from tamis.evaluation.report_tables import p_text, p_value
from tamis.fit.calibrate import Bin, Calibration
from tamis.fit.guard import LUCK, Against, Choice, Settled, Weighed
from tamis.fit.options import PREFERRED, WEIGHTS, floors, fused_with
from tamis.fit.outcome import Outcome
from tamis.fit.page_charts import reliability_chart
from tamis.fit.plan import CROSS_ENCODERS, TRAINED, UNJUDGED
from tamis.fit.sieve import HYBRID


def guarded(outcome: Outcome) -> str:
    """What there was to choose among, how it was done, and how the choice did in its test."""
    choice, settled = outcome.chosen.choice, outcome.chosen.settled
    if choice is None:
        told, weighed = [_by_rule(outcome)], ""
    else:
        told, weighed = [_among(outcome), _how(outcome, choice), _result(choice)], _weighed(choice)
    if settled is not None:
        told.append(_test(settled))
    elif choice is not None:
        told.append("There were no queries to test the choice on.")
    body = "".join(f"<p>{each}</p>" for each in told)
    return f"<section><h2>The guard</h2>{body}{weighed}</section>"


_USUAL = (
    "as it is where vectors find no candidates: the base, fused with the first stage and counting "
    f"{PREFERRED:g}",
    "as it is where vectors help to find candidates: they and words, fused by their scores",
)


def _by_rule(outcome: Outcome) -> str:
    if not any(way.weight for way in outcome.chosen.ways):
        return (
            "No model was there, or no time for one: what finds documents ranks them. "
            f"What is handed over is {escape(outcome.chosen.way.name)}."
        )
    none = "There are no judgements"
    if len(outcome.parts.learn):
        none = "The judged queries cannot be parted, so there are none"
    return (
        f"{none} to choose by. So the usual way was taken, {_USUAL[outcome.found.name == HYBRID]}."
    )


def _among(outcome: Outcome) -> str:
    ways = outcome.chosen.ways
    found, used = outcome.found, dict.fromkeys(way.model for way in ways)
    models = [str(model) for model in used if model is not None and model not in found.others]
    stages = [way.name for way in ways if way.name == found.name or way.name in found.others]
    fused = dict.fromkeys(fused_with(found.name, model) for model in models)
    crossed = [model for model in models if model in CROSS_ENCODERS]
    first = escape(next(iter(fused), found.name))
    if len(fused) > 1:
        first += f" ({linked(crossed)} with {escape(found.name)})"
    weights = linked([f"{weight:.2f}".removeprefix("0") for weight in WEIGHTS])
    return (
        f"It chose among {len(ways)} ways to rank: {linked(stages)} alone, and {linked(models)}, "
        f"each alone and fused with {first}, where the model counts {weights}."
    )


def _how(outcome: Outcome, choice: Choice) -> str:
    if not any(outcome.plan.has(name) for name in TRAINED):
        trained = (
            "no model learnt from them" if outcome.plan.has(UNJUDGED) else "nothing was trained"
        )
        held = f"{trained}, so nothing had to be held out"
    elif outcome.plan.folds > 1:
        held = (
            f"each of {outcome.plan.folds} folds was ranked by models that were trained without it"
        )
    else:
        held = "one part of the judged queries was held out while models were compared"
    usual = min((each.option for each in choice.weighed), key=lambda one: one.simplicity).name
    least = " or than ".join(floors(usual, outcome.found.name, choice.queries))
    return (
        f"By the mean {escape(outcome.measure)} of {counted(choice.queries)}: {held}. The usual "
        f"way is {escape(usual)}, which is rarely far below the best. What is lower than "
        f"{escape(least)} is refused; of the rest the simplest is taken that nothing less simple "
        f"surpasses by more than luck gives in {LUCK * 100:.0f} of 100 cases.{_tuned(outcome)}"
    )


def _tuned(outcome: Outcome) -> str:
    """What BM25 has that the models have not."""
    if not outcome.found.facts.get("bm25", {}).get("tuned"):
        return ""
    return " BM25’s two numbers were tuned on all these queries: it is flattered a little."


def _result(choice: Choice) -> str:
    means = {each.option.name: each.mean for each in choice.weighed}
    chosen = f"<strong>{escape(choice.chosen)}</strong> ({means[choice.chosen]:.4f})"
    refused = len(choice.weighed) - 1
    rest = f"{refused} were refused, the table above says why." if refused else ""
    if choice.best == choice.chosen:
        return f"The highest mean, and the choice: {chosen}. {rest}"
    best = f"{escape(choice.best)} ({means[choice.best]:.4f})"
    return f"The choice: {chosen}. The highest mean was that of {best}. {rest}"


def _test(settled: Settled) -> str:
    verdict = settled.verdict
    told = (
        "; ".join(_tested(each) for each in verdict.against) or "it is what it would be tested by"
    )
    said = f"Tested on {counted(verdict.queries)} that nothing was chosen on: {told}."
    if settled.fell_back:
        return f"{said} <strong>It fell back</strong>: handed over is {escape(str(settled))}."
    return f"{said} It stays, being significantly below none of them."


def _tested(one: Against) -> str:
    figures = [signed(one.difference)]
    if one.interval is not None:
        figures.append(f"95% interval {signed(one.interval.low)} to {signed(one.interval.high)}")
    if one.p is not None:
        figures.append(p_text(one.p))
    return f"against {escape(one.name)} {', '.join(figures)}"


def _weighed(choice: Choice) -> str:
    """Every option as the guard weighed it, folded away."""
    heads = ["held out", f"less {run_name(choice.best)}", "standard error", "luck"]
    head = '<th scope="col">option</th>' + "".join(
        f'<th scope="col" class="number">{each}</th>' for each in heads
    )
    rows = "".join(_weighed_row(each, each.option.name == choice.chosen) for each in choice.weighed)
    table = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    heading = "Every option as it was weighed"
    return (
        f"<details><summary><h3>{heading}</h3></summary>{scrolling(table, heading)}"
        '<p class="note">Luck: how often chance alone would give the lead in question, that of '
        "the option over a simpler one that was chosen, or that of another over it.</p></details>"
    )


def _weighed_row(one: Weighed, chosen: bool) -> str:
    cells = [f"{one.mean:.4f}", signed(one.difference)]
    cells += ["–" if one.error is None else f"{one.error:.4f}", p_value(one.luck)]
    told = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    kind = ' class="chosen"' if chosen else ""
    return f'<tr{kind}><th scope="row">{run_name(one.option.name)}</th>{told}</tr>'


def calibrated(outcome: Outcome) -> str:
    """What a score is worth as a probability, and what the threshold does to test queries."""
    calibration, answers = outcome.chosen.calibration, outcome.chosen.answers
    if calibration is None:
        return ""
    body = f"<p>{_threshold(calibration)}</p>"
    if answers is None:
        body += "<p>There were no queries to test it on.</p>"
    else:
        drawn = reliability_chart([Bin(**each) for each in answers["reliability"]])
        body = (
            f'<div class="pair"><div>{body}{_answers(answers)}</div><figure>{drawn}<figcaption>'
            "First documents of test queries by their probability, and the share of them that "
            "is relevant: on the diagonal a probability is worth its name, below it promises too "
            "much. A larger point stands for more queries.</figcaption></figure></div>"
        )
    return f"<section><h2>When there is no good answer</h2>{body}</section>"


def _threshold(calibration: Calibration) -> str:
    learnt = (
        "Scores are turned into the probability that a document is relevant, as "
        f"{calibration.positives:,} relevant and {calibration.negatives:,} other documents of "
        f"{counted(calibration.queries)} teach it."
    )
    if calibration.threshold <= 0:
        return f"{learnt} No threshold was worth having there: every first document is an answer."
    return (
        f"{learnt} Where the first document stays below "
        f"<strong>{calibration.threshold:.3f}</strong>, the sieve says that there is no good "
        "answer: better none than a wrong one for whoever reads only the first."
    )


def _answers(answers: Mapping[str, Any]) -> str:
    """Precision and recall of the threshold, with what they are shares of."""
    rows = [
        ("precision", answers["precision"], "of the queries answered the share answered right",
         f"{answers['right']:,} of {answers['answered']:,}"),
        ("recall", answers["recall"], "of the queries whose first document is right, the share "
         "answered", f"{answers['right']:,} of {answers['answerable']:,}"),
        ("answered", _share(answers["answered"], answers["queries"]), "of all test queries",
         f"{answers['answered']:,} of {answers['queries']:,}"),
        ("calibration error", answers["error"], "how far probabilities lie from what is "
         "observed, on average", ""),
    ]  # fmt: skip
    body = "".join(
        f'<tr><th scope="row">{name}<p>{what}</p></th>'
        f'<td class="number strong">{"–" if value is None else f"{value:.3f}"}</td>'
        f'<td class="number">{counts}</td></tr>'
        for name, value, what, counts in rows
    )
    return scrolling(f"<tbody>{body}</tbody>", "The threshold on test queries", "answers")


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
