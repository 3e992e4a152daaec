"""The heading of an evaluation's report, and the names of its runs."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.evaluation.evaluate import evaluate
from tamis.evaluation.report_finding import finding
from tamis.evaluation.report_subject import Subject
from tamis.evaluation.run_names import names_of_files, rename_runs
from tamis.evaluation.significance import compare
from tamis.types import Qrels, Run

QUERIES = [f"q{number}" for number in range(30)]
QRELS = Qrels.from_dict({query: {"right": 1} for query in QUERIES})


def run_with_ranks(ranks: list[int]) -> Run:
    """A run that has the relevant document at these ranks."""
    found = {}
    for query, rank in zip(QUERIES, ranks, strict=True):
        docs = [f"w{number}" for number in range(10)]
        docs.insert(rank - 1, "right")
        found[query] = {doc: float(-at) for at, doc in enumerate(docs)}
    return Run.from_dict(found)


def sentence(runs: dict[str, Run], baseline: str | None = None, measure: str = "RR@10") -> str:
    evaluation = evaluate(QRELS, runs, [measure])
    comparisons = compare(evaluation, baseline, samples=500, resamples=200) if baseline else []
    return finding(Subject(evaluation, comparisons, QRELS, runs, [""] * 30, baseline, 0.05))


FIRST = run_with_ranks([1] * 30)
SECOND = run_with_ranks([2] * 29 + [1])
MIXED = run_with_ranks([2, 1] * 15)
OTHER = run_with_ranks([1, 2] * 15)


@pytest.mark.parametrize(
    ("runs", "baseline", "words"),
    [
        ({"a": FIRST}, None, "a has a mean RR@10 of 1.000 on 30 queries"),
        ({"a": FIRST, "b": SECOND}, "b", "a is better than b by RR@10: +0.483, p < "),
        ({"a": FIRST, "b": SECOND}, "a", "b is worse than a by RR@10: -0.483, p < "),
        ({"a": MIXED, "b": OTHER}, "b", "No significant difference between a and b by RR@10: "),
        ({"a": MIXED, "b": MIXED}, "b", "a and b have the same RR@10 on each of 30 queries"),
        (
            {"a": FIRST, "b": SECOND},
            None,
            "a has a higher mean RR@10 than b, 1.000 against 0.517, on 30 queries; "
            "no difference was tested",
        ),
        (
            {"a": FIRST, "b": FIRST},
            None,
            "a and b have the same RR@10 on each of 30 queries",
        ),
        (
            {"a": MIXED, "b": OTHER},
            None,
            "a and b have the same mean RR@10, 0.750, on 30 queries; no difference was tested",
        ),
        (
            {"a": FIRST, "b": FIRST, "c": FIRST},
            "a",
            "All 3 runs have the same RR@10 on each of 30 queries",
        ),
        (
            {"a": FIRST, "b": SECOND, "c": MIXED},
            None,
            "a has the highest mean RR@10 of 3 runs, 1.000, on 30 queries; "
            "no difference was tested",
        ),
        (
            {"a": FIRST, "b": SECOND, "c": MIXED},
            "a",
            "None of 2 runs has a higher mean RR@10 than a on 30 queries; "
            "2 are significantly worse",
        ),
        (
            {"a": FIRST, "b": SECOND, "c": MIXED},
            "b",
            "a has the highest mean RR@10 of 3 runs and is better than b: +0.483, p < ",
        ),
        (
            {"a": FIRST, "b": SECOND, "c": FIRST},
            "b",
            "a shares the highest mean RR@10 of 3 runs and is better than b: +0.483, p < ",
        ),
    ],
)
def test_the_finding_says_what_was_shown(
    runs: dict[str, Run], baseline: str | None, words: str
) -> None:
    said = sentence(runs, baseline).replace("−", "-")
    assert said.startswith(words)
    assert said.endswith("queries") or not words.endswith("queries")


def test_the_best_run_may_not_be_better_than_the_baseline() -> None:
    ranks = [1] * 16 + [2] * 14
    runs = {"a": run_with_ranks(ranks), "b": MIXED, "c": SECOND}
    words = "a has the highest mean RR@10 of 3 runs, but is not significantly better than b: +0.017"
    assert sentence(runs, "b").startswith(words)


def test_one_query_cannot_be_tested() -> None:
    qrels = Qrels.from_dict({"q0": {"right": 1}})
    runs = {"a": Run.from_dict({"q0": {"right": 1.0}}), "b": Run.from_dict({"q0": {"x": 1.0}})}
    evaluation = evaluate(qrels, runs, ["RR@10"])
    comparisons = compare(evaluation, "b", samples=50, resamples=50)
    words = finding(Subject(evaluation, comparisons, qrels, runs, [""], "b", 0.05))
    assert words == "a and b were compared on 1 query, too few to test a difference"


def test_a_count_is_no_better_or_worse() -> None:
    words = sentence({"a": FIRST, "b": SECOND}, "b", "NumRet")
    assert words == "NumRet on 30 queries: a 330 and b 330"


def test_renamed_runs_keep_their_values() -> None:
    runs = {"x.trec": FIRST, "y.trec": SECOND}
    evaluation = evaluate(QRELS, runs, ["RR@10"])
    comparisons = compare(evaluation, "y.trec", samples=50, resamples=50)
    shown, shown_comparisons = rename_runs(evaluation, comparisons, {"x.trec": "x", "y.trec": "y"})
    assert list(shown.per_query) == ["x", "y"]
    np.testing.assert_array_equal(shown.values("x", "RR@10"), evaluation.values("x.trec", "RR@10"))
    assert [(one.run, one.baseline) for one in shown_comparisons] == [("x", "y")]
    assert shown_comparisons[0].difference == comparisons[0].difference


def test_names_of_files_are_distinct() -> None:
    assert names_of_files(["a/x.trec"], ["x"]) == ["x.trec"]
    assert names_of_files(["a/x.trec", "a/b/x.trec"]) == ["x (a)", "x (b)"]
    assert len(set(names_of_files(["a/x.trec", "b/a/x.trec", "x", "x.gz", "-"]))) == 5
