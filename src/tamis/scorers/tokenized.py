"""Scoring in two steps: pairs to token ids, token ids to values.

What batches pairs of many requests knows the length of each before the model runs, and may run
some now and others later. A score does not depend on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tamis.backends.batches import chunks
from tamis.types import Pairs, Scores


@dataclass(frozen=True, eq=False)
class TokenizedPairs:
    """Pairs as the forward of the scorer that made them takes them."""

    items: Sequence[Any]
    """One a pair, of the scorer's own form."""
    lengths: NDArray[np.int64]
    """How many tokens the model reads of each pair."""
    truncated_tokens: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.items)


@runtime_checkable
class TokenScorer(Protocol):
    """A scorer that tokenises first and runs its model afterwards."""

    def tokenize(self, pairs: Pairs) -> TokenizedPairs:
        """The pairs as token ids, truncated to fit."""

    def score_tokenized(self, items: Sequence[Any]) -> NDArray[np.float32]:
        """One value per item, in whatever company items of `tokenize` come."""


def score_in_chunks(scorer: TokenScorer, pairs: Pairs) -> Scores:
    """What a scorer says of pairs, chunk by chunk, so that memory stays flat."""
    values, truncated_tokens = np.empty(len(pairs), np.float32), np.zeros(len(pairs), np.int32)
    for rows, piece in chunks(pairs):
        tokenized = scorer.tokenize(piece)
        values[rows] = scorer.score_tokenized(tokenized.items)
        truncated_tokens[rows] = tokenized.truncated_tokens
    return Scores(values, truncated_tokens)
