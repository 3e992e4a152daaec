"""Whether one run is better than another: paired tests over queries, corrected, with intervals.

The queries are the sample. Over values of repeated trainings `t_interval` answers another
question: how far trainings of the same model lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import InputError
from tamis.evaluation import randomisation
from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.measures import Measure
from tamis.evaluation.student import student_critical_value, student_p_value

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, meant to hold the true mean with probability `level`."""

    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p-value, and the same corrected for all comparisons made together.

    All three are None where the test says nothing, as the t-test of a single query.
    """

    raw: float | None
    holm: float | None
    bonferroni: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run against the baseline on one measure, query by query."""

    run: str
    baseline: str
    measure: Measure
    difference: float
    """The mean over queries of the run's value less the baseline's."""
    t_test: PValue
    randomisation: PValue
    interval: Interval | None
    """Bootstrap interval of the mean difference; None where all queries have the same."""
    wins: int
    ties: int
    losses: int
    queries: int
    tests: int
    """How many comparisons were made together: what the corrections correct for."""

    def verdict(self, level: float = 0.05) -> int:
        """1 above the baseline, -1 below, 0 undecided: the t-test, Holm-corrected, at a level."""
        p = self.t_test.holm
        return 0 if p is None or p >= level else int(math.copysign(1, self.difference))


def compare(
    evaluation: Evaluation,
    baseline: str,
    *,
    seed: int = 0,
    samples: int = 100_000,
    resamples: int = 10_000,
) -> list[Comparison]:
    """Compare every other run with the baseline on every measure, and correct for all of it.

    Measures that describe rather than judge a run (`NumRet`, `Judged`) are left out.
    `samples` sign flips for the randomisation test (up to 16 queries that differ: every one),
    `resamples` for the bootstrap interval.
    """
    evaluation.values(baseline, evaluation.measures[0])  # the baseline must be one of the runs
    measures = [measure for measure in evaluation.measures if measure.says_better]
    pairs = [(run, m) for run in evaluation.runs if run != baseline for m in measures]
    if not pairs:
        return []
    differences = np.array(
        [evaluation.values(run, m) - evaluation.values(baseline, m) for run, m in pairs]
    )
    differences[np.abs(differences) < randomisation.VALUE_TOLERANCE] = 0
    t_tests = correct([t_test(d) for d in differences])
    flips = correct(randomisation.sign_flips(differences, samples, seed).tolist())
    bounds = randomisation.bootstrap(differences, resamples, seed)
    return [
        Comparison(
            run,
            baseline,
            measure,
            float(d.mean()),
            t,
            flip,
            None if _all_equal(d) else Interval(*map(float, bound)),
            int((d > 0).sum()),
            int((d == 0).sum()),
            int((d < 0).sum()),
            len(d),
            len(pairs),
        )
        for (run, measure), d, t, flip, bound in zip(
            pairs, differences, t_tests, flips, bounds, strict=True
        )
    ]


def fails(comparisons: Sequence[Comparison], level: float = 0.05) -> list[Comparison]:
    """The comparisons in which a run is significantly below the baseline (t-test, Holm)."""
    return [comparison for comparison in comparisons if comparison.verdict(level) < 0]


def t_test(differences: ArrayLike) -> float | None:
    """The two-sided p-value of Student's paired t-test; None for a single difference.

    Equal differences have no spread to compare their mean with: t would be infinite, and p zero,
    for two queries already. Only their signs say something then, so p is that of the randomisation
    test: 2 of the 2^n choices of signs give as much.

    >>> round(t_test([1.0, 2.0, 3.0]), 4), t_test([0.0, 0.0]), t_test([1.0]), t_test([0.3] * 3)
    (0.0742, 1.0, None, 0.25)
    """
    values = np.asarray(differences, np.float64)
    if not values.any():
        return 1.0
    if len(values) < 2:
        return None
    if _all_equal(values):
        return 2.0 ** (1 - len(values))
    t = float(values.mean()) / (float(values.std(ddof=1)) / math.sqrt(len(values)))
    return student_p_value(t, len(values) - 1)


def randomisation_test(differences: ArrayLike, *, samples: int = 100_000, seed: int = 0) -> float:
    """The two-sided p-value of Fisher's randomisation test of paired differences.

    Were the two runs alike, each difference could as well have the other sign. Up to 16 nonzero
    differences every choice of signs is tried; above, p = (as extreme + 1) / (samples + 1).

    >>> randomisation_test([1.0, 2.0, 3.0])
    0.25
    """
    matrix = np.asarray(differences, np.float64)[np.newaxis]
    return float(randomisation.sign_flips(matrix, samples, seed)[0])


def bootstrap_interval(
    differences: ArrayLike, *, level: float = 0.95, samples: int = 10_000, seed: int = 0
) -> Interval | None:
    """The percentile bootstrap interval of the mean; None where all values are equal.

    Equal values, or a single one, do not tell how far others would lie from them. For few values
    `t_interval` holds the true mean more often.

    >>> bootstrap_interval([1.0, 2.0, 3.0]), bootstrap_interval([2.0, 2.0, 2.0])
    (Interval(low=1.0, high=3.0, level=0.95), None)
    """
    values = np.asarray(differences, np.float64)
    if _all_equal(values):
        return None
    low, high = randomisation.bootstrap(values[np.newaxis], samples, seed, level)[0]
    return Interval(float(low), float(high), level)


def t_interval(values: ArrayLike, level: float = 0.95) -> Interval | None:
    """Student's interval of the mean; None where all values are equal.

    >>> interval = t_interval([1.0, 3.0], 0.5)
    >>> round(interval.low, 6), round(interval.high, 6), t_interval([0.3, 0.3])
    (1.0, 3.0, None)
    """
    sample = np.asarray(values, np.float64)
    if not 0 < level < 1:
        raise InputError(f"an interval at level {level}", hint="between 0 and 1, such as 0.95")
    if _all_equal(sample):
        return None
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    reach = student_critical_value(level, len(sample) - 1) * error
    mean = float(sample.mean())
    return Interval(mean - reach, mean + reach, level)


def _all_equal(values: Values) -> bool:
    """Whether there is one value at most, up to rounding."""
    return not len(values) or float(np.ptp(values)) <= randomisation.VALUE_TOLERANCE


def bonferroni(values: ArrayLike) -> Values:
    """Each p-value times the number of them, at most 1.

    >>> bonferroni([0.01, 0.4, 0.6]).tolist()
    [0.03, 1.0, 1.0]
    """
    p = np.asarray(values, np.float64)
    return np.minimum(p * len(p), 1.0)


def holm(values: ArrayLike) -> Values:
    """Holm's step-down correction: the smallest times n, the next times n - 1, never falling.

    >>> holm([0.5, 0.25, 0.125]).tolist()
    [0.5, 0.5, 0.375]
    """
    p = np.asarray(values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0)
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(stepped)
    return adjusted


def correct(values: Sequence[float | None]) -> list[PValue]:
    """Correct p-values for one another; those that are None are not counted as tests."""
    p_values: list[Any] = [p for p in values if p is not None]
    corrected = iter(
        zip(p_values, holm(p_values).tolist(), bonferroni(p_values).tolist(), strict=True)
    )
    return [PValue(None, None, None) if p is None else PValue(*next(corrected)) for p in values]
