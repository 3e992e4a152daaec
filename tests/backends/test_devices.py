"""Where a model runs: devices, precisions, memory, and which back end is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import EVERY, TEXTS, cross_encoder, save, torch

import tamis
from tamis.backends import devices
from tamis.backends.batches import TOKENS_PER_GPU_BATCH
from tamis.backends.choice import choose_runtime
from tamis.backends.devices import available_devices, resolve_device, resolve_dtype
from tamis.backends.memory import check_memory, count_parameters
from tamis.backends.transformers import TransformersBiEncoder, TransformersCrossEncoder
from tamis.errors import InputError
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NOWHERE = Path("model")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)


def test_auto_takes_a_gpu_in_half_precision(two_gpus: None) -> None:
    assert available_devices()[:3] == ["cpu", "cuda:0", "cuda:1"]
    assert resolve_device("auto") == resolve_device("cuda") == "cuda:0"
    assert resolve_device("cuda:1") == "cuda:1"
    assert resolve_dtype("auto", "cuda:0") == "bfloat16"
    assert resolve_dtype("float32", "cuda:0") == "float32"
    assert resolve_dtype("auto", "mps") == "float16"
    runtime = choose_runtime("bi-encoder", {"model_type": "bert"}, NOWHERE)
    assert str(runtime) == "transformers on cuda:0 in bfloat16"
    with pytest.raises(InputError, match="no device 'cuda:2'") as error:
        resolve_device("cuda:2")
    assert "cuda:0 or cuda:1" in error.value.hint


def test_auto_takes_the_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "available_devices", lambda: ["cpu"])
    assert (resolve_device("auto"), resolve_dtype("auto", "cpu")) == ("cpu", "float32")
    for device in ("cuda", "mps", "gpu", "cuda:0"):
        with pytest.raises(InputError, match="there is cpu alone"):
            tamis.load_model("anything", device=device)
    with pytest.raises(InputError, match="no dtype 'int4'"):
        resolve_dtype("int4", "cpu")


@pytest.mark.parametrize(
    ("kind", "model_type", "options", "backend"),
    [
        ("cross-encoder", "bert", {}, "fast"),
        ("cross-encoder", "deberta-v2", {}, "transformers"),
        ("bi-encoder", "roberta", {"dtype": "bfloat16"}, "transformers"),
        ("bi-encoder", "roberta", {"backend": "transformers"}, "transformers"),
        ("bi-encoder", "roberta", {"dtype": "int8"}, "onnx-int8"),
        ("bi-encoder", "albert", {"dtype": "int8", "backend": "onnx"}, "onnx-int8"),
        ("target-words", "t5", {}, "fast"),
        ("target-words", "bert", {}, "transformers"),
    ],
)
def test_the_back_end_is_what_fits(
    kind: Any, model_type: str, options: dict[str, Any], backend: str
) -> None:
    config = {"model_type": model_type}
    assert choose_runtime(kind, config, NOWHERE, device="cpu", **options).backend == backend


def test_a_back_end_that_cannot_is_refused(two_gpus: None) -> None:
    bert, albert = {"model_type": "bert"}, {"model_type": "albert"}
    with pytest.raises(InputError, match="fast runs on the CPU, not on cuda"):
        choose_runtime("bi-encoder", bert, NOWHERE, "fast", "cuda")
    with pytest.raises(InputError, match="onnx does not run in float16"):
        choose_runtime("bi-encoder", bert, NOWHERE, "onnx", "cpu", "float16")
    with pytest.raises(InputError, match="fast does not run in int8"):
        choose_runtime("bi-encoder", bert, NOWHERE, "fast", "cpu", "int8")
    with pytest.raises(InputError, match="8-bit export") as error:
        choose_runtime("bi-encoder", bert, NOWHERE, "transformers", "cpu", "int8")
    assert "tamis export" in error.value.hint
    with pytest.raises(InputError, match="onnx-int8 runs on the CPU, not on cuda"):
        choose_runtime("bi-encoder", bert, NOWHERE, None, "cuda", "int8")
    with pytest.raises(InputError, match="does not run model, a bi-encoder of type 'albert'"):
        choose_runtime("bi-encoder", albert, NOWHERE, "fast")
    with pytest.raises(InputError, match="no back end 'torch'"):
        choose_runtime("bi-encoder", bert, NOWHERE, "torch")  # type: ignore[arg-type]


class Elsewhere(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Notes the devices that tensors are made on."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: list[str] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(function, "__name__", "") == "all":
            return False  # transformers asks whether a mask is all ones, which meta cannot say
        made = function(*args, **(kwargs or {}))
        names = ("arange", "tensor", "full", "zeros", "ones", "as_tensor")
        if getattr(function, "__name__", "") in names and isinstance(made, torch.Tensor):
            self.devices.append(str(made.device))
        return made


SEQUENCES = [np.array([2, 5, 6, 3], np.int32), np.array([2, 9, 3], np.int32)]


def on_meta(network: Any) -> Any:
    """The same model without numbers: an operation with a tensor on the CPU fails."""
    network.model.set_attn_implementation("eager")  # sdpa asks for the numbers of a mask
    return replace(network, model=network.model.to("meta"), device=torch.device("meta"))


def test_all_of_a_batch_is_made_on_the_models_device(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "cross", "distilbert")
    cross = CrossEncoder.open(folder, device="cpu", backend="transformers").model
    assert isinstance(cross, TransformersCrossEncoder)
    cross = replace(cross, network=on_meta(cross.network))
    seen = Elsewhere()
    with seen, torch.inference_mode():
        batch = cross.network.batch(SEQUENCES, [ids * 0 for ids in SEQUENCES])
        scores = cross.scores(SEQUENCES, None)
    assert {str(tensor.device) for tensor in batch.values()} == {"meta"}
    assert str(scores.device) == "meta" and scores.shape == (2, 1)
    assert "cpu" not in seen.devices
    body = BiEncoder.open(folder, pooling="mean", device="cpu", backend="transformers").model
    assert isinstance(body, TransformersBiEncoder)
    body = replace(body, network=on_meta(body.network))
    seen = Elsewhere()
    with seen, torch.inference_mode():
        pooling = "cls+mean+max+weightedmean+lasttoken+mean_sqrt_len_tokens"
        assert body.pooled(SEQUENCES, pooling, 1).shape == (2, 6 * 24)
    assert "cpu" not in seen.devices and "meta" in seen.devices


@pytest.mark.parametrize(
    ("architecture", "auto"),
    [("bart", "Seq2SeqLM"), ("qwen3", "CausalLM"), ("distilbert", "MaskedLM")],
)
def test_the_next_token_is_read_on_the_models_device(
    architecture: str, auto: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, architecture, f"AutoModelFor{auto}")
    scorer = TargetWords.open(folder, ["true", "false"], device="cpu")
    model: Any = replace(scorer.language_model, network=on_meta(scorer.language_model.network))  # type: ignore[attr-defined, type-var]
    masked = [np.append(ids, np.int32(4)) for ids in SEQUENCES]
    seen = Elsewhere()
    with seen, torch.inference_mode():
        assert str(model.next_token(masked).device) == "meta"
    assert "cpu" not in seen.devices


def test_half_precision_ranks_alike_and_is_another_model_to_a_cache(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "bert")
    exact = CrossEncoder.open(folder, device="cpu")
    half = CrossEncoder.open(folder, device="cpu", dtype="bfloat16")
    assert half.runtime.backend == "transformers"
    difference = np.abs(exact.score(EVERY).values - half.score(EVERY).values).max()
    assert 0 < difference < 0.2
    assert half.score(EVERY).values.dtype == np.float32
    names = {
        str(tamis.models.open_ranker(folder, dtype=dtype).identity)
        for dtype in ("float32", "bfloat16")
    }
    assert len(names) == 2


class TooLittle:
    """A device with room for some texts only."""

    def __init__(self, read: Any, room: int, error: Exception) -> None:
        self.read, self.room, self.error, self.sizes = read, room, error, list[int]()

    def __call__(self, sequences: Sequence[Any], segments: Any) -> Any:
        self.sizes.append(len(sequences))
        if len(sequences) > self.room:
            raise self.error
        return self.read(sequences, segments)


@pytest.mark.parametrize("kind", ["torch", "cuda"])
def test_out_of_memory_halves_the_batch_and_says_so_once(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cross_encoder(tmp_path, "electra")
    model = CrossEncoder.open(folder, device="cpu", backend="transformers").model
    assert isinstance(model, TransformersCrossEncoder)
    error = {
        "torch": torch.OutOfMemoryError("too much"),
        "cuda": RuntimeError("CUDA error: out of memory"),
    }[kind]
    sequences = [np.full(size, 7, np.int32) for size in (3, 4, 5, 6, 7)]
    segments = [ids * 0 for ids in sequences]
    read = TooLittle(model.scores, 2, error)
    rows = model.network.run(sequences, segments, read)
    assert np.allclose(rows, model.logits(sequences, segments), atol=1e-5)
    assert read.sizes == [5, 2, 3, 1, 2]
    model.network.run(sequences, segments, TooLittle(model.scores, 2, error))
    assert caplog.text.count("out of memory") == 1
    with pytest.raises(InputError, match="a text of 3 tokens does not fit"):
        model.network.run(sequences, segments, TooLittle(model.scores, 0, error))


def test_other_errors_are_not_taken_for_a_lack_of_memory(tmp_path: Path) -> None:
    model = CrossEncoder.open(
        cross_encoder(tmp_path, "electra"), device="cpu", backend="transformers"
    ).model
    assert isinstance(model, TransformersCrossEncoder)
    sequences = [np.full(3, 7, np.int32)] * 2
    with pytest.raises(RuntimeError, match="shapes"):
        model.network.run(sequences, None, TooLittle(None, 0, RuntimeError("shapes differ")))


def test_memory_is_predicted_from_the_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cross_encoder(tmp_path, "distilbert")
    weights = sum(tensor.numel() for tensor in torch.nn.Module.parameters(_model(folder)))
    assert count_parameters(folder) == weights
    monkeypatch.setattr("tamis.backends.memory.free_memory", lambda device: 4 * weights)
    with pytest.raises(InputError, match="memory in float32 on cpu") as error:
        CrossEncoder.open(folder, device="cpu")
    assert "bfloat16" in error.value.hint
    check_memory(folder, "bfloat16", "cpu")
    monkeypatch.setattr("tamis.backends.memory.MIN_BYTES_TO_REPORT", 1)
    check_memory(folder, "bfloat16", "cpu")
    assert "billion parameters" in caplog.text


def _model(folder: Path) -> Any:
    model = CrossEncoder.open(folder, device="cpu", backend="transformers").model
    assert isinstance(model, TransformersCrossEncoder)
    return model.network.model


def test_one_thread_runs_a_gpus_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def record(forward: Any, lengths: Any, **options: Any) -> Any:
        asked.append((options["threads"], options["budget"]))
        return np.zeros((len(lengths), options.get("width", 1)), np.float32)

    encoder = BiEncoder.open(save(tmp_path, "bert", "AutoModel"), pooling="mean", threads=3)
    gpu = replace(encoder, runtime=replace(encoder.runtime, device="cuda:0"))
    monkeypatch.setattr("tamis.scorers.bi_encoder.run_batches", record)
    encoder.encode(TEXTS)
    gpu.encode(TEXTS)
    assert [threads for threads, _ in asked] == [3, 1]
    assert asked[0][1] < TOKENS_PER_GPU_BATCH


def test_gradients_flow_through_what_training_reads(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "cross", "distilbert")
    cross = CrossEncoder.open(folder, device="cpu", backend="transformers").model
    assert isinstance(cross, TransformersCrossEncoder)
    cross.scores(SEQUENCES, None).sum().backward()
    head = cross.network.model.classifier.weight
    assert float(head.grad.abs().sum()) > 0
    body = BiEncoder.open(folder, pooling="mean", device="cpu", backend="transformers").model
    assert isinstance(body, TransformersBiEncoder)
    body.pooled(SEQUENCES, "mean").sum().backward()
    first = next(body.network.model.parameters())
    assert float(first.grad.abs().sum()) > 0
