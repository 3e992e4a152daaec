"""What a model's attention and its gradients say of matched words: hints, less trustworthy than
scoring the text again without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tamis.explain._gradients import (
    bi_encoder_gradient,
    can_give_gradient,
    cross_encoder_gradient,
    target_words_gradient,
)
from tamis.explain.attention import attention_of, needs_transformers, tokens_of, word_attention
from tamis.explain.pair_tokens import PairTokens, prompt_tokens, text_tokens
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.in_torch import why_not_in_torch
from tamis.scorers.target_words import TargetWords
from tamis.text.analysis import Analyzer
from tamis.types.explanation import WordEffect

Shares = Mapping[str, float]


@dataclass(frozen=True)
class Hints:
    """The share of each term among the terms of a text, where the model has such."""

    gradient: Shares = field(default_factory=dict)
    """Of the gradient times input, in absolute values."""
    attention: Shares = field(default_factory=dict)
    """Of the last layer's attention."""
    why_not: str = ""
    """Why a neural model gives neither; empty of a scorer that has no such thing."""

    def beside(self, effects: Sequence[WordEffect]) -> tuple[WordEffect, ...]:
        """The effects of words with their shares."""
        return tuple(
            replace(
                effect,
                gradient=self.gradient.get(effect.term),
                attention=self.attention.get(effect.term),
            )
            for effect in effects
        )


def hints_of(scorer: object, query: str, text: str, analyzer: Analyzer) -> Hints:
    """The hints of the model that scores a query and a text; an export is run by torch for it."""
    if not isinstance(scorer, CrossEncoder | BiEncoder | TargetWords):
        return Hints()
    why_not = why_not_in_torch(scorer)
    model = None if why_not else scorer.in_torch
    if model is None:
        return Hints(why_not=why_not)
    if isinstance(model, BiEncoder):
        return _of_bi_encoder(model, query, text, analyzer)
    return _of_pair(model, query, text, analyzer)


def _of_pair(
    scorer: CrossEncoder | TargetWords, query: str, text: str, analyzer: Analyzer
) -> Hints:
    tokens: PairTokens
    if isinstance(scorer, CrossEncoder):
        tokens = tokens_of(scorer, query, text, analyzer.spans)
        gradient = cross_encoder_gradient(scorer, tokens.ids, tokens.segments)
        has_attention = not needs_transformers(scorer)
    else:
        tokens = prompt_tokens(scorer, query, text, analyzer.spans)
        gradient = target_words_gradient(scorer, tokens.ids)
        has_attention = scorer.runtime.backend == "fast"
    attention = attention_of(scorer, tokens)[-1] if has_attention else None
    if gradient is None and attention is None:
        return Hints(why_not="the model has a head of its own")
    return Hints(
        {} if gradient is None else _shares(np.abs(gradient), tokens),
        {} if attention is None else _shares(attention, tokens),
    )


def _shares(values: NDArray[np.floating], tokens: PairTokens) -> dict[str, float]:
    """The share of each term of the text, from the values of tokens."""
    of_words = word_attention(values[None], tokens.word_of, len(tokens.words))[0]
    shares: dict[str, float] = {}
    for (side, term), value in zip(tokens.words, of_words.tolist(), strict=True):
        if side == 1:
            shares[term] = shares.get(term, 0.0) + value
    total = sum(shares.values()) or 1.0
    return {term: value / total for term, value in shares.items()}


def _of_bi_encoder(scorer: BiEncoder, query: str, text: str, analyzer: Analyzer) -> Hints:
    """The share of each term in the gradient of the cosine, over the terms of the text."""
    reader = scorer.documents or scorer
    if not can_give_gradient(reader):
        return Hints(why_not="the model has dense layers after its pooling")
    tokens = text_tokens(reader, text, analyzer.spans)
    gradient = bi_encoder_gradient(reader, tokens.ids, scorer.encode([query])[0])
    return Hints({} if gradient is None else _shares(np.abs(gradient), tokens))
