"""ONNX files that others exported run without a word from tamis in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import EVERY, TEXTS, change_json, cross_encoder, save, torch, transformers

from tamis.errors import InputError
from tamis.models import open_ranker
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
pytestmark = pytest.mark.filterwarnings("ignore")


class Outputs(torch.nn.Module):  # type: ignore[misc]
    """A model with outputs of these names, as optimum exports it."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model.eval(), names

    def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
        result = self.model(ids, attention_mask=mask, token_type_ids=segments, return_dict=True)
        if "logits" in result:
            return result.logits
        states, weights = result.last_hidden_state, mask[:, :, None].float()
        pooled = (states * weights).sum(1) / weights.sum(1)
        by_name = {"last_hidden_state": states, "sentence_embedding": pooled}
        return tuple(by_name[name] for name in self.names)


def export(folder: Path, model: Any, names: list[str]) -> None:
    (folder / "onnx").mkdir(exist_ok=True)
    example = (torch.ones(2, 7, dtype=torch.int64),) * 2 + (torch.zeros(2, 7, dtype=torch.int64),)
    axes = {name: {0: "batch", 1: "tokens"} for name in [*INPUTS, "last_hidden_state"]}
    axes |= {name: {0: "batch"} for name in ("logits", "sentence_embedding")}
    torch.onnx.export(
        Outputs(model, names), example, folder / "onnx/model.onnx", input_names=INPUTS,
        output_names=names, dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip


def bi_encoder(folder: Path) -> Any:
    save(folder, "bert", "AutoModel", attn_implementation="eager")
    (folder / "1_Pooling").mkdir()
    change_json(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=True)
    return transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")


@pytest.mark.parametrize(
    "names", [["last_hidden_state"], ["sentence_embedding"],
              ["sentence_embedding", "last_hidden_state"]]
)  # fmt: skip
def test_a_bi_encoder(names: list[str], tmp_path: Path) -> None:
    model = bi_encoder(tmp_path)
    expected = BiEncoder.open(tmp_path, device="cpu").encode(TEXTS)
    export(tmp_path, model, names)
    encoder = BiEncoder.open(tmp_path, backend="onnx")
    assert encoder.dimensions == 24
    assert np.abs(encoder.encode(TEXTS) - expected).max() < 1e-4


def test_a_cross_encoder_runs_from_it_where_there_is_nothing_else(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "bert")
    expected = CrossEncoder.open(folder, device="cpu").score(EVERY).values
    auto = transformers.AutoModelForSequenceClassification
    export(folder, auto.from_pretrained(folder, attn_implementation="eager"), ["logits"])
    (folder / "model.safetensors").unlink()
    ranker = open_ranker(folder)
    assert isinstance(ranker.scorer, CrossEncoder)
    assert ranker.scorer.runtime.backend == "onnx"
    assert np.abs(ranker.scorer.score(EVERY).values - expected).max() < 1e-4
    with pytest.raises(InputError, match="onnx runs on the CPU, not on mps"):
        _on_mps(folder)


def _on_mps(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.backends.devices.available_devices", lambda: ["cpu", "mps"])
        open_ranker(folder, device="mps")


def test_a_file_with_other_outputs_is_refused(tmp_path: Path) -> None:
    model = bi_encoder(tmp_path)
    export(tmp_path, model, ["last_hidden_state"])
    with pytest.raises(InputError, match="gives last_hidden_state; for a cross-encoder"):
        CrossEncoder.open(tmp_path, backend="onnx")
