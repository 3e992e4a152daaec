"""Target words: which single token of a model's vocabulary a word is."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from tamis.backends.tokens import Tokens
from tamis.errors import InputError

WORD_START_MARKS = ("▁", "Ġ")
"""How SentencePiece and byte-level vocabularies mark the start of a word."""


def word_id(tokens: Tokens, word: str | int) -> int:
    """The id of a word given as a word (`true`), a piece (`▁true`, `_true`) or an id (1176)."""
    if isinstance(word, int):
        if not 0 <= word < tokens.size or tokens.backend.id_to_token(word) is None:
            raise InputError(
                f"the vocabulary has no id {word}", hint=f"ids go from 0 to {tokens.size - 1}"
            )
        return word
    if not word.strip():
        raise InputError(f"{word!r} is no word", hint="give a word, a piece or an id")
    vocabulary = tokens.backend.get_vocab(with_added_tokens=True)
    mark = word_mark(vocabulary)
    token_id = vocabulary.get(_piece(word, mark)) if mark else _single_token(tokens.backend, word)
    if token_id is None:
        raise _not_one_token(tokens.backend, word, mark, vocabulary)
    return int(token_id)


def word_ids(tokens: Tokens, words: Sequence[str | int]) -> tuple[int, int]:
    """The ids of two different words: the one that means relevant, the one that does not."""
    if len(words) != 2:
        raise InputError(
            f"{len(words)} target words given", hint="give two: relevant, not relevant"
        )
    ids, faults = [], []
    for word in words:
        try:
            ids.append(word_id(tokens, word))
        except InputError as fault:
            faults.append(fault)
    if faults:
        hints = dict.fromkeys(fault.hint for fault in faults)
        raise InputError("; ".join(map(str, faults)), hint="; ".join(hints))
    first, second = ids
    if first == second:
        raise InputError(
            f"{words[0]!r} and {words[1]!r} are the same token ({first})",
            hint="choose two different words",
        )
    return first, second


def word_mark(vocabulary: dict[str, int]) -> str:
    """The mark that starts a word in a vocabulary, or nothing."""
    counts = {
        mark: sum(piece.startswith(mark) for piece in vocabulary) for mark in WORD_START_MARKS
    }
    best = max(WORD_START_MARKS, key=lambda mark: counts[mark])
    return best if counts[best] * 100 > len(vocabulary) else ""


def _piece(word: str, mark: str) -> str:
    if word.startswith(mark):
        return word
    return mark + (word[1:] if word.startswith("_") and len(word) > 1 else word)


def _single_token(backend: Any, word: str) -> int | None:
    ids = backend.encode(word, add_special_tokens=False).ids
    unknown = [backend.token_to_id(name) for name in ("[UNK]", "<unk>")]
    return ids[0] if len(ids) == 1 and ids[0] not in unknown else None


def _not_one_token(backend: Any, word: str, mark: str, vocabulary: dict[str, int]) -> InputError:
    pieces = backend.encode(word.lstrip(mark + "_"), add_special_tokens=False).tokens
    words = {
        piece.removeprefix(mark): piece
        for piece in vocabulary
        if piece.startswith(mark) and piece.removeprefix(mark).isalpha()
    }
    near = get_close_matches(word.lstrip(mark + "_"), words, n=5, cutoff=0.5)
    hint = f"near ones are {', '.join(near)}" if near else "give a common word, a piece or an id"
    return InputError(f"{word!r} is not one token: it is {' '.join(pieces)}", hint=hint)
