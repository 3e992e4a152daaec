"""How much a model attends to words that query and text share, as Yadav, Bethard and Surdeanu
measure it (SIGIR 2020, section 4.1).

The row of the classification token (for T5 the first decoder step's attention to the text) is
summed over heads; special tokens are left out and a word's pieces are summed. Words that are in
both texts are averaged, and so are the others; of each layer the two are put on a sum of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis.backends._bert import Bert
from tamis.backends._t5 import T5
from tamis.errors import InputError
from tamis.explain._forwards import EagerModel, LayerRows, bert_attention, t5_attention
from tamis.explain.pair_tokens import (
    PairTokens,
    Words,
    pair_tokens,
    plain_words,
    prompt_tokens,
)
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords
from tamis.types import Scorer

Values = NDArray[np.float64]
LAST_LAYERS = 3


@dataclass(frozen=True)
class AttentionShares:
    """The share of matched words in the attention, as means over pairs: above .5 they get more than
    the other words.
    """

    layers: tuple[float, ...]
    """Of every layer, the first one first."""
    pairs: int
    """How many pairs it is the mean of."""
    left_out: int
    """How many pairs have no word in common, or no other word."""

    @property
    def last(self) -> float:
        """Of the last layer."""
        return self.layers[-1]

    @property
    def last_three(self) -> float:
        """The mean of the last three layers."""
        return float(np.mean(self.layers[-LAST_LAYERS:]))


def matched_shares(
    attention: NDArray[np.floating], word_of: NDArray[np.int64], matched: NDArray[np.bool_]
) -> Values | None:
    """Of each layer the share of matched words; None where no word is matched, or none is not.

    `attention` has a row a layer and a column a token, `word_of` the word of each token (-1: none).

    >>> attention = np.array([[9.0, 0.2, 0.1, 0.1, 0.3]])  # a special token, then four pieces
    >>> words = np.array([-1, 0, 1, 1, 2])  # 0: .2, 1: .1 + .1, 2: .3
    >>> matched = np.array([True, False, True])  # (.2 + .3) / 2 beside .2
    >>> matched_shares(attention, words, matched).round(4).tolist()
    [0.5556]
    """
    if matched.all() or not matched.any():
        return None
    words = word_attention(attention, word_of, len(matched))
    of_matched, of_others = words[:, matched].mean(1), words[:, ~matched].mean(1)
    shares: Values = of_matched / (of_matched + of_others)
    return shares


def word_attention(
    attention: NDArray[np.floating], word_of: NDArray[np.int64], words: int
) -> Values:
    """The attention to each word, its pieces summed: a row a layer."""
    inside = word_of >= 0
    sums = np.zeros((len(attention), words))
    np.add.at(sums.T, word_of[inside], attention.T[inside].astype(np.float64))
    return sums


def attention_shares(
    scorer: Scorer,
    pairs: Sequence[tuple[str, str]],
    *,
    by: Literal["own", "transformers"] = "own",
) -> AttentionShares:
    """The share of matched words in a model's attention, over pairs of query and text.

    `scorer` is a cross-encoder or a T5 that chooses between target words, in torch. `by` says whose
    forward gives the attention of a cross-encoder: both agree. Where our own is not like BERT's,
    transformers gives it.
    """
    if by == "transformers" and not isinstance(scorer, CrossEncoder):
        raise InputError(
            f"by='transformers' is for cross-encoders, not for {type(scorer).__name__}",
            hint="without it our own forward gives the attention of a T5",
        )
    eager = eager_model(scorer) if needs_transformers(scorer, by) else None
    rows, left_out = [], 0
    for query, text in pairs:
        tokens = tokens_of(scorer, query, text)
        shares = matched_shares(attention_of(scorer, tokens, eager), tokens.word_of, tokens.matched)
        if shares is None:
            left_out += 1
        else:
            rows.append(shares)
    if not rows:
        raise InputError(
            f"none of {len(pairs):,} pairs has words in common and others",
            hint="attention to matched words needs pairs that share some",
        )
    return AttentionShares(tuple(np.mean(rows, axis=0).tolist()), len(rows), left_out)


def tokens_of(scorer: Scorer, query: str, text: str, words_of: Words = plain_words) -> PairTokens:
    """A query and a text as a scorer reads them; an error for one without attention to a pair."""
    if isinstance(scorer, CrossEncoder) and not scorer.runtime.is_onnx:
        return pair_tokens(scorer, query, text, words_of)
    if isinstance(scorer, TargetWords) and isinstance(scorer.language_model, T5):
        return prompt_tokens(scorer, query, text, words_of)
    raise InputError(
        f"attention to a query and a text cannot be read from {type(scorer).__name__}",
        hint="a cross-encoder or a T5 with target words, run by torch",
    )


def body_of(scorer: Scorer) -> Bert | None:
    """The body of a cross-encoder that our own forward of BERT runs."""
    body = getattr(scorer.model, "body", None) if isinstance(scorer, CrossEncoder) else None
    return body if isinstance(body, Bert) else None


def needs_transformers(scorer: Scorer, by: Literal["own", "transformers"] = "own") -> bool:
    """Whether the attention of a scorer comes from transformers: where that is asked for, and
    where our own forward is not BERT's.
    """
    return isinstance(scorer, CrossEncoder) and (by == "transformers" or body_of(scorer) is None)


def eager_model(scorer: Scorer) -> EagerModel:
    """The model of a scorer as transformers runs it, opened once for many pairs."""
    origin = scorer.origin if isinstance(scorer, CrossEncoder) else None
    if origin is None:
        raise InputError("the model has no folder", hint="open it from a folder")
    return EagerModel.open(origin.folder)


def attention_of(scorer: Scorer, tokens: PairTokens, eager: EagerModel | None = None) -> LayerRows:
    """The attention to each token, a row a layer, summed over heads; of a cross-encoder by an
    `eager` model where there is one.
    """
    if eager is not None:
        return eager.attention([tokens.ids], [tokens.segments])[0]
    body = body_of(scorer)
    if body is not None:
        return bert_attention(body, tokens.ids, tokens.segments)
    assert isinstance(scorer, TargetWords) and isinstance(scorer.language_model, T5)
    return t5_attention(scorer.language_model, tokens.ids)
