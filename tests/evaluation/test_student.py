"""Student's t against scipy, by closed formulas, and at the ends of the range."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from tamis.evaluation.student import _gamma_ratio, student_critical_value, student_p_value

degrees = st.one_of(st.integers(1, 60), st.integers(1, 10**6))
EPSILON = math.ulp(1.0)


def condition(t: float, df: int) -> float:
    """By how much a relative error of t is multiplied in p: at most t^2 + 1, and df + 1."""
    return 1 + min(t * t + 1, df + 1)


@given(st.floats(-8, 8).map(lambda power: 10.0**power), degrees)
@example(1.0, 1)
@example(math.nextafter(1.0, 0.0), 10**6)
@example(37.0, 10**6)
@settings(max_examples=400, deadline=None)
def test_p_values_are_those_of_scipy(t: float, df: int) -> None:
    expected = 2 * float(special.stdtr(df, -t))
    if t < 0.1:  # there the error of stdtr is EPSILON / t
        expected = 1 - float(special.betainc(0.5, df / 2, t * t / (df + t * t)))
    error = max(1e-13, 4 * EPSILON * condition(t, df))
    if expected > 1e-300:
        assert student_p_value(t, df) == pytest.approx(expected, rel=error, abs=0)
    else:
        assert student_p_value(t, df) <= 1.001e-300
    assert student_p_value(-t, df) == student_p_value(t, df)


@given(degrees, st.floats(2, 300))
@settings(max_examples=300, deadline=None)
def test_far_tails_are_those_of_scipy(df: int, power: float) -> None:
    t = -float(special.stdtrit(df, 10.0**-power / 2))
    if not 0 < t < 1e150:  # scipy squares t
        return
    expected = 2 * float(special.stdtr(df, -t))
    assert student_p_value(t, df) == pytest.approx(expected, rel=1e-12, abs=0)


@given(st.floats(-300, 300).map(lambda power: 10.0**power))
@settings(max_examples=200, deadline=None)
def test_one_and_two_degrees_of_freedom_have_closed_formulas(t: float) -> None:
    assert student_p_value(t, 1) == pytest.approx(2 / math.pi * math.atan2(1, t), rel=4e-15, abs=0)
    if t < 1e150:
        root = math.sqrt(2 + t * t)
        expected = 2 / (root * (root + t))
        assert student_p_value(t, 2) == pytest.approx(expected, rel=4e-15, abs=0)


@given(st.floats(0, 37), st.integers(10**13, 10**15))
@settings(max_examples=50, deadline=None)
def test_many_degrees_of_freedom_give_the_normal_distribution(t: float, df: int) -> None:
    expected = math.erfc(t / math.sqrt(2))
    assert student_p_value(t, df) == pytest.approx(expected, rel=1e-6, abs=0)


@given(st.floats(1e-6, 1, exclude_max=True), degrees)
@example(math.nextafter(1.0, 0.0), 1)
@example(math.nextafter(1.0, 0.0), 10**6)
@settings(max_examples=300, deadline=None)
def test_critical_values_are_those_of_scipy(level: float, df: int) -> None:
    found = student_critical_value(level, df)
    if level < 0.5:  # (1 + level) / 2 has lost digits of a low level
        assert 1 - student_p_value(found, df) == pytest.approx(level, abs=1e-15)
    else:
        expected = -float(special.stdtrit(df, (1 - level) / 2))
        assert found == pytest.approx(expected, rel=1e-10, abs=0)
        assert student_p_value(found, df) == pytest.approx(1 - level, rel=1e-12, abs=0)


@given(st.floats(-300, -1).map(lambda power: 10.0**power))
def test_low_levels_have_low_critical_values(level: float) -> None:
    expected = math.tan(math.pi / 2 * level)
    assert student_critical_value(level, 1) == pytest.approx(expected, rel=4e-15, abs=0)


@pytest.mark.parametrize("a", [1, 2, 19, 20, 21, 30, 500])
def test_the_ratio_of_gamma_functions_is_a_binomial_coefficient(a: int) -> None:
    expected = a * math.comb(2 * a, a) / 4**a * math.sqrt(math.pi)
    assert _gamma_ratio(a) == pytest.approx(expected, rel=4e-15, abs=0)


def test_the_ends_of_the_range() -> None:
    assert student_p_value(0.0, 5) == 1.0 and student_p_value(math.inf, 5) == 0.0
    assert student_p_value(-math.inf, 5) == 0.0 and student_p_value(1e308, 2) == 0.0
    assert student_p_value(5e-324, 3) == 1.0
    assert student_critical_value(0.0, 5) == 0.0 and student_critical_value(1.0, 5) == math.inf
    assert 0 < student_critical_value(5e-324, 1) < 1e-299


@pytest.mark.parametrize(("t", "df"), [(math.nan, 5), (1.0, 0), (1.0, -3), (math.nan, 0)])
def test_there_is_no_p_value(t: float, df: int) -> None:
    assert math.isnan(student_p_value(t, df)) and math.isnan(float(special.stdtr(df, t)))


@pytest.mark.parametrize(("level", "df"), [(math.nan, 5), (-0.1, 5), (1.1, 5), (0.9, 0)])
def test_there_is_no_critical_value(level: float, df: int) -> None:
    assert math.isnan(student_critical_value(level, df))
