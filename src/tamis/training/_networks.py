"""What runs a model in training: our own forwards, or those of transformers. Each holds the
parameters, gives scores with gradients, and is scored and saved as it is now.

Imported only where torch is known to be installed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from tamis.backends import _t5, fast
from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends._heads import head_of
from tamis.backends.choice import FAST, Runtime
from tamis.backends.fast import FastBiEncoder, FastCrossEncoder, head_states, pool_tokens
from tamis.backends.fresh_weights import Start
from tamis.backends.network import Network, load_model, longest_of
from tamis.backends.protocols import Family, Kind
from tamis.backends.tokens import SBERT_FILE, TokenIds, Tokens, lowers_case
from tamis.backends.transformers import (
    TransformersBiEncoder,
    TransformersCrossEncoder,
    TransformersLanguageModel,
)
from tamis.backends.weights import Loaded, Tensor, Weights
from tamis.errors import require
from tamis.training._init_weights import DropoutRates
from tamis.training.precision import Precision

TOKENIZER_FILES = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*",
                   "merges.txt", "*.model")  # fmt: skip
WEIGHTS_FILE = "model.safetensors"


class TrainedNetwork(Protocol):
    """A model in training, and what runs it."""

    module: nn.Module
    """Its parameters have their Hugging Face names."""
    folder: Path
    """The folder of the base's transformer."""
    tokens: Tokens
    runtime: Runtime
    """What scorers run it by; training may have another precision."""
    precision: Precision
    is_parallel: bool
    """Whether micro-batches run side by side, each with random numbers of its own."""

    def logits(
        self, ids: Sequence[TokenIds], segments: Sequence[TokenIds], generator: Any
    ) -> Tensor:
        """The outputs of a cross-encoder, one row per sequence."""

    def embeddings(
        self, ids: Sequence[TokenIds], pooling: str, skip: int, generator: Any
    ) -> Tensor:
        """The pooled vectors of a bi-encoder, one row per sequence."""

    def next_token(
        self, ids: Sequence[TokenIds], columns: Sequence[int] | None, generator: Any
    ) -> Tensor:
        """The logits of a language model for what comes next: of these tokens, or of all."""

    def model(self, length: int) -> Any:
        """What a scorer runs, with the weights as they are now, for so many tokens at most."""

    def save(self, folder: Path) -> None:
        """Write config, weights and tokenizer, as transformers reads them."""

    def restore(self, folder: Path) -> None:
        """Take the weights of a folder that was saved."""


class FastNetwork:
    """Parameters of a base that our own forward runs, on a CPU in float32."""

    is_parallel = True
    runtime = FAST
    precision = Precision(FAST.device, FAST.dtype)

    def __init__(self, kind: Kind, loaded: Loaded, rates: DropoutRates) -> None:
        self.kind, self.rates = kind, rates
        self.folder, self.tokens = loaded.folder, loaded.tokens
        self.loaded, self.module = replace(loaded, weights={}), nn.Module()
        for name, value in loaded.weights.items():
            *path, last = name.split(".")
            module: nn.Module = self.module
            for name_part in path:
                if name_part not in module._modules:
                    module.add_module(name_part, nn.Module())
                module = module.get_submodule(name_part)
            module.register_parameter(last, nn.Parameter(value))

    def logits(
        self, ids: Sequence[TokenIds], segments: Sequence[TokenIds], generator: Any
    ) -> Tensor:
        """See `TrainedNetwork`."""
        current = self._current()
        body = fast.build(current, self._dropout(self.rates.hidden, generator))
        head = head_of(current)
        states = head_states(body, head, ids, segments)
        return head(states, self._dropout(self.rates.outputs, generator))

    def embeddings(
        self, ids: Sequence[TokenIds], pooling: str, skip: int, generator: Any
    ) -> Tensor:
        """See `TrainedNetwork`."""
        body = fast.build(self._current(), self._dropout(self.rates.hidden, generator))
        return pool_tokens(body, ids, pooling, skip)

    def next_token(
        self, ids: Sequence[TokenIds], columns: Sequence[int] | None, generator: Any
    ) -> Tensor:
        """See `TrainedNetwork`."""
        dropout = self._dropout(self.rates.hidden, generator)
        return _t5.build(self._current(), len(ids[-1]), dropout).logits(ids, columns)

    def model(self, length: int) -> Any:
        """See `TrainedNetwork`."""
        current = replace(self.loaded, weights=self._weights())
        if self.kind == "target-words":
            return _t5.build(current, length)
        body = fast.build(current)
        if self.kind == "bi-encoder":
            return FastBiEncoder(body)
        return FastCrossEncoder(body, head_of(current))

    def save(self, folder: Path) -> None:
        """See `TrainedNetwork`."""
        write_config(folder, self.loaded.config)
        write = require("safetensors.torch").save_file
        write(self._weights(), folder / WEIGHTS_FILE, metadata={"format": "pt"})

    def restore(self, folder: Path) -> None:
        """See `TrainedNetwork`."""
        self.module.load_state_dict(require("safetensors.torch").load_file(folder / WEIGHTS_FILE))

    def _current(self) -> Loaded:
        """The folder with the parameters in place of its weights: gradients flow into them."""
        return replace(self.loaded, weights=dict(self.module.named_parameters()))

    def _weights(self) -> Weights:
        return {name: value.detach().cpu() for name, value in self.module.named_parameters()}

    def _dropout(self, hidden: float, generator: Any) -> Dropout:
        if not self.module.training:
            return NO_DROPOUT
        return Dropout(hidden, self.rates.attention, generator)


class TransformersNetwork:
    """A model of transformers: any architecture, on any device. Dropout is torch's own, so one
    micro-batch runs after the other.
    """

    is_parallel = False

    def __init__(
        self,
        kind: Kind,
        folder: Path,
        tokens: Tokens,
        start: Start,
        config: Mapping[str, Any],
        runtime: Runtime,
        precision: Precision,
        *,
        auto_class: str,
        family: Family | None = None,
        special: int = 0,
    ) -> None:
        self.kind, self.folder, self.tokens, self.runtime = kind, folder, tokens, runtime
        self.network, self.unused, self.config = start.network, start.unused, config
        self.module: nn.Module = start.network.model
        self.precision, self.auto_class = precision, auto_class
        self.family, self.special = family, special

    def logits(
        self, ids: Sequence[TokenIds], segments: Sequence[TokenIds], generator: Any
    ) -> Tensor:
        """See `TrainedNetwork`."""
        model: TransformersCrossEncoder = self.model(0)
        blocks = self.network.blocks(ids)
        with self._running(generator):
            rows = [model.scores(ids[block], segments[block]) for block in blocks]
        return torch.cat(rows).float()

    def embeddings(
        self, ids: Sequence[TokenIds], pooling: str, skip: int, generator: Any
    ) -> Tensor:
        """See `TrainedNetwork`."""
        model: TransformersBiEncoder = self.model(0)
        with self._running(generator):
            rows = [model.pooled(ids[block], pooling, skip) for block in self.network.blocks(ids)]
        return torch.cat(rows).float()

    def next_token(
        self, ids: Sequence[TokenIds], columns: Sequence[int] | None, generator: Any
    ) -> Tensor:
        """See `TrainedNetwork`."""
        model: TransformersLanguageModel = self.model(0)
        with self._running(generator):
            logits = torch.cat([model.next_token(ids[block]) for block in self.network.blocks(ids)])
        return logits.float() if columns is None else logits[:, list(columns)].float()

    def model(self, length: int) -> Any:
        """See `TrainedNetwork`."""
        if self.kind == "bi-encoder":
            return TransformersBiEncoder(self.network, longest_of(self.module))
        if self.kind == "cross-encoder":
            return TransformersCrossEncoder(self.network, longest_of(self.module))
        assert self.family is not None
        return TransformersLanguageModel(self.network, self.family, self.special)

    def save(self, folder: Path) -> None:
        """See `TrainedNetwork`."""
        weights = {
            name: value for name, value in self.module.state_dict().items()
            if name not in self.unused
        }  # fmt: skip
        model: Any = self.module
        model.save_pretrained(folder, state_dict=weights, max_shard_size="1000GB")
        write_config(folder, self.config)
        if self.runtime.trust_remote_code:
            for file in sorted(self.folder.glob("*.py")):
                shutil.copy(file, folder / file.name)

    def restore(self, folder: Path) -> None:
        """See `TrainedNetwork`."""
        trust = self.runtime.trust_remote_code
        saved, _ = load_model(folder, self.auto_class, "float32", trust, self.kind)
        self.module.load_state_dict(saved.state_dict())

    def _running(self, generator: Any) -> Any:
        """How a forward runs: in its precision, with dropout from the generator."""
        if self.module.training:
            torch.manual_seed(_seed_of(generator))
        return self.precision.autocast()


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the config of a model."""
    text = json.dumps(dict(config), indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", "utf-8")


def copy_tokenizer(place: Path, folder: Path) -> None:
    """Copy the files of a tokenizer."""
    for pattern in TOKENIZER_FILES:
        for file in sorted(place.glob(pattern)):
            if file.is_file():
                shutil.copy(file, folder / file.name)
    if lowers_case(place):
        (folder / SBERT_FILE).write_text(json.dumps({"do_lower_case": True}) + "\n", "utf-8")


def enable_gradient_checkpointing(network: Network) -> None:
    """Keep no states between layers but compute them again for the gradient."""
    network.model.gradient_checkpointing_enable(
        gradient_checkpointing_kwargs={"use_reentrant": False}
    )


def _seed_of(generator: Any) -> int:
    """A number from a generator of `generator_of`, the same for the same seed."""
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(2**62))
    return int(generator.initial_seed())
