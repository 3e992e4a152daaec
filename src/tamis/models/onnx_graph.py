"""An ONNX graph being built: constants, operators, and the steps that models have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.scorers.weights import Tensor

OPSET, FORMAT = 20, 10
"""The versions of the operators and of the file format: ONNX Runtime 1.18 and later read them."""
RUNTIME = "com.microsoft"
"""The name space of ONNX Runtime's own operators."""
LARGEST = (1 << 31) - (1 << 24)
"""How many bytes of constants an ONNX file can hold."""
HIDDEN = np.float32(-1e9)
"""What is added to the scores of tokens that are only padding."""
Floats = NDArray[np.float32]


class Graph:
    """Nodes in the order they run. A value is known by its name, which every operator returns."""

    def __init__(self) -> None:
        self._onnx = require("onnx")
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._bytes = 0

    def constant(self, value: Any) -> str:
        """A constant: an array, or a number with a type."""
        array = np.array(value, order="C")
        name = f"constant_{len(self._constants)}"
        self._constants[name] = self._onnx.numpy_helper.from_array(array, name)
        self._bytes += array.nbytes
        return name

    def numbers(self, *values: int) -> str:
        """A constant list of whole numbers: a shape, axes, bounds."""
        return self.constant(np.array(values, np.int64))

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """What an operator gives for these values."""
        return self.ops(1, kind, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, count: int, kind: str, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        """The `count` values that an operator gives."""
        name = f"{kind}_{len(self._nodes)}"
        outputs = [f"{name}_{number}" for number in range(count)]
        node = self._onnx.helper.make_node(
            kind, list(inputs), outputs, name=name, domain=domain, **attributes
        )
        self._nodes.append(node)
        return outputs

    def save(
        self,
        path: Path,
        inputs: Sequence[str],
        output: tuple[str, str, Sequence[object]],
        facts: Mapping[str, str],
    ) -> None:
        """Write the graph; the output is a value, the name it gets and its shape."""
        if self._bytes > LARGEST:
            raise InputError(
                f"{self._bytes / 2**30:.1f} GB of weights do not fit into one ONNX file",
                hint="models of up to 2 GB can be exported",
            )
        helper, types = self._onnx.helper, self._onnx.TensorProto
        value, name, shape = output
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        graph = helper.make_graph(
            self._nodes,
            "tamis",
            [helper.make_tensor_value_info(given, types.INT64, ["b", "l"]) for given in inputs],
            [helper.make_tensor_value_info(name, types.FLOAT, list(shape))],
            list(self._constants.values()),
        )
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(RUNTIME, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=FORMAT)
        helper.set_model_props(model, dict(facts))
        path.write_bytes(model.SerializeToString())

    def add(self, first: str, second: str) -> str:
        """The sum."""
        return self.op("Add", first, second)

    def product(self, states: str, weight: Floats) -> str:
        """States times a matrix of (output, input), as torch keeps it."""
        return self.op("MatMul", states, self.constant(weight.T))

    def rows(self, states: str, width: int) -> str:
        """A row a token, whatever sequence it is of."""
        return self.op("Reshape", states, self.numbers(-1, width))

    def hidden(self) -> str:
        """What to add to attention scores so that padding is not seen: sequences x 1 x tokens."""
        mask = self.op("Cast", "attention_mask", to=self._onnx.TensorProto.FLOAT)
        lacking = self.op("Sub", mask, self.constant(np.float32(1)))
        added = self.op("Mul", lacking, self.constant(-HIDDEN))
        return self.op("Unsqueeze", added, self.numbers(1))

    def whole_mask(self) -> str:
        """The mask as ONNX Runtime's attention takes it."""
        return self.op("Cast", "attention_mask", to=self._onnx.TensorProto.INT32)

    def activated(self, states: str, activation: str) -> str:
        """The activation function of this name in a config."""
        if activation == "gelu":
            return self.op("Gelu", states, domain=RUNTIME)
        if activation in ("gelu_new", "gelu_pytorch_tanh"):
            return self.op("Gelu", states, approximate="tanh")
        if activation == "relu":
            return self.op("Relu", states)
        return self.op("Mul", states, self.op("Sigmoid", states))

    def folded_attention(
        self, asked: str, texts: str, hidden: str, keys: Floats, values: Floats
    ) -> str:
        """Attention of one query row a sequence, without keys and values of its own.

        `asked` is heads x sequences x size, `keys` and `values` heads x size x width; see
        `tamis.scorers._bert`.
        """
        heads, size, _ = values.shape
        questions = self.op("MatMul", asked, self.constant(keys))
        questions = self.op("Transpose", questions, perm=[1, 0, 2])
        scores = self.op("MatMul", questions, self.op("Transpose", texts, perm=[0, 2, 1]))
        weights = self.op("Softmax", self.add(scores, hidden), axis=-1)
        mean = self.op("Transpose", self.op("MatMul", weights, texts), perm=[1, 0, 2])
        seen = self.op("MatMul", mean, self.constant(values.transpose(0, 2, 1)))
        seen = self.op("Transpose", seen, perm=[1, 0, 2])
        return self.rows(seen, heads * size)

    def by_head(self, states: str, heads: int, size: int) -> str:
        """One row a sequence to heads x sequences x size."""
        split = self.op("Reshape", states, self.numbers(-1, heads, size))
        return self.op("Transpose", split, perm=[1, 0, 2])


def array(tensor: Tensor) -> Floats:
    """A torch tensor as numpy has it."""
    found: Floats = tensor.numpy()
    return found
