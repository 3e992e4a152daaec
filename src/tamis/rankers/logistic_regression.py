"""Logistic regression on the features of a candidate, by mini-batch gradient descent.

The algorithm is that of a passage re-ranking study (`docs/how-to/rankers.md`). Its listing takes
the batch `X[i:n_batch]`; a batch is `X[i:i + n_batch]`, and so it is here. The size of a batch is
not given there: `batch_size` is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import DamagedError, InputError, TrainingError
from tamis.rankers._folder import ranker_spec, read_ranker, rescored, save_ranker
from tamis.rankers.features import (
    Features,
    FeatureSource,
    Rows,
    check_trained_for,
    open_features,
)
from tamis.rankers.sampling import check_trainable, relevant_rows, sample_negatives
from tamis.registry import Opening, check_keys
from tamis.types import Qrels, Run, Spec, Stage

KIND = "logistic-regression"
WEIGHTS_FILE = "weights.npy"
THRESHOLD = 0.5
"""From this probability on a candidate counts as relevant."""
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class LogisticRegressionSettings:
    """How to train; `list_size` is |P|, None for all candidates."""

    learning_rate: float = 1.0
    epochs: int = 200
    batch_size: int = 1024
    list_size: int | None = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.learning_rate > 0 or self.epochs < 1 or self.batch_size < 1:
            raise InputError(
                "learning rate, epochs and batch size are above 0",
                hint="try learning_rate=1.0, epochs=200, batch_size=1024",
            )


def sigmoid(values: Doubles) -> Doubles:
    """1 / (1 + e^-z), without overflow.

    >>> sigmoid(np.array([0.0, -1000.0, np.log(3)])).tolist()
    [0.5, 0.0, 0.75]
    """
    small = np.exp(-np.abs(values))
    probability: Doubles = np.where(values >= 0, 1 / (1 + small), small / (1 + small))
    return probability


def cross_entropy(logits: Doubles, labels: Doubles) -> Doubles:
    """-y log p - (1 - y) log(1 - p), of the logit of p.

    >>> cross_entropy(np.array([np.log(3), np.log(3)]), np.array([1.0, 0.0])).round(4).tolist()
    [0.2877, 1.3863]
    """
    loss: Doubles = np.logaddexp(0.0, logits) - labels * logits
    return loss


def gradient(
    features: NDArray[Any], labels: Doubles, weights: Doubles, bias: float
) -> tuple[Doubles, float, float]:
    """The sums over a batch: of the gradient by weights, of that by bias, and of the loss.

    With weights of 0 every probability is one half.

    >>> gradient(np.array([[1.0, 2.0], [4.0, 0.0]]), np.array([1.0, 0.0]), np.zeros(2), 0.0)[:2]
    (array([ 1.5, -1. ]), 0.0)
    """
    logits = (features @ weights.astype(features.dtype)).astype(np.float64) + bias
    error = sigmoid(logits) - labels
    by_weights = (features.T @ error.astype(features.dtype)).astype(np.float64)
    return by_weights, float(error.sum()), float(cross_entropy(logits, labels).sum())


def row_batches(
    features: Features, rows: Rows, labels: Doubles, size: int
) -> Iterator[tuple[NDArray[Any], Doubles]]:
    """The numbers and labels of some rows, so many at a time; the last batch may be smaller."""
    for start in range(0, len(rows), size):
        batch = slice(start, start + size)
        yield features.rows(rows[batch]), labels[batch]


def descend(
    batches: Iterable[tuple[NDArray[Any], Doubles]], weights: Doubles, bias: float,
    learning_rate: float,
) -> tuple[Doubles, float, float]:  # fmt: skip
    """One epoch: weights and bias after it, and the mean loss of its rows, each before its step."""
    total, count = 0.0, 0
    for features, labels in batches:
        by_weights, by_bias, loss = gradient(features, labels, weights, bias)
        step = learning_rate / len(labels)
        weights, bias = weights - step * by_weights, bias - step * by_bias
        total, count = total + loss, count + len(labels)
    return weights, bias, total / count


@dataclass(frozen=True, eq=False)
class LogisticRegression(Stage):
    """Ranks by the logit of the probability that a candidate is relevant.

    `losses` has the mean training loss of each epoch.
    """

    weights: Doubles
    bias: float
    features: FeatureSource
    settings: LogisticRegressionSettings = LogisticRegressionSettings()
    losses: tuple[float, ...] = ()
    path: Path | None = None

    @classmethod
    def fit(
        cls,
        run: Run,
        qrels: Qrels,
        features: FeatureSource,
        settings: LogisticRegressionSettings | None = None,
        *,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> LogisticRegression:
        """Train on a run's candidates; negatives are sampled anew each epoch.

        `on_epoch` is called with the number of each epoch and its loss.
        """
        settings = settings or LogisticRegressionSettings()
        relevant = relevant_rows(run, qrels)
        check_trainable(run, relevant)
        values = features.of(run)
        rng = np.random.default_rng(settings.seed)
        weights, bias, losses = np.zeros(values.width), 0.0, list[float]()
        for epoch in range(settings.epochs):
            rows = sample_negatives(run.offsets, relevant, settings.list_size, rng).rows
            labels = relevant[rows].astype(np.float64)
            batches = row_batches(values, rows, labels, settings.batch_size)
            weights, bias, loss = descend(batches, weights, bias, settings.learning_rate)
            losses.append(loss)
            if on_epoch is not None:
                on_epoch(epoch, loss)
        if not np.isfinite(weights).all():
            raise TrainingError(
                "the weights grew beyond all numbers", hint="lower the learning rate"
            )
        return cls(weights, bias, features, settings, tuple(losses))

    def logits(self, run: Run) -> Doubles:
        """The logit of each row of a run."""
        return linear_scores(self.features.of(run), self.weights, self.bias)

    def probabilities(self, run: Run) -> Doubles:
        """The probability of each row of a run that it is relevant."""
        return sigmoid(self.logits(run))

    def classify(self, run: Run, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
        """Which rows of a run count as relevant."""
        return self.probabilities(run) >= threshold

    def __call__(self, run: Run) -> Run:
        return rescored(run, self.logits(run).astype(np.float32))

    def spec(self) -> Spec:
        """See `Stage.spec`; a ranker can be opened again once it is saved."""
        return ranker_spec(self, KIND, self.path, self.features)

    def save(self, folder: Path | str, *, force: bool = False) -> LogisticRegression:
        """Write the ranker's folder; the result is the ranker that lies there."""
        path = save_ranker(
            folder, KIND, force,
            lambda place: np.save(place / WEIGHTS_FILE, np.append(self.weights, self.bias)),
            settings=asdict(self.settings), features=self.features.to_json(),
            losses=list(self.losses),
        )  # fmt: skip
        return replace(self, path=path)

    @classmethod
    def load(cls, folder: Path | str, features: FeatureSource) -> LogisticRegression:
        """Open a folder that `save` wrote, with the features that it was trained with."""
        path = Path(folder)
        facts = read_ranker(path, KIND)
        check_trained_for(features, facts["features"], path)
        weights = np.load(path / WEIGHTS_FILE, allow_pickle=False)
        width = 2 * facts["features"]["dimension"] + len(facts["features"]["columns"])
        if weights.shape != (width + 1,):
            raise DamagedError(
                f"{path / WEIGHTS_FILE} has {len(weights)} weights, not {width + 1}",
                hint="train the ranker again",
            )
        settings = LogisticRegressionSettings(**facts["settings"])
        losses = tuple(facts["losses"])
        return cls(weights[:-1], float(weights[-1]), features, settings, losses, path)


def linear_scores(features: Features, weights: Doubles, bias: float) -> Doubles:
    """The weighted sum of each row; a query and a passage is multiplied once, not once a row."""
    dimension = features.dimension
    by_query = features.queries @ weights[:dimension]
    by_passage = features.passages @ weights[dimension : 2 * dimension]
    by_column = features.columns @ weights[2 * dimension :]
    scores: Doubles = by_query[features.query] + by_passage[features.passage] + by_column + bias
    return scores


def fit_learning_rates(
    run: Run,
    qrels: Qrels,
    features: FeatureSource,
    learning_rates: Sequence[float],
    settings: LogisticRegressionSettings | None = None,
) -> dict[float, LogisticRegression]:
    """A ranker for each learning rate; their `losses` are the curves by which one is selected."""
    settings = settings or LogisticRegressionSettings()
    return {
        rate: LogisticRegression.fit(run, qrels, features, replace(settings, learning_rate=rate))
        for rate in learning_rates
    }


def open_stage(values: Spec, opening: Opening) -> LogisticRegression:
    """See `registry.OPENERS`."""
    check_keys("a logistic regression", values, {"path": str, "features": dict})
    features = open_features(values["features"], opening)
    return LogisticRegression.load(opening.path(values["path"]), features)
