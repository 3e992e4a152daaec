"""T5 in torch without padding: the encoder once, one decoder step, and only the rows of the output
matrix that are asked for.

The first decoder step sees one token, so its self-attention is that token's value; attention over
the encoder needs no keys or values of its own (see `_bert`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends._layers import (
    activation,
    attention,
    dense,
    distance_bias,
    folded_mean,
    rows,
    token_rows,
)
from tamis.backends.batches import Rows, groups
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Loaded, Tensor, take
from tamis.errors import require

FAMILIES = ("t5", "mt5")


@dataclass(frozen=True, eq=False)
class Feed:
    """The feed-forward part: gated where there are two inner matrices."""

    norm: Tensor
    gate: Tensor | None
    intermediate: Tensor
    output: Tensor


@dataclass(frozen=True, eq=False)
class EncoderBlock:
    """Self-attention and feed-forward."""

    norm: Tensor
    qkv: Tensor
    attn_out: Tensor
    feed: Feed


@dataclass(frozen=True, eq=False)
class DecoderBlock:
    """What one step of one token needs: its own value, attention over the text, feed-forward."""

    norm: Tensor
    value: Tensor
    attn_out: Tensor
    text_norm: Tensor
    text_query: Tensor
    text_key: Tensor
    text_value: Tensor
    text_attn_out: Tensor
    feed: Feed


@dataclass(frozen=True, eq=False)
class T5:
    """A T5 model, ready to take one decoder step."""

    word_emb: Tensor
    output: Tensor
    bias: Tensor
    encoder: tuple[EncoderBlock, ...]
    decoder: tuple[DecoderBlock, ...]
    encoder_norm: Tensor
    decoder_norm: Tensor
    heads: int
    epsilon: float
    activation: Any
    start_token: int
    output_scale: float
    dropout: Dropout = NO_DROPOUT

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """The logits of the first token written after each sequence: of these ids, or of all."""
        with require("torch").inference_mode():
            logits: Rows = self.logits(sequences, ids).numpy()
        return logits

    def logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Tensor:
        """`first_logits` as a tensor, which knows its gradient outside inference."""
        lengths = groups([len(sequence) for sequence in sequences])
        states = self._step(self._encode(sequences, lengths), lengths)
        output = self.output
        if ids is not None:
            output = rows(output, require("torch").tensor(list(ids)))
        return dense(states, output) * self.output_scale

    def _encode(self, sequences: Sequence[TokenIds], lengths: list[tuple[int, int]]) -> Tensor:
        states = self.dropout.states(token_rows(self.word_emb, sequences))
        for block in self.encoder:
            qkv = dense(self._norm(block.norm, states), block.qkv)
            attended = attention(qkv, lengths, self.heads, self.dropout, bias=self.bias, scale=1.0)
            states = self._add(states, attended, block.attn_out)
            states = self._feed(block.feed, states)
        return self.dropout.states(self._norm(self.encoder_norm, states))

    def _step(self, texts: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
        torch = require("torch")
        count = sum(size for size, _ in lengths)
        states = self.dropout.states(rows(self.word_emb, torch.full((count,), self.start_token)))
        for block in self.decoder:
            own = dense(self._norm(block.norm, states), block.value)
            states = self._add(states, self._attend_to_itself(own), block.attn_out)
            attended = self._attend_to_text(
                block, self._norm(block.text_norm, states), texts, lengths
            )
            states = self._add(states, attended, block.text_attn_out)
            states = self._feed(block.feed, states)
        return self.dropout.states(self._norm(self.decoder_norm, states))

    def _attend_to_itself(self, own: Tensor) -> Tensor:
        """What a token that is alone attends to: its own value, of each head all or nothing."""
        if not self.dropout.attention:
            return own
        weights = self.dropout.weights(own.new_ones(len(own), self.heads, 1))
        return (own.unflatten(1, (self.heads, -1)) * weights).flatten(1)

    def _attend_to_text(
        self, block: DecoderBlock, states: Tensor, texts: Tensor, lengths: list[tuple[int, int]]
    ) -> Tensor:
        torch = require("torch")
        queries = dense(states, block.text_query).unflatten(1, (self.heads, -1))
        keys = block.text_key.unflatten(0, (self.heads, -1))
        values = block.text_value.unflatten(0, (self.heads, -1))
        queries = torch.einsum("bhd,hdx->bhx", queries, keys)
        mean = folded_mean(queries, texts, lengths, self.dropout)
        return torch.einsum("bhx,hdx->bhd", mean, values).flatten(1)

    def _feed(self, feed: Feed, states: Tensor) -> Tensor:
        inner = self._norm(feed.norm, states)
        gated = self.activation(dense(inner, feed.intermediate))
        if feed.gate is not None:
            gated = gated * dense(inner, feed.gate)
        return self._add(states, self.dropout.states(gated), feed.output)

    def _add(self, states: Tensor, inner: Tensor, weight: Tensor) -> Tensor:
        return self.dropout.states(dense(inner, weight)) + states

    def _norm(self, weight: Tensor, states: Tensor) -> Tensor:
        function = require("torch").nn.functional.rms_norm
        return function(states, (states.shape[1],), weight, self.epsilon)


def build(loaded: Loaded, longest: int, dropout: Dropout = NO_DROPOUT) -> T5:
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
        prefix = f"encoder.block.{number}.layer"
        return EncoderBlock(
            weight(f"{prefix}.0.layer_norm"),
            torch.cat([weight(f"{prefix}.0.SelfAttention.{name}") for name in "qkv"]),
            weight(f"{prefix}.0.SelfAttention.o"),
            feed(f"{prefix}.1"),
        )

    def decoder_block(number: int) -> DecoderBlock:
        prefix = f"decoder.block.{number}.layer"
        return DecoderBlock(
            weight(f"{prefix}.0.layer_norm"),
            weight(f"{prefix}.0.SelfAttention.v"),
            weight(f"{prefix}.0.SelfAttention.o"),
            weight(f"{prefix}.1.layer_norm"),
            weight(f"{prefix}.1.EncDecAttention.q"),
            weight(f"{prefix}.1.EncDecAttention.k"),
            weight(f"{prefix}.1.EncDecAttention.v"),
            weight(f"{prefix}.1.EncDecAttention.o"),
            feed(f"{prefix}.2"),
        )

    shared = loaded.weights.get("shared.weight")
    word_emb = weight("encoder.embed_tokens") if shared is None else shared
    first = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)
    layers = config["num_layers"]
    has_own_output = (
        config.get("tie_word_embeddings") is False or "lm_head.weight" in loaded.weights
    )
    return T5(
        word_emb=word_emb,
        output=weight("lm_head") if has_own_output else word_emb,
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
        start_token=config.get("decoder_start_token_id", config.get("pad_token_id", 0)),
        output_scale=config["d_model"] ** -0.5 if scaled else 1.0,
        dropout=dropout,
    )


def activation_name(config: Mapping[str, Any]) -> str:
    """The activation function of a T5 as other configs call it.

    >>> activation_name({"feed_forward_proj": "gated-gelu"}), activation_name({})
    ('gelu_new', 'relu')
    """
    projection: str = config.get("feed_forward_proj", "relu")
    return "gelu_new" if projection == "gated-gelu" else projection.removeprefix("gated-")
