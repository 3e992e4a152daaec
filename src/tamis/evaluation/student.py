"""Student's t distribution to the precision of floats: p-values and critical values.

Both rest on the regularised incomplete beta function with a = df / 2 and b = 1/2, by its
continued fraction (DiDonato and Morris 1992, eq. 9). What t is computed from is left to
`significance.py`.
"""

from __future__ import annotations

import math

EPSILON = math.ulp(1.0)
SMALLEST_DENOMINATOR = 1e-300
"""In place of zero in the continued fraction, as in Lentz's method."""
GAMMA_SERIES_FROM = 20
"""From here on five terms give the ratio of two gamma functions to the last bits."""
MAX_FRACTION_TERMS = 10_000
"""Far more than the few dozen that are needed."""
MAX_NEWTON_STEPS = 1000
"""A step multiplies by e at most; 700 of them lead from 1 to the smallest level."""
SMALLEST_LEVEL = 1e-300
"""Lower levels are taken for this one: their critical values cannot be told from zero."""


def student_p_value(t: float, df: int) -> float:
    """The two-sided p-value of t with `df` degrees of freedom: the probability of |T| >= |t|.

    NaN where t is NaN or df is not positive.

    >>> round(student_p_value(12.706204736174705, 1), 12), student_p_value(0.0, 7)
    (0.05, 1.0)
    """
    return _probabilities(t, df)[1]


def student_critical_value(level: float, df: int) -> float:
    """The value that |T| stays below with probability `level`.

    NaN where level is not between 0 and 1 or df is not positive.

    >>> [round(student_critical_value(0.95, df), 4) for df in (1, 10, 1000)]
    [12.7062, 2.2281, 1.9623]
    """
    if not 0 <= level <= 1 or not df > 0:
        return math.nan
    if level in (0, 1):
        return math.inf if level else 0.0
    t, level = 1.0, max(level, SMALLEST_LEVEL)
    for _ in range(MAX_NEWTON_STEPS):
        step = _newton_step(t, df, level)
        t *= math.exp(step)
        if abs(step) < 1e-9:  # the next one would be about its square
            break
    return t


def _newton_step(t: float, df: int, level: float) -> float:
    """By how much to move log t, so that the logarithm of the smaller probability is right."""
    inside, outside = _probabilities(t, df)
    slope = 2 * _density_times_t(t, df)
    if level < 0.5:
        step = math.log(level / inside) * inside / slope
    else:
        step = math.log(outside / (1 - level)) * outside / slope
    return max(-1.0, min(1.0, step))


def _probabilities(t: float, df: int) -> tuple[float, float]:
    """The probabilities of |T| < |t| and of |T| >= |t|."""
    t = abs(t)
    if math.isnan(t) or not df > 0:
        return math.nan, math.nan
    if t == 0 or math.isinf(t):
        return (1.0, 0.0) if t else (0.0, 1.0)
    a, front, square = df / 2, _density_times_t(t, df), t * t
    x, y = df / (df + square), square / (df + square) if square < math.inf else 1.0
    if t < 1:
        inside = front * _beta_fraction(0.5, a, y, x)
        return inside, 1 - inside
    outside = front * _beta_fraction(a, 0.5, x, y)
    return 1 - outside, outside


def _density_times_t(t: float, df: int) -> float:
    """The density at t > 0 times t, without overflow for any t."""
    ratio = t / math.sqrt(df)
    if ratio < 1:
        power = math.exp(-df / 2 * math.log1p(t * t / df))
    else:
        power = math.hypot(1, ratio) ** -df
    return _gamma_ratio(df / 2) / math.sqrt(math.pi) * power * ratio / math.hypot(1, ratio)


def _gamma_ratio(a: float) -> float:
    """gamma(a + 1/2) / gamma(a); large a by the series of its logarithm, in which no digits cancel.

    >>> round(_gamma_ratio(0.5) * math.sqrt(math.pi), 12), round(_gamma_ratio(10**6) / 1000, 12)
    (1.0, 0.999999875)
    """
    if a < GAMMA_SERIES_FROM:
        return math.gamma(a + 0.5) / math.gamma(a)
    z = 1 / (a * a)
    terms = -1 / 8 + z * (1 / 192 + z * (-1 / 640 + z * (17 / 14336 - z * 31 / 18432)))
    return math.sqrt(a) * math.exp(terms / a)


def _beta_fraction(a: float, b: float, x: float, y: float) -> float:
    """What x^a y^b / B(a, b) is multiplied by to give I_x(a, b), where y = 1 - x.

    Lentz's method. y is an argument because 1 - x would lose digits where x is almost 1.
    """
    product = c = a * (a * y - b * x + 1) / (a + 1)
    d = 0.0
    for m in range(1, MAX_FRACTION_TERMS):
        numerator = (a + m - 1) * (a + b + m - 1) * m * (b - m) * (x / (a + 2 * m - 1)) ** 2
        denominator = m + m * (b - m) * x / (a + 2 * m - 1)
        denominator += (a + m) * (a * y - b * x + 1 + m * (1 + y)) / (a + 2 * m + 1)
        d = 1 / _nonzero(denominator + numerator * d)
        c = _nonzero(denominator + numerator / c)
        product *= c * d
        if abs(c * d - 1) <= EPSILON:
            break
    return 1 / product


def _nonzero(value: float) -> float:
    return value or SMALLEST_DENOMINATOR
