"""The report of a fit: one HTML file that needs nothing else, about test queries only."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tamis.evaluation import Evaluation, parse_measure
from tamis.evaluation.report import notes, query_texts
from tamis.evaluation.report_queries import single_queries
from tamis.evaluation.report_subject import Subject
from tamis.evaluation.report_tables import summary
from tamis.fitting.guard import BaselineComparison, BaselineTest
from tamis.fitting.query_splits import MIN_JUDGED_TO_SPLIT, SHARES
from tamis.fitting.report_guard import answer_rows, figures, guard_view, reliability_chart
from tamis.fitting.report_provenance import learning_view, provenance_view
from tamis.fitting.report_systems import systems_view
from tamis.fitting.result import FitResult
from tamis.pages.render import render
from tamis.pages.text_format import counted, listed, shorten, signed
from tamis.text.passages import parse_spec, split, text_of
from tamis.types import Document, Qrels, Queries, Run

LEVEL = 0.05
SUGGESTED_JUDGEMENTS = 50
"""So many judged queries are asked for where there are none."""
DocumentById = Callable[[str], Document]
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
    document: DocumentById | None = None,
    *,
    date: datetime | None = None,
) -> None:
    """Write the report; `document` looks up what winning passages are shown from."""
    page = report_page(result, tested, document, date=date)
    path.write_text(page, "utf-8", "replace")


def report_page(
    result: FitResult,
    tested: RankedQueries,
    document: DocumentById | None = None,
    *,
    date: datetime | None = None,
) -> str:
    """The whole report as HTML."""
    note = family_note(result.family, result.measure)
    answers = result.threshold_test
    return render(
        "fit.html",
        result=result,
        date=date or datetime.now(UTC),
        level=LEVEL,
        facts=_facts(result),
        headline=_headline(result),
        usage=_usage(result),
        versions=_versions(result),
        verdict=_verdict(result),
        judgements=_suggested_judgements(result),
        tested=_tested(result, tested, document),
        family_note=note,
        systems=systems_view(result, note),
        guard=guard_view(result),
        answer_rows=answer_rows(answers) if answers else [],
        reliability=reliability_chart(answers.reliability) if answers else "",
        learning=learning_view(result),
        made=provenance_view(result),
    )


def _tested(
    result: FitResult, tested: RankedQueries, document: DocumentById | None
) -> dict[str, Any] | None:
    """What was measured on test queries; None where there were none."""
    if result.evaluation is None:
        return None
    retriever = next(
        system.name
        for system in result.systems
        if system.retriever == result.candidates and (system.reranker is None or system.weight == 0)
    )
    base = [result.base_system] if result.base_system else []
    compared = [result.baseline, retriever, *base, result.selected]
    single = _subject(result, tested, [result.baseline, result.selected], document)
    return {
        "summary": summary(_subject(result, tested, compared, document)),
        "queries": single_queries(single),
        "notes": notes(single),
    }


def family_note(family: BaselineTest | None, measure: str) -> str:
    """Which tests were made together, in a sentence; empty where there were none."""
    if family is None or not family.comparisons:
        return ""
    count = len(family.comparisons)
    tests = "one test was" if count == 1 else f"{count} tests were"
    how = "" if count == 1 else f", corrected by Holm for these {count}"
    baselines = listed([comparison.baseline for comparison in family.comparisons])
    return (
        f"On these queries {tests} made: {family.system} against {baselines}, by {measure} (paired "
        f"t-test, two-sided{how}). Every other p-value is not corrected, and only a hint."
    )


def _facts(result: FitResult) -> dict[str, str]:
    documents = result.data.get("documents")
    size = f", {documents:,} documents" if isinstance(documents, int) else ""
    cost = result.selected_system.milliseconds
    return {
        "Collection": f"{result.collection}{size}, {counted(result.queries.all)}",
        "Selected": result.pipeline_in_words,
        "Base model": result.base_model,
        "A query takes": "" if cost is None else f"{cost:.{1 + (cost < 1)}f} ms",
    }


def _versions(result: FitResult) -> dict[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return {"Seed": str(result.seed), "Versions": versions}


def _headline(result: FitResult) -> str:
    """What was found, in a few words."""
    if result.evaluation is None:
        if result.provisional is not None and result.selected != result.baseline:
            return f"{signed(result.provisional.difference)} against BM25, provisional"
        return "Not tested yet"
    queries = f"{len(result.evaluation.queries):,} test queries"
    if result.selected == result.baseline:
        return f"BM25 was best on {queries}"
    against_bm25 = [one for one in _comparisons(result) if one.baseline == result.baseline]
    is_significant = [one for one in against_bm25 if (one.p_value or 0.0) < LEVEL]
    if not is_significant:
        return f"No difference to BM25 shown on {queries}"
    mean = result.evaluation.mean(result.baseline, result.measure)
    share = abs(is_significant[0].difference) / mean if mean else 0.0
    amount = f"{share:.0%} " if mean else ""
    word = "better" if is_significant[0].difference > 0 else "worse"
    return f"{amount}{word} than BM25 on {queries}"


def _usage(result: FitResult) -> dict[str, str]:
    """What to type next."""
    search = shlex.join(["tamis", "search", result.path, "some words"])
    judge = shlex.join(["tamis", "judge", result.path])
    lines = [
        "import tamis",
        f"sieve = tamis.load_sieve({result.path!r})",
        'for hit in sieve.search("some words", top=10):',
        "    print(hit.rank, hit.id, hit.score, hit.passage)",
    ]
    return {"shell": f"{search}\n{judge}", "python": "\n".join(lines)}


def _verdict(result: FitResult) -> dict[str, Any]:
    """Whether the selected system beats BM25, the base model and the default, as a sentence."""
    count = len(result.evaluation.queries) if result.evaluation else 0
    comparisons = sorted(
        _comparisons(result), key=lambda comparison: comparison.baseline != result.baseline
    )
    clauses = [_clause(result, comparison) for comparison in comparisons]
    if result.selected == result.baseline:
        clauses.insert(0, ("is BM25 itself", "", False))
    elif result.selected == result.base_system:
        clauses.append(("is the base model itself", "", False))
    corrected = (
        f"; p is corrected by Holm for {len(comparisons)} tests, the intervals are not"
        if len(comparisons) > 1
        else ""
    )
    warning = _stand_in_warning(result)
    if warning and comparisons:
        corrected = "; neither p nor intervals are corrected, as these are not the guard’s tests"
    tested = f"{count:,} test {'query' if count == 1 else 'queries'}"
    return {"queries": tested, "clauses": clauses, "end": f"{corrected}.{warning}"}


def _comparisons(result: FitResult) -> Sequence[BaselineComparison]:
    """The selected system beside its baselines, as it was tested; where it stands in for another,
    beside BM25 and the base model, which no test was planned for.
    """
    if result.family is not None and result.family.system == result.selected:
        return result.family.comparisons
    return [
        BaselineComparison(
            comparison.baseline,
            comparison.difference,
            comparison.t_test.raw,
            comparison.interval,
            False,
        )
        for comparison in (*result.against_baseline, *result.against_base)
        if comparison.run == result.selected and comparison.measure == parse_measure(result.measure)
    ]


def _stand_in_warning(result: FitResult) -> str:
    """A warning where the test queries have also decided what is selected."""
    decision = result.decision
    if decision is None or not decision.fell_back:
        return ""
    return (
        f" It stands in for {decision.selection.selected}, which failed its test on the "
        "same queries. They have decided what is selected, so these figures favour it, and only "
        "other queries could test it."
    )


def _clause(result: FitResult, comparison: BaselineComparison) -> tuple[str, str, bool]:
    """One comparison in words, its figures, and whether it is significant."""
    name = "the base model" if comparison.baseline == result.base_system else comparison.baseline
    significant = comparison.p_value is not None and comparison.p_value < LEVEL
    verb = "beats" if comparison.difference > 0 else "is below"
    if not significant:
        verb = "does not differ significantly from"
    return f"{verb} {name}", figures(comparison), significant


def _suggested_judgements(result: FitResult) -> dict[str, Any]:
    """What some judgements would buy, for a sieve that was not tested."""
    test = round(SUGGESTED_JUDGEMENTS * SHARES["test"])
    judged = result.queries.train
    available = (
        f" There are {judged} judged queries; from {MIN_JUDGED_TO_SPLIT} on some are set aside: "
        f"{result.more_judged_queries_needed} more are needed for a test."
        if judged
        else ""
    )
    queries = [] if result.queries.unjudged else ["queries.txt"]
    return {
        "suggested": SUGGESTED_JUDGEMENTS,
        "test": test,
        "train": SUGGESTED_JUDGEMENTS - test,
        "available": available,
        "command": shlex.join(["tamis", "judge", result.path, *queries]),
    }


def _subject(
    result: FitResult, tested: RankedQueries, names: Sequence[str], document: DocumentById | None
) -> Subject:
    """The evaluation as if only these systems had been tested."""
    assert result.evaluation is not None
    full_evaluation = result.evaluation
    evaluation = _only(
        full_evaluation, [name for name in dict.fromkeys(names) if name in full_evaluation.runs]
    )
    runs = {name: tested.runs[name] for name in evaluation.runs}
    texts = query_texts(evaluation.queries, tested.queries, runs)
    compared = [
        comparison
        for comparison in result.against_baseline
        if comparison.run in runs and comparison.t_test.holm is not None
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


def _excerpts(lookup: DocumentById, passages: str) -> Callable[[str, int], str]:
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
