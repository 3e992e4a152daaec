"""What a paired test of so many queries can show, and how many would show a difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.evaluation.significance import Interval
from tamis.evaluation.student import student_critical_value

LEVEL = 0.05
"""Of the two-sided test."""
POWER = 0.8
"""The share of samples in which a difference of this size would be significant."""
MAX_QUERIES = 1_000_000
"""A difference that takes more queries than this counts as none."""


@dataclass(frozen=True)
class Power:
    """What a paired t-test on queries like these can show, at p < .05 in four of five samples."""

    queries: int
    difference: float
    """The mean difference that was seen."""
    smallest: float
    """The smallest true difference that so many queries show."""
    needed: int | None
    """How many queries would show the difference seen; None where that is practically zero."""

    @property
    def more_needed(self) -> int:
        """How many more queries would show the difference seen; 0 where there are enough."""
        return max(0, (self.needed or 0) - self.queries)


def power_of(differences: ArrayLike) -> Power | None:
    """The power of the test of some differences; None where they are too few, or all the same.

    >>> power = power_of([0.5, 0.0, 0.25, -0.25, 0.5, 0.0, 0.0, 0.5])
    >>> power.queries, round(power.difference, 4), round(power.smallest, 3), power.needed
    (8, 0.1875, 0.336, 21)
    """
    values = np.asarray(differences, np.float64)
    if len(values) < 2 or float(np.ptp(values)) <= 1e-12:
        return None
    deviation, mean = float(values.std(ddof=1)), float(values.mean())
    return _power(len(values), mean, deviation)


def power_of_interval(queries: int, difference: float, interval: Interval) -> Power:
    """The same from Student's interval of the mean difference.

    >>> power_of_interval(21, 0.1, Interval(0.0, 0.2)).queries
    21
    """
    reach = (interval.high - interval.low) / 2
    error = reach / student_critical_value(interval.level, queries - 1)
    return _power(queries, difference, error * math.sqrt(queries))


def smallest_difference(deviation: float, queries: int) -> float:
    """The smallest true difference that a test of so many queries shows.

    `deviation` is the standard deviation of the differences. The sum of two quantiles of
    Student's t is within 2% of the exact answer from ten queries on.

    >>> round(smallest_difference(0.3, 50), 3), round(smallest_difference(0.3, 200), 3)
    (0.121, 0.06)
    """
    quantiles = sum(student_critical_value(p, queries - 1) for p in (1 - LEVEL, 2 * POWER - 1))
    return quantiles * deviation / math.sqrt(queries)


def queries_needed(difference: float, deviation: float) -> int | None:
    """How many queries show a difference of this size; None where a million do not.

    >>> queries_needed(0.06, 0.3), queries_needed(0.0, 0.3)
    (199, None)
    """
    low, high = 1, 2
    while smallest_difference(deviation, high) > abs(difference):
        low, high = high, 2 * high
        if low >= MAX_QUERIES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if smallest_difference(deviation, middle) > abs(difference):
            low = middle
        else:
            high = middle
    return high


def _power(queries: int, difference: float, deviation: float) -> Power:
    smallest = smallest_difference(deviation, queries)
    return Power(queries, difference, smallest, queries_needed(difference, deviation))
