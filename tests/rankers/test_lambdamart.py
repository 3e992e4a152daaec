"""LambdaMART is XGBoost's ranker on our samples, searched in folds that keep queries whole."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rankers.small import embedded, small_candidates

from tamis.errors import DamagedError, InputError
from tamis.evaluation.evaluate import evaluate
from tamis.rankers.features import FeatureSource
from tamis.rankers.lambdamart import (
    DEFAULT_GRID,
    LambdaMART,
    LambdaMARTSettings,
    fold_numbers,
    grid_points,
    predict,
    sample_once,
    search_settings,
)
from tamis.rankers.samples import relevant_rows
from tamis.registry import open_stage
from tamis.testing import check_stage
from tamis.types import Qrels, Run

xgboost: Any = pytest.importorskip("xgboost", reason="the extra rankers is not installed")
SMALL = LambdaMARTSettings(max_depth=3, n_estimators=8, gamma=0.0, list_size=5, threads=1)
NAMES = {"learning_rate": 0.3, "gamma": 0.0, "max_depth": 3, "n_estimators": 8}


def test_predictions_are_those_of_xgboosts_own_ranker() -> None:
    run, qrels, documents = small_candidates(30)
    features = embedded(documents, "noisy_score")
    ranker = LambdaMART.fit(run, qrels, features, SMALL)
    relevant = relevant_rows(run, qrels)
    rows = sample_once(run, relevant, SMALL).rows
    values, query = features.of(run), np.repeat(np.arange(len(run)), run.sizes())
    peer = xgboost.XGBRanker(objective="rank:ndcg", tree_method="hist", n_jobs=1, **NAMES)
    peer.fit(values.rows(rows), relevant[rows].astype(int), qid=query[rows])
    expected = peer.predict(values.rows(np.arange(len(values))))
    assert len(np.unique(expected)) > 5
    assert np.allclose(predict(ranker.booster, values), expected, atol=1e-6)
    ranked = ranker(run)
    assert np.allclose(np.sort(ranked.score), np.sort(expected), atol=1e-6)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run, qrels, documents = small_candidates()
    ranker = LambdaMART.fit(run, qrels, embedded(documents), SMALL)
    whole = ranker(run)
    monkeypatch.setattr("tamis.rankers.lambdamart.ROWS_PER_BLOCK", 7)
    assert ranker(run) == whole


def test_a_tiny_set_is_overfitted() -> None:
    run, qrels, documents = small_candidates()
    settings = replace(SMALL, max_depth=6, n_estimators=40, list_size=None)
    trained = LambdaMART.fit(run, qrels, embedded(documents, "lexical_score"), settings)
    values = evaluate(qrels, {"before": run, "after": trained(run)}, ["nDCG@10"])
    assert values.mean("after", "nDCG@10") == pytest.approx(1.0)
    assert values.mean("before", "nDCG@10") < 0.8


def test_same_seed_same_model() -> None:
    run, qrels, documents = small_candidates(30)
    features = embedded(documents)
    one, two = (LambdaMART.fit(run, qrels, features, SMALL) for _ in range(2))
    assert one.booster.save_raw("json") == two.booster.save_raw("json")
    other = LambdaMART.fit(run, qrels, features, replace(SMALL, seed=1))
    assert one.booster.save_raw("json") != other.booster.save_raw("json")


def test_rows_of_queries_in_any_order_give_the_same_model() -> None:
    pytest.importorskip("pandas")
    run, qrels, _ = small_candidates()
    frame = run.to_pandas()
    mixed = Run.from_pandas(frame.sample(frac=1, random_state=3))
    features = FeatureSource(columns=("lexical_score", "score"))
    one, two = (LambdaMART.fit(each, qrels, features, SMALL) for each in (run, mixed))
    assert one.booster.save_raw("json") == two.booster.save_raw("json")


def test_it_is_saved_as_xgboosts_json(tmp_path: Path) -> None:
    run, qrels, _ = small_candidates()
    features = FeatureSource(columns=("score", "lexical_score"))
    ranker = LambdaMART.fit(run, qrels, features, SMALL).save(tmp_path / "trees")
    assert json.loads((tmp_path / "trees" / "model.json").read_text())["learner"]
    opened = open_stage(json.loads(json.dumps(ranker.spec())), threads=1)
    assert opened(run) == ranker(run)
    loaded = LambdaMART.load(tmp_path / "trees", features)
    assert loaded.settings == SMALL
    check_stage(ranker, run)
    (tmp_path / "trees" / "model.json").unlink()
    with pytest.raises(DamagedError, match="missing"):
        LambdaMART.load(tmp_path / "trees", features)


def test_the_grid_has_the_optimum_of_the_study() -> None:
    points = grid_points(DEFAULT_GRID, LambdaMARTSettings())
    assert LambdaMARTSettings() in points
    assert LambdaMARTSettings(15, 15, 0.3, 2.0, "gbtree") == LambdaMARTSettings()
    assert {point.booster for point in points} == {"gbtree", "dart"}
    with pytest.raises(InputError, match="no setting 'depth'"):
        grid_points({"depth": (1,)}, LambdaMARTSettings())


def test_folds_are_even_and_by_seed() -> None:
    folds = fold_numbers(13, 5, 0)
    assert sorted(Counter(folds.tolist()).values()) == [2, 2, 3, 3, 3]
    assert np.array_equal(folds, fold_numbers(13, 5, 0))
    assert not np.array_equal(folds, fold_numbers(13, 5, 1))
    with pytest.raises(InputError, match="4 queries"):
        fold_numbers(4, 5, 0)


def test_the_search_by_hand() -> None:
    """A point's value is that of a booster trained on the other folds' queries."""
    run, qrels, _ = small_candidates(15)
    features = FeatureSource(columns=("score", "noisy_score"))
    grid = {"n_estimators": (2, 8), "max_depth": (1, 3)}
    points = search_settings(run, qrels, features, grid, SMALL, num_folds=3)
    assert len(points) == 4
    assert [point.mean for point in points] == sorted((p.mean for p in points), reverse=True)
    fold_of = fold_numbers(15, 3, SMALL.seed)
    chosen = next(p for p in points if (p.settings.n_estimators, p.settings.max_depth) == (2, 3))
    assert len({value for point in points for value in point.folds}) > 6
    sample = sample_once(run, relevant_rows(run, qrels), SMALL)
    keep = np.isin(np.arange(len(run.doc)), sample.rows)
    drawn = run.rows(keep)
    whole = replace(SMALL, list_size=None, n_estimators=2, max_depth=3)
    z = FeatureSource(columns=("z0", "z1"), normalisation="none")
    columns = features.of(run).columns[keep]
    drawn = drawn.with_extra(z0=columns[:, 0], z1=columns[:, 1])
    for fold, value in enumerate(chosen.folds):
        train = drawn.select(run.queries.ids.select(np.flatnonzero(fold_of != fold)))
        held = run.queries.ids.select(np.flatnonzero(fold_of == fold))
        ranked = LambdaMART.fit(train, qrels, z, whole)(drawn.select(held))
        expected = evaluate(qrels.select(held), {"x": ranked}, ["nDCG@100"]).mean("x", "nDCG@100")
        assert value == pytest.approx(expected)


def test_dart_that_drops_trees_is_trained_for_every_number_of_trees() -> None:
    run, qrels, _ = small_candidates(15)
    features = FeatureSource(columns=("score", "noisy_score"))
    dart = replace(SMALL, booster="dart", rate_drop=0.5, n_estimators=2)
    [few] = search_settings(run, qrels, features, {"n_estimators": (2,)}, dart, num_folds=3)
    both = search_settings(run, qrels, features, {"n_estimators": (2, 30)}, dart, num_folds=3)
    assert few in both
    seen: list[float] = []
    plain = replace(dart, rate_drop=0.0)
    search_settings(
        run, qrels, features, {"booster": ("dart", "gbtree")}, plain, num_folds=3,
        on_point=lambda point: seen.append(point.mean),
    )  # fmt: skip
    assert seen[0] == seen[1]  # XGBoost's dart drops nothing by default


def test_constant_features_and_lists_of_one_kind() -> None:
    run = Run.from_dict({"a": {"x": 1.0, "y": 2.0}, "b": {"x": 1.0}, "c": {"y": 3.0}, "d": {}})
    qrels = Qrels.from_dict({"a": {"x": 1}, "b": {"x": 1}, "c": {"z": 1}})
    run = run.with_extra(one=np.ones(4))
    ranker = LambdaMART.fit(run, qrels, FeatureSource(columns=("one",)), SMALL)
    assert len(set(ranker(run).score.tolist())) == 1
    with pytest.raises(InputError, match="no candidate"):
        LambdaMART.fit(run, Qrels.from_dict({"a": {"z": 1}}), FeatureSource(columns=("one",)))


@pytest.mark.parametrize("bad", [{"max_depth": 0}, {"booster": "gblinear"}, {"n_estimators": 0}])
def test_bad_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        LambdaMARTSettings(**bad)
    assert caught.value.hint
