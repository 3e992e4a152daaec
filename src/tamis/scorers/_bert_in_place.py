"""A layer of BERT while it scores: no gradient will ask what the states were, so they are written
over, and the layers of a batch share the memory they write into.

A bias costs nothing where the values pass anyway. Those of the two matrices whose products are
added to the states are added by the normalisation that follows, that of the wide matrix by the
activation function. A key's bias adds the same to all scores of a query, which a softmax does not
see, so it is left out; a value's bias passes through attention, whose weights sum to one, and is
added to what comes out. All of that is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit_with
from tamis.errors import require
from tamis.scorers.weights import Tensor

if TYPE_CHECKING:
    from tamis.scorers._bert import Bert, Layer, Norm

Floats = NDArray[np.float32]
ANY_ORDER = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@dataclass(frozen=True, eq=False)
class Room:
    """What the layers of a batch write into; `mixed` and `wide` are the same memory."""

    mixed: Tensor
    wide: Tensor
    seen: Tensor


def room_for(body: Bert, states: Tensor) -> Room | None:
    """Room for the layers of a model, or none where states must not be written over."""
    torch = require("torch")
    if not torch.is_inference_mode_enabled() or not states.is_cpu:
        return None
    first = body.layers[0]
    widths = len(first.mixed.weight), len(first.wide.weight)
    shared = states.new_empty(len(states) * max(widths))
    mixed, wide = (shared[: len(states) * width].view(-1, width) for width in widths)
    return Room(mixed, wide, torch.empty_like(states))


def run_in_place(
    body: Bert, layer: Layer, states: Tensor, lengths: list[tuple[int, int]], room: Room
) -> None:
    """The states after a layer, where they were before it."""
    torch = require("torch")
    torch.mm(states, layer.mixed.weight.T, out=room.mixed)
    _attention(body, layer.mixed.bias, lengths, room)
    states.addmm_(room.seen, layer.joined.weight.T)
    _norm(states, layer.joined.bias, layer.after_attention, body.epsilon)
    torch.mm(states, layer.wide.weight.T, out=room.wide)
    wide = _activated(body.activation, room.wide, layer.wide.bias)
    states.addmm_(wide, layer.narrow.weight.T)
    _norm(states, layer.narrow.bias, layer.after_feed, body.epsilon)


def _attention(body: Bert, bias: Tensor, lengths: list[tuple[int, int]], room: Room) -> None:
    torch = require("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    query_bias, _, value_bias = bias.view(3, -1)
    room.mixed[:, : len(query_bias)] += query_bias
    sizes = [count * length for count, length in lengths]
    for (count, length), part, seen in zip(
        lengths, room.mixed.split(sizes), room.seen.split(sizes), strict=True
    ):
        query, key, value = part.view(count, length, 3, body.heads, -1).permute(2, 0, 3, 1, 4)
        out = attend(query, key, value).transpose(1, 2).reshape(seen.shape)
        torch.add(out, value_bias, out=seen)


def _activated(activation: Any, wide: Tensor, bias: Tensor) -> Tensor:
    if activation is not require("torch").nn.functional.gelu:
        return activation(wide.add_(bias))
    add_and_gelu(_array(wide), _array(bias))
    return wide


def _norm(states: Tensor, bias: Tensor, norm: Norm, epsilon: float) -> None:
    add_and_norm(_array(states), _array(bias), _array(norm.weight), _array(norm.bias), epsilon)


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.detach().numpy()
    return found


@jit_with(**ANY_ORDER)
def add_and_norm(
    states: Floats, before: Floats, weight: Floats, after: Floats, epsilon: float
) -> None:
    """Add a bias to every row, then normalise it."""
    width = states.shape[1]
    for row in range(len(states)):
        total = np.float32(0)
        for place in range(width):
            value = states[row, place] + before[place]
            states[row, place] = value
            total += value
        mean = total / np.float32(width)
        spread = np.float32(0)
        for place in range(width):
            value = states[row, place] - mean
            spread += value * value
        scale = np.float32(1 / math.sqrt(spread / width + epsilon))
        for place in range(width):
            states[row, place] = (states[row, place] - mean) * scale * weight[place] + after[place]


@jit_with(**ANY_ORDER)
def add_and_gelu(values: Floats, bias: Floats) -> None:
    """Add a bias to every row, then x ↦ x · (1 + erf(x / √2)) / 2.

    The error function is the usual quotient of polynomials for float32 (Eigen's and XLA's), which,
    other than the one of the C library, the compiler can work out for several values at once.
    """
    for row in range(len(values)):
        for place in range(len(bias)):
            value = values[row, place] + bias[place]
            x = min(max(value * np.float32(0.5**0.5), np.float32(-4)), np.float32(4))
            square = x * x
            above = np.float32(-2.72614225801306e-10)
            above = above * square + np.float32(2.77068142495902e-08)
            above = above * square + np.float32(-2.10102402082508e-06)
            above = above * square + np.float32(-5.69250639462346e-05)
            above = above * square + np.float32(-7.34990630326855e-04)
            above = above * square + np.float32(-2.95459980854025e-03)
            above = above * square + np.float32(-1.60960333262415e-02)
            below = np.float32(-1.45660718464996e-05)
            below = below * square + np.float32(-2.13374055278905e-04)
            below = below * square + np.float32(-1.68282697438203e-03)
            below = below * square + np.float32(-7.37332916720468e-03)
            below = below * square + np.float32(-1.42647390514189e-02)
            values[row, place] = np.float32(0.5) * value * (np.float32(1) + x * above / below)
