"""The parts of a fit's report that say where it fails, what it costs and what to do next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fitting.test_report import DATE, fit_in_miniature, untested
from tests.pages.page import Page

import tamis
from tamis.evaluation.power import Power
from tamis.fitting.log_queries import compare_on_log, sample_of_log
from tamis.fitting.query_cost import QueryCost, measure_query_cost
from tamis.fitting.report import RankedQueries, report_page
from tamis.fitting.report_advice import advice
from tamis.fitting.report_failures import find_failures, no_common_word, queries_with_missing
from tamis.fitting.result import FitResult, Truncation
from tamis.types import Document, Qrels, Queries, Query, Run

QRELS = Qrels.from_dict({"q1": {"a": 1, "b": 2, "x": 0}, "q2": {"c": 1}})
CANDIDATES = Run.from_dict({"q1": {"x": 3.0, "a": 2.0}, "q2": {"x": 1.0}})


@pytest.fixture(scope="module")
def fitted() -> tuple[FitResult, RankedQueries]:
    return fit_in_miniature()


def test_the_ceiling_and_what_is_missing() -> None:
    deeper = Run.from_dict({"q1": {"x": 9.0, "a": 8.0, "y": 7.0, "b": 6.0}, "q2": {"x": 1.0}})
    failures = find_failures(
        QRELS, CANDIDATES, "RR@10", depth=2, deeper=deeper, explain=lambda query, doc: "no word"
    )
    assert (failures.value, failures.ceiling, failures.relevant) == (0.25, 0.5, 3)
    assert [(one.query, one.doc_id, one.rank) for one in failures.missing] == [
        ("q1", "b", 4),
        ("q2", "c", None),
    ]
    assert failures.causes == {"ranked below the top 2": 1, "no word": 1}
    assert failures.within_next_depth == 1


def test_only_queries_that_lack_something_are_searched_again() -> None:
    queries = Queries.of([Query("q1", "one"), Query("q2", "two"), Query("q3", "three")])
    full = Run.from_dict({"q1": {"a": 1.0, "b": 2.0}, "q2": {"x": 1.0}})
    assert [query.id for query in queries_with_missing(QRELS, full, queries)] == ["q2"]


def test_words_in_common() -> None:
    assert no_common_word("b", Document("d", "a", "b"), str.split, 1000).startswith("shares words")


def test_the_log_side_by_side() -> None:
    queries = Queries.of([Query("1", "same"), Query("2", "other order"), Query("3", "new")])
    bm25 = Run.from_dict(
        {"1": {"a": 2.0, "b": 1.0}, "2": {"a": 2.0, "b": 1.0}, "3": {"a": 2.0}}
    ).with_queries(queries)
    other = Run.from_dict(
        {"1": {"a": 2.0, "b": 1.0}, "2": {"b": 2.0, "a": 1.0}, "3": {"c": 2.0, "d": 1.0}}
    ).with_queries(queries)
    found = compare_on_log(
        bm25, other, lambda name: Document(name, f"text {name}", name.upper()), lambda d, q: d.text
    )
    assert (found.queries, found.other_first, found.other_documents) == (3, 2, 2)
    assert [query.text for query in found.shown] == ["new", "other order", "same"]
    assert [(d.title, d.excerpt, d.is_new) for d in found.shown[0].selected] == [
        ("C", "text c", True),
        ("D", "text d", True),
    ]
    assert not any(d.is_new for d in found.shown[1].bm25)


def test_a_long_log_is_sampled_evenly() -> None:
    log = Queries.of([Query(f"{n:03}", "words") for n in range(200)])
    names = [query.id for query in sample_of_log(log)]
    assert (len(names), names[0], names[-1]) == (50, "000", "199")


def test_the_page_has_every_part(fitted: tuple[FitResult, RankedQueries]) -> None:
    result, tested = fitted
    failures = find_failures(QRELS, CANDIDATES, "RR@10", depth=50, explain=lambda q, d: "far off")
    log = compare_on_log(
        Run.from_dict({"1": {"a": 1.0}}).with_queries(Queries.of([Query("1", "my words")])),
        Run.from_dict({"1": {"b": 1.0}}).with_queries(Queries.of([Query("1", "my words")])),
        lambda name: Document(name, f"text of {name}"),
        lambda document, query: document.text,
    )
    shown = replace(
        result,
        cost=QueryCost(12.34, 250_000_000, 90_000_000, 20, None),
        truncation=Truncation(10, 3, 700, (7, 1, 0, 2, 0, 0, 0)),
        data={**result.data, "files_left_out": {".docx": 4}},
    )
    words = Page(report_page(shown, replace(tested, failures=failures, log=log), date=DATE)).words
    for part in (
        "12.3 ms (median of 20, one at a time, all cores)",
        "250 MB at most",
        "Your own queries, side by side",
        "my words",
        "would reach RR@10 0.5000",
        "the ceiling of any re-ranker",
        "2 are not among the 50 candidates",
        "far off2",
        "What these queries can show With 60 queries a true difference of",
        "101 to 2002",
        "Files that were left out",
        "guard The rule that selects a system",
    ):
        assert part in words, part
    assert words.index("text of a") < words.index("text of b"), "BM25 comes first"
    order = ["verified: yes", "What a query costs", "side by side", "got better, and worse",
             "Where it fails", "can show", "What to do next", "Use it", "Glossary"]  # fmt: skip
    places = [words.index(part) for part in order]
    assert places == sorted(places)


def test_the_picture_needs_three_systems(fitted: tuple[FitResult, RankedQueries]) -> None:
    two, tested = fitted  # BM25, the base model and what was selected
    assert "The dashed line is BM25" in report_page(two, tested, date=DATE)
    same = replace(two, base_system=None)
    assert "The dashed line is BM25" not in report_page(same, tested, date=DATE)


def test_what_to_do_next(fitted: tuple[FitResult, RankedQueries]) -> None:
    result, _ = fitted
    nothing = untested(result)
    first = advice(replace(nothing, more_judged_queries_needed=40), None, None)[0]
    assert first.what == "Judge 40 queries"
    assert first.command.startswith("tamis judge")
    weak = Power(60, 0.02, 0.1, 300)
    assert advice(result, weak, None)[0].what == "Judge 240 queries more for the test"
    hopeless = Power(60, 0.0001, 0.1, 100_000)
    assert not any("Judge" in step.what for step in advice(result, hopeless, None))
    deeper = Run.from_dict({"q1": {"b": 1.0}})
    failures = find_failures(QRELS, CANDIDATES, "RR@10", depth=2, deeper=deeper)
    steps = {step.what: step.command for step in advice(result, None, failures)}
    assert steps["Re-rank more candidates"].endswith("--depth 8 --force")
    assert "Give it more judgements to learn from, or a larger base model" in steps
    assert steps["Allow more time"].endswith("--max-time 2h --force")
    shown = replace(result, command="tamis demo --quick", collection="tamis:pydocs", path="d")
    commands = [step.command for step in advice(shown, None, failures)]
    assert "tamis fit tamis:pydocs -o d -m RR@10 --max-time 2h --force" in commands
    forced = replace(result, command="tamis fit x -o y --force")
    assert advice(forced, None, failures)[-1].command == "tamis fit x -o y --force --max-time 2h"
    long = replace(result, data={"truncated_documents": 9})
    assert "--passages" in next(s.command for s in advice(long, None, None) if "passages" in s.what)


def test_the_cost_of_a_query_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    tamis.fit(["a drum sieve", "a fishing net"], out=tmp_path / "s", base=None)
    cost = measure_query_cost(tmp_path / "s", ["drum", "net"], 1)
    assert cost is not None
    assert cost.milliseconds > 0
    assert cost.memory_bytes > 20_000_000
    size = sum(file.stat().st_size for file in (tmp_path / "s").rglob("*") if file.is_file())
    assert (cost.disk_bytes, cost.queries, cost.threads) == (size, 2, 1)
    assert measure_query_cost(tmp_path / "nothing", ["drum"], 1) is None


def test_advice_keeps_the_judgements_of_the_fit(fitted: tuple[FitResult, RankedQueries]) -> None:
    command = "tamis fit my.sieve -o my.sieve --qrels judged"
    result = replace(fitted[0], data={"truncated_documents": 3}, command=command)
    commands = [step.command for step in advice(result, None, None)]
    assert f"{command} --passages words:150:75 --force" in commands
    in_python = replace(result, command="tamis.fit(…, out='my.sieve')")
    assert not any("--passages" in step.command for step in advice(in_python, None, None))


def test_a_log_on_which_both_agree(fitted: tuple[FitResult, RankedQueries]) -> None:
    same = Run.from_dict({"1": {"a": 1.0}}).with_queries(Queries.of([Query("1", "words")]))
    log = compare_on_log(same, same, lambda n: Document(n, n), lambda document, query: "")
    page = Page(report_page(fitted[0], replace(fitted[1], log=log), date=DATE))
    assert "Both systems have the same first document for each." in page.words
