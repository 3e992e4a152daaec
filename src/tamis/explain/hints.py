"""What a model's attention and its gradients say of matched words: hints, less trustworthy than
scoring the text again without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tamis.backends.fast import FastCrossEncoder
from tamis.explain._forwards import bi_encoder_gradient, cross_encoder_gradient
from tamis.explain.attention import attention_of, body_of, tokens_of, word_attention
from tamis.explain.pair_tokens import text_tokens
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.text.analysis import Analyzer
from tamis.types import Scorer
from tamis.types.explanation import WordEffect

Values = NDArray[np.float64]


def with_hints(
    effects: Sequence[WordEffect], scorer: Scorer, query: str, text: str, analyzer: Analyzer
) -> tuple[WordEffect, ...]:
    """The words with their share of the gradient times input, in absolute values, and of the last
    layer's attention, both among the words of the text; unchanged where the scorer has neither.
    """
    body = body_of(scorer)
    if isinstance(scorer, CrossEncoder) and isinstance(scorer.model, FastCrossEncoder) and body:
        tokens, head = tokens_of(scorer, query, text), scorer.model.head
        gradient = np.abs(cross_encoder_gradient(body, head, tokens.ids, tokens.segments))
        rows = np.stack([gradient, attention_of(scorer, tokens)[-1]])
        sums = word_attention(rows, tokens.word_of, len(tokens.words))
        of_text = np.array([side == 1 for side, _ in tokens.words], bool)
        words = [word for side, word in tokens.words if side == 1]
        shares = _by_term(words, sums[:, of_text], analyzer)
        return tuple(
            replace(
                effect, gradient=shares[0].get(effect.term), attention=shares[1].get(effect.term)
            )
            for effect in effects
        )
    if isinstance(scorer, BiEncoder) and body:
        gradients = _bi_encoder_gradients(scorer, query, text, analyzer)
        return tuple(replace(effect, gradient=gradients.get(effect.term)) for effect in effects)
    return tuple(effects)


def _by_term(words: Sequence[str], sums: Values, analyzer: Analyzer) -> list[dict[str, float]]:
    """Of each row the share of each term."""
    terms = [analyzer.terms(word) for word in words]
    shares: list[dict[str, float]] = []
    for row in sums:
        total = float(row.sum()) or 1.0
        of_term: dict[str, float] = {}
        for word_terms, value in zip(terms, row.tolist(), strict=True):
            for term in set(word_terms):
                of_term[term] = of_term.get(term, 0.0) + value / total
        shares.append(of_term)
    return shares


def _bi_encoder_gradients(
    scorer: BiEncoder, query: str, text: str, analyzer: Analyzer
) -> dict[str, float]:
    """The share of each term in the gradient of the cosine, over the terms of the text."""
    reader = scorer.documents or scorer
    body = body_of(reader)
    if body is None or reader.prompt or reader.layers or reader.pooling not in ("mean", "cls"):
        return {}
    room = reader.max_length - reader.layout.extra
    ids, spans = text_tokens(reader.tokens, text, room)
    before, after = reader.layout.before, reader.layout.after
    sequence = np.concatenate([np.asarray(part, np.int32) for part in (before, ids, after)])
    of_query = scorer.encode([query])[0]
    values = bi_encoder_gradient(body, sequence, of_query, reader.pooling)
    of_text = np.abs(values[len(before) : len(before) + len(ids)])
    shares: dict[str, float] = {}
    total = float(of_text.sum()) or 1.0
    for term, start, end in analyzer.spans(text):
        inside = [value for value, span in zip(of_text.tolist(), spans, strict=True)
                  if span[0] < end and start < span[1]]  # fmt: skip
        shares[term] = shares.get(term, 0.0) + sum(inside) / total
    return shares
