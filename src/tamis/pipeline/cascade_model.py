"""What a re-ranker will say of documents it has not scored yet, from those it has: with how likely
each of them is among the best, a cascade knows what to score next and when to stop.

A query's scores are taken as drawn from a Gaussian process:

    mean        level + first · z + cosine · c
    covariance  level_spread² + spread² · exp((cos(d, d') - 1) / reach), and noise² on the diagonal

z is the first stage's score in standard deviations of the query's candidates, c the cosine of
query and document, cos(d, d') that of two documents: texts that are alike score alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError

Values = NDArray[np.float64]
Places = NDArray[np.int64]
TRUST = 10.0
"""How many scored documents weigh as much as the calibration in saying how far a guess is off."""
FEWEST = 5
"""Of fewer queries nothing is learned."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """What is known of a query's documents before any is scored: a row a document."""

    facts: Values
    """The first stage's standardised score and the cosine with the query."""
    likeness: Values
    """The cosine of each document with each."""

    @classmethod
    def of(cls, first: Values, query: NDArray[Any], documents: NDArray[Any]) -> Candidates:
        """From the first stage's scores and the vectors of query and documents.

        >>> found = Candidates.of(np.array([3.0, 1.0]), np.array([2.0, 0]), np.eye(2))
        >>> found.facts.tolist(), found.likeness.tolist()
        ([[1.0, 1.0], [-1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
        """
        rows = _unit(documents)
        deviation = first.std() if len(first) else 0.0
        standard = (first - first.mean()) / deviation if deviation > 0 else np.zeros(len(first))
        return cls(np.column_stack([standard, rows @ _unit(query)]), rows @ rows.T)

    def take(self, places: Places) -> Candidates:
        """Some of the documents."""
        return Candidates(self.facts[places], self.likeness[np.ix_(places, places)])


def _unit(rows: NDArray[Any]) -> Values:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float64)


@dataclass(frozen=True)
class Calibration:
    """How a re-ranker's scores hang together with what is known before; see the module."""

    level: float
    first: float
    cosine: float
    level_spread: float
    spread: float
    reach: float
    noise: float
    queries: int
    """From how many queries it was learned."""

    def record(self) -> dict[str, float | int]:
        """Plain JSON, from which `Calibration(**record)` is the same again."""
        return asdict(self)

    def mean(self, candidates: Candidates) -> Values:
        """What each document is expected to score before any is scored."""
        weights = np.array([self.first, self.cosine])
        return np.asarray(self.level + candidates.facts @ weights, np.float64)

    def covariance(self, candidates: Candidates) -> Values:
        """How the scores vary together, without noise."""
        alike = np.exp((candidates.likeness - 1) / self.reach)
        return np.asarray(self.level_spread**2 + self.spread**2 * alike, np.float64)

    def guess(
        self, candidates: Candidates, known: Places, scores: Values, asked: Places
    ) -> tuple[Values, Values]:
        """What the documents asked for are expected to score, and how far that may be off.

        `known` are the documents that have these `scores`. How well those were guessed widens
        or narrows the deviations, so that a query unlike the calibration's is not trusted.
        """
        mean, together = self.mean(candidates), self.covariance(candidates)
        across = together[np.ix_(asked, known)]
        inner = together[np.ix_(known, known)] + self.noise**2 * np.eye(len(known))
        off = scores - mean[known]
        solved = np.linalg.solve(inner, np.column_stack([off, across.T]))
        left = np.einsum("ak,ka->a", across, solved[:, 1:])
        variance = np.maximum(together[asked, asked] + self.noise**2 - left, self.noise**2)
        variance *= (TRUST + off @ solved[:, 0]) / (TRUST + len(known))
        return mean[asked] + across @ solved[:, 0], np.sqrt(variance)


def chances(guessed: Values, deviation: Values, threshold: float) -> Values:
    """How likely each document scores above a threshold.

    >>> chances(np.array([1.0, 3.0]), np.array([1.0, 2.0]), 1.0).round(3).tolist()
    [0.5, 0.841]
    """
    from scipy.special import ndtr

    return np.asarray(ndtr((guessed - threshold) / deviation), np.float64)


def fit(queries: Sequence[tuple[Candidates, Values]]) -> Calibration:
    """A calibration from queries of which all candidates are scored; no judgements are needed.

    The mean is a linear regression within queries; spread, reach and noise are those under which
    the scores are likeliest.
    """
    queries = [(candidates, scores) for candidates, scores in queries if len(scores) > 1]
    if len(queries) < FEWEST:
        raise InputError(
            f"{len(queries)} queries with two scored documents or more are too few to calibrate on",
            hint=f"give {FEWEST} at least; 40 are good",
        )
    facts = np.concatenate([each.facts - each.facts.mean(0) for each, _ in queries])
    centred = np.concatenate([scores - scores.mean() for _, scores in queries])
    weights = np.linalg.lstsq(facts, centred)[0]
    smallest = max(1e-3 * float(centred.std()), 1e-6)
    residual = max(float((centred - facts @ weights).std()), smallest)
    levels = np.array([np.mean(scores - each.facts @ weights) for each, scores in queries])
    start = Calibration(
        level=float(levels.mean()),
        first=float(weights[0]),
        cosine=float(weights[1]),
        level_spread=max(float(levels.std()), smallest),
        spread=residual,
        reach=1.0,
        noise=residual / 2,
        queries=len(queries),
    )
    return _likeliest(start, queries)


def _likeliest(start: Calibration, queries: Sequence[tuple[Candidates, Values]]) -> Calibration:
    """The spread, reach and noise under which the scores are likeliest, near a start."""
    from scipy.optimize import minimize

    def varied(factors: Values) -> Calibration:
        spread, reach, noise = np.exp(factors).tolist()
        changed: dict[str, Any] = {
            "spread": start.spread * spread,
            "reach": start.reach * reach,
            "noise": start.noise * noise,
        }
        return Calibration(**{**asdict(start), **changed})

    def unlikely(factors: Values) -> float:
        model = varied(factors)
        return sum(_unlikeliness(model, candidates, scores) for candidates, scores in queries)

    widest = [(-2.5, 2.5)] * 3
    corners = np.vstack([np.zeros(3), 0.5 * np.eye(3)])
    options = {"maxfev": 150, "xatol": 0.02, "fatol": 0.1, "initial_simplex": corners}
    found = minimize(unlikely, np.zeros(3), method="Nelder-Mead", bounds=widest, options=options)
    return varied(found.x)


def _unlikeliness(model: Calibration, candidates: Candidates, scores: Values) -> float:
    """Minus the logarithm of the scores' density, less a constant."""
    noise = model.noise**2 * np.eye(len(scores))
    lower = np.linalg.cholesky(model.covariance(candidates) + noise)
    apart = np.linalg.solve(lower, scores - model.mean(candidates))
    return float(apart @ apart / 2 + np.log(np.diag(lower)).sum())
