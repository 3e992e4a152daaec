"""Tests of significance, against scipy, by enumeration and in the cases with nothing to say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tamis.errors import InputError
from tamis.evaluation import (
    bonferroni,
    bootstrap_interval,
    compare,
    evaluate,
    fails,
    holm,
    randomisation_test,
    t_interval,
    t_test,
)
from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.measures import parse_measure
from tamis.evaluation.significance import correct
from tamis.types import Ids, Qrels, Run

some_values = st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=2, max_size=10)


def evaluation_of(**runs: list[float]) -> Evaluation:
    """An evaluation with these per-query values of AP."""
    queries = Ids.of(f"q{n:04d}" for n in range(len(next(iter(runs.values())))))
    none = {run: Ids.of([]) for run in runs}
    table = {run: np.array(values)[:, np.newaxis] for run, values in runs.items()}
    return Evaluation(queries, (parse_measure("AP"),), table, none, none)


def normal(n: int, mean: float, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(mean, 1.0, n)


@pytest.mark.parametrize("mean", [0.0, 0.2, -1.0])
def test_t_test_is_the_paired_one_of_scipy(mean: float) -> None:
    a, b = normal(40, mean, 1), normal(40, 0, 2)
    assert t_test(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=1e-12)


@given(some_values)
@settings(max_examples=40, deadline=None)
def test_small_randomisation_tests_try_every_sign(differences: list[float]) -> None:
    observed = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(one >= observed for one in sums) / len(sums)
    assert randomisation_test(differences) == pytest.approx(expected, abs=1e-12)


def test_sampled_randomisation_agrees_with_every_sign_tried() -> None:
    differences = normal(17, 0.4)
    choices = np.array(list(itertools.product((1, -1), repeat=17)))
    exact = np.mean(np.abs(choices @ differences) >= abs(differences.sum()) - 1e-12)
    sampled = randomisation_test(differences, samples=100_000, seed=3)
    assert sampled == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 100_000))
    assert sampled == randomisation_test(differences, samples=100_000, seed=3)
    assert sampled != randomisation_test(differences, samples=100_000, seed=4)


def test_sampled_randomisation_never_says_zero() -> None:
    assert randomisation_test(np.ones(60), samples=999) == 1 / 1000


def test_randomisation_agrees_with_the_t_test_on_normal_differences() -> None:
    differences = normal(300, 0.12)
    assert randomisation_test(differences) == pytest.approx(t_test(differences), abs=0.005)


def test_zero_differences_change_nothing_in_randomisation() -> None:
    assert randomisation_test([1, 0, 2, 0, 3, *[0] * 50]) == randomisation_test([1, 2, 3]) == 0.25


def test_bootstrap_interval_is_near_the_normal_one() -> None:
    differences = normal(400, 0.3)
    interval = bootstrap_interval(differences)
    assert interval is not None
    error = differences.std() / 20
    assert interval.low == pytest.approx(differences.mean() - 1.96 * error, abs=0.1 * error)
    assert interval.high == pytest.approx(differences.mean() + 1.96 * error, abs=0.1 * error)
    assert interval == bootstrap_interval(differences)


def test_t_interval_is_students() -> None:
    trials = [0.31, 0.35, 0.33, 0.30]
    interval = t_interval(trials, 0.9)
    expected = stats.t.interval(0.9, 3, np.mean(trials), stats.sem(trials))
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx(expected, abs=1e-12)
    assert t_interval([0.3]) is None
    with pytest.raises(InputError):
        t_interval(trials, 95)


def test_corrections_by_hand() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert bonferroni(p).tolist() == pytest.approx([0.04, 0.16, 0.12, 0.02])


def test_what_was_not_tested_is_not_corrected_for() -> None:
    first, second, third = correct([0.25, None, 0.5])
    assert (first.holm, first.bonferroni) == (0.5, 0.5)
    assert (second.raw, second.holm, second.bonferroni) == (None, None, None)
    assert third.bonferroni == 1


def test_nothing_to_say() -> None:
    assert t_test([0, 0, 0]) == 1
    assert t_test([0.25]) is None
    assert randomisation_test([0, 0]) == 1
    assert randomisation_test([0.25]) == 1
    assert bootstrap_interval([1]) is None


@pytest.mark.parametrize("count", [2, 3, 8, 12])
def test_equal_differences_leave_only_their_signs(count: int) -> None:
    """Two choices of signs of 2^n give as much; computed values differ in their last bits."""
    equal = np.full(count, 0.3) + np.arange(count) % 2 * 1e-16
    assert t_test(equal) == 2 / 2**count == randomisation_test(equal)
    assert bootstrap_interval(equal) is None and t_interval(equal) is None
    compared = compare(evaluation_of(a=[0.5] * count, b=[0.8] * count), "a")
    assert compared[0].t_test.raw == 2 / 2**count and compared[0].interval is None


def test_compare_counts_and_corrects_over_all_comparisons() -> None:
    base = np.linspace(0.2, 0.6, 50)
    better = base + 0.1 + 0.05 * np.sin(np.arange(50))
    evaluation = evaluation_of(
        base=base.tolist(), same=base.tolist(), better=better.tolist(), worse=(base - 0.1).tolist()
    )
    same, up, down = compare(evaluation, "base")
    assert (same.run, same.difference, same.t_test.raw, same.ties) == ("same", 0, 1, 50)
    assert (same.randomisation.raw, same.verdict()) == (1, 0)
    assert (up.wins, up.ties, up.losses, up.queries, up.tests) == (50, 0, 0, 50, 3)
    assert up.difference == pytest.approx(np.mean(better - base))
    assert up.interval is not None
    assert up.interval.low < up.difference < up.interval.high
    assert up.randomisation.raw == pytest.approx(1 / 100_001)
    assert up.randomisation.bonferroni == pytest.approx(3 / 100_001)
    assert [c.verdict() for c in (same, up, down)] == [0, 1, -1]
    assert fails([same, up, down], 0.05) == [down]
    assert compare(evaluation, "base", seed=0) == [same, up, down]


def test_one_query_is_no_evidence() -> None:
    (comparison,) = compare(evaluation_of(base=[0.5], other=[0.2]), "base")
    assert comparison.t_test.raw is None
    assert comparison.interval is None
    assert comparison.randomisation.raw == 1
    assert (comparison.verdict(), comparison.losses) == (0, 1)


def test_noise_of_arithmetic_is_a_tie() -> None:
    (comparison,) = compare(evaluation_of(base=[0.3, 0.7], other=[0.1 + 0.2, 0.7]), "base")
    assert (comparison.ties, comparison.t_test.raw, comparison.difference) == (2, 1, 0)


def test_counts_are_not_compared() -> None:
    qrels = Qrels.from_dict({"q": {"d": 1}})
    runs = {name: Run.from_dict({"q": {"d": 1.0}}) for name in ("a", "b")}
    evaluation = evaluate(qrels, runs, ["NumRet", "AP", "Judged@10"])
    assert [str(c.measure) for c in compare(evaluation, "a")] == ["AP"]


def test_the_baseline_must_be_a_run() -> None:
    qrels, run = Qrels.from_dict({"q": {"d": 1}}), Run.from_dict({"q": {"d": 1.0}})
    evaluation = evaluate(qrels, {"bm25": run}, ["AP"])
    assert compare(evaluation, "bm25") == []
    with pytest.raises(InputError, match="no run 'other'"):
        compare(evaluation, "other")
