"""Scores as probabilities, and a threshold under which nothing answers the query.

Scores of a fused ranking are put on one scale within each query, so they say which document is
better and not whether it is good. Calibration takes what can be compared between queries, a few
raw features a row (the model's score and, where it can be compared too, the first stage's), and
fits a logistic regression to judgements. No feature may count against a document, and no
probability is surer than the judged documents allow (`bounds`). The threshold is for the document
that stands first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import InputError

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

MIN_RELEVANT_ROWS = 10
"""With fewer the fit says more about the penalty than the data."""
MAX_NEWTON_STEPS = 100
"""Newton's method needs about ten; more means it goes back and forth in the last digits."""


@dataclass(frozen=True)
class Bin:
    """Rows whose probability lies in one part of 0 to 1."""

    predicted: float
    """Their mean probability."""
    observed: float
    """The share of them that is relevant."""
    count: int


@dataclass(frozen=True)
class Answers:
    """How the threshold does on queries with judgements."""

    queries: int
    answerable: int
    """How many have a relevant document in the first place."""
    answered: int
    """How many have a first document whose probability reaches the threshold."""
    right: int
    """How many are both."""
    reliability: tuple[Bin, ...]
    """Of the first documents."""
    error: float
    """Expected calibration error: how far predicted lies from observed, over the bins."""

    @property
    def precision(self) -> float | None:
        """Of the queries answered the share answered right; None where none is."""
        return self.right / self.answered if self.answered else None

    @property
    def recall(self) -> float | None:
        """Of the queries with a good first document the share answered; None where none has."""
        return self.right / self.answerable if self.answerable else None


@dataclass(frozen=True)
class Calibration:
    """A logistic regression on standardised features, and the threshold; made by `fit`."""

    names: tuple[str, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    """Of standardised features; none is below 0."""
    bias: float
    threshold: float
    penalty: float
    queries: int
    positives: int
    negatives: int

    @classmethod
    def fit(
        cls,
        features: ArrayLike,
        relevant: ArrayLike,
        query_of_row: ArrayLike,
        *,
        names: Sequence[str] = (),
        penalty: float = 1.0,
    ) -> Calibration:
        """Fit to judged rows; the rows of a query stand in the order of its ranking.

        Of every feature: the higher, the more probable. If the judgements say otherwise it gets no
        weight. `penalty` is that of a ridge, on all weights but the bias.

        >>> scores = [[9.0], [2.0], [8.0], [1.0], [3.0], [2.0]] * 10
        >>> good = [True, False, True, False, False, False] * 10
        >>> found = Calibration.fit(scores, good, np.repeat(np.arange(30), 2))
        >>> found.probability([[9.0], [2.0]]).round(2).tolist()
        [0.95, 0.03]
        >>> 0.1 < found.threshold < 0.9
        True
        """
        rows, labels, firsts = _checked(features, relevant, query_of_row)
        positives = int(labels.sum())
        if positives < MIN_RELEVANT_ROWS or positives == len(labels):
            raise InputError(
                f"{positives:,} relevant documents and {len(labels) - positives:,} others "
                "are too few to calibrate scores",
                hint=f"judge more queries: {MIN_RELEVANT_ROWS} relevant ones at least, "
                "and some others",
            )
        if names and len(names) != rows.shape[1]:
            raise InputError(f"{len(names)} names for {rows.shape[1]} features")
        names = tuple(names) or tuple(f"feature {number}" for number in range(rows.shape[1]))
        shift, deviation = rows.mean(axis=0), rows.std(axis=0)
        scale = np.where(deviation > 0, deviation, 1.0)
        weights, bias = _monotone((rows - shift) / scale, labels, penalty)
        calibration = cls(
            names, _plain(shift), _plain(scale), _plain(weights), bias, 1.0,
            penalty, len(firsts), positives, len(labels) - positives,
        )  # fmt: skip
        tops = calibration.probability(rows[firsts])
        return replace(calibration, threshold=best_threshold(tops, labels[firsts]))

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the highest probability: the rule of succession, as Platt's targets have
        it. After ten relevant documents nothing is surer than 11/12; so an unusual query, such as
        two words where questions were judged, gets a low probability and not 0%.
        """
        return 1 / (self.negatives + 2), (self.positives + 1) / (self.positives + 2)

    def probability(self, features: ArrayLike) -> Values:
        """How probable it is that each row is relevant, within the `bounds`."""
        rows = _rows(features)
        if rows.shape[1] != len(self.names):
            raise InputError(
                f"{rows.shape[1]} features where {len(self.names)} were fitted",
                hint=f"give {', '.join(self.names)}",
            )
        standard = (rows - np.array(self.shift)) / np.array(self.scale)
        return np.clip(_sigmoid(standard @ np.array(self.weights) + self.bias), *self.bounds)

    def answers(self, features: ArrayLike, relevant: ArrayLike, query_of_row: ArrayLike) -> Answers:
        """What the threshold does to other queries; rows as for `fit`."""
        rows, labels, firsts = _checked(features, relevant, query_of_row)
        tops, good = self.probability(rows[firsts]), labels[firsts]
        answered = tops >= self.threshold
        bins = reliability(tops, good)
        return Answers(
            len(firsts),
            int(good.sum()),
            int(answered.sum()),
            int((answered & good).sum()),
            bins,
            calibration_error(bins),
        )


def reliability(probabilities: ArrayLike, relevant: ArrayLike, bins: int = 10) -> tuple[Bin, ...]:
    """Rows by probability, in so many parts of equal width; empty ones are left out.

    >>> reliability([0.1, 0.1, 0.9], [False, False, True], bins=2)
    (Bin(predicted=0.1, observed=0.0, count=2), Bin(predicted=0.9, observed=1.0, count=1))
    """
    p, labels = np.asarray(probabilities, np.float64), np.asarray(relevant, np.float64)
    bin_of = np.minimum((p * bins).astype(np.int64), bins - 1)
    return tuple(
        Bin(
            float(p[bin_of == n].mean()),
            float(labels[bin_of == n].mean()),
            int((bin_of == n).sum()),
        )
        for n in np.unique(bin_of).tolist()
    )


def calibration_error(bins: Sequence[Bin]) -> float:
    """The mean over rows of how far their bin's prediction lies from what was observed.

    >>> calibration_error([Bin(0.25, 0.0, 3), Bin(0.5, 1.0, 1)])  # (3 · .25 + 1 · .5) / 4
    0.3125
    """
    rows = sum(bin_.count for bin_ in bins)
    return sum(bin_.count * abs(bin_.predicted - bin_.observed) for bin_ in bins) / rows


def best_threshold(probabilities: ArrayLike, relevant: ArrayLike) -> float:
    """The threshold of the best F1, midway between two probabilities; the highest of equals.

    Where no first document is relevant it is 1: nothing answers.

    >>> best_threshold([0.9, 0.8, 0.3, 0.2], [True, True, False, True])  # F1 6/7: all answered
    0.0
    >>> round(best_threshold([0.9, 0.8, 0.3, 0.2], [True, True, False, False]), 9)
    0.55
    """
    p, labels = np.asarray(probabilities, np.float64), np.asarray(relevant, np.bool_)
    if not labels.any():
        return 1.0
    order = np.argsort(-p, kind="stable")
    ordered = np.append(p[order], -1.0)
    ends = np.flatnonzero(np.diff(ordered))
    right = np.cumsum(labels[order])[ends]
    best = ends[np.argmax(2 * right / (ends + 1 + labels.sum()))]
    return max(0.0, float(ordered[best] + ordered[best + 1]) / 2)


def _plain(values: Values) -> tuple[float, ...]:
    return tuple(map(float, values))


def _rows(features: ArrayLike) -> Values:
    rows = np.asarray(features, np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise InputError(
            f"features of shape {rows.shape}", hint="one row per document, one column per feature"
        )
    if not np.isfinite(rows).all():
        raise InputError("a feature is no number", hint="leave out documents that have no score")
    return rows


def _checked(
    features: ArrayLike, relevant: ArrayLike, query_of_row: ArrayLike
) -> tuple[Values, Flags, NDArray[np.intp]]:
    """Features, labels, and the first row of every query."""
    rows, labels = _rows(features), np.asarray(relevant, np.bool_)
    queries = np.asarray(query_of_row)
    if not len(rows) or labels.shape != (len(rows),) or queries.shape != (len(rows),):
        raise InputError(
            f"{len(rows)} rows of features, {labels.size} labels and {queries.size} queries",
            hint="a label and a query for every row, one row at least",
        )
    return rows, labels, np.unique(queries, return_index=True)[1]


def _sigmoid(values: Values) -> Values:
    return np.exp(-np.logaddexp(0.0, -values))


def _monotone(rows: Values, labels: Flags, penalty: float) -> tuple[Values, float]:
    """Weights and bias; without the features that would count against a document."""
    weights, columns = np.zeros(rows.shape[1]), np.arange(rows.shape[1])
    while True:
        found, bias = logistic(rows[:, columns], labels, penalty)
        if not (found < 0).any():
            break
        columns = columns[found >= 0]
    weights[columns] = found
    return weights, bias


def logistic(rows: Values, labels: Flags, penalty: float) -> tuple[Values, float]:
    """Ridge logistic regression by Newton's method, the step halved while it does not descend."""
    if penalty <= 0:
        raise InputError(f"a penalty of {penalty:g}", hint="above 0: separable data has no end")
    matrix = np.column_stack([rows, np.ones(len(rows))])
    ridge = np.append(np.full(rows.shape[1], penalty), 0.0)
    signs = np.where(labels, 1.0, -1.0)

    def loss(at: Values) -> float:
        return float(np.logaddexp(0.0, -signs * (matrix @ at)).sum() + (ridge * at**2).sum() / 2)

    share = labels.mean()
    at = np.append(np.zeros(rows.shape[1]), np.log(share / (1 - share)))
    for _ in range(MAX_NEWTON_STEPS):
        p = _sigmoid(matrix @ at)
        slope = matrix.T @ (p - labels) + ridge * at
        curve = (matrix * (p * (1 - p))[:, np.newaxis]).T @ matrix + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        size, now = 1.0, loss(at)
        while size > 1e-9 and loss(at - size * step) > now:
            size /= 2
        at = at - size * step
        if np.abs(step).max() < 1e-10 or size <= 1e-9:
            break
    return at[:-1], float(at[-1])
