"""A training on another device: all that a step makes is made there, and in which precision.

No GPU is needed: `meta` is a device of tensors without numbers, and what mixes it with the CPU
fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.backends.tiny import QUERIES, TEXTS, cross_encoder, save, torch

from tamis.backends import devices, network
from tamis.backends.memory import count_parameters
from tamis.errors import InputError, TrainingError
from tamis.labels import Examples
from tamis.models import import_model
from tamis.pipeline.document_lookup import MappingLookup
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.training import _gradient, schedules
from tamis.training.precision import Placement, Precision, training_dtype
from tamis.training.processes import OneProcess, processes_for
from tamis.training.recipe import Recipe
from tamis.training.trainable import Trainable, open_trainable
from tamis.training.trainer import Job, Trainer
from tamis.types import Document, Queries, Query

DOCUMENTS = {f"d{n}": Document(f"d{n}", text) for n, text in enumerate(TEXTS)}
ASKED = Queries.of([Query(f"q{n}", text) for n, text in enumerate(QUERIES)])
ROWS: list[Any] = [(f"q{q}", f"d{d}", float(q == d), "positive" if q == d else "pool")
        for q in range(len(QUERIES)) for d in range(len(TEXTS))]  # fmt: skip
EXAMPLES = Examples.of_rows(ROWS, source="gold").with_queries(ASKED)
RECIPE = Recipe("tiny", loss="margin", sampler="pairs", batch_size=3, epochs=2, max_length=40)
LISTS = replace(RECIPE, scorer="bi-encoder", loss="listwise-softmax", sampler="lists", list_size=3)
WORDS = replace(RECIPE, scorer="target-words", loss="target-words", sampler="points")


def job_of(base: Path, out: Path, recipe: Recipe = RECIPE, **placement: Any) -> Job:
    where = Placement(**{"device": "cpu", **placement})
    return Job(EXAMPLES, MappingLookup(DOCUMENTS), recipe, base, out, threads=1, placement=where)


class Nowhere(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Answers what only numbers can, and notes where tensors are made."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: list[str] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name in ("item", "__float__"):
            return 1.0
        if name == "__bool__":
            return True
        if name == "all":  # of a mask, which transformers asks
            return False
        made = function(*args, **(kwargs or {}))
        if name in ("arange", "tensor", "full", "zeros", "ones", "as_tensor", "to"):
            self.devices += [str(made.device)] if isinstance(made, torch.Tensor) else []
        return made


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nowhere]:
    """A machine whose first device is one of tensors without numbers."""
    adam = torch.optim.AdamW

    def plain(groups: Any, fused: bool) -> Any:
        return adam(groups, foreach=False)  # fused kernels are for real devices

    monkeypatch.setattr(devices, "available_devices", lambda: ["cpu", "meta"])
    monkeypatch.setattr(torch.optim, "AdamW", plain)
    monkeypatch.setattr(network, "_padding_matters", lambda *_: False)  # it compares numbers
    monkeypatch.setattr(_gradient, "generator_of", lambda seed, device: np.random.default_rng(seed))
    yield Nowhere()


@pytest.fixture
def bases(tmp_path: Path) -> dict[str, Path]:
    """A model of each kind."""
    plain = save(tmp_path / "plain", "distilbert", "AutoModel")
    import_model(plain, tmp_path / "bi", kind="bi-encoder", pooling="mean", query_prompt="query : ")
    return {
        "cross-encoder": cross_encoder(tmp_path / "cross", "distilbert"),
        "bi-encoder": tmp_path / "bi",
        "query-encoder": tmp_path / "bi",
        "target-words": save(tmp_path / "words", "qwen2", "AutoModelForCausalLM"),
    }


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder", "query-encoder", "target-words"])
def test_all_of_a_step_is_made_on_the_models_device(
    kind: str, bases: dict[str, Path], meta: Nowhere, tmp_path: Path
) -> None:
    recipes = {"bi-encoder": LISTS, "query-encoder": LISTS, "target-words": WORDS}
    job = job_of(bases[kind], tmp_path / "out", recipes.get(kind, RECIPE), device="meta")
    if kind == "query-encoder":
        recipe, texts = replace(LISTS, fixed_documents=True), cast(EmbeddingCache, Embeddings())
        job = replace(job, recipe=recipe, embedding_cache=texts)
    learner = Trainer.of(job)
    for part in learner.model.parts:  # type: ignore[attr-defined]
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("eager")  # sdpa asks for the numbers of a mask
    with meta:
        learner.gradient(learner.batch(0), 0)
        made = set(meta.devices)
        gradients = [value.grad for value in learner.model.parameters()]
        assert learner.advance(1.0)
    assert {str(grad.device) for grad in gradients if grad is not None} == {"meta"}
    state = learner.optimizer.state.values()
    assert {str(row["exp_avg"].device) for row in state} == {"meta"}
    assert made == {"meta"}


class Embeddings:
    """What the base makes of texts, without a base."""

    documents = None

    def encode_with_truncation(self, texts: Any) -> Any:
        return np.ones((len(texts), 24), np.float32), np.zeros(len(texts), np.int32)

    def __bool__(self) -> bool:
        return True

    def remember(self, *rows: Any) -> None:
        """Nothing is remembered."""


def test_a_fast_forward_is_taken_on_the_cpu_in_float32_only(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "bert")
    backends = {
        str(options): open_trainable(folder, placement=Placement(device="cpu", **options)).backend
        for options in (
            {}, {"dtype": "float32"}, {"dtype": "bfloat16"}, {"gradient_checkpointing": True},
            {"backend": "transformers"},
        )
    }  # fmt: skip
    assert list(backends.values()) == ["fast", "fast", *["transformers"] * 3]


def test_auto_learns_in_bfloat16_where_a_gpu_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert Placement().resolved() == ("cuda:0", "bfloat16")
    assert Placement("cuda:1", "float32").resolved() == ("cuda:1", "float32")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert Placement().resolved() == ("cuda:0", "float32")
    assert (training_dtype("auto", "cpu"), training_dtype("auto", "mps")) == ("float32",) * 2
    with pytest.raises(InputError, match="does not learn in int8"):
        training_dtype("int8", "cpu")
    with pytest.raises(InputError, match="no device 'cuda:7'"):
        Placement("cuda:7").resolved()


def test_alone_there_is_nobody_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = processes_for("cpu")
    assert alone == OneProcess("cpu") and alone.is_main_process
    alone.wait_for_everyone()
    assert alone.reduce(3, "sum") == 3


def products(model: Trainable) -> set[Any]:
    """The precisions that the dense layers of a model give in a step."""
    seen: set[Any] = set()
    for part in model.parts:  # type: ignore[attr-defined]
        for module in part.modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_hook(lambda _, __, output: seen.add(output.dtype))
    model(model.prepare(QUERIES, TEXTS[:3])).sum().backward()
    return seen


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_products_have_the_precision_and_weights_float32(dtype: str, tmp_path: Path) -> None:
    where = Placement("cpu", dtype, backend="transformers")
    model = open_trainable(cross_encoder(tmp_path, "electra"), dropout=0, placement=where)
    assert products(model) == {getattr(torch, dtype)}
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    assert {value.grad.dtype for value in model.parameters() if value.grad is not None} == {
        torch.float32
    }
    scores = model(model.prepare(QUERIES, TEXTS[:3]))
    assert scores.dtype == torch.float32
    exact = open_trainable(tmp_path, dropout=0)
    difference = (scores - exact(exact.prepare(QUERIES, TEXTS[:3]))).abs().max()
    assert (difference == 0) == (dtype == "float32") and difference < 0.2


def test_float16_scales_the_loss_and_not_the_gradient(tmp_path: Path) -> None:
    base = cross_encoder(tmp_path / "base", "electra")
    learner = Trainer.of(job_of(base, tmp_path / "out", dtype="float16"))
    plain = Trainer.of(job_of(base, tmp_path / "out", dtype="bfloat16"))
    assert learner.model.precision.loss_scale == 65536.0 and plain.model.precision.loss_scale == 1
    for one in (learner, plain):
        one.model.train(False)
        one.gradient(one.batch(0), 0)
    raw = next(value.grad for value in learner.model.parameters() if value.grad is not None).clone()
    learner.model.precision.unscale(learner.optimizer)
    scaled = next(value.grad for value in learner.model.parameters() if value.grad is not None)
    assert torch.equal(raw, scaled * 65536.0)


def test_a_step_that_is_not_finite_in_float16_is_left_out_and_the_scale_halved() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    precision, optimizer = Precision.of("cpu", "float16"), torch.optim.SGD([weight], lr=1.0)
    assert precision.loss_scale == 65536.0
    weight.grad = torch.full((2,), torch.inf)
    precision.unscale(optimizer)
    assert precision.step(optimizer, is_finite=False)
    assert weight.tolist() == [1.0, 1.0] and precision.loss_scale == 32768.0
    weight.grad = torch.full((2,), 32768.0)
    precision.unscale(optimizer)
    assert precision.step(optimizer, is_finite=True)
    assert weight.tolist() == [0.0, 0.0]
    again = Precision.of("cpu", "float16")
    again.restore(precision.state())
    assert again.loss_scale == 32768.0
    for _ in range(20):
        weight.grad = torch.full((2,), torch.nan)
        precision.unscale(optimizer)
        went_on = precision.step(optimizer, is_finite=False)
    assert not went_on  # it is no longer the scale


def test_states_that_are_computed_again_give_the_same_gradient(tmp_path: Path) -> None:
    base = cross_encoder(tmp_path, "electra")
    gradients = []
    for is_checkpointing in (False, True):
        where = Placement("cpu", backend="transformers", gradient_checkpointing=is_checkpointing)
        model = open_trainable(base, dropout=0.1, placement=where)
        scores = model(model.prepare(QUERIES, TEXTS[:3]), np.random.default_rng(3))
        scores.square().sum().backward()
        gradients.append([v.grad for v in model.parameters() if v.grad is not None])
        assert model.parts[0].is_gradient_checkpointing == is_checkpointing  # type: ignore[attr-defined]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_plan_names_what_runs_it_unless_it_is_our_own_forward(tmp_path: Path) -> None:
    base = cross_encoder(tmp_path / "base", "bert")
    plain = job_of(base, tmp_path / "out")
    half = job_of(base, tmp_path / "out", dtype="bfloat16", gradient_checkpointing=True)
    assert "runtime" not in Trainer.of(plain).plan()
    runtime = Trainer.of(half).plan()["runtime"]
    assert runtime == "transformers on cpu in bfloat16 with gradient checkpointing"


def test_adam_is_fused_where_that_is(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    groups = schedules.parameter_groups([("w", weight)], RECIPE, set())
    assert schedules.optimizer_of(groups, RECIPE).defaults["fused"]


def test_out_of_memory_fewer_texts_are_run_at_a_time_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    base = cross_encoder(tmp_path / "base", "electra")
    job = job_of(base, tmp_path / "out", replace(RECIPE, dropout=0.0))
    expected = Trainer.of(job)
    expected.gradient(expected.batch(0), 0)
    budgets: list[int] = []

    def too_little(*given: Any, **named: Any) -> float:
        budgets.append(named["budget"])
        loss = _gradient.accumulate(*given, **named)
        if named["budget"] > 300:
            raise torch.OutOfMemoryError("too much")  # when some gradients were added
        return loss

    monkeypatch.setattr("tamis.training.trainer.accumulate", too_little)
    learner = Trainer.of(job)
    for _ in range(2):
        learner.optimizer.zero_grad()
        learner.gradient(learner.batch(0), 0)
    assert budgets == [1024, 512, 256, 256]
    assert caplog.text.count("out of memory") == 1
    both = zip(learner.model.named_parameters(), expected.model.parameters(), strict=True)
    for (name, one), other in both:
        assert one.grad is None or torch.allclose(one.grad, other.grad, atol=1e-6), name

    def never(*given: Any, **named: Any) -> float:
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr("tamis.training.trainer.accumulate", never)
    with pytest.raises(TrainingError, match="does not fit into the memory") as error:
        learner.gradient(learner.batch(0), 0)
    assert "--gradient-checkpointing" in error.value.hint


def test_a_training_that_does_not_fit_is_refused_before_weights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = cross_encoder(tmp_path, "electra")
    parameters = count_parameters(base)
    monkeypatch.setattr("tamis.backends.memory.free_memory", lambda device: 8 * parameters)
    CrossEncoder.open(base, device="cpu")
    monkeypatch.setattr("tamis.backends.weights.read_weights", None)
    with pytest.raises(InputError, match="of memory to be trained in float32 on cpu"):
        open_trainable(base)


def test_a_gpu_takes_more_tokens_at_a_time(bases: dict[str, Path], tmp_path: Path) -> None:
    learner = Trainer.of(job_of(bases["cross-encoder"], tmp_path / "out", backend="transformers"))
    assert learner.budget == learner.full_budget == 1024
    network: Any = learner.model.network  # type: ignore[attr-defined]
    network.precision = replace(network.precision, device="cuda:0")
    assert learner.full_budget == 16 * 1024
