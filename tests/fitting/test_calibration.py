"""Calibration: against scikit-learn, thresholds and bins by hand, and data with little to say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.fitting.calibration import (
    Answers,
    Bin,
    Calibration,
    best_threshold,
    calibration_error,
    logistic,
    reliability,
)
from tamis.fitting.json_records import from_json, to_json

Values = NDArray[np.float64]


def judged(queries: int, depth: int = 5, seed: int = 0) -> tuple[Values, Any, Any]:
    """Rows of queries in the order of their first feature, which tells relevance."""
    generator = np.random.default_rng(seed)
    score = -np.sort(-generator.normal(0, 2, (queries, depth)), axis=1)
    truth = 1 / (1 + np.exp(-(1.5 * score - 2)))
    relevant = (generator.random(score.shape) < truth).ravel()
    rows = np.column_stack([score.ravel(), generator.normal(5, 3, score.size)])
    return rows, relevant, np.repeat(np.arange(queries), depth)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
def test_weights_are_those_of_scikit_learn(penalty: float) -> None:
    linear: Any = pytest.importorskip("sklearn.linear_model")
    rows, relevant, queries = judged(60)
    mine = Calibration.fit(rows, relevant, queries, penalty=penalty)
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    theirs = linear.LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=1000)
    theirs.fit(standard, relevant)
    assert mine.weights == pytest.approx(theirs.coef_[0], abs=1e-5)
    assert mine.bias == pytest.approx(theirs.intercept_[0], abs=1e-5)
    within = np.clip(theirs.predict_proba(standard)[:, 1], *mine.bounds)
    assert mine.probability(rows) == pytest.approx(within, abs=1e-6)


def test_no_probability_is_surer_than_what_was_judged() -> None:
    rows = np.repeat([[9.0], [1.0]], [12, 40], axis=0)  # separable: 12 relevant, 40 others
    found = Calibration.fit(rows, rows[:, 0] > 5, np.arange(52) % 12)
    low, high = found.probability([[-1e6], [1e6]])
    assert low == 1 / (40 + 2) and high == (12 + 1) / (12 + 2)


def test_no_feature_counts_against_a_document() -> None:
    rows, relevant, queries = judged(40)
    rows[:, 1] = np.where(relevant, -1.0, 1.0) + rows[:, 1] / 10  # an exact match is not relevant
    found = Calibration.fit(rows, relevant, queries)
    assert found.weights[0] > 0 and found.weights[1] == 0
    alone = Calibration.fit(rows[:, :1], relevant, queries)
    assert found.weights[0] == pytest.approx(alone.weights[0])


def test_the_gradient_is_zero_where_newton_stops() -> None:
    rows, relevant, _ = judged(30, seed=4)
    weights, bias = logistic(rows, relevant, 0.5)
    off = 1 / (1 + np.exp(-(rows @ weights + bias))) - relevant
    assert off.sum() == pytest.approx(0, abs=1e-8)
    assert rows.T @ off + 0.5 * weights == pytest.approx([0, 0], abs=1e-7)


def test_probabilities_are_true_of_other_queries() -> None:
    mine = Calibration.fit(*judged(400), names=("model", "bm25"))
    rows, relevant, queries = judged(400, seed=1)
    bins = reliability(mine.probability(rows), relevant)
    assert calibration_error(bins) < 0.03
    found = mine.answers(rows, relevant, queries)
    firsts = np.arange(0, len(rows), 5)
    answered = mine.probability(rows[firsts]) >= mine.threshold
    assert found.precision == relevant[firsts][answered].mean()
    assert found.recall == answered[relevant[firsts]].mean()
    assert (found.queries, found.answerable) == (400, relevant[firsts].sum())
    assert found.precision is not None and found.precision > found.answerable / 400
    assert sum(each.count for each in found.reliability) == 400
    assert found.error == calibration_error(found.reliability)


def test_separable_data_stays_finite() -> None:
    rows = np.array([[1e6]] * 10 + [[-1e6]] * 10)
    mine = Calibration.fit(rows, [True] * 10 + [False] * 10, np.arange(20))
    assert np.isfinite(mine.weights).all()
    assert 0.5 < mine.probability([[1e6]])[0] < 1
    assert mine.threshold == pytest.approx(0.5)


def test_a_score_that_tells_against_documents_gets_no_weight() -> None:
    rows, relevant, queries = judged(60)
    rows[:, 0] *= -1
    rows[:, 1] += 2 * relevant
    mine = Calibration.fit(rows, relevant, queries)
    alone = Calibration.fit(rows[:, 1:], relevant, queries)
    assert mine.weights[0] == 0.0
    assert mine.weights[1:] == pytest.approx(alone.weights)
    assert mine.bias == pytest.approx(alone.bias)


def test_with_nothing_but_such_a_score_the_probability_is_the_share() -> None:
    rows, relevant, queries = judged(60)
    mine = Calibration.fit(-rows[:, :1], relevant, queries)
    assert mine.probability([[9.0], [-9.0]]) == pytest.approx([relevant.mean()] * 2)


def test_a_feature_without_spread_is_harmless() -> None:
    rows, relevant, queries = judged(60)
    rows[:, 1] = 7.0
    mine = Calibration.fit(rows, relevant, queries)
    assert mine.weights[1] == pytest.approx(0)
    assert mine.weights[0] == pytest.approx(
        Calibration.fit(rows[:, :1], relevant, queries).weights[0]
    )


@given(st.integers(0, 10_000), st.integers(10, 25), st.floats(0.01, 100))
@settings(max_examples=40, deadline=None)
def test_more_score_is_never_less_probable(seed: int, positives: int, penalty: float) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(0, 10.0 ** generator.integers(-3, 4), (40, 3))
    relevant = generator.permutation(40) < positives
    mine = Calibration.fit(rows, relevant, np.arange(40) // 4, penalty=penalty)
    low, high = mine.probability([[-1.0, 0.5, 0.5], [2.0, 0.5, 0.5]])
    assert low <= high
    assert np.isfinite([*mine.weights, mine.bias]).all()
    again = from_json(Calibration, json.loads(json.dumps(to_json(mine))))
    assert again == mine


def test_a_threshold_looks_at_the_first_row_of_a_query_only() -> None:
    rows = [[9.0], [8.0], [1.0], [9.5], [7.0], [2.0]] * 10
    relevant = [True, False, False, True, True, False] * 10
    queries = np.repeat(np.arange(30), 2)  # tops 9 (good), 1 (not), 7 (good)
    mine = Calibration.fit(rows, relevant, queries)
    seven, one = mine.probability([[7.0], [1.0]])
    assert mine.threshold == pytest.approx((seven + one) / 2)
    found = mine.answers(rows, relevant, queries)
    assert (found.answerable, found.answered, found.right) == (20, 20, 20)
    assert found.precision == 1.0
    assert from_json(Answers, json.loads(json.dumps(to_json(found)))) == found


@pytest.mark.parametrize(
    ("p", "good", "expected"),
    [
        ([0.9, 0.8, 0.4, 0.2], [1, 1, 0, 0], 0.6),  # F1 1
        ([0.9, 0.8, 0.4, 0.2], [1, 0, 1, 0], 0.3),  # F1 4/5 against 2/3
        ([0.9, 0.2], [0, 1], 0.0),  # F1 2/3: all answered
        ([0.4, 0.6], [0, 0], 1.0),  # nothing answers
        ([0.5, 0.5, 0.1], [1, 0, 0], 0.3),  # equals are not torn apart
        ([0.9, 0.5, 0.4, 0.3], [1, 0, 0, 1], 0.7),  # 2/3 twice: the higher of equals
        ([0.6, 0.0], [0, 1], 0.0),
    ],
)
def test_best_threshold_by_hand(p: list[float], good: list[int], expected: float) -> None:
    assert best_threshold(p, np.array(good, bool)) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_has_a_higher_f1(rows: list[tuple[int, bool]]) -> None:
    p, good = np.array([n / 9 for n, _ in rows]), np.array([flag for _, flag in rows])

    def f1(threshold: float) -> float:
        answered = p >= threshold
        return float(2 * (answered & good).sum() / max(1, answered.sum() + good.sum()))

    assert f1(best_threshold(p, good)) == max(f1(each) for each in [*p.tolist(), 2.0])


def test_reliability_by_hand() -> None:
    bins = reliability([0.0, 0.05, 0.55, 1.0], [False, True, True, True])
    assert bins == (Bin(0.025, 0.5, 2), Bin(0.55, 1.0, 1), Bin(1.0, 1.0, 1))
    assert calibration_error(bins) == pytest.approx((2 * 0.475 + 0.45 + 0) / 4)
    assert [each.count for each in reliability([0.95, 1.0], [True, True])] == [2]


def test_nothing_answered_and_nothing_answerable() -> None:
    mine = Calibration.fit(*judged(60))
    found = mine.answers([[-50.0, 5.0]], [False], ["q"])
    assert (found.answered, found.precision, found.recall) == (0, None, None)


@pytest.mark.parametrize(("positives", "negatives"), [(9, 50), (50, 0), (0, 5)])
def test_too_few_judgements_are_refused(positives: int, negatives: int) -> None:
    count = positives + negatives
    with pytest.raises(InputError, match=f"{positives} relevant .* {negatives} others") as caught:
        Calibration.fit(
            np.arange(count)[:, np.newaxis], np.arange(count) < positives, np.arange(count)
        )
    assert "judge more" in caught.value.hint


def test_bad_rows_are_refused() -> None:
    rows, relevant, queries = judged(60)
    mine = Calibration.fit(rows, relevant, queries)
    broken = rows.copy()
    broken[3, 0] = np.nan
    for given_rows, labels, problem in (
        (broken, relevant, "no number"),
        (rows, relevant[1:], "299 labels"),
        (rows[:, 0], relevant, "features of shape"),
    ):
        with pytest.raises(InputError, match=problem):
            Calibration.fit(given_rows, labels, queries)
    with pytest.raises(InputError, match="1 features where 2"):
        mine.probability(rows[:, :1])
    with pytest.raises(InputError, match="penalty of 0"):
        Calibration.fit(rows, relevant, queries, penalty=0)
    with pytest.raises(InputError, match="1 names for 2"):
        Calibration.fit(rows, relevant, queries, names=["one"])
