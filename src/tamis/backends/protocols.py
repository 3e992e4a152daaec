"""What a back end is to the scorers: token ids in, logits or embeddings out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from tamis.backends.batches import Rows
from tamis.backends.tokens import TokenIds

Backend = Literal["fast", "transformers", "onnx", "onnx-int8"]
Kind = Literal["cross-encoder", "bi-encoder", "target-words"]
KINDS: tuple[Kind, ...] = ("cross-encoder", "bi-encoder", "target-words")
Family = Literal["sequence-to-sequence", "causal", "masked"]
FAMILIES: tuple[Family, ...] = ("sequence-to-sequence", "causal", "masked")


class CrossEncoderModel(Protocol):
    """What runs a cross-encoder, on whatever back end."""

    @property
    def outputs(self) -> int:
        """How many values it gives."""

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""


class BiEncoderModel(Protocol):
    """What runs a bi-encoder, on whatever back end."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a token's vector."""

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""

    def pool_tokens(self, sequences: Sequence[TokenIds], pooling: str, skip: int = 0) -> Rows:
        """One embedding per sequence, of its tokens but for the first `skip`; see `pooling`."""


class LanguageModel(Protocol):
    """A language model that can say what it would write next."""

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """The logits of the next token after each sequence: of these ids, or of all."""
