"""Gradient descent by hand, and scikit-learn's answer where it has converged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rankers.small import embedded, open_fake, small_candidates

from tamis.errors import DamagedError, InputError
from tamis.rankers.features import Features, FeatureSource
from tamis.rankers.logistic_regression import (
    LogisticRegression,
    LogisticRegressionSettings,
    cross_entropy,
    descend,
    fit_learning_rates,
    gradient,
    linear_scores,
    row_batches,
    sigmoid,
)
from tamis.rankers.sampling import Sample, relevant_rows, sample_negatives
from tamis.registry import open_stage
from tamis.testing import check_stage
from tamis.types import Qrels, Run

SHORT = LogisticRegressionSettings(epochs=20, batch_size=16, list_size=5)


def test_the_gradient_by_hand() -> None:
    features = np.array([[1.0, 2.0], [3.0, -1.0]])
    weights, bias, labels = np.array([0.5, -0.25]), 0.1, np.array([1.0, 0.0])
    logits = [0.5 - 0.5 + 0.1, 1.5 + 0.25 + 0.1]
    p = [1 / (1 + np.exp(-z)) for z in logits]
    by_weights, by_bias, loss = gradient(features, labels, weights, bias)
    assert np.allclose(by_weights, [1 * (p[0] - 1) + 3 * p[1], 2 * (p[0] - 1) - 1 * p[1]])
    assert by_bias == pytest.approx(p[0] - 1 + p[1])
    assert loss == pytest.approx(-np.log(p[0]) - np.log(1 - p[1]))


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(30, 4)), rng.integers(0, 2, 30).astype(float)
    weights, small = rng.normal(size=4), 1e-6
    by_weights, by_bias, _ = gradient(features, labels, weights, 0.3)
    for place in range(4):
        step = np.eye(4)[place] * small
        above = gradient(features, labels, weights + step, 0.3)[2]
        below = gradient(features, labels, weights - step, 0.3)[2]
        assert by_weights[place] == pytest.approx((above - below) / (2 * small), rel=1e-5)
    above, below = (gradient(features, labels, weights, 0.3 + s)[2] for s in (small, -small))
    assert by_bias == pytest.approx((above - below) / (2 * small), rel=1e-5)


def test_two_batches_by_hand() -> None:
    """Three rows in batches of two: the last has one row, and steps are over the batch's rows."""
    nothing, zeros = np.zeros((1, 0), np.float32), np.zeros(3, np.int64)
    columns = np.array([[1.0], [2.0], [4.0]], np.float32)
    features = Features(nothing, nothing, zeros, zeros, columns)
    batches = row_batches(features, np.arange(3), np.array([1.0, 0.0, 1.0]), 2)
    weights, bias, loss = descend(batches, np.zeros(1), 0.0, 3.0)
    first = -3 / 2 * (1 * (0.5 - 1) + 2 * 0.5)  # -0.75
    p = 1 / (1 + np.exp(-4 * first))
    assert weights[0] == pytest.approx(first - 3 * 4 * (p - 1))
    assert bias == pytest.approx(0 - 3 * (p - 1))
    assert loss == pytest.approx((2 * np.log(2) - np.log(p)) / 3)


def test_large_logits_have_finite_losses() -> None:
    logits = np.array([1000.0, -1000.0, 1000.0])
    assert cross_entropy(logits, np.array([0.0, 1.0, 1.0])).tolist() == [1000, 1000, 0]
    assert sigmoid(logits).tolist() == [1, 0, 1]


def test_the_converged_answer_is_that_of_scikit_learn() -> None:
    linear: Any = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(1)
    scores = {f"q{n:02d}": {f"d{m}": float(rng.normal()) for m in range(10)} for n in range(20)}
    run = Run.from_dict(scores)
    run = run.with_extra(**{f"x{n}": rng.normal(size=len(run.doc)) for n in range(3)})
    chance = sigmoid(1.5 * run.extra["x0"] - run.extra["x1"] - 0.5)
    label = rng.random(len(run.doc)) < chance
    query = np.repeat(np.arange(len(run)), run.sizes())
    qrels = Qrels.of_rows(
        run.queries.ids, run.docs, query.astype(np.int32), run.doc, label.astype(np.int32)
    )
    features = FeatureSource(columns=("x0", "x1", "x2"), normalisation="none")
    settings = LogisticRegressionSettings(1.0, 3000, len(run.doc), None)
    ranker = LogisticRegression.fit(run, qrels, features, settings)
    rows = features.of(run).rows(np.arange(len(run.doc))).astype(np.float64)
    peer = linear.LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(rows, label)
    assert np.allclose(ranker.weights, peer.coef_[0], atol=1e-4)
    assert ranker.bias == pytest.approx(peer.intercept_[0], abs=1e-4)
    assert np.allclose(ranker.probabilities(run), peer.predict_proba(rows)[:, 1], atol=1e-5)
    assert np.array_equal(ranker.classify(run), peer.predict(rows))
    optimum = -np.mean(np.log(np.where(label, *peer.predict_proba(rows).T[::-1])))
    assert ranker.losses[-1] == pytest.approx(optimum, abs=1e-6)


def test_scores_by_query_and_passage_are_those_of_whole_rows() -> None:
    run, _, documents = small_candidates()
    features = embedded(documents, "lexical_score").of(run)
    weights = np.random.default_rng(0).normal(size=features.width)
    whole = features.rows(np.arange(len(features))) @ weights + 0.5
    assert np.allclose(linear_scores(features, weights, 0.5), whole, atol=1e-6)


def test_a_tiny_set_is_overfitted() -> None:
    run, qrels, documents = small_candidates()
    settings = LogisticRegressionSettings(epochs=300, batch_size=64)
    ranker = LogisticRegression.fit(run, qrels, embedded(documents, "lexical_score"), settings)
    assert ranker.losses[-1] < 0.15
    assert np.array_equal(ranker.classify(run), relevant_rows(run, qrels))


def test_embeddings_alone_cannot_rank_what_only_their_agreement_shows() -> None:
    """The weighted sum of two embeddings orders passages alike for every query."""
    run, qrels, documents = small_candidates()
    ranker = LogisticRegression.fit(run, qrels, embedded(documents), SHORT)
    features = ranker.features.of(run)
    dimension = features.dimension
    by_passage = features.passages @ ranker.weights[dimension : 2 * dimension]
    for number in range(len(run)):
        rows = slice(int(run.offsets[number]), int(run.offsets[number + 1]))
        order = np.argsort(ranker.logits(run)[rows])
        ordered = by_passage[features.passage[rows]][order]
        assert (np.diff(ordered) >= -1e-6).all()


def test_seeds_and_learning_rates() -> None:
    run, qrels, documents = small_candidates()
    features = embedded(documents)
    one, two = (LogisticRegression.fit(run, qrels, features, SHORT) for _ in range(2))
    assert np.array_equal(one.weights, two.weights)
    assert one.losses == two.losses
    other = LogisticRegression.fit(run, qrels, features, replace(SHORT, seed=1))
    assert not np.array_equal(one.weights, other.weights)
    rates = fit_learning_rates(run, qrels, features, (0.1, 1.0), SHORT)
    assert rates[1.0].losses == one.losses
    assert rates[0.1].losses[-1] > rates[1.0].losses[-1]
    epochs: list[tuple[int, float]] = []
    LogisticRegression.fit(run, qrels, features, SHORT, on_epoch=lambda *e: epochs.append(e))
    assert epochs == list(enumerate(one.losses))


def test_negatives_are_drawn_anew_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    run, qrels, documents = small_candidates()
    drawn: list[list[int]] = []

    def sample(*arguments: Any) -> Sample:
        result = sample_negatives(*arguments)
        drawn.append(result.rows.tolist())
        return result

    monkeypatch.setattr("tamis.rankers.logistic_regression.sample_negatives", sample)
    settings = LogisticRegressionSettings(epochs=3, list_size=4)
    LogisticRegression.fit(run, qrels, embedded(documents), settings)
    assert len({*map(tuple, drawn)}) == 3


def test_it_is_saved_and_opened(tmp_path: Path) -> None:
    run, qrels, documents = small_candidates()
    ranker = LogisticRegression.fit(run, qrels, embedded(documents, "lexical_score"), SHORT)
    check_stage(ranker, run)
    assert ranker.spec()["stage"] == "python"
    saved = ranker.save(tmp_path / "lr")
    loaded = LogisticRegression.load(tmp_path / "lr", ranker.features)
    assert loaded(run) == ranker(run) == saved(run)
    assert (loaded.settings, loaded.losses) == (ranker.settings, ranker.losses)
    with pytest.raises(InputError, match="columns"):
        LogisticRegression.load(tmp_path / "lr", embedded(documents))
    weights = np.load(tmp_path / "lr" / "weights.npy")
    np.save(tmp_path / "lr" / "weights.npy", weights + 1)
    with pytest.raises(DamagedError, match=r"weights\.npy"):
        LogisticRegression.load(tmp_path / "lr", ranker.features)


def test_its_spec_opens_it(tmp_path: Path) -> None:
    run, qrels, _ = small_candidates()
    features = FeatureSource(columns=("score", "lexical_score"))
    ranker = LogisticRegression.fit(run, qrels, features, SHORT).save(tmp_path / "lr")
    opened = open_stage(json.loads(json.dumps(ranker.spec())))
    assert opened(run) == ranker(run)
    assert opened.spec() == ranker.spec()
    check_stage(ranker, run, {"text_embedder": {"fake": open_fake}})


def test_one_query_alone_scores_as_among_others() -> None:
    run, qrels, documents = small_candidates()
    ranker = LogisticRegression.fit(run, qrels, embedded(documents, "score"), SHORT)
    ranked = ranker(run)
    for query in run:
        alone = ranker(
            run.select(run.queries.ids.select(np.array([run.queries.ids.number(query)])))
        )
        assert alone[query].ids == ranked[query].ids
        assert np.allclose(alone[query].score, ranked[query].score, atol=1e-6)


@pytest.mark.parametrize("judged", [{"x": 0}, {"x": 1, "y": 1}])
def test_nothing_to_learn_from(judged: dict[str, int]) -> None:
    run = Run.from_dict({"a": {"x": 1.0, "y": 2.0}})
    with pytest.raises(InputError):
        LogisticRegression.fit(
            run, Qrels.from_dict({"a": judged}), FeatureSource(columns=("score",))
        )


def test_lists_without_relevant_or_without_others_are_learnt_from() -> None:
    run = Run.from_dict({"a": {"x": 1.0, "y": 2.0}, "b": {"x": 1.0}, "c": {"y": 3.0}, "d": {}})
    qrels = Qrels.from_dict({"b": {"x": 1}, "c": {"z": 1}})
    ranker = LogisticRegression.fit(run, qrels, FeatureSource(columns=("score",)), SHORT)
    assert np.isfinite(ranker.weights).all()
    assert ranker(run).sizes().tolist() == [2, 1, 1, 0]


@pytest.mark.parametrize("bad", [{"learning_rate": 0.0}, {"epochs": 0}, {"batch_size": 0}])
def test_bad_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        LogisticRegressionSettings(**bad)
