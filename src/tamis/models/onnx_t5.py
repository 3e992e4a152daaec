"""T5 as an ONNX graph: the encoder, one decoder step, and the logits of two words only.

Inputs are `input_ids` and `attention_mask`, the output `logits` has a column a word. That is not
how others export T5 (an encoder and a decoder with every word's logits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tamis.models.onnx_graph import RUNTIME, Floats, Graph, array
from tamis.models.onnx_int8 import Int8
from tamis.scorers._t5 import T5, DecoderBlock, EncoderBlock, Feed
from tamis.scorers.weights import Tensor


def write_words(
    path: Path,
    model: T5,
    words: Sequence[int],
    activation: str,
    int8: Int8 | None,
    facts: Mapping[str, str],
) -> None:
    """Write a T5 that says how much it would rather write one word than another."""
    writer = _Writer(Graph(), model, activation)
    states = writer.step(writer.in_sequences(writer.encoded(int8)))
    rows = array(model.output)[list(words)] * np.float32(model.output_scale)
    logits = writer.graph.product(states, rows)
    output = (logits, "logits", ["b", len(words)])
    writer.graph.save(path, ["input_ids", "attention_mask"], output, facts)


@dataclass(frozen=True, eq=False)
class _Writer:
    """Writes the steps of one model into a graph; the encoder's states are a row a token."""

    graph: Graph
    model: T5
    activation: str

    @property
    def width(self) -> int:
        return int(self.model.embedded.shape[1])

    def encoded(self, int8: Int8 | None) -> str:
        graph = self.graph
        words = graph.constant(array(self.model.embedded))
        states = graph.rows(graph.op("Gather", words, "input_ids"), self.width)
        mask, bias = graph.whole_mask(), self.distance_bias()
        for block in self.model.encoder:
            seen = self.attention(block, self.norm(block.norm, states), mask, bias, int8)
            weight = array(block.joined)
            joined = (
                int8.product(graph, seen, weight, "joined") if int8 else graph.product(seen, weight)
            )
            states = self.feed(block.feed, graph.add(joined, states), int8)
        return self.norm(self.model.encoder_norm, states)

    def distance_bias(self) -> str:
        """What attention adds for the distance of two tokens: 1 x heads x tokens x tokens."""
        graph, bias = self.graph, array(self.model.bias)
        longest = bias.shape[1]
        table = np.concatenate([bias[:, :0:-1, 0], bias[:, 0]], 1).T
        length = graph.op("Gather", graph.op("Shape", "input_ids"), graph.constant(np.int64(1)))
        here = graph.op("Range", graph.constant(np.int64(0)), length, graph.constant(np.int64(1)))
        there = graph.op("Unsqueeze", here, graph.numbers(0))
        distance = graph.op("Sub", there, graph.op("Unsqueeze", here, graph.numbers(1)))
        place = graph.add(distance, graph.constant(np.int64(longest - 1)))
        found = graph.op("Gather", graph.constant(table), place)
        return graph.op("Unsqueeze", graph.op("Transpose", found, perm=[2, 0, 1]), graph.numbers(0))

    def attention(
        self, block: EncoderBlock, states: str, mask: str, bias: str, int8: Int8 | None
    ) -> str:
        graph = self.graph
        inner = len(block.mixed) // 3
        weights = array(block.mixed).reshape(3, inner, self.width)
        if int8:
            mixed = int8.product(graph, states, weights.reshape(-1, self.width), "mixed")
            parts = graph.ops(3, "Split", mixed, graph.numbers(inner, inner, inner), axis=-1)
        else:
            parts = [graph.product(states, weight) for weight in weights]
        seen = graph.op(
            "MultiHeadAttention",
            *(self.in_sequences(part, inner) for part in parts),
            "",
            mask,
            bias,
            domain=RUNTIME,
            num_heads=self.model.heads,
            scale=1.0,
        )
        return graph.rows(seen, inner)

    def feed(self, feed: Feed, states: str, int8: Int8 | None = None) -> str:
        graph, inner = self.graph, self.norm(feed.norm, states)
        weights = [array(each) for each in (feed.wide, feed.gate) if each is not None]
        if int8:
            both = int8.product(graph, inner, np.concatenate(weights), "wide")
            sizes = graph.numbers(*(len(weight) for weight in weights))
            parts = graph.ops(len(weights), "Split", both, sizes, axis=-1)
        else:
            parts = [graph.product(inner, weight) for weight in weights]
        wide = graph.activated(parts[0], self.activation)
        if feed.gate is not None:
            wide = graph.op("Mul", wide, parts[1])
        narrow = array(feed.narrow)
        out = int8.product(graph, wide, narrow, "narrow") if int8 else graph.product(wide, narrow)
        return graph.add(out, states)

    def step(self, texts: str) -> str:
        """The decoder's first state of every sequence."""
        graph = self.graph
        hidden = graph.hidden()
        start = array(self.model.embedded[self.model.start])[None, :]
        count = graph.op("Gather", graph.op("Shape", "input_ids"), graph.numbers(0))
        shape = graph.op("Concat", count, graph.numbers(self.width), axis=0)
        states = graph.op("Expand", graph.constant(start), shape)
        for block in self.model.decoder:
            own = graph.product(self.norm(block.norm, states), array(block.value))
            states = graph.add(graph.product(own, array(block.joined)), states)
            seen = self.look(block, self.norm(block.text_norm, states), texts, hidden)
            states = graph.add(graph.product(seen, array(block.text_joined)), states)
            states = self.feed(block.feed, states)
        return self.norm(self.model.decoder_norm, states)

    def look(self, block: DecoderBlock, states: str, texts: str, hidden: str) -> str:
        graph, heads = self.graph, self.model.heads
        size = len(block.text_query) // heads
        asked = graph.by_head(graph.product(states, array(block.text_query)), heads, size)
        keys, values = self.split(block.text_key), self.split(block.text_value)
        return graph.folded_attention(asked, texts, hidden, keys, values)

    def split(self, weight: Tensor) -> Floats:
        return array(weight).reshape(self.model.heads, -1, self.width)

    def in_sequences(self, states: str, width: int | None = None) -> str:
        graph = self.graph
        last = graph.numbers(width or self.width)
        shape = graph.op("Concat", graph.op("Shape", "input_ids"), last, axis=0)
        return graph.op("Reshape", states, shape)

    def norm(self, weight: Tensor, states: str) -> str:
        return self.graph.op(
            "SimplifiedLayerNormalization",
            states,
            self.graph.constant(array(weight)),
            axis=-1,
            epsilon=self.model.epsilon,
        )
