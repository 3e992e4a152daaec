"""LambdaMART: boosted trees that optimise nDCG, by XGBoost.

Negatives are sampled once: XGBoost bins its training data before the first tree. The search over
settings compares them by nDCG@100 on held-out queries, in five folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.evaluation.evaluate import evaluate
from tamis.rankers._folder import ranker_spec, read_ranker, rescored, save_ranker
from tamis.rankers.features import Features, FeatureSource, Floats, check_trained_for, open_features
from tamis.rankers.sampling import Sample, check_trainable, relevant_rows, sample_negatives
from tamis.registry import Opening, check_keys
from tamis.types import Qrels, Run, Spec, Stage

KIND = "lambdamart"
MODEL_FILE = "model.json"
ROWS_PER_BLOCK = 1 << 14
MEASURE = "nDCG@100"
Booster = Any


@dataclass(frozen=True)
class LambdaMARTSettings:
    """XGBoost's settings by their own names; `n_estimators` is the number of trees.

    `gamma`, `max_depth` and `n_estimators` are the optimum of the study that is rebuilt here, the
    learning rate is XGBoost's default. `list_size` is |P|, None for all candidates. `rate_drop` is
    the share of trees that dart drops; at XGBoost's default of 0 dart gives the trees of gbtree.
    """

    max_depth: int = 15
    n_estimators: int = 15
    learning_rate: float = 0.3
    gamma: float = 2.0
    booster: Literal["gbtree", "dart"] = "gbtree"
    rate_drop: float = 0.0
    list_size: int | None = 20
    seed: int = 0
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.max_depth < 1 or self.n_estimators < 1 or not self.learning_rate > 0:
            raise InputError(
                "depth, trees and learning rate are above 0",
                hint="try max_depth=15, n_estimators=15, learning_rate=0.3",
            )
        if self.booster not in ("gbtree", "dart"):
            raise InputError(f"there is no booster {self.booster!r}", hint="say gbtree or dart")

    def parameters(self) -> dict[str, Any]:
        """What XGBoost is told."""
        dropping = {"rate_drop": self.rate_drop} if self.booster == "dart" else {}
        threads = {} if self.threads is None else {"nthread": self.threads}
        return {
            "objective": "rank:ndcg",
            "booster": self.booster,
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "gamma": self.gamma,
            "seed": self.seed,
            "verbosity": 0,
            **dropping,
            **threads,
        }


Grid = Mapping[str, Sequence[Any]]
DEFAULT_GRID: Grid = MappingProxyType(
    {
        "max_depth": (5, 15),
        "n_estimators": (5, 15, 30),
        "learning_rate": (0.1, 0.3),
        "gamma": (0.0, 2.0),
        "booster": ("gbtree", "dart"),
    }
)
"""What is searched: it contains depth 15, 15 trees and gamma 2."""


@dataclass(frozen=True)
class GridPoint:
    """Settings that were tried, and their nDCG@100 on the held-out queries of each fold."""

    settings: LambdaMARTSettings
    folds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over folds, by which settings are selected."""
        return float(np.mean(self.folds))


@dataclass(frozen=True, eq=False)
class LambdaMART(Stage):
    """Ranks by the sum of the trees' values."""

    booster: Booster
    features: FeatureSource
    settings: LambdaMARTSettings = LambdaMARTSettings()
    path: Path | None = None

    @classmethod
    def fit(
        cls,
        run: Run,
        qrels: Qrels,
        features: FeatureSource,
        settings: LambdaMARTSettings | None = None,
    ) -> LambdaMART:
        """Train on a run's candidates, of which negatives are sampled once."""
        settings = settings or LambdaMARTSettings()
        relevant = relevant_rows(run, qrels)
        check_trainable(run, relevant)
        sample = sample_once(run, relevant, settings)
        matrix = ranking_matrix(features.of(run), sample, relevant, settings)
        return cls(train_booster(matrix, settings), features, settings)

    def __call__(self, run: Run) -> Run:
        return rescored(run, predict(self.booster, self.features.of(run)))

    def spec(self) -> Spec:
        """See `Stage.spec`; a ranker can be opened again once it is saved."""
        return ranker_spec(self, KIND, self.path, self.features)

    def save(self, folder: Path | str, *, force: bool = False) -> LambdaMART:
        """Write the ranker's folder, the trees as XGBoost's JSON; the ranker that lies there."""
        path = save_ranker(
            folder, KIND, force,
            lambda place: self.booster.save_model(place / MODEL_FILE),
            settings=asdict(self.settings), features=self.features.to_json(),
        )  # fmt: skip
        return replace(self, path=path)

    @classmethod
    def load(
        cls, folder: Path | str, features: FeatureSource, *, threads: int | None = None
    ) -> LambdaMART:
        """Open a folder that `save` wrote, with the features that it was trained with."""
        path = Path(folder)
        facts = read_ranker(path, KIND)
        check_trained_for(features, facts["features"], path)
        booster = require("xgboost").Booster()
        booster.load_model(path / MODEL_FILE)
        if threads is not None:
            booster.set_param({"nthread": threads})
        return cls(booster, features, LambdaMARTSettings(**facts["settings"]), path)


def sample_once(run: Run, relevant: NDArray[np.bool_], settings: LambdaMARTSettings) -> Sample:
    """The rows that trees are trained on."""
    rng = np.random.default_rng(settings.seed)
    return sample_negatives(run.offsets, relevant, settings.list_size, rng)


def ranking_matrix(
    features: Features, sample: Sample, relevant: NDArray[np.bool_], settings: LambdaMARTSettings
) -> Any:
    """The sampled rows as XGBoost takes them: binned once, in groups of a query."""
    sizes = np.diff(sample.offsets)
    return require("xgboost").QuantileDMatrix(
        features.rows(sample.rows),
        relevant[sample.rows].astype(np.float32),
        group=sizes[sizes > 0],
        nthread=settings.threads,
    )


def train_booster(matrix: Any, settings: LambdaMARTSettings) -> Booster:
    """The trees."""
    return require("xgboost").train(settings.parameters(), matrix, settings.n_estimators)


def predict(booster: Booster, features: Features, trees: int = 0) -> Floats:
    """The score of each row by the first `trees` trees, all where it is 0; a block at a time."""
    scores = np.empty(len(features), np.float32)
    for start in range(0, len(features), ROWS_PER_BLOCK):
        rows = np.arange(start, min(start + ROWS_PER_BLOCK, len(features)))
        scores[rows] = booster.inplace_predict(features.rows(rows), iteration_range=(0, trees))
    return scores


def grid_points(grid: Grid, settings: LambdaMARTSettings) -> list[LambdaMARTSettings]:
    """Every combination of a grid.

    >>> len(grid_points({"gamma": (0, 2), "max_depth": (5, 10, 15)}, LambdaMARTSettings()))
    6
    """
    unknown = sorted(set(grid) - set(asdict(settings)))
    if unknown:
        raise InputError(
            f"LambdaMART has no setting {unknown[0]!r}",
            hint=f"it has {', '.join(asdict(settings))}",
        )
    combinations = product(*grid.values())
    return [replace(settings, **dict(zip(grid, values, strict=True))) for values in combinations]


def fold_numbers(num_queries: int, num_folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each query: as many queries in each as can be, in an order by chance."""
    if not 2 <= num_folds <= num_queries:
        raise InputError(
            f"{num_queries} queries cannot make {num_folds} folds",
            hint="a fold needs a query at least, and a search two folds",
        )
    return np.random.default_rng(seed).permutation(num_queries) % num_folds


def search_settings(
    run: Run,
    qrels: Qrels,
    features: FeatureSource,
    grid: Grid = DEFAULT_GRID,
    settings: LambdaMARTSettings | None = None,
    *,
    num_folds: int = 5,
    on_point: Callable[[GridPoint], None] | None = None,
) -> list[GridPoint]:
    """All combinations of a grid, the best first, by nDCG@100 over held-out queries.

    Queries are kept whole: a fold has all sampled candidates of its queries. Held-out queries are
    ranked over their sampled candidates, as the study does. Where no trees are dropped, fewer trees
    are the first trees of more, so that only the largest number is trained.
    """
    settings = settings or LambdaMARTSettings()
    relevant = relevant_rows(run, qrels)
    check_trainable(run, relevant)
    values = features.of(run)
    sample = sample_once(run, relevant, settings)
    folds = list(_folds(run, relevant, sample, num_folds, settings.seed))
    points: list[GridPoint] = []
    matrices = [ranking_matrix(values, train, relevant, settings) for train, _ in folds]
    held_out = [_held_out(run, qrels, values, rows) for _, rows in folds]
    for group in _same_trees(grid_points(grid, settings)):
        by_fold = [
            _fold_values(matrix, group, *held)
            for matrix, held in zip(matrices, held_out, strict=True)
        ]
        for number, one in enumerate(group):
            points.append(GridPoint(one, tuple(fold[number] for fold in by_fold)))
            if on_point is not None:
                on_point(points[-1])
    return sorted(points, key=lambda point: -point.mean)


def _same_trees(points: list[LambdaMARTSettings]) -> list[list[LambdaMARTSettings]]:
    """Points that one training serves, together: they differ in the number of trees alone, or in
    the booster where dart drops no trees."""
    groups: dict[LambdaMARTSettings, list[LambdaMARTSettings]] = {}
    for point in points:
        drops = point.booster == "dart" and point.rate_drop > 0
        key = point if drops else replace(point, n_estimators=1, booster="gbtree", rate_drop=0.0)
        groups.setdefault(key, []).append(point)
    return list(groups.values())


def _folds(
    run: Run, relevant: NDArray[np.bool_], sample: Sample, num_folds: int, seed: int
) -> Iterator[tuple[Sample, NDArray[np.int64]]]:
    """Of each fold what is trained on, and the sampled rows of its held-out queries.

    Queries without a relevant candidate say nothing about an order and are held out nowhere.
    """
    query = np.repeat(np.arange(len(sample)), np.diff(sample.offsets))
    answered = np.unique(query[relevant[sample.rows]])
    fold_of = np.full(len(sample), -1)
    fold_of[answered] = fold_numbers(len(answered), num_folds, seed)
    for fold in range(num_folds):
        is_held = fold_of[query] == fold
        sizes = np.bincount(query[~is_held], minlength=len(sample))
        train = Sample(sample.rows[~is_held], np.concatenate([[0], np.cumsum(sizes)]))
        yield train, sample.rows[is_held]


def _held_out(
    run: Run, qrels: Qrels, features: Features, rows: NDArray[np.int64]
) -> tuple[Features, Run, Qrels]:
    keep = np.zeros(len(run.doc), bool)
    keep[rows] = True
    query = np.repeat(np.arange(len(run)), run.sizes())
    queries = run.queries.ids.select(np.unique(query[rows]))
    part = Features(
        features.queries, features.passages, features.query[rows], features.passage[rows],
        features.columns[rows],
    )  # fmt: skip
    return part, run.rows(keep).select(queries), qrels.select(queries)


def _fold_values(
    matrix: Any, group: list[LambdaMARTSettings], features: Features, run: Run, qrels: Qrels
) -> list[float]:
    """The nDCG@100 of each of the settings, which differ in the number of trees alone."""
    most = max(group, key=lambda one: one.n_estimators)
    booster = train_booster(matrix, most)
    values = []
    for one in group:
        ranked = rescored(run, predict(booster, features, one.n_estimators))
        values.append(evaluate(qrels, {KIND: ranked}, [MEASURE]).mean(KIND, MEASURE))
    return values


def open_stage(values: Spec, opening: Opening) -> LambdaMART:
    """See `registry.OPENERS`."""
    check_keys("LambdaMART", values, {"path": str, "features": dict})
    features = open_features(values["features"], opening)
    return LambdaMART.load(opening.path(values["path"]), features, threads=opening.threads)
