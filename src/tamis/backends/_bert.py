"""BERT and its kin in torch without padding: sequences stand end to end in one matrix.

Every layer multiplies all tokens of a batch at once; only attention looks at one sequence at a
time. Where only the first token is wanted, the last layer has one query row per sequence and needs
no keys or values of its own: with k = W x, q·k = (qᵀW)·x, and what is attended to is projected
after it is summed. That is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends._layers import (
    Activation,
    Linear,
    Norm,
    activation,
    attention,
    first_rows,
    folded_mean,
    project_means,
    stacked,
    thirds,
    token_positions,
    token_rows,
    under_prefix,
)
from tamis.backends.batches import groups
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Loaded, Tensor, take
from tamis.errors import InputError, require

FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert")
WORDS = "embeddings.word_embeddings.weight"


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
    activation: Activation
    first_position: int
    dropout: Dropout = NO_DROPOUT

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return int(self.position_emb.shape[1]) - self.first_position

    @property
    def dimensions(self) -> int:
        """How many values a token's vector has."""
        return int(self.word_emb.shape[1])

    def first_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vector of every sequence's first token."""
        lengths = groups([len(sequence) for sequence in sequences])
        states = self._run(self.layers[:-1], self._embed(sequences, segments), lengths)
        return self._last_layer(states, lengths)

    def all_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vectors of all tokens, sequence after sequence."""
        lengths = groups([len(sequence) for sequence in sequences])
        states = self._embed(sequences, segments)
        return self._run(self.layers, states, lengths)

    def _run(
        self,
        layers: Sequence[Layer],
        states: Tensor,
        lengths: list[tuple[int, int]],
    ) -> Tensor:
        for layer in layers:
            qkv = layer.qkv(states)
            attended = attention(qkv, lengths, self.heads, self.dropout)
            states = layer.attn_norm(self._add(layer.attn_out, attended, states))
            states = self._feed(layer, states)
        return states

    def _embed(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        cells = token_positions(sequences) + self.first_position
        if len(self.position_emb) > 1:
            cells += np.concatenate(segments) * np.int64(self.position_emb.shape[1])
        cell = require("torch").from_numpy(cells).to(self.position_emb.device)
        states = token_rows(self.word_emb, sequences)
        states += self.position_emb.flatten(0, 1).index_select(0, cell)
        return self.dropout.states(self.embedding_norm(states))

    def _feed(self, layer: Layer, states: Tensor) -> Tensor:
        inner = self.activation(layer.intermediate(states))
        return layer.output_norm(self._add(layer.output, inner, states))

    def _add(self, linear: Linear, inner: Tensor, states: Tensor) -> Tensor:
        return self.dropout.states(linear(inner)).add_(states)

    def _last_layer(self, states: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        layer, firsts = self.layers[-1], first_rows(states, lengths)
        query, key, value = thirds(layer.qkv)
        size = states.shape[1] // self.heads
        queries = query(firsts).view(-1, self.heads, size) * size**-0.5
        key_weight = key.weight.view(self.heads, size, -1)
        queries = require("torch").einsum("bhd,hdx->bhx", queries, key_weight)
        mean = folded_mean(queries, states, lengths, self.dropout)
        attended = project_means(mean, value)
        states = layer.attn_norm(self._add(layer.attn_out, attended, firsts))
        return self._feed(layer, states)


@dataclass(frozen=True)
class Names:
    """What a family calls its weights; those of a layer follow `layer` and its number."""

    segments: str | None = "embeddings.token_type_embeddings.weight"
    layer: str = "encoder.layer"
    qkv: tuple[str, str, str] = (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    )
    attn_out: str = "attention.output.dense"
    attn_norm: str = "attention.output.LayerNorm"
    intermediate: str = "intermediate.dense"
    output: str = "output.dense"
    output_norm: str = "output.LayerNorm"


@dataclass(frozen=True)
class Shape:
    """What a config says of a model, whatever it calls it."""

    layers: int
    heads: int
    epsilon: float
    activation: str
    first_position: int = 0


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> Bert:
    """The body of a BERT or RoBERTa model from its folder."""
    config = loaded.config
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(
            f"{loaded.folder} has positions that are relative", hint="use absolute positions"
        )
    is_bert = config["model_type"] == "bert"
    shape = shape_of(config, 0 if is_bert else config.get("pad_token_id", 1) + 1)
    return build_named(loaded, Names(), shape, dropout)


def shape_of(config: Mapping[str, Any], first_position: int) -> Shape:
    """The shape of a model whose config has BERT's names."""
    return Shape(
        config["num_hidden_layers"],
        config["num_attention_heads"],
        config.get("layer_norm_eps", 1e-12),
        config.get("hidden_act", "gelu"),
        first_position,
    )


def build_named(loaded: Loaded, names: Names, shape: Shape, dropout: Dropout) -> Bert:
    """The body of a model like BERT from weights of these names."""
    by_name, folder = under_prefix(loaded.weights, WORDS), loaded.folder

    def norm(name: str) -> Norm:
        weight, bias = (take(by_name, f"{name}.{part}", folder) for part in ("weight", "bias"))
        return Norm(weight, bias, shape.epsilon)

    def linear(*names: str) -> Linear:
        weights = [take(by_name, f"{name}.weight", folder) for name in names]
        biases = [take(by_name, f"{name}.bias", folder) for name in names]
        return Linear(stacked(weights), stacked(biases))

    def qkv(number: int) -> Linear:
        return linear(*(f"{names.layer}.{number}.{name}" for name in names.qkv))

    def layer(number: int) -> Layer:
        prefix = f"{names.layer}.{number}."
        return Layer(
            qkv(number),
            linear(prefix + names.attn_out),
            norm(prefix + names.attn_norm),
            linear(prefix + names.intermediate),
            linear(prefix + names.output),
            norm(prefix + names.output_norm),
        )

    positions = take(by_name, "embeddings.position_embeddings.weight", folder)[None]
    if names.segments:
        positions = take(by_name, names.segments, folder)[:, None, :] + positions
    return Bert(
        word_emb=take(by_name, WORDS, folder),
        position_emb=positions,
        embedding_norm=norm("embeddings.LayerNorm"),
        layers=tuple(layer(number) for number in range(shape.layers)),
        heads=shape.heads,
        activation=activation(shape.activation, folder),
        first_position=shape.first_position,
        dropout=dropout,
    )
