"""An ONNX file that reads the weights of the safetensors file beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.backends.onnx import GRAPH_FILE, ONNX_FILES
from tamis.errors import DamagedError, InputError
from tamis.models import import_model
from tamis.models.folder import exports_of, open_model, open_scorer
from tamis.models.onnx_files import write_float
from tamis.models.onnx_graph import share_weights, tensors_in
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.model_manifest import read_model_manifest, write_model_manifest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("torch")
TEXTS = ["a drum sieve", "cancel my order by phone", "x"]


@pytest.fixture
def exported(tiny_cross_encoder: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    import_model(tiny_cross_encoder, folder, kind="bi-encoder", pooling="mean")
    (folder / "onnx").mkdir()
    encoder = open_scorer(folder, backend="fast")
    write_float(folder / ONNX_FILES["onnx"], encoder, folder)
    return folder


def encode(folder: Path, backend: str) -> np.ndarray:
    encoder = open_scorer(folder, backend=backend)  # type: ignore[arg-type]
    assert isinstance(encoder, BiEncoder)
    return encoder.encode(TEXTS)


def test_weights_are_there_once_and_embeddings_are_the_same(exported: Path) -> None:
    full = (exported / ONNX_FILES["onnx"]).stat().st_size
    own, fast_rows = encode(exported, "onnx"), encode(exported, "fast")
    assert share_weights(exported)
    weights = (exported / "model.safetensors").stat().st_size
    assert not (exported / "onnx").exists()
    assert (exported / GRAPH_FILE).stat().st_size < full - weights / 2
    assert exports_of(exported) == ["onnx"]
    np.testing.assert_allclose(encode(exported, "onnx"), own, atol=1e-6)
    np.testing.assert_allclose(encode(exported, "onnx"), fast_rows, atol=1e-5)


def test_the_graph_reads_the_weights_of_the_file(exported: Path) -> None:
    share_weights(exported)
    before = encode(exported, "onnx")
    file = exported / "model.safetensors"
    place = max((place for _, place in tensors_in(file)), key=lambda place: place.length)
    data = bytearray(file.read_bytes())
    values = np.frombuffer(data, np.float32, place.length // 4, place.offset)
    values *= -2
    file.write_bytes(data)
    write_model_manifest(exported, read_model_manifest(exported))
    assert np.abs(encode(exported, "onnx") - before).max() > 1e-3


def test_changed_weights_are_refused(exported: Path) -> None:
    share_weights(exported)
    write_model_manifest(exported, read_model_manifest(exported))
    file = exported / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedError, match=r"model\.safetensors"):
        open_scorer(exported, backend="onnx")


def test_a_graph_without_its_weights_is_refused(exported: Path) -> None:
    share_weights(exported)
    (exported / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no weights"):
        open_model(exported)


def test_weights_in_half_precision_stay_in_the_export(exported: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    file = exported / "model.safetensors"
    halves = {name: value.half() for name, value in safetensors.load_file(file).items()}
    safetensors.save_file(halves, file)
    assert not share_weights(exported)
    assert (exported / ONNX_FILES["onnx"]).is_file() and not (exported / GRAPH_FILE).exists()
