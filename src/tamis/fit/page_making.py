"""The parts of the report of a fit that say how it was made: data, labels, time, first stage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tamis.durable import duration
from tamis.evaluation.drawing import counted, signed
from tamis.evaluation.report_subject import fact_list, scrolling
from tamis.evaluation.report_tables import p_text
from tamis.fit.options import BM25, POINTS
from tamis.fit.outcome import Outcome
from tamis.fit.page_charts import learning_chart
from tamis.fit.plan import CROSS, CURVE, INFUSED, TUNED
from tamis.fit.sieve import GIVEN, HYBRID

FIRST = "first"
BELONGS = {
    "index": FIRST,
    "tuning": FIRST,
    "recall": FIRST,
    f"{BM25}-": FIRST,
    f"{HYBRID}-": FIRST,
    **{f"{name} ": TUNED for name in POINTS},
    "train pseudo": CROSS,
    "label pseudo": CROSS,
    f"train {TUNED} on ": CURVE,
    f"label {TUNED} on ": CURVE,
    "train aligned": INFUSED,
    "label aligned": INFUSED,
}
"""To which step of the plan something that was timed belongs, by the beginning of its name, where
its name does not say it."""


def learning_curve(outcome: Outcome) -> str:
    """The section on what labels are worth; none where no curve was drawn."""
    curve = outcome.chosen.curve
    if not curve:
        return ""
    drawn = learning_chart(curve, outcome.measure)
    return (
        '<section><h2>What labels are worth</h2><div class="pair"><figure>'
        f"{drawn}<figcaption>Mean {escape(outcome.measure)} of the trained base on judged queries "
        "held out, by the number of others that were learnt from; each doubling takes about the "
        "same width.</figcaption></figure>"
        f"<div><p>{_worth(curve, outcome.measure)}</p></div></div></section>"
    )


def _worth(curve: Sequence[tuple[int, float]], measure: str) -> str:
    """What twice the labels would bring, if it goes on as between the last two points."""
    (before, old), (now, new) = curve[-2:] if len(curve) > 1 else (curve[0], curve[0])
    if now <= before or not before:
        without = f"Without judgements {old:.4f}, w" if now > before else "W"
        return (
            f"{without}ith {counted(now)} {new:.4f}. That alone does not tell what more would "
            "bring: with more judged queries, or more time, points between are measured."
        )
    gain = (new - old) / math.log2(now / before)
    change = f"{escape(measure)} changed by {signed(new - old)}"
    rose = f"From {before:,} to {now:,} judged queries {change}"
    if gain <= 0:
        return f"{rose}: more labels of this kind would most likely bring little."
    return (
        f"{rose}. If it goes on like this, twice as many, {2 * now:,}, would bring about "
        f"{signed(gain)} more. A curve of this kind grows flatter: take it as the most to hope for."
    )


def making(outcome: Outcome) -> str:
    """What it was made from and how long it took."""
    return (
        "<section><h2>How it was made</h2>"
        f"<h3>What was there</h3>{fact_list(dict(_plain(outcome.look)))}"
        f"<h3>The first stage</h3>{fact_list(_first_stage(outcome))}"
        f"<h3>Labels that the model learnt from</h3>{_labels(outcome)}"
        f"<h3>What was cut</h3><p>{_cut(outcome.cut)}</p>"
        f"<h3>Time</h3>{_times(outcome)}</section>"
    )


def _plain(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts as HTML; what is a mapping is told in a line."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            told = ", ".join(f"{escape(str(n))} {_shown(v)}" for n, v in value.items())
            yield escape(str(name)), told
        else:
            yield escape(str(name)), _shown(value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else escape(str(value))


def _first_stage(outcome: Outcome) -> dict[str, str]:
    facts = outcome.found.facts
    given = "your own results were re-ranked" if outcome.found.name == GIVEN else ""
    return {"Given": given, "BM25": _bm25(facts.get("bm25", {})), "Vectors": _vectors(outcome)}


def _bm25(facts: Mapping[str, Any]) -> str:
    parameters = facts.get("parameters", {})
    named = ", ".join(f"{escape(str(name))} = {_shown(v)}" for name, v in parameters.items())
    gain = facts.get("gain on held-out folds")
    gained = "" if gain is None else f" ({signed(gain)} on held-out folds)"
    if facts.get("tuned"):
        return f"tuned on judgements: {named}{gained}"
    why = f": {escape(str(facts['why']))}" if facts.get("why") else ""
    return f"with its usual parameters, not tuned{why}{gained}"


def _vectors(outcome: Outcome) -> str:
    facts = outcome.found.facts.get("vectors")
    if not facts:
        return "not tried"
    own, used = outcome.found.name == GIVEN, "used" if facts["used"] else "not used"
    used = "one way beside your own results" if own else used
    if "measure" not in facts:
        return f"{used}; too few queries are judged to compare what they find with what words find"
    p = facts.get("p")
    tested = f", {p_text(p)}" if p is not None else ""
    found = (
        f"{escape(str(facts['measure']))} {facts[BM25]:.4f} by words, {facts[HYBRID]:.4f} by "
        f"words and vectors{tested}, on judged queries that nothing was trained on yet"
    )
    return f"{used}: {found}"


def _labels(outcome: Outcome) -> str:
    if not outcome.labels:
        return "<p>None: what is handed over was not trained here.</p>"
    by_source = {
        source: counts if isinstance(counts, Mapping) else {"rows": counts}
        for source, counts in outcome.labels.items()
    }
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


def _cut(cut: Mapping[str, Any]) -> str:
    if not cut:
        return "Nothing was scored that could have been cut."
    scored, shortened = cut.get("documents scored", 0), cut.get("documents cut", 0)
    if not shortened:
        return f"Nothing: each of {scored:,} documents of test queries was read to its end."
    return (
        f"Of {scored:,} documents of test queries that were scored {shortened:,} were longer than "
        f"the model reads; {cut.get('tokens cut', 0):,} tokens of them were left out."
    )


def _step_of(name: str, steps: Sequence[str]) -> str:
    """The step that something timed belongs to; empty where the plan has none for it.

    >>> [_step_of(name, ["first", "tuned"]) for name in ("tuning", "train tuned all", "plan")]
    ['first', 'tuned', '']
    """
    for beginning, step in BELONGS.items():
        if name.startswith(beginning) and step in steps:
            return step
    bare = name.removeprefix("train ").removeprefix("label ") + " "
    return next((step for step in steps if bare.startswith(f"{step} ")), "")


def _times(outcome: Outcome) -> str:
    """The plan against the time taken, and every single thing that was timed."""
    taken: dict[str, float] = {}
    for name, seconds in outcome.seconds.items():
        step = _step_of(name, [each.name for each in outcome.plan.steps if each.planned])
        taken[step] = taken.get(step, 0.0) + seconds
    rows = []
    for each in outcome.plan.steps:
        planned = duration(each.seconds) if each.planned else "no time for it"
        rows.append(_time_row(each.name, each.what, planned, taken.pop(each.name, None)))
    rest = sum(taken.values())
    rows.append(_time_row("other", "what the plan does not name", "–", rest) if rest else "")
    rows.append(
        _time_row("together", "", duration(outcome.plan.seconds), sum(outcome.seconds.values()))
    )
    head = '<th scope="col">step</th><th scope="col">what for</th>' + "".join(
        f'<th scope="col" class="number">{name}</th>' for name in ("planned", "taken")
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return scrolling(table, "Time planned and taken") + _every_time(outcome.seconds)


def _time_row(name: str, what: str, planned: str, seconds: float | None) -> str:
    took = "–" if seconds is None else duration(seconds)
    cells = (
        f'<td>{escape(what)}</td><td class="number">{planned}</td><td class="number">{took}</td>'
    )
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def _every_time(seconds: Mapping[str, float]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="number">{value:,.1f} s</td></tr>'
        for name, value in seconds.items()
    )
    heading = "Everything that was timed"
    box = scrolling(f"<tbody>{rows}</tbody>", heading)
    return f"<details><summary><h4>{heading}</h4></summary>{box}</details>" if rows else ""
