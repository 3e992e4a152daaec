"""What forwards without padding share: dense layers, norms, and attention within each sequence.

Sequences stand end to end in one matrix, those of the same length side by side, so that attention
takes them in one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Tensor, Weights
from tamis.errors import InputError, require

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Linear:
    """x Wᵀ + b."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, states: Tensor) -> Tensor:
        return dense(states, self.weight, self.bias)


def dense(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X Wᵀ + b."""
    require("torch")
    from tamis.backends._dense_product import dense_product  # imports torch

    return dense_product(states, weight, bias)


@dataclass(frozen=True, eq=False)
class Norm:
    """Layer normalisation."""

    weight: Tensor
    bias: Tensor | None
    epsilon: float

    def __call__(self, states: Tensor) -> Tensor:
        function = require("torch").nn.functional.layer_norm
        return function(states, (states.shape[1],), self.weight, self.bias, self.epsilon)


def token_rows(embedding: Tensor, sequences: Sequence[TokenIds]) -> Tensor:
    """The embeddings of all tokens, sequence after sequence."""
    ids = np.concatenate(sequences).astype(np.int64)
    return rows(embedding, require("torch").from_numpy(ids))


def token_positions(sequences: Sequence[TokenIds]) -> Any:
    """The position of every token in its sequence, from zero."""
    return np.concatenate([np.arange(len(sequence)) for sequence in sequences])


def rows(embedding: Tensor, ids: Tensor) -> Tensor:
    """The rows of an embedding; a gradient names only the rows that were used."""
    function = require("torch").nn.functional.embedding
    return function(ids.to(embedding.device), embedding, sparse=True)


def split(rows: Tensor, lengths: list[tuple[int, int]]) -> Sequence[Tensor]:
    """The rows of each group of sequences."""
    groups_of_rows: Sequence[Tensor] = rows.split([count * length for count, length in lengths])
    return groups_of_rows


def first_rows(states: Tensor, lengths: list[tuple[int, int]]) -> Tensor:
    """The row of every sequence's first token."""
    starts: list[int] = []
    position = 0
    for count, length in lengths:
        starts.extend(range(position, position + count * length, length))
        position += count * length
    return states.index_select(0, require("torch").tensor(starts, device=states.device))


def attention(
    qkv: Tensor,
    lengths: list[tuple[int, int]],
    heads: int,
    dropout: Dropout,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """What every token attends to in its sequence, from rows of queries, keys and values.

    A bias, heads x tokens x tokens of the longest sequence, is added to the scores.
    """
    outputs = []
    for (count, length), group in zip(lengths, split(qkv, lengths), strict=True):
        query, key, value = group.view(count, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        added = None if bias is None else bias[None, :, :length, :length]
        output = attend(query, key, value, added, dropout, scale)
        outputs.append(output.transpose(1, 2).reshape(count * length, -1))
    return outputs[0] if len(outputs) == 1 else require("torch").cat(outputs)


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
    queries: Tensor,
    states: Tensor,
    lengths: list[tuple[int, int]],
    dropout: Dropout = NO_DROPOUT,
    *,
    keys: Tensor | None = None,
) -> Tensor:
    """The states of each sequence, averaged by how well they answer each head's question.

    What answers is the states, or keys: tokens x heads x size.
    """
    torch = require("torch")
    means = []
    query_groups = queries.split([count for count, _ in lengths])
    state_groups = split(states, lengths)
    key_groups = state_groups if keys is None else split(keys, lengths)
    for query, group, key, (count, length) in zip(
        query_groups, state_groups, key_groups, lengths, strict=True
    ):
        texts = group.view(count, length, -1)
        if keys is None:
            scores = torch.bmm(query, texts.transpose(1, 2))
        else:
            scores = torch.einsum("bhd,blhd->bhl", query, key.unflatten(0, (count, length)))
        weights = scores.softmax(-1)
        means.append(torch.bmm(dropout.weights(weights), texts))
    return torch.cat(means)


def project_means(means: Tensor, value: Linear) -> Tensor:
    """The values of averaged states: sequences x heads x width, each head with its own rows."""
    heads = value.weight.unflatten(0, (means.shape[1], -1))
    projected = require("torch").einsum("bhx,hdx->bhd", means, heads).flatten(1)
    return projected if value.bias is None else projected + value.bias


def thirds(qkv: Linear) -> tuple[Linear, ...]:
    """The layers of queries, keys and values."""
    weights = qkv.weight.chunk(3)
    biases = (None, None, None) if qkv.bias is None else qkv.bias.chunk(3)
    return tuple(Linear(weight, bias) for weight, bias in zip(weights, biases, strict=True))


def distance_bias(weight: Tensor, longest: int, farthest: int) -> Tensor:
    """What attention adds for the distance between two tokens: heads x tokens x tokens.

    Near distances have a row of their own; farther ones share rows, ever more to one.
    """
    torch = require("torch")
    distances = torch.arange(1 - longest, longest)
    half = len(weight) // 2
    exact = half // 2
    size = distances.abs()
    step = torch.log(size.clamp(min=1).float() / exact) / math.log(farthest / exact)
    far = exact + (step * (half - exact)).long()
    bucket = torch.where(size < exact, size, far.clamp(max=half - 1)) + (distances > 0) * half
    places = torch.arange(longest)
    return weight[bucket].T[:, places[None, :] - places[:, None] + longest - 1].contiguous()


def under_prefix(weights: Weights, suffix: str) -> Weights:
    """Weights without what stands before their names, which the name with this suffix shows."""
    prefix = next((name.removesuffix(suffix) for name in weights if name.endswith(suffix)), "")
    return {name.removeprefix(prefix): value for name, value in weights.items()}


def stacked(weights: Sequence[Tensor]) -> Tensor:
    """Weights below each other; one alone is not copied."""
    return weights[0] if len(weights) == 1 else require("torch").cat(list(weights))


def activation(name: str, folder: object) -> Activation:
    """The activation function a config names."""
    torch = require("torch")
    function = torch.nn.functional

    def gelu_by_tanh(states: Tensor) -> Tensor:
        return function.gelu(states, approximate="tanh")

    functions: dict[str, Activation] = {
        "tanh": torch.tanh,
        "gelu": function.gelu,
        "gelu_new": gelu_by_tanh,
        "gelu_pytorch_tanh": gelu_by_tanh,
        "relu": torch.relu,
        "silu": function.silu,
        "swish": function.silu,
    }
    if name not in functions:
        raise InputError(
            f"{folder} uses the activation {name!r}, which tamis does not know",
            hint=f"it knows {', '.join(functions)}",
        )
    return functions[name]
