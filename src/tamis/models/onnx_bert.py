"""BERT-like models as ONNX graphs: a cross-encoder with its last layer folded, or all states.

Inputs and outputs are those that others give such a model (`input_ids`, `attention_mask`, perhaps
`token_type_ids`; `logits` or `last_hidden_state`), so that ONNX Runtime runs it for anyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tamis.models.onnx_graph import RUNTIME, Floats, Graph, array
from tamis.models.onnx_int8 import Int8, Matrix
from tamis.scorers._bert import Bert, Layer, Linear, Norm
from tamis.scorers.cross_encoder import TorchPairs

LOWEST = {"gelu": -0.17, "gelu_new": -0.171, "gelu_pytorch_tanh": -0.171, "relu": 0.0}
"""The least value of an activation function."""


def write_pairs(
    path: Path, model: TorchPairs, activation: str, int8: Int8 | None, facts: Mapping[str, str]
) -> None:
    """Write a cross-encoder: logits, a row a sequence."""
    writer = _Writer(Graph(), model.body, activation, int8)
    graph, states = writer.graph, writer.states(model.body.layers[:-1])
    first = writer.folded(model.body.layers[-1], states)
    inner = graph.op("Tanh", writer.linear(first, Linear(*model.head.dense)))
    logits = writer.linear(inner, Linear(*model.head.out))
    graph.save(path, writer.inputs, (logits, "logits", ["b", model.outputs]), facts)


def write_texts(
    path: Path, body: Bert, activation: str, int8: Int8 | None, facts: Mapping[str, str]
) -> None:
    """Write a bi-encoder: the states of all tokens, not yet pooled."""
    writer = _Writer(Graph(), body, activation, int8)
    states = writer.in_sequences(writer.states(body.layers))
    output = (states, "last_hidden_state", ["b", "l", writer.width])
    writer.graph.save(path, writer.inputs, output, facts)


@dataclass(frozen=True, eq=False)
class _Writer:
    """Writes the steps of one model into a graph; states are a row a token."""

    graph: Graph
    body: Bert
    activation: str
    int8: Int8 | None

    @property
    def width(self) -> int:
        return int(self.body.words.shape[1])

    @property
    def inputs(self) -> list[str]:
        segments = ["token_type_ids"] if len(self.body.places) > 1 else []
        return ["input_ids", "attention_mask", *segments]

    def states(self, layers: tuple[Layer, ...]) -> str:
        """All tokens after these layers."""
        states, mask = self.embedded(), self.graph.whole_mask()
        for layer in layers:
            seen = self.attention(layer, states, mask)
            joined = self.product(seen, layer.joined, "joined", self.int8)
            states = self.norm(self.graph.add(joined, states), layer.after_attention)
            states = self.feed(layer, states, self.int8)
        return states

    def embedded(self) -> str:
        graph = self.graph
        places = array(self.body.places)
        length = graph.op("Gather", graph.op("Shape", "input_ids"), graph.numbers(1))
        here = graph.constant(places[0, self.body.first_place :])
        states = graph.op("Gather", graph.constant(array(self.body.words)), "input_ids")
        states = graph.add(states, graph.op("Slice", here, graph.numbers(0), length))
        if len(places) > 1:
            segments = graph.constant(places[:, 0] - places[0, 0])
            states = graph.add(states, graph.op("Gather", segments, "token_type_ids"))
        return self.norm(graph.rows(states, self.width), self.body.start)

    def attention(self, layer: Layer, states: str, mask: str) -> str:
        graph, width = self.graph, self.width
        weights = array(layer.mixed.weight).reshape(3, width, width)
        if self.int8:
            mixed = self.int8.product(graph, states, weights.reshape(-1, width), "mixed")
            parts = graph.ops(3, "Split", mixed, graph.numbers(width, width, width), axis=-1)
        else:
            parts = [graph.product(states, weight) for weight in weights]
        seen = graph.op(
            "MultiHeadAttention",
            *(self.in_sequences(part) for part in parts),
            graph.constant(array(layer.mixed.bias)),
            mask,
            domain=RUNTIME,
            num_heads=self.body.heads,
        )
        return graph.rows(seen, width)

    def feed(self, layer: Layer, states: str, int8: Int8 | None) -> str:
        wide = self.product(states, layer.wide, "wide", int8)
        wide = self.graph.activated(wide, self.activation)
        narrow = self.product(wide, layer.narrow, "narrow", int8)
        return self.norm(self.graph.add(narrow, states), layer.after_feed)

    def folded(self, layer: Layer, states: str) -> str:
        """The first token of every sequence after the last layer; see `tamis.scorers._bert`."""
        graph, heads = self.graph, self.body.heads
        size = self.width // heads
        weights = array(layer.mixed.weight).reshape(3, self.width, self.width)
        biases = array(layer.mixed.bias).reshape(3, self.width)
        texts = self.in_sequences(states)
        firsts = graph.op("Gather", texts, graph.constant(np.int64(0)), axis=1)
        scale = np.float32(size**-0.5)
        asked = self.affine(firsts, weights[0] * scale, biases[0] * scale)
        by_head = weights.reshape(3, heads, size, self.width)
        seen = graph.folded_attention(
            graph.by_head(asked, heads, size), texts, graph.hidden(), by_head[1], by_head[2]
        )
        joined = self.linear(graph.add(seen, graph.constant(biases[2])), layer.joined)
        return self.feed(layer, self.norm(graph.add(joined, firsts), layer.after_attention), None)

    def in_sequences(self, states: str) -> str:
        graph = self.graph
        shape = graph.op(
            "Concat", graph.op("Shape", "input_ids"), graph.numbers(self.width), axis=0
        )
        return graph.op("Reshape", states, shape)

    def norm(self, states: str, norm: Norm) -> str:
        return self.graph.op(
            "LayerNormalization",
            states,
            self.graph.constant(array(norm.weight)),
            self.graph.constant(array(norm.bias)),
            axis=-1,
            epsilon=self.body.epsilon,
        )

    def product(self, states: str, linear: Linear, matrix: Matrix, int8: Int8 | None = None) -> str:
        if int8 is None:
            return self.linear(states, linear)
        lowest = LOWEST.get(self.activation) if matrix == "narrow" else None
        found = int8.product(self.graph, states, array(linear.weight), matrix, lowest)
        return self.graph.add(found, self.graph.constant(array(linear.bias)))

    def linear(self, states: str, linear: Linear) -> str:
        return self.affine(states, array(linear.weight), array(linear.bias))

    def affine(self, states: str, weight: Floats, bias: Floats) -> str:
        return self.graph.add(self.graph.product(states, weight), self.graph.constant(bias))
