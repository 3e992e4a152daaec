"""What so many queries can show, against simulated tests and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.evaluation.power import (
    power_of,
    power_of_interval,
    queries_needed,
    smallest_difference,
)
from tamis.evaluation.significance import t_interval, t_test
from tamis.evaluation.student import student_critical_value


def test_the_formula_by_hand() -> None:
    expected = (student_critical_value(0.95, 24) + student_critical_value(0.6, 24)) * 0.2 / 5
    assert math.isclose(smallest_difference(0.2, 25), expected)


def test_four_of_five_samples_show_the_smallest_difference() -> None:
    rng = np.random.default_rng(7)
    for queries in (10, 40):
        difference = smallest_difference(1.0, queries)
        samples = rng.normal(difference, 1.0, (1500, queries))
        p_values = np.array([t_test(sample) for sample in samples], float)
        assert abs((p_values < 0.05).mean() - 0.8) < 0.04


@pytest.mark.parametrize("difference", [0.3, 0.05, -0.05])
def test_as_many_queries_as_needed_and_no_fewer(difference: float) -> None:
    needed = queries_needed(difference, 0.3)
    assert needed is not None
    assert smallest_difference(0.3, needed) <= abs(difference)
    assert smallest_difference(0.3, needed - 1) > abs(difference)


def test_nothing_to_say() -> None:
    assert power_of([0.5]) is None
    assert power_of([0.5, 0.5, 0.5]) is None
    zero = power_of([0.5, -0.5])
    assert zero is not None
    assert (zero.needed, zero.more_needed) == (None, 0)


def test_an_interval_says_the_same_as_its_values() -> None:
    values = np.random.default_rng(1).normal(0.1, 0.3, 20)
    interval = t_interval(values)
    assert interval is not None
    direct, derived = power_of(values), power_of_interval(20, float(values.mean()), interval)
    assert direct is not None
    assert math.isclose(direct.smallest, derived.smallest)
    assert (direct.needed, direct.more_needed) == (derived.needed, derived.more_needed)
    assert direct.more_needed == (direct.needed or 0) - 20
