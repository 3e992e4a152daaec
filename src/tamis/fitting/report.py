"""The report of a fit: one HTML file that needs nothing else, about test queries only."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tamis.evaluation import Evaluation, parse_measure
from tamis.evaluation.randomisation import VALUE_TOLERANCE
from tamis.evaluation.report import notes, query_texts
from tamis.evaluation.report_queries import single_queries
from tamis.evaluation.report_subject import Subject
from tamis.evaluation.report_tables import summary
from tamis.fitting.guard import BaselineComparison, BaselineTest
from tamis.fitting.log_queries import LogComparison
from tamis.fitting.query_splits import MIN_JUDGED_TO_SPLIT, SHARES
from tamis.fitting.report_advice import advice
from tamis.fitting.report_failures import Failures
from tamis.fitting.report_guard import answer_rows, figures, guard_view, reliability_chart
from tamis.fitting.report_provenance import learning_view, provenance_view
from tamis.fitting.report_systems import systems_view
from tamis.fitting.result import FitResult
from tamis.pages.charts import MeanRow, mean_intervals
from tamis.pages.render import render
from tamis.pages.text_format import counted, listed, shorten, signed, size_text
from tamis.text.passages import parse_spec, split, text_of
from tamis.types import Document, Qrels, Queries, Run

LEVEL = 0.05
SHOWN_QUERIES = 3
"""How many queries of the log, and that got better or worse, are shown with their documents."""
PROVISIONAL_CAPTION = (
    "Provisional: means on the queries that systems were selected on, so all but BM25's may be "
    "optimistic. The dashed line is BM25. The bar is the 95% interval of the selected system's "
    "difference to BM25, by Student's t."
)
MIN_SYSTEMS_TO_DRAW = 3
"""Two means say as much in a sentence."""
SUGGESTED_JUDGEMENTS = 50
"""So many judged queries are asked for where there are none."""
GLOSSARY = {
    "base model": "The pretrained model that training starts from, as it is.",
    "BM25": "The standard ranking by matching words; every system is compared with it.",
    "candidates": "The documents that the retriever hands to the re-ranker.",
    "ceiling": "The measure of the same candidates in a perfect order.",
    "fusion weight": "How much the model's score counts beside BM25's, from 0 to 1.",
    "guard": "The rule that selects a system: the least complex one that nothing beats "
    "significantly, and never one significantly below BM25 or the base model.",
    "held out": "Judged queries that the compared models were not trained on.",
    "Holm": "A correction of p-values for several tests made together.",
    "hybrid": "BM25 and embeddings, fused by their scores.",
    "interpolated weights": "A model between the base model and the fine-tuned one.",
    "p-value": "How often chance alone would give a difference at least as large.",
    "power": "How likely a test is to find a difference that is there.",
    "sieve": "The folder that a fit writes: index, models, pipeline and this report.",
    "verified": "Tested on queries that were neither trained nor selected on.",
}
"""The words of the report."""
DocumentById = Callable[[str], Document]
"""A document by its id; `KeyError` where there is none."""


@dataclass(frozen=True, eq=False)
class RankedQueries:
    """What was tested on: texts of queries, judgements, and the ranking of every system."""

    queries: Queries
    qrels: Qrels
    runs: Mapping[str, Run]
    passages: str = "whole"
    failures: Failures | None = None
    """What limits the selected system; None without judgements."""
    log: LogComparison | None = None
    """Queries without judgements, BM25 beside the selected system."""


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
        picture=_picture(result),
        meaning=_meaning(result),
        cost=_cost(result),
        log=tested.log,
        shown_log_queries=SHOWN_QUERIES,
        failures=tested.failures,
        causes=_causes(tested),
        power=result.power,
        power_text=_power_text(result),
        advice=advice(result, result.power, tested.failures),
        skipped=result.data.get("files_left_out", {}),
        glossary=GLOSSARY,
        headline=headline(result),
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
        "queries": single_queries(single, shown=SHOWN_QUERIES),
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
    return {
        "Collection": f"{result.collection}{size}, {counted(result.queries.all)}",
        "Selected": f"{result.selected}. {result.pipeline_in_words}",
        "Base model": result.base_model,
    }


def _picture(result: FitResult) -> dict[str, Any] | None:
    """The chart of the main systems; None where there are not three that were measured."""
    rows = main_means(result)
    if len(rows) < MIN_SYSTEMS_TO_DRAW:
        return None
    if result.evaluation is None:
        return {"drawing": draw_means(result, rows), "caption": PROVISIONAL_CAPTION}
    return {
        "drawing": draw_means(result, rows),
        "caption": "The dashed line is BM25. A bar is the 95% interval of the difference to BM25 "
        "(paired bootstrap over queries, not corrected): it shows a difference where it stays "
        "clear of the dashed line.",
    }


def main_means(result: FitResult) -> list[MeanRow]:
    """The means of the selected system, the hybrid, the base model and BM25 on test queries.

    The interval of each is that of its difference to BM25. Where judged queries were too few to
    set some aside for a test, the means are those on all of them.
    """
    evaluation, measure = result.evaluation, result.measure
    if evaluation is None:
        return _provisional_means(result)
    hybrid = next((s.name for s in result.systems if s.retriever == "hybrid" and not s.group), None)
    names = [result.selected, hybrid, result.base_system, result.baseline]
    intervals = {
        comparison.run: comparison.interval
        for comparison in result.against_baseline
        if comparison.measure == parse_measure(measure)
    }
    bm25, rows = evaluation.mean(result.baseline, measure), []
    for name in dict.fromkeys(names):
        if name is None or name not in evaluation.runs:
            continue
        interval = intervals.get(name)
        low, high = (bm25 + interval.low, bm25 + interval.high) if interval else (None, None)
        rows.append(
            MeanRow(name, evaluation.mean(name, measure), low, high, name == result.selected)
        )
    return rows


def _provisional_means(result: FitResult) -> list[MeanRow]:
    """The same on queries that systems were selected on, with the provisional interval."""
    few = result.provisional
    if few is None:
        return []
    hybrid = next((s.name for s in result.systems if s.retriever == "hybrid" and not s.group), None)
    means = {system.name: system.held_out for system in result.systems}
    rows = []
    for name in dict.fromkeys([result.selected, hybrid, result.base_system, result.baseline]):
        mean = means.get(name) if name else None
        if name is None or mean is None:
            continue
        is_selected = name == result.selected
        low = high = None
        if is_selected and few.interval is not None:
            low, high = (few.baseline_mean + end for end in (few.interval.low, few.interval.high))
            mean = few.mean
        rows.append(MeanRow(name, mean, low, high, is_selected))
    return rows


def draw_means(result: FitResult, rows: Sequence[MeanRow]) -> Markup:
    """The chart of some means of a fit."""
    title = f"{result.measure} of the selected system beside its baselines"
    few = result.provisional
    of = (
        f"{few.queries:,} judged"
        if few and result.evaluation is None
        else f"{result.queries.test:,} test"
    )
    axis = f"mean {result.measure} over {of} queries"
    return mean_intervals(rows, title=title, axis=axis, reference=result.baseline)


def _meaning(result: FitResult) -> str:
    """What verified, or not, means for the reader."""
    if result.verified and result.decision and result.decision.fell_back:
        return "The first choice failed its test; what is left was compared on the same queries."
    if result.verified:
        return "These figures are what to expect of new queries of the same kind."
    if result.provisional is not None:
        return "The figures point somewhere, but they are too few to rely on."
    return (
        "Nothing here shows that this is better than BM25 on your queries. Compare the answers "
        "below, then judge some."
    )


def _cost(result: FitResult) -> dict[str, str]:
    """What a query costs, in the words of a person who has to run it."""
    cost = result.cost
    if cost is None:
        milliseconds = result.selected_system.milliseconds
        return {} if milliseconds is None else {"Per query": f"{milliseconds:.1f} ms, in batches"}
    cores = "all cores" if cost.threads is None else f"{cost.threads} threads"
    return {
        "Per query": f"{cost.milliseconds:.1f} ms (median of {cost.queries}, one at a time, "
        f"{cores})",
        "Memory": f"{size_text(cost.memory_bytes)} at most, the whole process",
        "On disk": size_text(cost.disk_bytes),
    }


def _causes(tested: RankedQueries) -> list[tuple[str, int, str]]:
    """Why relevant documents are missing: the cause, how many, and an example."""
    failures = tested.failures
    if failures is None:
        return []
    texts = {query.id: query.text for query in tested.queries}
    examples = {
        one.cause: f"“{shorten(texts.get(one.query, one.query), 80)}”: {one.doc_id}"
        for one in reversed(failures.missing)
    }
    return [(cause, count, examples[cause]) for cause, count in failures.causes.items()]


def _power_text(result: FitResult) -> str:
    """The smallest difference that the queries can show, in a sentence or two."""
    power, few = result.power, result.provisional
    if power is None and few is not None and few.queries > 1 and few.difference == 0:
        return (
            f"{result.measure} is the same with both on {counted(few.queries)}: nothing is known "
            "of how much differences vary, or of how many queries would show one."
        )
    if power is None:
        return ""
    shown = (
        f"With {counted(power.queries)} a true difference of {power.smallest:.3f} {result.measure} "
        f"to BM25 is found significant in four of five tests; a smaller one is often missed."
    )
    seen = f" The difference seen is {signed(power.difference, 3)}"
    if power.needed is None:
        return f"{shown}{seen}: practically none, and no number of queries would show it."
    if not power.more_needed:
        return f"{shown}{seen}: large enough for these queries to show it."
    return f"{shown}{seen}: to show it takes about {power.needed:,}, {power.more_needed:,} more."


def _versions(result: FitResult) -> dict[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return {"Seed": str(result.seed), "Versions": versions}


def headline(result: FitResult) -> str:
    """What was found, in a few words."""
    if result.evaluation is None:
        if result.provisional is not None and result.selected != result.baseline:
            difference = result.provisional.difference
            if abs(difference) <= VALUE_TOLERANCE:
                return "Same mean as BM25, provisional"
            return f"{signed(difference)} against BM25, provisional"
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
    judge = _suggested_judgements(result)["command"]
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
