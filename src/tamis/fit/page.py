"""The report of a fit: one HTML file that needs nothing else, about test queries only."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from tamis.evaluation import Evaluation, parse_measure
from tamis.evaluation.drawing import counted, shorten, signed
from tamis.evaluation.report import framed, notes, origin, query_texts, single_queries
from tamis.evaluation.report_subject import Subject, fact_list
from tamis.evaluation.report_tables import p_text, summary
from tamis.fit.family import family_note
from tamis.fit.guard import Against
from tamis.fit.look import PARTED, SHARES
from tamis.fit.options import BM25, START
from tamis.fit.outcome import Outcome
from tamis.fit.page_candidates import candidates
from tamis.fit.page_guard import calibrated, guarded
from tamis.fit.page_making import learning_curve, making
from tamis.fit.sieve import GIVEN, HYBRID
from tamis.text.passages import parse_spec, split, text_of
from tamis.types import Document

LEVEL = 0.05
WISHED = 50
"""So many judgements are asked for where there are none."""
Fetch = Callable[[str], Document]
"""A document by its id; `KeyError` where there is none."""


def write_page(
    path: Path, outcome: Outcome, document: Fetch | None = None, *, date: datetime | None = None
) -> None:
    """Write the report; `document` fetches what winning passages are shown from."""
    page = fit_page(outcome, document, date=date)
    path.write_text(page, "utf-8", "replace")


def fit_page(
    outcome: Outcome, document: Fetch | None = None, *, date: datetime | None = None
) -> str:
    """The whole report as HTML."""
    tested = _tested(outcome, document) if outcome.evaluation else _untested(outcome)
    parts = [_header(outcome, date or datetime.now(UTC)), *tested]
    return framed(f"{outcome.name}: {outcome.chosen.way.name}", parts)


def _tested(outcome: Outcome, document: Fetch | None) -> list[str]:
    shown = _subject(outcome, [BM25, outcome.found.name, START, outcome.chosen.way.name], document)
    single = _subject(outcome, [BM25, outcome.chosen.way.name], document)
    return [
        "<main>",
        summary(shown),
        f'<p class="note">{family_note(outcome.family, outcome.measure)}</p>',
        candidates(outcome, LEVEL),
        guarded(outcome),
        calibrated(outcome),
        learning_curve(outcome),
        single_queries(single),
        making(outcome),
        "</main>",
        notes(single),
    ]


def _untested(outcome: Outcome) -> list[str]:
    parts = [candidates(outcome, LEVEL), guarded(outcome), calibrated(outcome)]
    return ["<main>", _wished(outcome), *parts, learning_curve(outcome), making(outcome), "</main>"]


def _header(outcome: Outcome, date: datetime) -> str:
    word = "yes" if outcome.verified else "no"
    heading = (
        f"<h1>{escape(outcome.chosen.way.name)} <small>for {escape(outcome.name)}</small></h1>"
    )
    verdict = (
        f'<p class="verified {word}"><strong>verified: {word}</strong> '
        f"<span>{escape(outcome.why)}</span></p>"
    )
    versions = ", ".join(f"{escape(name)} {escape(v)}" for name, v in outcome.versions.items())
    facts = {
        "Collection": _collection(outcome),
        "Handed over": _handed_over(outcome),
        "Base": escape(outcome.base),
        "Seed": str(outcome.seed),
        "Versions": versions,
        **origin(outcome.command, date),
    }
    lead = f'<p class="lead">{_verdict(outcome)}</p>'
    return f"<header>{heading}{verdict}{lead}{fact_list(facts)}</header>"


def _collection(outcome: Outcome) -> str:
    documents, queries = outcome.look.get("documents"), len(outcome.parts.queries)
    held = f", {documents:,} documents" if isinstance(documents, int) else ""
    return f"{escape(outcome.name)}{held}, {counted(queries)}"


def _handed_over(outcome: Outcome) -> str:
    """The pipeline in words."""
    pipeline = outcome.pipeline
    first = {HYBRID: "BM25 and vectors find documents"}.get(pipeline.first, "BM25 finds documents")
    if outcome.found.name == GIVEN and outcome.chosen.way.model not in outcome.found.others:
        first = "your own first stage finds documents"
    if not pipeline.model:
        return f"{first}; no model re-ranks them."
    if pipeline.interpolate == 0:
        share = pipeline.vectors or 0.0
        sure = ""
        if outcome.chosen.calibration is not None:
            sure = f" What the base makes of the first {pipeline.depth} tells how sure they are."
        return f"{first} and put them in order: vectors count {share:g}, words {1 - share:g}.{sure}"
    by = "" if pipeline.passages == "whole" else f", by passages ({escape(pipeline.passages)})"
    again = (
        f"the model “{escape(str(outcome.chosen.way.model))}” re-ranks the first {pipeline.depth}"
    )
    if pipeline.interpolate is None:
        return f"{first}; {again}{by}."
    rest = "BM25’s" if pipeline.lexical_column else "the first stage’s"
    weight = f"its scores count {pipeline.interpolate:g}, {rest} the rest"
    return f"{first}; {again}{by}; {weight}."


def _verdict(outcome: Outcome) -> str:
    """In a sentence whether what is handed over beats BM25, the start and the usual way."""
    if outcome.evaluation is None:
        return "Nothing was tested, so nothing is claimed: whether this beats BM25 is not known."
    name, queries = outcome.chosen.way.name, len(outcome.evaluation.queries)
    found = sorted(_comparisons(outcome, name), key=lambda one: one.name != BM25)
    told = [_against(one) for one in found]
    if name == BM25:
        told.insert(0, "is BM25 itself")
    elif name == START:
        told.append("is the start itself")
    measure = escape(outcome.measure)
    corrected = f"; p is corrected by Holm for {len(found)} tests" if len(found) > 1 else ""
    if _flattered(outcome) and found:
        corrected = "; p is not corrected, as these are not the guard’s tests"
    said = " and ".join(filter(None, [", ".join(told[:-1]), *told[-1:]]))
    said = said or "was compared with nothing"
    tested = f"{queries:,} test {'query' if queries == 1 else 'queries'}"
    return f"On {tested}, by {measure}, {escape(name)} {said}{corrected}.{_flattered(outcome)}"


def _comparisons(outcome: Outcome, name: str) -> Sequence[Against]:
    """What was handed over beside what it must not be below, as it was tested; where it stands in
    for another, beside BM25 and the start, which no test was planned for.
    """
    if outcome.family is not None and outcome.family.system == name:
        return outcome.family.against
    return [
        Against(one.baseline, one.difference, one.t_test.raw, one.interval, False)
        for one in (*outcome.against_bm25, *outcome.against_start)
        if one.run == name and one.measure == parse_measure(outcome.measure)
    ]


def _flattered(outcome: Outcome) -> str:
    """A warning where the test queries have also decided what is handed over."""
    settled = outcome.chosen.settled
    if settled is None or not settled.fell_back:
        return ""
    return (
        f" It stands in for {escape(settled.choice.chosen)}, which failed its test on the same "
        "queries: they have decided what is handed over, so these figures flatter it, and only "
        "other queries could test it."
    )


def _against(one: Against) -> str:
    """One comparison in words, with its figures."""
    other, p = "the start" if one.name == START else escape(one.name), one.p
    sure = p is not None and p < LEVEL
    word = "beats" if one.difference > 0 else "is below"
    said = f"<strong>{word} {other}</strong>" if sure else f"cannot be told apart from {other}"
    figures = [signed(one.difference)]
    if one.interval is not None:
        figures.append(f"95% interval {signed(one.interval.low)} to {signed(one.interval.high)}")
    if p is not None:
        figures.append(p_text(p))
    return f"{said} ({', '.join(figures)})"


def _wished(outcome: Outcome) -> str:
    """What was built without a test, and what some judgements would buy."""
    test = round(WISHED * SHARES["test"])
    learn = WISHED - test
    judged = len(outcome.parts.learn)
    there = (
        f" There are {judged} judged queries; from {PARTED} on some are set aside."
        if judged
        else ""
    )
    has_log = len(outcome.parts.queries) > len(outcome.parts.judged)
    judge = shlex.join(["tamis", "judge", outcome.path, *([] if has_log else ["queries.txt"])])
    return (
        '<section class="untested"><h2>Nothing was tested</h2>'
        f"<p>What was built: {_handed_over(outcome)}{there}</p>"
        f"<p><strong>What {WISHED} judged queries would buy.</strong> About {test} of them would "
        "be set aside to test on: whether this beats BM25 would be a figure with an interval, no "
        f"longer a hope. The other {learn} would serve to choose among all candidates, to train "
        "the base on what people meant here, and to turn scores into probabilities, so that a "
        "query without a good answer can be told. So few show only large differences: to see "
        "one half as large takes four times the queries.</p>"
        f"<p>An hour of <code>{escape(judge)}</code> gives as many; then fit again with them.</p>"
        "</section>"
    )


def _subject(outcome: Outcome, names: Sequence[str], document: Fetch | None) -> Subject:
    """The evaluation as if only these runs had been made."""
    assert outcome.evaluation is not None
    whole = outcome.evaluation
    evaluation = _only(whole, [name for name in dict.fromkeys(names) if name in whole.runs])
    runs = {name: outcome.chosen.test_runs[name] for name in evaluation.runs}
    texts = query_texts(evaluation.queries, outcome.parts.queries, runs)
    compared = [o for o in outcome.against_bm25 if o.run in runs and o.t_test.holm is not None]
    baseline = BM25 if len(runs) > 1 else None
    excerpt = None if document is None else _excerpts(document, outcome.pipeline.passages)
    return Subject(evaluation, compared, outcome.parts.test, runs, texts, baseline, LEVEL, excerpt)


def _only(evaluation: Evaluation, runs: Sequence[str]) -> Evaluation:
    return replace(
        evaluation,
        per_query={run: evaluation.per_query[run] for run in runs},
        missing={run: evaluation.missing[run] for run in runs},
        unjudged={run: evaluation.unjudged[run] for run in runs},
    )


def _excerpts(document: Fetch, passages: str) -> Callable[[str, int], str]:
    """What the report shows of a document: the passage with a number, or its beginning."""
    spec = parse_spec(passages)

    def excerpt(name: str, number: int) -> str:
        try:
            found = document(name)
        except KeyError:
            return ""
        if number > 0:
            for passage in split(found, spec).passages:
                if passage.number == number:
                    return text_of(found, passage, spec.title)
        return shorten(f"{found.title} {found.text}", 1000)

    return excerpt
