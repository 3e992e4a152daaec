"""BERT and RoBERTa in torch without padding: sequences stand end to end in one matrix.

Every layer multiplies all tokens of a batch at once; only attention looks at one sequence at a
time, and sequences of the same length share a call. Where only the first token is wanted, the last
layer has one query row a sequence and needs no keys or values of its own: with k = W x,
q·k = (qᵀW)·x, and what is attended to is projected after it is summed. That is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.scorers._dropout import NONE, Dropout
from tamis.scorers.batches import groups
from tamis.scorers.weights import Loaded, Tensor, take

FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert")
TokenIds = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Linear:
    """x Wᵀ + b."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, eq=False)
class Norm:
    """Layer normalisation."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: attention and feed-forward, each followed by a normalisation."""

    mixed: Linear
    joined: Linear
    after_attention: Norm
    wide: Linear
    narrow: Linear
    after_feed: Norm


@dataclass(frozen=True, eq=False)
class Bert:
    """The body of a BERT-like model, ready to run."""

    words: Tensor
    places: Tensor
    start: Norm
    layers: tuple[Layer, ...]
    heads: int
    epsilon: float
    activation: Any
    first_place: int
    dropout: Dropout = NONE

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return int(self.places.shape[1]) - self.first_place

    def first_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vector of every sequence's first token."""
        states, lengths = self._run(self.layers[:-1], sequences, segments)
        return self._folded(self.layers[-1], states, lengths)

    def all_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vectors of all tokens, sequence after sequence."""
        return self._run(self.layers, sequences, segments)[0]

    def _run(
        self,
        layers: Sequence[Layer],
        sequences: Sequence[TokenIds],
        segments: Sequence[TokenIds],
    ) -> tuple[Tensor, list[tuple[int, int]]]:
        lengths = groups([len(sequence) for sequence in sequences])
        states = self._embedded(sequences, segments)
        for layer in layers:
            states = self._layer(layer, states, lengths)
        return states, lengths

    def _embedded(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        torch = require("torch")
        ids = torch.from_numpy(np.concatenate(sequences).astype(np.int64))
        places = np.concatenate([np.arange(len(sequence)) for sequence in sequences])
        cells = np.concatenate(segments) * np.int64(self.places.shape[1]) + places
        states = rows(self.words, ids)
        cell = torch.from_numpy(cells + self.first_place).to(self.places.device)
        states += self.places.flatten(0, 1).index_select(0, cell)
        return self.dropout.states(self._norm(self.start, states))

    def _layer(self, layer: Layer, states: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        linear = require("torch").nn.functional.linear
        seen = self._attention(linear(states, layer.mixed.weight, layer.mixed.bias), lengths)
        joined = self.dropout.states(linear(seen, layer.joined.weight, layer.joined.bias))
        states = joined.add_(states)
        return self._feed(layer, self._norm(layer.after_attention, states))

    def _feed(self, layer: Layer, states: Tensor) -> Tensor:
        linear = require("torch").nn.functional.linear
        wide = self.activation(linear(states, layer.wide.weight, layer.wide.bias))
        narrow = self.dropout.states(linear(wide, layer.narrow.weight, layer.narrow.bias))
        return self._norm(layer.after_feed, narrow.add_(states))

    def _attention(self, mixed: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        seen = []
        for (count, length), part in zip(lengths, split(mixed, lengths), strict=True):
            parts = part.view(count, length, 3, self.heads, -1)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            out = attend(query, key, value, None, self.dropout)
            seen.append(out.transpose(1, 2).reshape(count * length, -1))
        return require("torch").cat(seen)

    def _folded(self, layer: Layer, states: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        torch = require("torch")
        hidden = states.shape[1]
        size = hidden // self.heads
        query_weight, key_weight, value_weight = layer.mixed.weight.view(3, hidden, hidden)
        query_bias, _, value_bias = layer.mixed.bias.view(3, hidden)
        firsts = states.index_select(0, torch.tensor(_starts(lengths), device=states.device))
        asked = torch.nn.functional.linear(firsts, query_weight, query_bias) * size**-0.5
        asked = torch.einsum(
            "bhd,hdx->bhx",
            asked.view(-1, self.heads, size),
            key_weight.view(self.heads, size, hidden),
        )
        mean = folded_mean(asked, states, lengths, self.dropout)
        seen = torch.einsum("bhx,hdx->bhd", mean, value_weight.view(self.heads, size, hidden))
        seen = seen.reshape(-1, hidden) + value_bias
        joined = torch.nn.functional.linear(seen, layer.joined.weight, layer.joined.bias)
        joined = self.dropout.states(joined)
        return self._feed(layer, self._norm(layer.after_attention, joined + firsts))

    def _norm(self, norm: Norm, states: Tensor) -> Tensor:
        function = require("torch").nn.functional.layer_norm
        return function(states, (states.shape[1],), norm.weight, norm.bias, self.epsilon)


def rows(words: Tensor, ids: Tensor) -> Tensor:
    """The rows of an embedding; a gradient names only the rows that were used."""
    function = require("torch").nn.functional.embedding
    return function(ids.to(words.device), words, sparse=True)


def split(rows: Tensor, lengths: list[tuple[int, int]]) -> Sequence[Tensor]:
    """The rows of each group of sequences."""
    parts: Sequence[Tensor] = rows.split([count * length for count, length in lengths])
    return parts


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout: Dropout,
    scale: float | None = None,
) -> Tensor:
    """Attention of every token to every token of its sequence."""
    torch = require("torch")
    if not dropout.attention and (bias is None or not bias.requires_grad):
        function = torch.nn.functional.scaled_dot_product_attention
        return function(query, key, value, attn_mask=bias, scale=scale)
    scores = query * (query.shape[-1] ** -0.5 if scale is None else scale) @ key.transpose(-1, -2)
    weights = (scores if bias is None else scores + bias).softmax(-1)
    return dropout.weights(weights) @ value


def folded_mean(
    asked: Tensor, states: Tensor, lengths: list[tuple[int, int]], dropout: Dropout = NONE
) -> Tensor:
    """The states of each sequence, averaged by how well they answer each head's question."""
    torch = require("torch")
    means = []
    questions = asked.split([count for count, _ in lengths])
    for question, part, (count, length) in zip(
        questions, split(states, lengths), lengths, strict=True
    ):
        texts = part.view(count, length, -1)
        weights = torch.bmm(question, texts.transpose(1, 2)).softmax(-1)
        means.append(torch.bmm(dropout.weights(weights), texts))
    return torch.cat(means)


def _starts(lengths: list[tuple[int, int]]) -> list[int]:
    starts: list[int] = []
    place = 0
    for count, length in lengths:
        starts.extend(range(place, place + count * length, length))
        place += count * length
    return starts


def build(loaded: Loaded, dropout: Dropout = NONE) -> Bert:
    """The body of a BERT-like model from its folder."""
    config, weights, folder = loaded.config, loaded.weights, loaded.folder
    family = config["model_type"]
    if family not in FAMILIES:
        raise InputError(
            f"{folder} is a model of type {family!r}, which tamis cannot run as an encoder",
            hint=f"it runs {', '.join(FAMILIES)}",
        )
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(f"{folder} has positions that are relative", hint="use absolute positions")
    ends = "embeddings.word_embeddings.weight"
    prefix = next((name.removesuffix(ends) for name in weights if name.endswith(ends)), "")
    part = {name.removeprefix(prefix): value for name, value in weights.items()}

    def norm(name: str) -> Norm:
        return Norm(take(part, f"{name}.weight", folder), take(part, f"{name}.bias", folder))

    def linear(*names: str) -> Linear:
        torch = require("torch")
        return Linear(
            torch.cat([take(part, f"{name}.weight", folder) for name in names]),
            torch.cat([take(part, f"{name}.bias", folder) for name in names]),
        )

    def layer(number: int) -> Layer:
        here = f"encoder.layer.{number}."
        inner = [f"{here}attention.self.{name}" for name in ("query", "key", "value")]
        return Layer(
            linear(*inner),
            linear(f"{here}attention.output.dense"),
            norm(f"{here}attention.output.LayerNorm"),
            linear(f"{here}intermediate.dense"),
            linear(f"{here}output.dense"),
            norm(f"{here}output.LayerNorm"),
        )

    segments = take(part, "embeddings.token_type_embeddings.weight", folder)
    places = take(part, "embeddings.position_embeddings.weight", folder)
    return Bert(
        words=take(part, ends, folder),
        places=segments[:, None, :] + places[None, :, :],
        start=norm("embeddings.LayerNorm"),
        layers=tuple(layer(number) for number in range(config["num_hidden_layers"])),
        heads=config["num_attention_heads"],
        epsilon=config.get("layer_norm_eps", 1e-12),
        activation=activation(config.get("hidden_act", "gelu"), folder),
        first_place=0 if family == "bert" else config.get("pad_token_id", 1) + 1,
        dropout=dropout,
    )


def activation(name: str, folder: object) -> Any:
    """The activation function a config names."""
    torch = require("torch")
    functions = {
        "gelu": torch.nn.functional.gelu,
        "gelu_new": lambda states: torch.nn.functional.gelu(states, approximate="tanh"),
        "gelu_pytorch_tanh": lambda states: torch.nn.functional.gelu(states, approximate="tanh"),
        "relu": torch.relu,
        "silu": torch.nn.functional.silu,
        "swish": torch.nn.functional.silu,
    }
    if name not in functions:
        raise InputError(
            f"{folder} uses the activation {name!r}, which tamis does not know",
            hint=f"it knows {', '.join(functions)}",
        )
    return functions[name]
