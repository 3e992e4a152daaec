"""The tokens of a query and a text as a model reads them, and which word each belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.backends.tokens import Tokens, clean, share_room
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords

TokenIds = NDArray[np.int32]
Words = Callable[[str], Sequence[tuple[str, int, int]]]
"""The words of a text, each as what it counts as, with where it starts and ends."""
_WORD = re.compile(r"\w+")


def plain_words(text: str) -> list[tuple[str, int, int]]:
    """Runs of letters and digits, in lower case.

    >>> plain_words("A sieve.")
    [('a', 0, 1), ('sieve', 2, 7)]
    """
    return [(match[0].lower(), *match.span()) for match in _WORD.finditer(text)]


@dataclass(frozen=True, eq=False)
class PairTokens:
    """One sequence of two texts, or of one; words that were truncated are not listed."""

    ids: TokenIds
    segments: TokenIds
    word_of: NDArray[np.int64]
    """Of each token its word's number; -1 of special tokens, punctuation, prompt, template."""
    words: tuple[tuple[int, str], ...]
    """0 for the query and 1 for the text, and the word: by default as written, in lower case."""

    @property
    def matched(self) -> NDArray[np.bool_]:
        """Of each word whether it is in both texts."""
        sides = [{word for side, word in self.words if side == n} for n in (0, 1)]
        both = sides[0] & sides[1]
        return np.array([word in both for _, word in self.words], bool)


def pair_tokens(
    scorer: CrossEncoder, query: str, text: str, words_of: Words = plain_words
) -> PairTokens:
    """A query and a text as a cross-encoder reads them, truncated as it truncates them."""
    room = scorer.max_length - scorer.layout.extra
    texts, begin = (scorer.prompt + query, text), len(clean(scorer.prompt))
    encodings = [_encoded(scorer.tokens, each) for each in texts]
    lengths = [len(ids) for ids, _ in encodings]
    longest = scorer.document_tokens or room
    kept = share_room(lengths[0], min(lengths[1], longest), room)
    cut = [(ids[:size], spans[:size]) for (ids, spans), size in zip(encodings, kept, strict=True)]
    ids, segments = scorer.layout.join(cut[0][0], cut[1][0])
    firsts = len(scorer.layout.before), len(scorer.layout.before) + kept[0]
    starts = firsts[0], firsts[1] + len(scorer.layout.between)
    word_of = np.full(len(ids), -1, np.int64)
    words: list[tuple[int, str]] = []
    for side, (each, (_, spans), start) in enumerate(zip(texts, cut, starts, strict=True)):
        bounds = begin if side == 0 else 0, None
        inside = word_of[start : start + len(spans)]
        _assign(inside, spans, clean(each), bounds, side, words, words_of)
    return PairTokens(ids, segments, word_of, tuple(words))


def prompt_tokens(
    scorer: TargetWords, query: str, text: str, words_of: Words = plain_words
) -> PairTokens:
    """A query and a text in the template of a language model, truncated as it truncates them."""
    filled, of_query, of_text = scorer.template.fill(clean(query), clean(text))
    encoding = scorer.tokens.backend.encode(filled)
    mask = scorer.template._mask_to_fit(encoding.offsets, of_query, of_text, scorer.max_length)
    kept = np.flatnonzero(np.ones(len(encoding.ids), bool) if mask is None else mask)
    ids = np.array(encoding.ids, np.int32)[kept]
    offsets = [encoding.offsets[n] for n in kept.tolist()]
    word_of = np.full(len(ids), -1, np.int64)
    words: list[tuple[int, str]] = []
    for side, (start, end) in enumerate((of_query, of_text)):
        _assign(word_of, offsets, filled, (start, end), side, words, words_of)
    return PairTokens(ids, np.zeros(len(ids), np.int32), word_of, tuple(words))


def text_tokens(encoder: BiEncoder, text: str, words_of: Words = plain_words) -> PairTokens:
    """A text alone as a bi-encoder reads it, truncated as it truncates it."""
    prompted = encoder.prompt + text
    ids, spans = _encoded(encoder.tokens, prompted)
    room = encoder.max_length - encoder.layout.extra
    before, after = encoder.layout.before, encoder.layout.after
    sequence = np.concatenate([np.asarray(part, np.int32) for part in (before, ids[:room], after)])
    word_of = np.full(len(sequence), -1, np.int64)
    words: list[tuple[int, str]] = []
    inside = word_of[len(before) : len(before) + len(ids[:room])]
    bounds = len(clean(encoder.prompt)), None
    _assign(inside, spans[:room], clean(prompted), bounds, 1, words, words_of)
    return PairTokens(sequence, np.zeros(len(sequence), np.int32), word_of, tuple(words))


def _encoded(tokens: Tokens, text: str) -> tuple[TokenIds, list[tuple[int, int]]]:
    encoding = tokens.backend.encode(clean(text), add_special_tokens=False)
    return np.array(encoding.ids, np.int32), encoding.offsets


def _assign(
    word_of: NDArray[np.int64],
    spans: list[tuple[int, int]],
    text: str,
    bounds: tuple[int, int | None],
    side: int,
    words: list[tuple[int, str]],
    words_of: Words,
) -> None:
    """Give every token the word that it shares a character with; a token of several the first.

    A token that is but a space, as T5 has before some words (“▁” and “a”), is a piece of the word
    right after it.
    """
    begin, found = bounds[0], words_of(text[slice(*bounds)])
    number_of: dict[int, int] = {}
    for token, (start, end) in enumerate(spans):
        if word_of[token] >= 0:
            continue
        reach = end + (text[start:end] == " ")
        inside = next(
            (
                n
                for n, word in enumerate(found)
                if begin + word[1] < reach and start < begin + word[2]
            ),
            -1,
        )
        if inside < 0:
            continue
        if inside not in number_of:
            number_of[inside] = len(words)
            words.append((side, found[inside][0]))
        word_of[token] = number_of[inside]
