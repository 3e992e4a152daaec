"""An ONNX file without weights of its own: it reads those of the safetensors files beside it.

A model that is there for torch and for ONNX Runtime then takes its space once, and opens in half
the time, since ONNX Runtime maps the weights into memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.onnx import GRAPH_FILE, ONNX_FILES
from tamis.backends.weights import weight_files
from tamis.durable import new_file
from tamis.errors import require

MIN_BYTES = 1024
"""Smaller constants stay in the graph."""
RUNTIME_DOMAIN = "com.microsoft"
"""Where ONNX Runtime has its product with a transposed matrix."""


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: its file, its bytes there, and its shape."""

    file: str
    offset: int
    length: int
    shape: tuple[int, ...]


def share_weights(folder: Path) -> bool:
    """Replace the float export of a folder by a graph that reads the folder's own weights.

    False, and nothing is changed, where a weight of the export is not in them as it is: other
    files than safetensors, or in half precision.
    """
    exported = folder / ONNX_FILES["onnx"]
    files = weight_files(folder)
    if any(file.suffix != ".safetensors" for file in files):
        return False
    graph = require("onnx").load(exported)
    places = {digest: place for file in files for digest, place in tensors_in(file)}
    if not _refer(graph, places):
        return False
    with new_file(folder / GRAPH_FILE, force=True) as path:
        path.write_bytes(graph.SerializeToString())
    exported.unlink()
    if not any(exported.parent.iterdir()):
        exported.parent.rmdir()
    return True


def tensors_in(file: Path) -> Iterator[tuple[str, Place]]:
    """The digest and the place of every float32 tensor of a safetensors file."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size))
        for name, tensor in header.items():
            if name == "__metadata__" or tensor["dtype"] != "F32":
                continue
            start, end = tensor["data_offsets"]
            stream.seek(8 + size + start)
            digest = hashlib.sha256(stream.read(end - start)).hexdigest()
            shape = tuple(tensor["shape"])
            yield digest, Place(file.name, 8 + size + start, end - start, shape)


def _refer(graph: Any, places: dict[str, Place]) -> bool:
    """Let every large constant of a graph be the same tensor of a file; False if one is nowhere."""
    to_array = require("onnx.numpy_helper").to_array
    is_transposed = False
    for constant in graph.graph.initializer:
        values = to_array(constant)
        if values.nbytes < MIN_BYTES:
            continue
        place = places.get(_digest(values))
        if place is None and values.ndim == 2 and _multiplies_only(graph, constant.name):
            place = places.get(_digest(values.T))
            if place is not None:
                _transpose_products(graph, constant.name)
                is_transposed = True
        if place is None:
            return False
        _refer_to(constant, place)
    if is_transposed:
        graph.opset_import.append(require("onnx.helper").make_opsetid(RUNTIME_DOMAIN, 1))
    return True


def _digest(values: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _multiplies_only(graph: Any, name: str) -> bool:
    """Whether a constant is nothing but the right side of matrix products."""
    uses = [node for node in graph.graph.node if name in node.input]
    return all(node.op_type == "MatMul" and [*node.input].index(name) == 1 for node in uses)


def _transpose_products(graph: Any, name: str) -> None:
    """Torch keeps the matrices of its layers transposed: let products read them so."""
    for node in graph.graph.node:
        if name in node.input:
            node.op_type, node.domain = "FusedMatMul", RUNTIME_DOMAIN
            node.attribute.append(require("onnx.helper").make_attribute("transB", 1))


def _refer_to(constant: Any, place: Place) -> None:
    constant.dims[:] = place.shape
    constant.ClearField("raw_data")
    constant.ClearField("float_data")
    constant.data_location = require("onnx").TensorProto.EXTERNAL
    values = {"location": place.file, "offset": place.offset, "length": place.length}
    for key, value in values.items():
        entry = constant.external_data.add()
        entry.key, entry.value = key, str(value)
