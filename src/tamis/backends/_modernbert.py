"""ModernBERT in torch without padding: rotary positions, local and global attention, gated layers.

A local layer sees `reach` tokens to either side. Sequences of more than three times that many are
taken in blocks of `reach` queries with the three blocks of keys around them, so that their cost
grows with the length, not with its square. Where only the first token is wanted, the last layer
needs keys of its own, which turn with their positions, but no values, and one row of all the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends._layers import (
    Activation,
    Linear,
    Norm,
    activation,
    attend,
    attention,
    first_rows,
    folded_mean,
    project_means,
    split,
    thirds,
    token_positions,
    token_rows,
    under_prefix,
)
from tamis.backends.batches import groups
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Loaded, Tensor, take
from tamis.errors import InputError, require

WORDS = "embeddings.tok_embeddings.weight"
GLOBAL, LOCAL = "full_attention", "sliding_attention"
THETA = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""What older configs call the base of a kind of layer, and its default."""
Lengths = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: attention and gated feed-forward, each after a normalisation."""

    kind: str
    attn_norm: Norm | None
    qkv: Linear
    attn_out: Linear
    norm: Norm
    inner: Linear
    gate: Linear
    output: Linear


@dataclass(frozen=True, eq=False)
class Batch:
    """What all layers need to know of a batch: turns by position and masks, by kind of layer."""

    lengths: Lengths
    turns: Mapping[str, Tensor]
    masks: Sequence[Tensor | None]
    """The mask of each group of sequences in local layers; none where all are near."""


@dataclass(frozen=True, eq=False)
class ModernBert:
    """The body of a ModernBERT model, ready to run."""

    word_emb: Tensor
    embedding_norm: Norm
    layers: tuple[Layer, ...]
    final_norm: Norm
    heads: int
    activation: Activation
    reach: int
    speeds: Mapping[str, Tensor]
    """How far each pair of values turns from one position to the next, by kind of layer."""
    longest: int
    dropout: Dropout = NO_DROPOUT

    @property
    def dimensions(self) -> int:
        """How many values a token's vector has."""
        return int(self.word_emb.shape[1])

    def first_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vector of every sequence's first token."""
        batch = self._batch(sequences)
        states = self._run(self.layers[:-1], self._embed(sequences), batch)
        return self.final_norm(self._last_layer(states, batch))

    def all_tokens(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Tensor:
        """The last layer's vectors of all tokens, sequence after sequence."""
        return self.final_norm(
            self._run(self.layers, self._embed(sequences), self._batch(sequences))
        )

    def _embed(self, sequences: Sequence[TokenIds]) -> Tensor:
        return self.dropout.states(self.embedding_norm(token_rows(self.word_emb, sequences)))

    def _batch(self, sequences: Sequence[TokenIds]) -> Batch:
        lengths = groups([len(sequence) for sequence in sequences])
        return Batch(
            lengths,
            turns(token_positions(sequences), self.speeds),
            [local_mask(count, length, self.reach, self.word_emb) for count, length in lengths],
        )

    def _run(self, layers: Sequence[Layer], states: Tensor, batch: Batch) -> Tensor:
        for layer in layers:
            normed = layer.attn_norm(states) if layer.attn_norm else states
            qkv = turned(layer.qkv(normed), batch.turns[layer.kind], self.heads)
            states = self._add(layer.attn_out, self._attention(layer, qkv, batch), states)
            states = self._feed(layer, states)
        return states

    def _attention(self, layer: Layer, qkv: Tensor, batch: Batch) -> Tensor:
        if layer.kind == GLOBAL or not any(mask is not None for mask in batch.masks):
            return attention(qkv, batch.lengths, self.heads, self.dropout)
        outputs = []
        for group, mask, size in zip(
            split(qkv, batch.lengths), batch.masks, batch.lengths, strict=True
        ):
            is_banded = mask is not None and mask.ndim == 4
            outputs.append(
                banded_attention(group, mask, self.heads, self.reach, self.dropout)
                if is_banded
                else attention(group, [size], self.heads, self.dropout, bias=mask)
            )
        return require("torch").cat(outputs)

    def _add(self, linear: Linear, inner: Tensor, states: Tensor) -> Tensor:
        left = replace(self.dropout, hidden=self.dropout.attention)
        return left.states(linear(inner)).add_(states)

    def _feed(self, layer: Layer, states: Tensor) -> Tensor:
        normed = layer.norm(states)
        inner = self.activation(layer.inner(normed)) * layer.gate(normed)
        return layer.output(self.dropout.states(inner)).add_(states)

    def _last_layer(self, states: Tensor, batch: Batch) -> Tensor:
        """One row of queries a sequence, at position zero, where nothing turns."""
        layer, lengths = self.layers[-1], batch.lengths
        turn = batch.turns[layer.kind]
        if layer.kind == LOCAL:
            states, turn = (near(rows, lengths, self.reach + 1) for rows in (states, turn))
            lengths = [(count, min(length, self.reach + 1)) for count, length in lengths]
        normed = layer.attn_norm(states) if layer.attn_norm else states
        size = states.shape[1] // self.heads
        query, key, value = thirds(layer.qkv)
        keys = turned(key(normed), turn, self.heads).view(-1, self.heads, size)
        queries = query(first_rows(normed, lengths)).view(-1, self.heads, size) * size**-0.5
        mean = folded_mean(queries, normed, lengths, self.dropout, keys=keys)
        attended = project_means(mean, value)
        states = self._add(layer.attn_out, attended, first_rows(states, lengths))
        return self._feed(layer, states)


def near(rows: Tensor, lengths: Lengths, count: int) -> Tensor:
    """The rows of every sequence's first so many tokens."""
    return require("torch").cat([
        group.unflatten(0, (number, length))[:, :count].flatten(0, 1)
        for group, (number, length) in zip(split(rows, lengths), lengths, strict=True)
    ])  # fmt: skip


def turns(positions: Any, speeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The turn of every pair of values at each position as a complex number, by kind of layer."""
    torch = require("torch")
    by_kind = {}
    for kind, speed in speeds.items():
        angles = torch.from_numpy(positions).to(speed)[:, None] * speed
        by_kind[kind] = torch.polar(torch.ones_like(angles), angles)
    return by_kind


def turned(rows: Tensor, turn: Tensor, heads: int) -> Tensor:
    """Rows of keys, or of queries, keys and values, with all but the values turned.

    Values that turn together lie side by side, so that a turn is one product of complex numbers.
    """
    torch = require("torch")
    size = 2 * turn.shape[1]
    parts = rows.view(len(rows), -1, heads, size // 2, 2)
    moving = torch.view_as_complex(parts[:, :2])
    turn = turn[:, None, None]
    if not rows.requires_grad:
        moving.mul_(turn)
        return rows
    moved = torch.view_as_real(moving * turn)
    return torch.cat([moved, parts[:, 2:]], 1).view_as(rows)


def local_mask(count: int, length: int, reach: int, like: Tensor) -> Tensor | None:
    """What is added to the scores of a group of sequences in a local layer: zero or -infinity.

    None where all tokens are near each other; one row a token (heads x tokens x tokens) where
    sequences are short; else one block of `reach` queries with the three blocks of keys around.
    """
    torch = require("torch")
    if length <= reach + 1:
        return None
    if length <= 3 * reach:
        places = torch.arange(length, device=like.device)
        far = (places[:, None] - places).abs() > reach
        return torch.zeros(1, length, length).to(like).masked_fill(far, -torch.inf)
    tokens = count * length
    blocks = torch.arange(-(-tokens // reach), device=like.device)[:, None] * reach
    query = (blocks + torch.arange(reach, device=like.device))[:, :, None]
    key = (blocks + torch.arange(-reach, 2 * reach, device=like.device))[:, None, :]
    is_seen = ((query - key).abs() <= reach) & (query // length == key // length)
    is_seen |= query == key  # past the end, too: a row that sees nothing is no number
    return torch.zeros(is_seen.shape).to(like).masked_fill(~is_seen, -torch.inf)[:, None]


def banded_attention(qkv: Tensor, mask: Tensor, heads: int, reach: int, dropout: Dropout) -> Tensor:
    """Attention of blocks of queries to the keys before, beside and after them."""
    torch = require("torch")
    tokens, blocks = len(qkv), len(mask)
    padded = torch.nn.functional.pad(qkv, (0, 0, reach, (blocks + 1) * reach - tokens))
    padded = padded.view(len(padded), 3, heads, -1)
    query = padded[reach:-reach, 0].unflatten(0, (blocks, reach)).transpose(1, 2)
    windows = padded[:, 1:].unfold(0, 3 * reach, reach)
    key, value = windows.permute(1, 0, 2, 4, 3)
    output = attend(query, key, value, mask, dropout)
    return output.transpose(1, 2).reshape(blocks * reach, -1)[:tokens]


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> ModernBert:
    """The body of a ModernBERT model from its folder."""
    config, folder = loaded.config, loaded.folder
    by_name = under_prefix(loaded.weights, WORDS)
    heads = config["num_attention_heads"]
    epsilon = config.get("norm_eps", 1e-5)
    word_emb = take(by_name, WORDS, folder)

    def linear(name: str) -> Linear:
        return Linear(take(by_name, f"{name}.weight", folder), by_name.get(f"{name}.bias"))

    def norm(name: str) -> Norm:
        weight = take(by_name, f"{name}.weight", folder)
        return Norm(weight, by_name.get(f"{name}.bias"), epsilon)

    def qkv(number: int) -> Linear:
        return side_by_side(linear(f"layers.{number}.attn.Wqkv"), heads)

    def layer(number: int, kind: str) -> Layer:
        prefix = f"layers.{number}"
        inner, gate = halves(linear(f"{prefix}.mlp.Wi"))
        return Layer(
            kind,
            norm(f"{prefix}.attn_norm") if number else None,
            qkv(number),
            linear(f"{prefix}.attn.Wo"),
            norm(f"{prefix}.mlp_norm"),
            inner,
            gate,
            linear(f"{prefix}.mlp.Wo"),
        )

    hidden = int(word_emb.shape[1])
    return ModernBert(
        word_emb=word_emb,
        embedding_norm=norm("embeddings.norm"),
        layers=tuple(layer(number, kind) for number, kind in enumerate(kinds(config))),
        final_norm=norm("final_norm"),
        heads=heads,
        activation=activation(config.get("hidden_activation", "gelu"), folder),
        reach=config.get("local_attention", 128) // 2,
        speeds={kind: speed(config, kind, hidden // heads, folder).to(word_emb)
                for kind in THETA},
        longest=config["max_position_embeddings"],
        dropout=dropout,
    )  # fmt: skip


def kinds(config: Mapping[str, Any]) -> list[str]:
    """Which layers are global and which local.

    >>> kinds({"num_hidden_layers": 4, "global_attn_every_n_layers": 3})
    ['full_attention', 'sliding_attention', 'sliding_attention', 'full_attention']
    """
    every = config.get("global_attn_every_n_layers", 3)
    default = [LOCAL if number % every else GLOBAL for number in range(config["num_hidden_layers"])]
    return list(config.get("layer_types") or default)


def speed(config: Mapping[str, Any], kind: str, size: int, folder: object) -> Tensor:
    """How far each of `size / 2` pairs of values turns from one position to the next."""
    torch = require("torch")
    settings = (config.get("rope_parameters") or {}).get(kind) or {}
    if settings.get("rope_type", "default") != "default" or config.get("rope_scaling"):
        raise InputError(
            f"{folder} scales its rotary positions, which tamis does not do",
            hint="use a model whose rope_type is default",
        )
    name, default = THETA[kind]
    theta = settings.get("rope_theta") or config.get(name) or default
    return 1.0 / (theta ** (torch.arange(0, size, 2, dtype=torch.float) / size))


def has_plain_turns(config: Mapping[str, Any]) -> bool:
    """Whether no kind of layer scales its rotary positions."""
    settings = (config.get("rope_parameters") or {}).values()
    types = (kind.get("rope_type", "default") for kind in settings if isinstance(kind, dict))
    return not config.get("rope_scaling") and all(name == "default" for name in types)


def halves(linear: Linear) -> tuple[Linear, Linear]:
    """The layer that is activated, and the one it is multiplied by."""
    inner, gate = linear.weight.chunk(2)
    biases = (None, None) if linear.bias is None else linear.bias.chunk(2)
    return Linear(inner, biases[0]), Linear(gate, biases[1])


def side_by_side(qkv: Linear, heads: int) -> Linear:
    """Queries and keys in another order: values that turn together lie side by side.

    The order is the same for both, so their products are, too.
    """

    def ordered(rows: Tensor) -> Tensor:
        torch = require("torch")
        queries, keys, values = rows.chunk(3)
        pairs = torch.cat([queries, keys]).unflatten(0, (2 * heads, 2, -1))
        return torch.cat([pairs.transpose(1, 2).flatten(0, 2), values])

    return Linear(ordered(qkv.weight), None if qkv.bias is None else ordered(qkv.bias))
