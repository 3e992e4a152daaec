"""BERT and RoBERTa in torch without padding: sequences stand end to end in one matrix.

Every layer multiplies all tokens of a batch at once; only attention looks at one sequence at a
time, and sequences of the same length share a call. Where only the first token is wanted, the last
layer has one query row per sequence and needs no keys or values of its own: with k = W x,
q·k = (qᵀW)·x, and what is attended to is projected after it is summed. That is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends.batches import groups
from tamis.backends.weights import Loaded, Tensor, take
from tamis.errors import InputError, require

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

    qkv: Linear
    attn_out: Linear
    attn_norm: Norm
    intermediate: Linear
    output: Linear
    output_norm: Norm


@dataclass(frozen=True, eq=False)
class Bert:
    """The body of a BERT-like model, ready to run."""

    word_emb: Tensor
    position_emb: Tensor
    embedding_norm: Norm
    layers: tuple[Layer, ...]
    heads: int
    epsilon: float
    activation: Any
    first_position: int
    dropout: Dropout = NO_DROPOUT

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return int(self.position_emb.shape[1]) - self.first_position

    def first_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vector of every sequence's first token."""
        states, lengths = self._run(self.layers[:-1], sequences, segments)
        return self._last_layer(self.layers[-1], states, lengths)

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
        states = self._embed(sequences, segments)
        for layer in layers:
            states = self._layer(layer, states, lengths)
        return states, lengths

    def _embed(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        torch = require("torch")
        ids = torch.from_numpy(np.concatenate(sequences).astype(np.int64))
        positions = np.concatenate([np.arange(len(sequence)) for sequence in sequences])
        cells = np.concatenate(segments) * np.int64(self.position_emb.shape[1]) + positions
        states = rows(self.word_emb, ids)
        cell = torch.from_numpy(cells + self.first_position).to(self.position_emb.device)
        states += self.position_emb.flatten(0, 1).index_select(0, cell)
        return self.dropout.states(self._norm(self.embedding_norm, states))

    def _layer(self, layer: Layer, states: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        linear = require("torch").nn.functional.linear
        attended = self._attention(linear(states, layer.qkv.weight, layer.qkv.bias), lengths)
        projected = self.dropout.states(
            linear(attended, layer.attn_out.weight, layer.attn_out.bias)
        )
        states = projected.add_(states)
        return self._feed(layer, self._norm(layer.attn_norm, states))

    def _feed(self, layer: Layer, states: Tensor) -> Tensor:
        linear = require("torch").nn.functional.linear
        inner = self.activation(linear(states, layer.intermediate.weight, layer.intermediate.bias))
        projected = self.dropout.states(linear(inner, layer.output.weight, layer.output.bias))
        return self._norm(layer.output_norm, projected.add_(states))

    def _attention(self, qkv: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        outputs = []
        for (count, length), rows in zip(lengths, split(qkv, lengths), strict=True):
            heads = rows.view(count, length, 3, self.heads, -1)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            output = attend(query, key, value, None, self.dropout)
            outputs.append(output.transpose(1, 2).reshape(count * length, -1))
        return require("torch").cat(outputs)

    def _last_layer(self, layer: Layer, states: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        torch = require("torch")
        hidden = states.shape[1]
        size = hidden // self.heads
        query_weight, key_weight, value_weight = layer.qkv.weight.view(3, hidden, hidden)
        query_bias, _, value_bias = layer.qkv.bias.view(3, hidden)
        firsts = states.index_select(0, torch.tensor(_starts(lengths), device=states.device))
        queries = torch.nn.functional.linear(firsts, query_weight, query_bias) * size**-0.5
        queries = torch.einsum(
            "bhd,hdx->bhx",
            queries.view(-1, self.heads, size),
            key_weight.view(self.heads, size, hidden),
        )
        mean = folded_mean(queries, states, lengths, self.dropout)
        attended = torch.einsum("bhx,hdx->bhd", mean, value_weight.view(self.heads, size, hidden))
        attended = attended.reshape(-1, hidden) + value_bias
        projected = torch.nn.functional.linear(attended, layer.attn_out.weight, layer.attn_out.bias)
        projected = self.dropout.states(projected)
        return self._feed(layer, self._norm(layer.attn_norm, projected + firsts))

    def _norm(self, norm: Norm, states: Tensor) -> Tensor:
        function = require("torch").nn.functional.layer_norm
        return function(states, (states.shape[1],), norm.weight, norm.bias, self.epsilon)


def rows(embedding: Tensor, ids: Tensor) -> Tensor:
    """The rows of an embedding; a gradient names only the rows that were used."""
    function = require("torch").nn.functional.embedding
    return function(ids.to(embedding.device), embedding, sparse=True)


def split(rows: Tensor, lengths: list[tuple[int, int]]) -> Sequence[Tensor]:
    """The rows of each group of sequences."""
    groups_of_rows: Sequence[Tensor] = rows.split([count * length for count, length in lengths])
    return groups_of_rows


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
    queries: Tensor, states: Tensor, lengths: list[tuple[int, int]], dropout: Dropout = NO_DROPOUT
) -> Tensor:
    """The states of each sequence, averaged by how well they answer each head's question."""
    torch = require("torch")
    means = []
    query_groups = queries.split([count for count, _ in lengths])
    for query, group, (count, length) in zip(
        query_groups, split(states, lengths), lengths, strict=True
    ):
        texts = group.view(count, length, -1)
        weights = torch.bmm(query, texts.transpose(1, 2)).softmax(-1)
        means.append(torch.bmm(dropout.weights(weights), texts))
    return torch.cat(means)


def _starts(lengths: list[tuple[int, int]]) -> list[int]:
    starts: list[int] = []
    position = 0
    for count, length in lengths:
        starts.extend(range(position, position + count * length, length))
        position += count * length
    return starts


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> Bert:
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
    suffix = "embeddings.word_embeddings.weight"
    prefix = next((name.removesuffix(suffix) for name in weights if name.endswith(suffix)), "")
    by_name = {name.removeprefix(prefix): value for name, value in weights.items()}

    def norm(name: str) -> Norm:
        return Norm(take(by_name, f"{name}.weight", folder), take(by_name, f"{name}.bias", folder))

    def linear(*names: str) -> Linear:
        torch = require("torch")
        return Linear(
            torch.cat([take(by_name, f"{name}.weight", folder) for name in names]),
            torch.cat([take(by_name, f"{name}.bias", folder) for name in names]),
        )

    def layer(number: int) -> Layer:
        prefix_of_layer = f"encoder.layer.{number}."
        inner = [f"{prefix_of_layer}attention.self.{name}" for name in ("query", "key", "value")]
        return Layer(
            linear(*inner),
            linear(f"{prefix_of_layer}attention.output.dense"),
            norm(f"{prefix_of_layer}attention.output.LayerNorm"),
            linear(f"{prefix_of_layer}intermediate.dense"),
            linear(f"{prefix_of_layer}output.dense"),
            norm(f"{prefix_of_layer}output.LayerNorm"),
        )

    segments = take(by_name, "embeddings.token_type_embeddings.weight", folder)
    positions = take(by_name, "embeddings.position_embeddings.weight", folder)
    return Bert(
        word_emb=take(by_name, suffix, folder),
        position_emb=segments[:, None, :] + positions[None, :, :],
        embedding_norm=norm("embeddings.LayerNorm"),
        layers=tuple(layer(number) for number in range(config["num_hidden_layers"])),
        heads=config["num_attention_heads"],
        epsilon=config.get("layer_norm_eps", 1e-12),
        activation=activation(config.get("hidden_act", "gelu"), folder),
        first_position=0 if family == "bert" else config.get("pad_token_id", 1) + 1,
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
