"""T5 in torch without padding: the encoder once, one decoder step, and only the rows of the output
matrix that are asked for.

The first decoder step sees one token, so its self-attention is that token's value; attention over
the encoder needs no keys or values of its own (see `_bert`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.errors import require
from tamis.scorers._bert import activation, folded_mean
from tamis.scorers.batching import Rows, groups
from tamis.scorers.tokens import TokenIds
from tamis.scorers.weights import Loaded, Tensor, take

FAMILIES = ("t5", "mt5")


@dataclass(frozen=True, eq=False)
class Feed:
    """The feed-forward part: gated where there are two inner matrices."""

    norm: Tensor
    gate: Tensor | None
    wide: Tensor
    narrow: Tensor


@dataclass(frozen=True, eq=False)
class EncoderBlock:
    """Self-attention and feed-forward."""

    norm: Tensor
    mixed: Tensor
    joined: Tensor
    feed: Feed


@dataclass(frozen=True, eq=False)
class DecoderBlock:
    """What one step of one token needs: its own value, attention over the text, feed-forward."""

    norm: Tensor
    value: Tensor
    joined: Tensor
    text_norm: Tensor
    text_query: Tensor
    text_key: Tensor
    text_value: Tensor
    text_joined: Tensor
    feed: Feed


@dataclass(frozen=True, eq=False)
class T5:
    """A T5 model, ready to take one decoder step."""

    embedded: Tensor
    output: Tensor
    bias: Tensor
    encoder: tuple[EncoderBlock, ...]
    decoder: tuple[DecoderBlock, ...]
    encoder_norm: Tensor
    decoder_norm: Tensor
    heads: int
    epsilon: float
    activation: Any
    start: int
    output_scale: float

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """The logits of the first token written after each sequence: of these ids, or of all."""
        lengths = groups([len(sequence) for sequence in sequences])
        with require("torch").inference_mode():
            states = self._step(self._encode(sequences, lengths), lengths)
            rows = self.output if ids is None else self.output[list(ids)]
            logits: Rows = (states @ rows.T * self.output_scale).numpy()
        return logits

    def _encode(self, sequences: Sequence[TokenIds], lengths: list[tuple[int, int]]) -> Tensor:
        torch = require("torch")
        ids = torch.from_numpy(np.concatenate(sequences).astype(np.int64))
        states = self.embedded.index_select(0, ids)
        for block in self.encoder:
            mixed = self._norm(block.norm, states) @ block.mixed.T
            states = torch.addmm(states, self._attention(mixed, lengths), block.joined.T)
            states = self._feed(block.feed, states)
        return self._norm(self.encoder_norm, states)

    def _attention(self, mixed: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        torch = require("torch")
        attend = torch.nn.functional.scaled_dot_product_attention
        inner = mixed.shape[1] // 3
        seen, start = mixed.new_empty(mixed.shape[0], inner), 0
        for count, length in lengths:
            end = start + count * length
            parts = mixed[start:end].view(count, length, 3, self.heads, inner // self.heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            bias = self.bias[None, :, :length, :length]
            out = attend(query, key, value, attn_mask=bias, scale=1.0)
            seen[start:end] = out.transpose(1, 2).reshape(count * length, inner)
            start = end
        return seen

    def _step(self, texts: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        torch = require("torch")
        count = sum(many for many, _ in lengths)
        states = self.embedded[self.start].expand(count, -1)
        for block in self.decoder:
            own = self._norm(block.norm, states) @ block.value.T
            states = torch.addmm(states, own, block.joined.T)
            seen = self._look(block, self._norm(block.text_norm, states), texts, lengths)
            states = torch.addmm(states, seen, block.text_joined.T)
            states = self._feed(block.feed, states)
        return self._norm(self.decoder_norm, states)

    def _look(
        self, block: DecoderBlock, states: Tensor, texts: Tensor, lengths: list[tuple[int, int]]
    ) -> Tensor:
        torch = require("torch")
        asked = (states @ block.text_query.T).unflatten(1, (self.heads, -1))
        keys = block.text_key.unflatten(0, (self.heads, -1))
        values = block.text_value.unflatten(0, (self.heads, -1))
        asked = torch.einsum("bhd,hdx->bhx", asked, keys)
        mean = folded_mean(asked, texts, lengths)
        return torch.einsum("bhx,hdx->bhd", mean, values).flatten(1)

    def _feed(self, feed: Feed, states: Tensor) -> Tensor:
        torch = require("torch")
        inner = self._norm(feed.norm, states)
        wide = self.activation(inner @ feed.wide.T)
        if feed.gate is not None:
            wide = wide.mul_(inner @ feed.gate.T)
        return torch.addmm(states, wide, feed.narrow.T)

    def _norm(self, weight: Tensor, states: Tensor) -> Tensor:
        function = require("torch").nn.functional.rms_norm
        return function(states, (states.shape[1],), weight, self.epsilon)


def build(loaded: Loaded, longest: int) -> T5:
    """A T5 model from its folder, for texts of up to `longest` tokens."""
    torch, config, folder = require("torch"), loaded.config, loaded.folder

    def weight(name: str) -> Tensor:
        return take(loaded.weights, f"{name}.weight", folder)

    def feed(name: str) -> Feed:
        gated = f"{name}.DenseReluDense.wi_0.weight" in loaded.weights
        inner = f"{name}.DenseReluDense.wi"
        return Feed(
            weight(f"{name}.layer_norm"),
            weight(f"{inner}_1") if gated else None,
            weight(f"{inner}_0" if gated else inner),
            weight(f"{name}.DenseReluDense.wo"),
        )

    def encoder_block(number: int) -> EncoderBlock:
        here = f"encoder.block.{number}.layer"
        return EncoderBlock(
            weight(f"{here}.0.layer_norm"),
            torch.cat([weight(f"{here}.0.SelfAttention.{name}") for name in "qkv"]),
            weight(f"{here}.0.SelfAttention.o"),
            feed(f"{here}.1"),
        )

    def decoder_block(number: int) -> DecoderBlock:
        here = f"decoder.block.{number}.layer"
        return DecoderBlock(
            weight(f"{here}.0.layer_norm"),
            weight(f"{here}.0.SelfAttention.v"),
            weight(f"{here}.0.SelfAttention.o"),
            weight(f"{here}.1.layer_norm"),
            weight(f"{here}.1.EncDecAttention.q"),
            weight(f"{here}.1.EncDecAttention.k"),
            weight(f"{here}.1.EncDecAttention.v"),
            weight(f"{here}.1.EncDecAttention.o"),
            feed(f"{here}.2"),
        )

    shared = loaded.weights.get("shared.weight")
    embedded = weight("encoder.embed_tokens") if shared is None else shared
    first = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)
    layers = config["num_layers"]
    return T5(
        embedded=embedded,
        output=loaded.weights.get("lm_head.weight", embedded),
        bias=distance_bias(
            weight(first), longest, config.get("relative_attention_max_distance", 128)
        ),
        encoder=tuple(encoder_block(number) for number in range(layers)),
        decoder=tuple(
            decoder_block(number) for number in range(config.get("num_decoder_layers") or layers)
        ),
        encoder_norm=weight("encoder.final_layer_norm"),
        decoder_norm=weight("decoder.final_layer_norm"),
        heads=config["num_heads"],
        epsilon=config.get("layer_norm_epsilon", 1e-6),
        activation=activation(activation_name(config), folder),
        start=config.get("decoder_start_token_id", config.get("pad_token_id", 0)),
        output_scale=config["d_model"] ** -0.5 if scaled else 1.0,
    )


def activation_name(config: Mapping[str, Any]) -> str:
    """The activation function of a T5 as other configs call it.

    >>> activation_name({"feed_forward_proj": "gated-gelu"}), activation_name({})
    ('gelu_new', 'relu')
    """
    projection: str = config.get("feed_forward_proj", "relu")
    return "gelu_new" if projection == "gated-gelu" else projection.removeprefix("gated-")


def distance_bias(weight: Tensor, longest: int, farthest: int) -> Tensor:
    """What attention adds for the distance between two tokens: heads x tokens x tokens."""
    torch = require("torch")
    distances = torch.arange(1 - longest, longest)
    half = len(weight) // 2
    exact = half // 2
    size = distances.abs()
    far = (
        exact
        + (
            torch.log(size.clamp(min=1).float() / exact)
            / math.log(farthest / exact)
            * (half - exact)
        ).long()
    )
    bucket = torch.where(size < exact, size, far.clamp(max=half - 1)) + (distances > 0) * half
    places = torch.arange(longest)
    return weight[bucket].T[:, places[None, :] - places[:, None] + longest - 1].contiguous()
