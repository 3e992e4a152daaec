"""Embeddings in the batches of all requests: a text to encode is an item among pairs to score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tamis.scorers.tokenized import TokenizedPairs, TokenScorer
from tamis.types import Pairs

Rows = NDArray[np.float32]


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder that tokenises first and runs its model afterwards."""

    dimensions: int

    def tokenize_texts(self, texts: Sequence[str]) -> TokenizedPairs:
        """Texts as token ids, truncated to fit."""

    def encode_tokenized(self, encoded: Sequence[Any]) -> Rows:
        """One row per item of `tokenize_texts`, in whatever company it comes."""


@dataclass(eq=False)
class TextToEncode:
    """A text in a batch; the batch leaves its embedding here."""

    encoder: TokenEncoder
    encoded: Any
    embedding: Rows | None = None


class MixedScorer:
    """A bi-encoder whose batches hold pairs and texts to encode; a text scores 0."""

    def __init__(self, scorer: TokenScorer) -> None:
        self.scorer = scorer

    def tokenize(self, pairs: Pairs) -> TokenizedPairs:
        """See `TokenScorer.tokenize`."""
        return self.scorer.tokenize(pairs)

    def score_tokenized(self, items: Sequence[Any]) -> NDArray[np.float32]:
        """See `TokenScorer.score_tokenized`."""
        is_text = np.array([isinstance(item, TextToEncode) for item in items])
        encode_all([item for item in items if isinstance(item, TextToEncode)])
        values = np.zeros(len(items), np.float32)
        if not is_text.all():
            pairs = [item for item in items if not isinstance(item, TextToEncode)]
            values[~is_text] = self.scorer.score_tokenized(pairs)
        return values


def encode_all(texts: Sequence[TextToEncode]) -> None:
    """Encode the texts of a batch, those of one encoder together."""
    encoders = {id(text.encoder): text.encoder for text in texts}
    for encoder in encoders.values():
        own = [text for text in texts if text.encoder is encoder]
        rows = encoder.encode_tokenized([text.encoded for text in own])
        for text, row in zip(own, rows, strict=True):
            text.embedding = row


def batchable(scorer: TokenScorer) -> TokenScorer:
    """What a batcher runs for a scorer: pairs, and texts too if it encodes."""
    return MixedScorer(scorer) if isinstance(scorer, TokenEncoder) else scorer


def texts_to_encode(encoder: TokenEncoder, texts: Sequence[str]) -> TokenizedPairs:
    """Texts as items of a batch."""
    tokenized = encoder.tokenize_texts(texts)
    items = [TextToEncode(encoder, encoded) for encoded in tokenized.items]
    return TokenizedPairs(items, tokenized.lengths, tokenized.truncated_tokens)


def embeddings_of(tokenized: TokenizedPairs) -> Rows:
    """The embeddings that the batches left, one row a text."""
    return np.stack([item.embedding for item in tokenized.items])
