"""What can go wrong in training, seen from losses and scores, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WINDOW = 50
"""Over how many steps losses are averaged."""
WORSE = 2.0
"""How many times the first losses the last may be, plus `SLACK`."""
SLACK = 0.1
FEWER = (3.0, 0.5)
"""The same of fewer steps, whose averages say less."""
LEARNT = 0.5
"""What had once fallen to this share of the first losses has diverged where it is above them."""
SMALLEST = 5
SAME = 1e-6
"""Scores of a query that differ by less, relative to their size, are the same."""


def trouble_in(losses: Sequence[float]) -> str:
    """Why training should stop, from the losses so far; nothing where it should not.

    >>> trouble_in([0.7, 0.6, float("nan")])
    'the loss of step 3 is nan'
    >>> trouble_in([0.5] * 150 + [4.0] * 50)
    'the loss rises: 4.000 over the last 50 steps, 0.500 over the first'
    >>> trouble_in([0.5] * 20 + [1e6] * 20)
    'the loss rises: 1000000.000 over the last 10 steps, 0.500 over the first'
    >>> trouble_in([0.7] * 50 + [0.05] * 300 + [1.4] * 50)
    'the loss rises: 1.400 over the last 50 steps, 0.700 over the first, once 0.050'
    >>> trouble_in([0.5] * 100)
    ''
    """
    if not losses:
        return ""
    if not math.isfinite(losses[-1]):
        return f"the loss of step {len(losses)} is {losses[-1]}"
    size = min(WINDOW, len(losses) // 4)
    if size < SMALLEST:
        return ""
    first, last = (float(np.mean(part)) for part in (losses[:size], losses[-size:]))
    told = f"the loss rises: {last:.3f} over the last {size} steps, {first:.3f} over the first"
    worse, slack = (WORSE, SLACK) if size == WINDOW else FEWER
    if last > worse * first + slack:
        return told
    if size == WINDOW and last > first + SLACK:
        sums = np.cumsum([0.0, *losses])
        lowest = float((sums[size:] - sums[:-size]).min()) / size
        if lowest < LEARNT * first:
            return f"{told}, once {lowest:.3f}"
    return ""


def collapsed(scores: NDArray[np.float32], offsets: NDArray[np.int64]) -> bool:
    """Whether all texts of every query with two or more have the same score.

    >>> collapsed(np.array([1, 1, 2, 2], np.float32), np.array([0, 2, 4]))
    True
    >>> collapsed(np.array([1, 1, 2, 3], np.float32), np.array([0, 2, 4]))
    False
    """
    sizes = np.diff(offsets)
    many = np.flatnonzero(sizes > 1)
    if not len(many):
        return False
    high = np.maximum.reduceat(scores, offsets[:-1])[many]
    low = np.minimum.reduceat(scores, offsets[:-1])[many]
    return bool((high - low <= SAME * np.maximum(1, np.abs(high))).all())
