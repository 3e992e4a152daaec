"""Try a model before it is used: a folder may open and still not score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from tamis.errors import MISMATCH_ERRORS, InputError
from tamis.types import Pairs, Scorer

LONG_TEXT_WORDS = 5000
"""Long enough to reach every position of a model."""
AnyScorer = TypeVar("AnyScorer", bound=Scorer)


def open_and_test(open_it: Callable[[], AnyScorer], folder: Path) -> AnyScorer:
    """The scorer that `open_it` opens, once it has scored a short text and a long one."""
    pairs = Pairs(
        ["a sieve"], ["a", "a sieve " * LONG_TEXT_WORDS], np.array([[0, 0], [0, 1]], np.int32)
    )
    try:
        scorer = open_it()
        values = scorer.score(pairs).values
    except MISMATCH_ERRORS as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"
        raise InputError(
            f"{folder} cannot score: its config.json, tokenizer and weights do not fit together "
            f"({reason})",
            hint="copy all of them again from the same place",
        ) from error
    if not np.isfinite(values).all():
        raise InputError(
            f"{folder} gives scores that are not numbers", hint="its weights are broken"
        )
    return scorer
