"""A model that does not run in half precision: float32 under `auto`, else an error that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import BODY, CONFIGS, EVERY, cross_encoder, save, torch
from tests.training.test_devices import job_of

from tamis.backends import choice, devices
from tamis.errors import InputError
from tamis.models import import_model, open_ranker
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords
from tamis.training import precision
from tamis.training.loop import train
from tamis.training.precision import Placement
from tamis.training.trainable import open_trainable

files: Any = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
DEBERTA = {**BODY, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
           "position_biased_input": False, "max_relative_positions": -1}  # fmt: skip


@pytest.fixture(autouse=True)
def deberta(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first DeBERTa, whose scores do not fit into half precision."""
    monkeypatch.setitem(CONFIGS, "deberta", DEBERTA)


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which `auto` is half precision."""

    def resolve(dtype: str, device: str) -> str:
        return "bfloat16" if dtype == "auto" else devices.resolve_dtype(dtype, device)

    monkeypatch.setattr(choice, "resolve_dtype", resolve)
    monkeypatch.setattr(precision, "training_dtype", resolve)


@pytest.mark.usefixtures("half")
def test_auto_runs_in_float32_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = cross_encoder(tmp_path / "pairs", "deberta")
    expected = CrossEncoder.open(folder, device="cpu", dtype="float32").score(EVERY).values
    scorer = CrossEncoder.open(folder, device="cpu")
    assert scorer.runtime.dtype == "float32"
    assert np.array_equal(scorer.score(EVERY).values, expected)
    assert "does not run in bfloat16" in caplog.text and "it runs in float32" in caplog.text
    assert scorer.spec() == CrossEncoder.open(folder, device="cpu", dtype="float32").spec()
    save(tmp_path / "plain", "deberta", "AutoModel")
    import_model(tmp_path / "plain", tmp_path / "bi", kind="bi-encoder", pooling="mean")
    assert BiEncoder.open(tmp_path / "bi", device="cpu").runtime.dtype == "float32"
    masked = save(tmp_path / "words", "deberta", "AutoModelForMaskedLM")
    words = TargetWords.open(masked, ["true", "false"], device="cpu")
    assert words.runtime.dtype == "float32"
    roberta = CrossEncoder.open(cross_encoder(tmp_path / "other", "roberta"), device="cpu")
    assert roberta.runtime.dtype == "bfloat16"


def test_a_precision_that_was_asked_for_is_named(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "deberta")
    with pytest.raises(InputError, match="does not run in float16") as error:
        open_ranker(folder, device="cpu", dtype="float16")
    assert error.value.hint == "leave the dtype out, or say float32"


def test_a_weight_beyond_float16_is_not_called_broken(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "electra")
    weights = files.load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("query.weight"))
    weights[name][0, 0] = 1e6
    files.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"does not run in float16: {name} has larger values"):
        open_ranker(folder, device="cpu", dtype="float16")
    weights[name][0, 0] = float("nan")
    files.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"{name} has values that are not numbers"):
        open_ranker(folder, device="cpu", dtype="float16")


@pytest.mark.usefixtures("half")
def test_a_training_falls_back_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base = save(tmp_path / "base", "deberta", "AutoModel")
    job = job_of(base, tmp_path / "made")
    with pytest.raises(InputError, match="does not run in bfloat16"):
        open_trainable(base, placement=Placement("cpu", "bfloat16"))
    assert open_trainable(base, placement=Placement("cpu")).precision.dtype == "float32"
    assert "it runs in float32" in caplog.text
    assert train(job).folder.is_dir()
    assert torch.get_autocast_dtype("cpu") is not torch.float16
