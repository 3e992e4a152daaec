"""The fast back end: forwards of our own without padding, on a CPU in float32.

Which architectures have one is said by the tables here. Another takes its place in them: a module
like `_bert` with `build(loaded, dropout)`, and in `_heads` a head where it is to run
cross-encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tamis.backends import _bert, _distilbert, _modernbert, _t5
from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends._heads import HEADS, Head
from tamis.backends.batches import Rows
from tamis.backends.pooling import pool_text
from tamis.backends.protocols import Kind
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Loaded, Tensor
from tamis.errors import InputError, require


class Body(Protocol):
    """A forward of our own: tokens to the vectors of the last layer."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a token's vector."""

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""

    def first_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vector of every sequence's first token."""

    def all_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vectors of all tokens, sequence after sequence."""


ENCODERS: Mapping[str, Callable[..., Body]] = {
    **dict.fromkeys(_bert.FAMILIES, _bert.build),
    "distilbert": _distilbert.build,
    "modernbert": _modernbert.build,
}
"""How the body of each architecture is built from a folder, by the config's model_type."""
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
ACTIVATION_NAMES = {"distilbert": "activation", "modernbert": "hidden_activation"}
"""What configs call the activation, where it is not hidden_act."""


def applies(kind: Kind, config: Mapping[str, Any]) -> bool:
    """Whether there is a forward of our own for a model of this kind with this config.

    >>> applies("bi-encoder", {"model_type": "bert"}), applies("bi-encoder", {"model_type": "t5"})
    (True, False)
    """
    model_type = config.get("model_type")
    if kind == "target-words":
        names = config.get("architectures") or [""]
        return model_type in _t5.FAMILIES and not str(names[0]).endswith("EncoderModel")
    if model_type not in ENCODERS or (kind == "cross-encoder" and model_type not in HEADS):
        return False
    if kind == "cross-encoder" and config.get("classifier_activation", "gelu") not in ACTIVATIONS:
        return False
    return (
        config.get("position_embedding_type", "absolute") == "absolute"
        and config.get(ACTIVATION_NAMES.get(str(model_type), "hidden_act"), "gelu") in ACTIVATIONS
        and (model_type != "modernbert" or _modernbert.has_plain_turns(config))
        and not config.get("is_decoder")
        and not config.get("auto_map")
    )


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> Body:
    """The body of a folder's model."""
    make = ENCODERS.get(loaded.config["model_type"])
    if make is None:
        raise InputError(
            f"{loaded.folder} is a model of type {loaded.config['model_type']!r}, which the fast "
            "back end cannot run as an encoder",
            hint=f"it runs {', '.join(ENCODERS)}; use the back end transformers",
        )
    return make(loaded, dropout)


@dataclass(frozen=True, eq=False)
class FastCrossEncoder:
    """A cross-encoder in our own forward."""

    body: Body
    head: Head

    @property
    def outputs(self) -> int:
        """How many values it gives."""
        return self.head.outputs

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.body.longest

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""
        with require("torch").inference_mode():
            states = head_states(self.body, self.head, sequences, segments)
            values: Rows = self.head(states).numpy()
        return values


@dataclass(frozen=True, eq=False)
class FastBiEncoder:
    """A bi-encoder in our own forward."""

    body: Body

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a token's vector."""
        return self.body.dimensions

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.body.longest

    def pool_tokens(self, sequences: Sequence[TokenIds], pooling: str, skip: int = 0) -> Rows:
        """One embedding per sequence."""
        with require("torch").inference_mode():
            values: Rows = pool_tokens(self.body, sequences, pooling, skip).numpy()
        return values


def head_states(
    body: Body, head: Head, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]
) -> Tensor:
    """What a head reads of each sequence: its first token's vector, or the mean of all."""
    if head.pooling == "cls":
        return body.first_tokens(sequences, segments)
    states = body.all_tokens(sequences, segments).split([len(sequence) for sequence in sequences])
    return require("torch").stack([rows.mean(0) for rows in states])


def pool_tokens(body: Body, sequences: Sequence[TokenIds], pooling: str, skip: int = 0) -> Tensor:
    """One embedding per sequence, not yet of length one; training takes gradients through it."""
    torch = require("torch")
    segments = [np.zeros(len(sequence), np.int32) for sequence in sequences]
    if pooling == "cls" and not skip:
        return body.first_tokens(sequences, segments)
    states = body.all_tokens(sequences, segments).split([len(sequence) for sequence in sequences])
    return torch.stack([torch.cat(pool_text(rows, pooling, skip)) for rows in states])
