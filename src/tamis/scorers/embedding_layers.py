"""What sentence-transformers puts after the pooling: dense layers and normalisations, in numpy.

They see one vector per text, so they cost next to nothing and need no back end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.backends.batches import Rows, probability
from tamis.backends.tokens import json_of
from tamis.backends.weights import read_weights, take
from tamis.errors import InputError

MIN_NORM = np.float32(1e-12)
LAYER_NORM_EPSILON = 1e-5


def _gelu(rows: Rows) -> Rows:
    from scipy.special import erf

    return np.asarray(rows * 0.5 * (1 + erf(rows / np.sqrt(2))), np.float32)


ACTIVATIONS: Mapping[str, Callable[[Rows], Rows]] = {
    "Identity": lambda rows: rows,
    "Tanh": np.tanh,
    "ReLU": lambda rows: np.maximum(rows, 0),
    "Sigmoid": probability,
    "SiLU": lambda rows: rows * probability(rows),
    "GELU": _gelu,
}
"""By the name of the class in torch."""


class EmbeddingLayer(Protocol):
    """From embeddings to embeddings."""

    def __call__(self, rows: Rows) -> Rows:
        """The new embeddings, one row per text."""

    def width(self, width: int) -> int:
        """How many dimensions embeddings of so many have after it."""


@dataclass(frozen=True, eq=False)
class Dense:
    """x Wᵀ + b and an activation; with a residual the embedding, perhaps projected, is added."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32] | None
    activation: str
    has_residual: bool = False
    residual: NDArray[np.float32] | None = None

    def __call__(self, rows: Rows) -> Rows:
        inner = rows @ self.weight.T
        output = ACTIVATIONS[self.activation](inner if self.bias is None else inner + self.bias)
        if not self.has_residual:
            return output
        return output + (rows if self.residual is None else rows @ self.residual.T)

    def width(self, width: int) -> int:
        """As many as the weight has rows."""
        return len(self.weight)


@dataclass(frozen=True, eq=False)
class Normalize:
    """Every embedding at length one."""

    def __call__(self, rows: Rows) -> Rows:
        return normalise(rows)

    def width(self, width: int) -> int:
        """The same."""
        return width


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Every embedding with mean zero and variance one, then scaled and moved."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def __call__(self, rows: Rows) -> Rows:
        centred = rows - rows.mean(1, keepdims=True)
        deviation = np.sqrt(rows.var(1, keepdims=True) + np.float32(LAYER_NORM_EPSILON))
        return np.asarray(centred / deviation * self.weight + self.bias, np.float32)

    def width(self, width: int) -> int:
        """The same."""
        return width


def normalise(rows: Rows) -> Rows:
    """The rows at length one.

    >>> normalise(np.float32([[3, 4]])).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    unit: Rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), MIN_NORM)
    return unit


def read_layers(modules: Sequence[tuple[str, Path]]) -> tuple[EmbeddingLayer, ...]:
    """The layers that stand after a pooling, each given by its kind and its folder."""
    return tuple(_READERS[name](folder) for name, folder in modules)


def _read_dense(folder: Path) -> Dense:
    config = _config(folder)
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = name.rpartition(".")[2]
    if not name.startswith("torch.") or activation not in ACTIVATIONS:
        raise InputError(
            f"{folder} has the activation {name}, which tamis does not run",
            hint=f"it runs {', '.join(ACTIVATIONS)}",
        )
    if config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
        raise InputError(
            f"{folder} works on {config['module_input_name']}, not on the embedding of a text",
            hint="choose a bi-encoder whose dense layers stand after its pooling",
        )
    weights = read_weights(folder)
    residual = weights.get("residual.weight")
    bias = weights.get("linear.bias") if config.get("bias", True) else None
    layer = Dense(
        take(weights, "linear.weight", folder).numpy(),
        None if bias is None else bias.numpy(),
        activation,
        bool(config.get("use_residual")),
        None if residual is None else residual.numpy(),
    )
    shape = (config.get("out_features"), config.get("in_features"))
    if layer.weight.shape != shape:
        raise InputError(
            f"{folder}: its weight is {layer.weight.shape}, its config says {shape}",
            hint="copy the folder again: config.json and weights disagree",
        )
    return layer


def _read_layer_norm(folder: Path) -> LayerNorm:
    weights = read_weights(folder)
    both = (take(weights, f"norm.{name}", folder).numpy() for name in ("weight", "bias"))
    return LayerNorm(*both)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    return json_of(path) if path.is_file() else {}


_READERS: Mapping[str, Callable[[Path], EmbeddingLayer]] = {
    "Dense": _read_dense,
    "LayerNorm": _read_layer_norm,
    "Normalize": lambda folder: Normalize(),
}
