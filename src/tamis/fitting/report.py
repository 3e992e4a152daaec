"""The report of a fit: one HTML file that needs nothing else, about test queries only."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from tamis.evaluation import Evaluation, parse_measure
from tamis.evaluation.report import framed, notes, origin, query_texts, single_queries
from tamis.evaluation.report_subject import Subject, fact_list, linked
from tamis.evaluation.report_tables import p_text, summary
from tamis.evaluation.svg import counted, shorten, signed
from tamis.fitting.guard import BaselineComparison, BaselineTest
from tamis.fitting.query_splits import MIN_JUDGED_TO_SPLIT, SHARES
from tamis.fitting.report_guard import calibration_section, guard_section
from tamis.fitting.report_provenance import learning_curve_section, provenance_section
from tamis.fitting.report_systems import systems_section
from tamis.fitting.result import FitResult
from tamis.text.passages import parse_spec, split, text_of
from tamis.types import Document, Qrels, Queries, Run

LEVEL = 0.05
SUGGESTED_JUDGEMENTS = 50
"""So many judged queries are asked for where there are none."""
DocumentLookup = Callable[[str], Document]
"""A document by its id; `KeyError` where there is none."""


@dataclass(frozen=True, eq=False)
class RankedQueries:
    """What was tested on: texts of queries, judgements, and the ranking of every system."""

    queries: Queries
    qrels: Qrels
    runs: Mapping[str, Run]
    passages: str = "whole"


def write_report(
    path: Path,
    result: FitResult,
    tested: RankedQueries,
    document: DocumentLookup | None = None,
    *,
    date: datetime | None = None,
) -> None:
    """Write the report; `document` looks up what winning passages are shown from."""
    page = report_page(result, tested, document, date=date)
    path.write_text(page, "utf-8", "replace")


def report_page(
    result: FitResult,
    tested: RankedQueries,
    document: DocumentLookup | None = None,
    *,
    date: datetime | None = None,
) -> str:
    """The whole report as HTML."""
    sections = (
        _tested_sections(result, tested, document) if result.evaluation else _untested(result)
    )
    parts = [_header(result, date or datetime.now(UTC)), *sections]
    return framed(f"{result.collection}: {result.selected}", parts)


def _tested_sections(
    result: FitResult, tested: RankedQueries, document: DocumentLookup | None
) -> list[str]:
    retriever = next(
        one.name
        for one in result.systems
        if one.retriever == result.candidates and (one.reranker is None or one.weight == 0)
    )
    base = [result.base_system] if result.base_system else []
    compared = [result.baseline, retriever, *base, result.selected]
    shown = _subject(result, tested, compared, document)
    single = _subject(result, tested, [result.baseline, result.selected], document)
    return [
        "<main>",
        summary(shown),
        f'<p class="note">{family_note(result.family, result.measure)}</p>',
        systems_section(result, LEVEL, family_note(result.family, result.measure)),
        guard_section(result),
        calibration_section(result),
        learning_curve_section(result),
        single_queries(single),
        provenance_section(result),
        "</main>",
        notes(single),
    ]


def _untested(result: FitResult) -> list[str]:
    return [
        "<main>",
        _what_judgements_buy(result),
        systems_section(result, LEVEL, ""),
        guard_section(result),
        calibration_section(result),
        learning_curve_section(result),
        provenance_section(result),
        "</main>",
    ]


def family_note(family: BaselineTest | None, measure: str) -> str:
    """Which tests were made together, in a sentence of HTML; empty where there were none."""
    if family is None or not family.comparisons:
        return ""
    count = len(family.comparisons)
    tests = "one test was" if count == 1 else f"{count} tests were"
    how = "" if count == 1 else f", corrected by Holm for these {count}"
    return (
        f"On these queries {tests} made: {escape(family.system)} against "
        f"{linked([one.baseline for one in family.comparisons])}, by {escape(measure)} (paired "
        f"t-test, two-sided{how}). Every other p-value is not corrected, and only a hint."
    )


def _header(result: FitResult, date: datetime) -> str:
    word = "yes" if result.verified else "no"
    heading = f"<h1>{escape(result.selected)} <small>for {escape(result.collection)}</small></h1>"
    verdict = (
        f'<p class="verified {word}"><strong>verified: {word}</strong> '
        f"<span>{escape(result.reason)}</span></p>"
    )
    versions = ", ".join(f"{escape(name)} {escape(v)}" for name, v in result.versions.items())
    documents = result.data.get("documents")
    size = f", {documents:,} documents" if isinstance(documents, int) else ""
    facts = {
        "Collection": f"{escape(result.collection)}{size}, {counted(result.queries.all)}",
        "Selected": escape(result.pipeline_in_words),
        "Base model": escape(result.base_model),
        "Seed": str(result.seed),
        "Versions": versions,
        **origin(result.command, date),
    }
    lead = f'<p class="lead">{_verdict(result)}</p>'
    return f"<header>{heading}{verdict}{lead}{fact_list(facts)}</header>"


def _verdict(result: FitResult) -> str:
    """In a sentence whether the selected system beats BM25, the base model and the default."""
    if result.evaluation is None:
        return "Nothing was tested, so nothing is claimed: whether this beats BM25 is not known."
    name, queries = result.selected, len(result.evaluation.queries)
    comparisons = sorted(_comparisons(result), key=lambda one: one.baseline != result.baseline)
    clauses = [_clause(result, one) for one in comparisons]
    if name == result.baseline:
        clauses.insert(0, "is BM25 itself")
    elif name == result.base_system:
        clauses.append("is the base model itself")
    corrected = ""
    if len(comparisons) > 1:
        corrected = f"; p is corrected by Holm for {len(comparisons)} tests"
    if _flattered(result) and comparisons:
        corrected = "; p is not corrected, as these are not the guard’s tests"
    joined = " and ".join(filter(None, [", ".join(clauses[:-1]), *clauses[-1:]]))
    joined = joined or "was compared with nothing"
    tested = f"{queries:,} test {'query' if queries == 1 else 'queries'}"
    return (
        f"On {tested}, by {escape(result.measure)}, {escape(name)} {joined}{corrected}."
        f"{_flattered(result)}"
    )


def _comparisons(result: FitResult) -> Sequence[BaselineComparison]:
    """The selected system beside its baselines, as it was tested; where it stands in for another,
    beside BM25 and the base model, which no test was planned for.
    """
    if result.family is not None and result.family.system == result.selected:
        return result.family.comparisons
    return [
        BaselineComparison(one.baseline, one.difference, one.t_test.raw, one.interval, False)
        for one in (*result.against_baseline, *result.against_base)
        if one.run == result.selected and one.measure == parse_measure(result.measure)
    ]


def _flattered(result: FitResult) -> str:
    """A warning where the test queries have also decided what is selected."""
    decision = result.decision
    if decision is None or not decision.fell_back:
        return ""
    return (
        f" It stands in for {escape(decision.selection.selected)}, which failed its test on the "
        "same queries. They have decided what is selected, so these figures favour it, and only "
        "other queries could test it."
    )


def _clause(result: FitResult, one: BaselineComparison) -> str:
    """One comparison in words, with its figures."""
    name = "the base model" if one.baseline == result.base_system else escape(one.baseline)
    significant = one.p_value is not None and one.p_value < LEVEL
    word = "beats" if one.difference > 0 else "is below"
    words = f"<strong>{word} {name}</strong>"
    if not significant:
        words = f"does not differ significantly from {name}"
    figures = [signed(one.difference)]
    if one.interval is not None:
        figures.append(f"95% interval {signed(one.interval.low)} to {signed(one.interval.high)}")
    if one.p_value is not None:
        figures.append(p_text(one.p_value))
    return f"{words} ({', '.join(figures)})"


def _what_judgements_buy(result: FitResult) -> str:
    """What was built without a test, and what some judgements would buy."""
    test = round(SUGGESTED_JUDGEMENTS * SHARES["test"])
    train = SUGGESTED_JUDGEMENTS - test
    judged = result.queries.train
    available = (
        f" There are {judged} judged queries; from {MIN_JUDGED_TO_SPLIT} on some are set aside."
        if judged
        else ""
    )
    has_log = result.queries.unjudged > 0
    judge = shlex.join(["tamis", "judge", result.path, *([] if has_log else ["queries.txt"])])
    return (
        '<section class="untested"><h2>Nothing was tested</h2>'
        f"<p>What was built: {escape(result.pipeline_in_words)}{available}</p>"
        f"<p><strong>What {SUGGESTED_JUDGEMENTS} judged queries would buy.</strong> About {test} "
        "of them would be set aside for a test: whether this beats BM25 would be a measured "
        f"difference with a confidence interval. The other {train} would serve to select among "
        "all systems, to fine-tune the base model, and to turn scores into probabilities, so that "
        "a query without a good answer can be recognised. So few show only large differences: to "
        "see one half as large takes four times the queries.</p>"
        f"<p>An hour of <code>{escape(judge)}</code> gives as many; then fit again with them.</p>"
        "</section>"
    )


def _subject(
    result: FitResult, tested: RankedQueries, names: Sequence[str], document: DocumentLookup | None
) -> Subject:
    """The evaluation as if only these systems had been tested."""
    assert result.evaluation is not None
    whole = result.evaluation
    evaluation = _only(whole, [name for name in dict.fromkeys(names) if name in whole.runs])
    runs = {name: tested.runs[name] for name in evaluation.runs}
    texts = query_texts(evaluation.queries, tested.queries, runs)
    compared = [
        one for one in result.against_baseline if one.run in runs and one.t_test.holm is not None
    ]
    baseline = result.baseline if len(runs) > 1 else None
    excerpt = None if document is None else _excerpts(document, tested.passages)
    return Subject(evaluation, compared, tested.qrels, runs, texts, baseline, LEVEL, excerpt)


def _only(evaluation: Evaluation, runs: Sequence[str]) -> Evaluation:
    return replace(
        evaluation,
        per_query={run: evaluation.per_query[run] for run in runs},
        missing={run: evaluation.missing[run] for run in runs},
        unjudged={run: evaluation.unjudged[run] for run in runs},
    )


def _excerpts(lookup: DocumentLookup, passages: str) -> Callable[[str, int], str]:
    """What the report shows of a document: the passage with a number, or its beginning."""
    spec = parse_spec(passages)

    def excerpt(name: str, number: int) -> str:
        try:
            document = lookup(name)
        except KeyError:
            return ""
        if number > 0:
            for passage in split(document, spec).passages:
                if passage.number == number:
                    return text_of(document, passage, spec.title)
        return shorten(f"{document.title} {document.text}", 1000)

    return excerpt
