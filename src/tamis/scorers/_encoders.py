"""The encoders tamis runs without padding, by the type that a config names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tamis.errors import InputError, require
from tamis.scorers import _bert, _distilbert, _modernbert, _mpnet
from tamis.scorers._dropout import NO_DROPOUT, Dropout
from tamis.scorers.model_manifest import Pooling
from tamis.scorers.tokens import TokenIds
from tamis.scorers.weights import Loaded, Tensor


class Encoder(Protocol):
    """The body of a model, ready to run."""

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""

    @property
    def dimensions(self) -> int:
        """How many values a token's vector has."""

    def first_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vector of every sequence's first token; sorted by length."""

    def all_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vectors of all tokens, sequence after sequence."""


BUILDERS: dict[str, Callable[[Loaded, Dropout], Encoder]] = {
    **dict.fromkeys(_bert.FAMILIES, _bert.build),
    "distilbert": _distilbert.build,
    "mpnet": _mpnet.build,
    "modernbert": _modernbert.build,
}


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> Encoder:
    """The body of the model in a folder."""
    family = loaded.config["model_type"]
    if family not in BUILDERS:
        raise InputError(
            f"{loaded.folder} is a model of type {family!r}, which tamis cannot run as an encoder",
            hint=f"it runs {', '.join(BUILDERS)}",
        )
    return BUILDERS[family](loaded, dropout)


def pooled(
    body: Encoder, sequences: Sequence[TokenIds], segments: Sequence[TokenIds], pooling: Pooling
) -> Tensor:
    """One vector per sequence; training takes gradients through it."""
    if pooling == "cls":
        return body.first_tokens(sequences, segments)
    states = body.all_tokens(sequences, segments)
    token_states = states.split([len(sequence) for sequence in sequences])
    return require("torch").stack([tokens.mean(0) for tokens in token_states])
