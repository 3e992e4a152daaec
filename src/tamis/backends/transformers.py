"""The transformers back end: whatever architecture transformers opens, on any device.

A model stays open for training: `network.forward` keeps gradients, `network.model` is the torch
module, and what scoring reads (`scores`, `pooled`, `next_token`) are tensors that a loss can take.
Last tokens are found by their places, so padding does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tamis.backends.batches import Rows
from tamis.backends.network import Network, longest_of, open_network
from tamis.backends.pooling import pool_padded
from tamis.backends.protocols import Family
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Tensor, read_config
from tamis.errors import InputError, require

LANGUAGE_MODELS: dict[Family, str] = {
    "sequence-to-sequence": "AutoModelForSeq2SeqLM",
    "causal": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
}
ENCODER_ONLY = {
    "t5": "T5EncoderModel",
    "mt5": "MT5EncoderModel",
    "umt5": "UMT5EncoderModel",
    "longt5": "LongT5EncoderModel",
    "switch_transformers": "SwitchTransformersEncoderModel",
    "t5gemma": "T5GemmaEncoderModel",
}
"""Models with a decoder of which a bi-encoder runs the encoder alone, as sentence-transformers."""


@dataclass(frozen=True, eq=False)
class TransformersCrossEncoder:
    """A cross-encoder in transformers."""

    network: Network
    longest: int

    @property
    def outputs(self) -> int:
        """How many values it gives."""
        return int(self.network.model.config.num_labels)

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""
        return self.network.run(sequences, segments, self.scores)

    def scores(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds] | None) -> Tensor:
        """`logits` as a tensor, which knows its gradient outside inference."""
        return self.network.forward(sequences, segments).logits


@dataclass(frozen=True, eq=False)
class TransformersBiEncoder:
    """A bi-encoder in transformers."""

    network: Network
    longest: int

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a token's vector."""
        config = self.network.model.config.get_text_config()
        return int(config.hidden_size)

    def pool_tokens(self, sequences: Sequence[TokenIds], pooling: str, skip: int = 0) -> Rows:
        """One embedding per sequence."""
        return self.network.run(sequences, None, lambda some, _: self.pooled(some, pooling, skip))

    def pooled(
        self,
        sequences: Sequence[TokenIds],
        pooling: str,
        skip: int = 0,
        segments: Sequence[TokenIds] | None = None,
    ) -> Tensor:
        """`pool_tokens` as a tensor, which knows its gradient outside inference."""
        segments = segments or [np.zeros(len(sequence), np.int32) for sequence in sequences]
        states = self.network.forward(sequences, segments).last_hidden_state
        return pool_padded(states.float(), [len(ids) for ids in sequences], pooling, skip)


@dataclass(frozen=True, eq=False)
class TransformersLanguageModel:
    """A language model in transformers."""

    network: Network
    family: Family
    special: int
    """The mask, or the token that starts the answer."""

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """See `LanguageModel.first_logits`."""
        columns = slice(None) if ids is None else list(ids)
        return self.network.run(sequences, None, lambda some, _: self.next_token(some)[:, columns])

    def next_token(self, sequences: Sequence[TokenIds]) -> Tensor:
        """The logits of the whole vocabulary for the token that comes next, or for the mask."""
        torch, network = require("torch"), self.network
        rows = torch.arange(len(sequences), device=network.device)
        if self.family == "sequence-to-sequence":
            start = torch.full((len(sequences), 1), self.special, device=network.device)
            return network.forward(sequences, decoder_input_ids=start).logits[:, 0]
        if self.family == "masked":
            places = [int(np.flatnonzero(ids == self.special)[-1]) for ids in sequences]
            segments = [np.zeros(len(ids), np.int32) for ids in sequences]
            logits = network.forward(sequences, segments).logits
            return logits[rows, torch.tensor(places, device=network.device)]
        lasts, which = np.unique([len(ids) - 1 for ids in sequences], return_inverse=True)
        wanted = torch.tensor(lasts, device=network.device)
        if "logits_to_keep" in network.inputs:  # those of the last tokens alone
            logits = network.forward(sequences, logits_to_keep=wanted).logits
        else:
            logits = network.forward(sequences).logits[:, wanted]
        return logits[rows, torch.tensor(which, device=network.device)]


def open_cross_encoder(folder: Path, device: str, dtype: str, trust: bool) -> Any:
    """The model for sequence classification in a folder."""
    network = open_network(
        folder, "AutoModelForSequenceClassification", device, dtype, trust, "cross-encoder"
    )
    return TransformersCrossEncoder(network, longest_of(network.model))


def open_bi_encoder(folder: Path, device: str, dtype: str, trust: bool) -> Any:
    """The encoder in a folder, whatever head it has."""
    name = ENCODER_ONLY.get(read_config(folder)["model_type"], "AutoModel")
    network = open_network(folder, name, device, dtype, trust, "bi-encoder")
    return TransformersBiEncoder(network, longest_of(network.model))


def open_language_model(
    folder: Path, family: Family, special: int | None, device: str, dtype: str, trust: bool
) -> TransformersLanguageModel:
    """The language model in a folder; `special` is the mask of a masked one."""
    network = open_network(
        folder, LANGUAGE_MODELS[family], device, dtype, trust, "target-words", family
    )
    if family == "sequence-to-sequence":
        special = start_token(network.model.config, folder)
    return TransformersLanguageModel(network, family, special or 0)


def start_token(config: Any, folder: Path) -> int:
    """The token that a decoder starts with."""
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        if getattr(config, name, None) is not None:
            return int(getattr(config, name))
    raise InputError(
        f"{folder} does not say with which token its decoder starts",
        hint="write decoder_start_token_id into its config.json",
    )
