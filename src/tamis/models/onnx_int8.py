"""Matrix products in 8-bit integers that keep the ranking.

Every token has a scale of its own, every column of the weights too. Where one 8-bit number is too
coarse there are two: x ≈ s (h + l / 254), the product being that of h plus that of l. The same for
weights. ONNX Runtime multiplies unsigned by signed bytes; a processor that adds pairs of products
in 16 bits would overflow with weights of 8 bits, so there they have 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis.models.onnx_graph import RUNTIME, Floats, Graph

Matrix = Literal["mixed", "joined", "wide", "narrow"]
"""The products of a layer: to query, key and value; from the heads; into and out of the wide."""
EVERY: frozenset[Matrix] = frozenset(("mixed", "joined", "wide", "narrow"))
HALF = np.uint8(128)
FINE = 254
"""How many steps of the second number make one of the first."""
BELOW = 16
"""How many of 256 steps lie below nought where hardly anything is negative."""
TINY = np.float32(1e-12)


@dataclass(frozen=True)
class Recipe:
    """Which products take the states, and which the weights, as two numbers instead of one."""

    name: str
    states: frozenset[Matrix] = frozenset()
    weights: frozenset[Matrix] = frozenset()


RECIPES = (
    Recipe("single"),
    Recipe("mixed", frozenset(("mixed", "wide")), frozenset(("narrow",))),
    Recipe("double", EVERY, frozenset(("narrow",))),
)
"""From the fastest to the most faithful."""


@dataclass(frozen=True)
class Quantised:
    """Weights as whole numbers, a scale a column."""

    numbers: NDArray[np.int8]
    scale: Floats

    @property
    def values(self) -> Floats:
        """The weights they stand for."""
        return self.numbers * self.scale


@dataclass(frozen=True, eq=False)
class Part:
    """A constant of whole numbers in a graph, and the scale of its columns."""

    numbers: str
    scale: Floats


@dataclass(frozen=True)
class Int8:
    """How the products of a model are computed."""

    recipe: Recipe
    bits: int

    def product(
        self, graph: Graph, states: str, weight: Floats, matrix: Matrix, lowest: float | None = None
    ) -> str:
        """States (a row a token) times a matrix of (output, input).

        `lowest` is the least value that states can have, where that is near nought.
        """
        whole = quantise(weight.T, self.bits)
        main = Part(graph.constant(whole.numbers), whole.scale)
        parts = [main]
        if matrix in self.recipe.weights:
            rest = quantise(weight.T - whole.values, self.bits)
            parts.append(Part(graph.constant(rest.numbers), rest.scale))
        scale = row_scale(graph, states, lowest)
        zero = HALF if lowest is None else np.uint8(BELOW)
        numbers, zeros = rounded(graph, states, scale, zero)
        total = products(graph, numbers, parts, zero)
        if matrix in self.recipe.states:
            near = graph.op("DequantizeLinear", numbers, scale, zeros, axis=0)
            left = graph.op("Sub", states, near)
            finer = graph.op("Mul", scale, graph.constant(np.float32(1 / FINE)))
            numbers, _ = rounded(graph, left, finer, HALF)
            small = Part(main.numbers, main.scale / np.float32(FINE))
            total = graph.add(total, products(graph, numbers, [small], HALF))
        return graph.op("Mul", total, graph.op("Unsqueeze", scale, graph.numbers(1)))


def quantise(weight: Floats, bits: int) -> Quantised:
    """A matrix of (input, output) as whole numbers of so many bits.

    >>> found = quantise(np.array([[1.0, 0.0], [-0.5, 0.0]], np.float32), 8)
    >>> found.numbers.tolist(), found.values.round(2).tolist()
    ([[127, 0], [-64, 0]], [[1.0, 0.0], [-0.5, 0.0]])
    """
    most = 2 ** (bits - 1) - 1
    scale = np.maximum(np.abs(weight).max(0) / most, TINY).astype(np.float32)
    return Quantised(np.round(weight / scale).astype(np.int8), scale)


def row_scale(graph: Graph, states: str, lowest: float | None) -> str:
    """How much one step is in each row."""
    if lowest is None:
        size, steps, least = graph.op("Abs", states), 127, TINY
    else:
        size, steps, least = states, 255 - BELOW, np.float32(max(-lowest / BELOW, float(TINY)))
    most = graph.op("ReduceMax", size, graph.numbers(-1), keepdims=0)
    step = graph.op("Mul", most, graph.constant(np.float32(1 / steps)))
    return graph.op("Max", step, graph.constant(least))


def rounded(graph: Graph, states: str, scale: str, zero: np.uint8) -> tuple[str, str]:
    """Each row in steps of its scale from `zero` on, and the zeros, one a row."""
    zeros = graph.op("Expand", graph.constant([zero]), graph.op("Shape", scale))
    return graph.op("QuantizeLinear", states, scale, zeros, axis=0), zeros


def products(graph: Graph, numbers: str, parts: list[Part], zero: np.uint8) -> str:
    """Whole numbers times the parts of a matrix, in the scale of its columns."""
    found = [
        graph.op(
            "MatMulIntegerToFloat",
            numbers,
            part.numbers,
            graph.constant(np.float32(1)),
            graph.constant(part.scale),
            graph.constant(zero),
            domain=RUNTIME,
        )
        for part in parts
    ]
    return found[0] if len(found) == 1 else graph.add(*found)
