"""What can go wrong in training, seen from losses and scores, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LOSS_WINDOW = 50
"""Steps over which losses are averaged."""
MAX_LOSS_RATIO = 2.0
"""The last losses may be this many times the first, plus `LOSS_SLACK`."""
LOSS_SLACK = 0.1
SHORT_RATIO_AND_SLACK = (3.0, 0.5)
"""Ratio and slack for windows of fewer steps, whose averages say less."""
LEARNT_LOSS_SHARE = 0.5
"""What had once fallen to this share of the first losses has diverged where it is above them."""
MIN_LOSS_WINDOW = 5
SCORE_TOLERANCE = 1e-6
"""Scores of a query that differ by less, relative to their size, are the same."""


def find_divergence(losses: Sequence[float]) -> str:
    """Why training should stop, from the losses so far; nothing where it should not.

    >>> find_divergence([0.7, 0.6, float("nan")])
    'the loss of step 3 is nan'
    >>> find_divergence([0.5] * 150 + [4.0] * 50)
    'the loss rises: 4.000 over the last 50 steps, 0.500 over the first'
    >>> find_divergence([0.5] * 20 + [1e6] * 20)
    'the loss rises: 1000000.000 over the last 10 steps, 0.500 over the first'
    >>> find_divergence([0.7] * 50 + [0.05] * 300 + [1.4] * 50)
    'the loss rises: 1.400 over the last 50 steps, 0.700 over the first, once 0.050'
    >>> find_divergence([0.5] * 100)
    ''
    """
    if not losses:
        return ""
    if not math.isfinite(losses[-1]):
        return f"the loss of step {len(losses)} is {losses[-1]}"
    size = min(LOSS_WINDOW, len(losses) // 4)
    if size < MIN_LOSS_WINDOW:
        return ""
    first, last = (float(np.mean(window)) for window in (losses[:size], losses[-size:]))
    message = f"the loss rises: {last:.3f} over the last {size} steps, {first:.3f} over the first"
    worse, slack = (MAX_LOSS_RATIO, LOSS_SLACK) if size == LOSS_WINDOW else SHORT_RATIO_AND_SLACK
    if last > worse * first + slack:
        return message
    if size == LOSS_WINDOW and last > first + LOSS_SLACK:
        sums = np.cumsum([0.0, *losses])
        lowest = float((sums[size:] - sums[:-size]).min()) / size
        if lowest < LEARNT_LOSS_SHARE * first:
            return f"{message}, once {lowest:.3f}"
    return ""


def has_collapsed(scores: NDArray[np.float32], offsets: NDArray[np.int64]) -> bool:
    """Whether all texts of every query with two or more have the same score.

    >>> has_collapsed(np.array([1, 1, 2, 2], np.float32), np.array([0, 2, 4]))
    True
    >>> has_collapsed(np.array([1, 1, 2, 3], np.float32), np.array([0, 2, 4]))
    False
    """
    sizes = np.diff(offsets)
    many = np.flatnonzero(sizes > 1)
    if not len(many):
        return False
    high = np.maximum.reduceat(scores, offsets[:-1])[many]
    low = np.minimum.reduceat(scores, offsets[:-1])[many]
    return bool((high - low <= SCORE_TOLERANCE * np.maximum(1, np.abs(high))).all())
