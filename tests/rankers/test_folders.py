"""Folders of rankers whose manifest was damaged or written by another tamis, and bad settings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.rankers.small import embedded, small_candidates

from tamis.errors import DamagedError, InputError, TrainingError
from tamis.rankers.features import FeatureSource
from tamis.rankers.lambdamart import LambdaMART, LambdaMARTSettings, grid_points
from tamis.rankers.logistic_regression import LogisticRegression, LogisticRegressionSettings
from tamis.rankers.neural_ranker import NeuralRanker, NeuralRankerSettings
from tamis.rankers.pacrr_drmm import PACRRDRMMSettings

SMALL: dict[Any, Any] = {
    LogisticRegression: LogisticRegressionSettings(epochs=2),
    LambdaMART: LambdaMARTSettings(max_depth=2, n_estimators=2),
    NeuralRanker: NeuralRankerSettings(epochs=1, heads=2, feed_forward=8, scorer_size=4),
}
NEEDS = {LambdaMART: "xgboost", NeuralRanker: "torch"}


def without_settings(facts: dict[str, Any]) -> None:
    del facts["settings"]


def with_a_newer_setting(facts: dict[str, Any]) -> None:
    facts["settings"]["foo"] = 1


def without_features(facts: dict[str, Any]) -> None:
    del facts["features"]


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("damage", [without_settings, with_a_newer_setting, without_features])
def test_a_damaged_manifest_is_our_own_error(
    kind: Any, damage: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind], reason="not installed")
    run, qrels, documents = small_candidates(4, 5)
    features = embedded(documents)
    kind.fit(run, qrels, features, SMALL[kind]).save(tmp_path / "ranker")
    path = tmp_path / "ranker" / "tamis.json"
    facts = json.loads(path.read_text())
    damage(facts)
    path.write_text(json.dumps(facts))
    with pytest.raises(DamagedError) as caught:
        kind.load(tmp_path / "ranker", features)
    assert "tamis.json" in str(caught.value) and "train" in caught.value.hint


BAD: list[tuple[Any, dict[str, Any]]] = [
    (LambdaMARTSettings, {"gamma": -1.0}),
    (LambdaMARTSettings, {"rate_drop": 3.0}),
    (NeuralRankerSettings, {"transformer_dropout": 2.0}),
    (NeuralRankerSettings, {"weight_decay": -1.0}),
    (NeuralRankerSettings, {"scorer_size": 0}),
    (NeuralRankerSettings, {"feed_forward": 0}),
    (NeuralRankerSettings, {"transformer_layers": -1}),
    (LogisticRegressionSettings, {"seed": -1}),
    (PACRRDRMMSettings, {"seed": -1}),
]


@pytest.mark.parametrize(("settings", "bad"), BAD)
def test_bad_settings_are_refused_before_training(settings: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        settings(**bad)
    assert caught.value.hint


def test_a_grid_without_values_is_refused() -> None:
    with pytest.raises(InputError, match="no value for gamma"):
        grid_points({"gamma": ()}, LambdaMARTSettings())


def test_columns_too_large_end_in_an_error() -> None:
    run, qrels, _ = small_candidates(4, 5)
    run = run.with_extra(huge=run.score.astype("float64") * 1e30)
    features = FeatureSource(columns=("huge",), normalisation="none")
    with pytest.raises(TrainingError, match="no number any more") as caught:
        LogisticRegression.fit(run, qrels, features, LogisticRegressionSettings(epochs=5))
    assert "normalised" in caught.value.hint


def test_documents_that_can_be_read_once_are_refused() -> None:
    _, _, documents = small_candidates(2, 3)
    with pytest.raises(InputError, match="only once"):
        FeatureSource(embedded(documents).embedder, iter(documents.values()))
