"""The layers after a pooling as torch modules, so that they learn with the transformer below them.

Imported only where torch is known to be installed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tamis.backends.tokens import SBERT_FILE, read_json
from tamis.backends.weights import Tensor
from tamis.errors import require
from tamis.scorers.embedding_layers import (
    LAYER_NORM_EPSILON,
    Dense,
    EmbeddingLayer,
    LayerNorm,
    read_layers,
)
from tamis.scorers.model_manifest import ModelManifest
from tamis.scorers.sbert_layout import LEGACY_MODES, EncoderLayout

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "Identity": lambda rows: rows,
    "Tanh": torch.tanh,
    "ReLU": torch.relu,
    "Sigmoid": torch.sigmoid,
    "SiLU": nn.functional.silu,
    "GELU": nn.functional.gelu,
}
"""By the name of the class in torch, as `scorers.embedding_layers` names them."""


class EmbeddingLayers(nn.Module):
    """What stands after the pooling of a bi-encoder: its layers, in order, and what is kept."""

    def __init__(self, layout: EncoderLayout) -> None:
        super().__init__()
        self.layout, self.names = layout, [path.name for _, path in layout.layers]
        for (_, path), layer in zip(layout.layers, read_layers(layout.layers), strict=True):
            self.add_module(path.name, _module_of(layer))

    def forward(self, rows: Tensor) -> Tensor:
        """Embeddings of length one."""
        for name in self.names:
            rows = self.get_submodule(name)(rows)
        return nn.functional.normalize(rows[:, : self.layout.truncate_dim], eps=1e-12)

    def as_scored(self) -> tuple[EmbeddingLayer, ...]:
        """The layers as scorers run them, with the weights as they are now."""
        layers = zip(self.names, read_layers(self.layout.layers), strict=True)
        return tuple(_with_weights(layer, self.get_submodule(name)) for name, layer in layers)

    def save(self, folder: Path, manifest: ModelManifest, width: int) -> None:
        """Write the folders of the layers, and which modules there are, as sentence-transformers
        reads them; nothing where there is only what a manifest says.
        """
        if not self.names and self.layout.include_prompt and not self.layout.truncate_dim:
            return
        write = require("safetensors.torch").save_file
        modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
        for kind, path in self.layout.layers:
            place = folder / path.name
            place.mkdir(exist_ok=True)
            if (path / "config.json").is_file():
                shutil.copy(path / "config.json", place / "config.json")
            weights = {
                name: value.detach().cpu().contiguous()
                for name, value in self.get_submodule(path.name).state_dict().items()
            }
            if weights:
                write(weights, place / "model.safetensors", metadata={"format": "pt"})
            modules.append((kind, path.name))
        if modules[-1][0] != "Normalize":
            modules.append(("Normalize", f"{len(modules)}_Normalize"))
        rows = [
            {"idx": number, "name": str(number), "path": path,
             "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(modules)
        ]  # fmt: skip
        _write(folder / "modules.json", rows)
        own = read_json(folder / SBERT_FILE)
        _write(folder / SBERT_FILE, {**own, "max_seq_length": manifest.max_length})
        self._write_pooling(folder / "1_Pooling", manifest, width)
        if self.layout.truncate_dim:
            path = folder / "config_sentence_transformers.json"
            _write(path, {"truncate_dim": self.layout.truncate_dim})

    def restore(self, folder: Path) -> None:
        """Take the weights of a folder that was saved."""
        load = require("safetensors.torch").load_file
        for name in self.names:
            file = folder / name / "model.safetensors"
            if file.is_file():
                self.get_submodule(name).load_state_dict(load(file))

    def _write_pooling(self, folder: Path, manifest: ModelManifest, width: int) -> None:
        folder.mkdir(exist_ok=True)
        modes = (manifest.pooling or "mean").split("+")
        by_mode = {name: mode in modes for name, mode in LEGACY_MODES.items()}
        include = {"include_prompt": self.layout.include_prompt}
        config = {"word_embedding_dimension": width, **by_mode, **include}
        _write(folder / "config.json", config)


class _Dense(nn.Module):
    def __init__(self, layer: Dense) -> None:
        super().__init__()
        self.activation, self.has_residual = layer.activation, layer.has_residual
        self.linear = _linear(layer.weight, layer.bias)
        self.residual = None if layer.residual is None else _linear(layer.residual, None)

    def forward(self, rows: Tensor) -> Tensor:
        output = ACTIVATIONS[self.activation](self.linear(rows))
        if not self.has_residual:
            return output
        return output + (rows if self.residual is None else self.residual(rows))


class _LayerNorm(nn.Module):
    def __init__(self, layer: LayerNorm) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(len(layer.weight), eps=LAYER_NORM_EPSILON)
        with torch.no_grad():
            self.norm.weight.copy_(torch.from_numpy(layer.weight))
            self.norm.bias.copy_(torch.from_numpy(layer.bias))

    def forward(self, rows: Tensor) -> Tensor:
        return self.norm(rows)


class _Normalize(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return nn.functional.normalize(rows, eps=1e-12)


def _module_of(layer: EmbeddingLayer) -> nn.Module:
    if isinstance(layer, Dense):
        return _Dense(layer)
    return _LayerNorm(layer) if isinstance(layer, LayerNorm) else _Normalize()


def _with_weights(layer: EmbeddingLayer, module: Any) -> EmbeddingLayer:
    """A layer as it is scored with the weights of its module."""
    if isinstance(layer, Dense):
        bias, residual = module.linear.bias, module.residual
        return Dense(
            _numpy(module.linear.weight), None if bias is None else _numpy(bias),
            layer.activation, layer.has_residual,
            None if residual is None else _numpy(residual.weight),
        )  # fmt: skip
    if isinstance(layer, LayerNorm):
        return LayerNorm(_numpy(module.norm.weight), _numpy(module.norm.bias))
    return layer


def _linear(weight: Any, bias: Any) -> nn.Linear:
    rows, columns = weight.shape
    layer = nn.Linear(columns, rows, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
    return layer


def _numpy(value: Tensor) -> Any:
    return value.detach().cpu().numpy().copy()


def _write(path: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
