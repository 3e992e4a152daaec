"""Every architecture learns by the one loop, and what it becomes scores the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.test_parity import TEMPLATE
from tests.backends.tiny import (
    EVERY,
    QUERIES,
    TEXTS,
    cross_encoder,
    pairs_of,
    save,
    torch,
    transformers,
)
from tests.training.test_devices import LISTS, RECIPE, job_of
from tests.training.test_loop import Killed, interrupted, weights

import tamis
from tamis.errors import InputError
from tamis.models import import_model, open_model, open_scorer
from tamis.training.loop import train
from tamis.training.losses import LOSSES
from tamis.training.precision import Placement
from tamis.training.trainable import Trainable, accumulate, open_trainable, why_not_trained
from tamis.training.trainer import Trainer

sentence_transformers: Any = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)
files: Any = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
OTHERS = ("albert", "electra", "deberta-v2", "bart", "qwen3")
FAST = ("bert", "roberta", "distilbert", "modernbert")
TOLERANCE = 1e-4
THEIRS = Placement("cpu", backend="transformers")


def learn(model: Trainable, steps: int = 6, loss: str = "margin") -> list[float]:
    """Some steps, with scoring in between; the loss of each."""
    parameters, losses = list(model.parameters()), []
    optimizer = torch.optim.AdamW(parameters, lr=5e-3)
    for step in range(steps):
        torch.manual_seed(step)
        model.train()
        instances = [model.prepare([query] * 3, TEXTS[:3]) for query in QUERIES]
        values = [
            np.array([1, 0, 0], np.float32),
            np.array([0, 1, 0], np.float32),
            np.array([0, 0, 1], np.float32),
        ]
        losses.append(accumulate(model, instances, values, by(loss), budget=40, threads=1))
        optimizer.step()
        optimizer.zero_grad()
        model.scorer().score(EVERY)
    return losses


def by(loss: str) -> Callable[..., Any]:
    def lead(scores: Any, values: Any, sizes: Any) -> Any:
        one = scores if scores.ndim == 1 else scores[:, 0] - scores[:, 1]
        return LOSSES[loss](one, values, sizes)  # type: ignore[index]

    return lead


@pytest.mark.parametrize("architecture", OTHERS + FAST)
def test_a_cross_encoder_learns_from_a_base_without_a_head(
    architecture: str, tmp_path: Path
) -> None:
    save(tmp_path / "base", architecture, "AutoModel")
    model = open_trainable(tmp_path / "base", outputs=1, max_length=50, dropout=0)
    assert model.backend == ("fast" if architecture in FAST else "transformers")
    losses = learn(model)
    assert losses[-1] < losses[0] - 0.01
    model.save(tmp_path / "made")
    scores = open_scorer(tmp_path / "made").score(EVERY).values
    assert np.abs(model.scorer().score(EVERY).values - scores).max() < 1e-6 < np.ptp(scores)
    theirs = sentence_transformers.CrossEncoder(str(tmp_path / "made"), device="cpu")
    assert np.abs(theirs.predict(pairs_of(EVERY)) - scores).max() < TOLERANCE


@pytest.mark.parametrize("architecture", OTHERS + FAST)
def test_a_bi_encoder_learns_with_its_prompts(architecture: str, tmp_path: Path) -> None:
    save(tmp_path / "plain", architecture, "AutoModel")
    import_model(
        tmp_path / "plain", tmp_path / "base", kind="bi-encoder", pooling="mean",
        query_prompt="query : ", document_prompt="passage : ",
    )  # fmt: skip
    model = open_trainable(tmp_path / "base", scorer="bi-encoder", dropout=0)
    assert model.backend == ("fast" if architecture in FAST else "transformers")
    losses = learn(model, loss="listwise-softmax")
    assert losses[-1] < losses[0] - 0.01
    model.save(tmp_path / "made")
    scores = open_scorer(tmp_path / "made").score(EVERY).values
    assert np.abs(model.scorer().score(EVERY).values - scores).max() < 1e-6 < np.ptp(scores)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "made"), device="cpu")
    queries, texts = theirs.encode_query(QUERIES), theirs.encode_document(TEXTS)
    assert np.abs((queries @ texts.T).reshape(-1) - scores).max() < TOLERANCE
    plain = theirs.encode(QUERIES)
    assert np.abs(queries - plain).max() > 1e-3  # the prompt makes a difference


@pytest.mark.parametrize(
    ("architecture", "auto"),
    [("bart", "Seq2SeqLM"), ("t5", "Seq2SeqLM"), ("qwen3", "CausalLM"), ("gpt2", "CausalLM"),
     ("distilbert", "MaskedLM"), ("modernbert", "MaskedLM"), ("deberta-v2", "MaskedLM")],
)  # fmt: skip
@pytest.mark.parametrize("vocabulary", [False, True])
def test_target_words_are_learnt(
    architecture: str, auto: str, vocabulary: bool, tmp_path: Path
) -> None:
    save(tmp_path / "base", architecture, f"AutoModelFor{auto}")
    model = open_trainable(
        tmp_path / "base", scorer="target-words", words=("true", "false"), template=TEMPLATE,
        vocabulary=vocabulary, dropout=0,
    )  # fmt: skip
    if not vocabulary:
        losses = learn(model, 8)
        assert losses[-1] < losses[0]
    prepared = model.prepare(*both())
    logits = model.train(False)(prepared).detach()
    words = transformers.AutoConfig.from_pretrained(tmp_path / "base").vocab_size
    assert logits.shape[1] == (words if vocabulary else 2)
    model.save(tmp_path / "made")
    scores = open_scorer(tmp_path / "made").score(EVERY).values
    yes, no = (logits[:, n] for n in (model.manifest.word_ids if vocabulary else (0, 1)))  # type: ignore[union-attr]
    assert np.abs((yes - no).sigmoid().numpy() - scores).max() < TOLERANCE


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
@pytest.mark.parametrize("architecture", FAST)
def test_both_back_ends_take_the_same_steps(architecture: str, kind: Any, tmp_path: Path) -> None:
    base = cross_encoder(tmp_path / "plain", architecture)
    if kind == "bi-encoder":
        import_model(base, tmp_path / "base", kind=kind, pooling="mean", query_prompt="query : ")
        base = tmp_path / "base"
    loss = "margin" if kind == "cross-encoder" else "listwise-softmax"
    curves, states = [], []
    for where in (Placement("cpu"), THEIRS):
        model = open_trainable(base, scorer=kind, dropout=0, placement=where)
        start = {name: value.detach().clone() for name, value in model.state_dict().items()}
        # with plain gradient descent a difference stays as small as it is
        curves.append(descend(model, loss))
        states.append({name: value.detach() for name, value in model.state_dict().items()})
    assert np.abs(np.array(curves[0]) - np.array(curves[1])).max() < 1e-3 * max(curves[0])
    compared = [name for name in states[0] if name in states[1] and "pooler" not in name]
    assert len(compared) > 12
    moved = max(float((states[0][name] - start[name]).abs().max()) for name in compared)
    apart = max(float((states[0][name] - states[1][name]).abs().max()) for name in compared)
    assert apart < 1e-3 * moved


def descend(model: Trainable, loss: str, steps: int = 5) -> list[float]:
    parameters, losses = list(model.parameters()), []
    for _ in range(steps):
        instances = [model.prepare([query] * 3, TEXTS[:3]) for query in QUERIES]
        values = [
            np.array([1, 0, 0], np.float32),
            np.array([0, 1, 0], np.float32),
            np.array([0, 0, 1], np.float32),
        ]
        losses.append(accumulate(model, instances, values, by(loss), budget=60, threads=1))
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        with torch.no_grad():
            for value in parameters:
                if value.grad is not None:
                    value.sub_(value.grad, alpha=0.05)
                    value.grad = None
    return losses


@pytest.fixture
def albert(tmp_path: Path) -> Path:
    return cross_encoder(tmp_path / "albert", "albert", classifier_dropout_prob=0.1)


def test_killed_it_goes_on_to_the_same_bits(albert: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, epochs=6, validate_every=2, keep="last")
    whole = train(job_of(albert, tmp_path / "whole", recipe))
    job = job_of(albert, tmp_path / "other", recipe)
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 4)
        with pytest.raises(Killed):
            train(job)
    with pytest.raises(InputError, match="begun with another runtime"):
        train(replace(job, placement=Placement("cpu", "bfloat16")), resume=True)
    again = train(job, resume=True)
    assert weights(again.folder) == weights(whole.folder)
    assert again.history.losses == whole.history.losses


def test_a_scaled_loss_goes_on_where_it_was(albert: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, epochs=6, validate_every=2, keep="last")
    whole = train(job_of(albert, tmp_path / "whole", recipe, dtype="float16"))
    job = job_of(albert, tmp_path / "other", recipe, dtype="float16")
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 4)
        with pytest.raises(Killed):
            train(job)
    assert weights(train(job, resume=True).folder) == weights(whole.folder)


def test_dropout_is_the_configs_or_the_recipes_and_off_in_scoring(
    albert: Path, tmp_path: Path
) -> None:
    own = open_trainable(albert)
    scores = own.scorer().score(EVERY).values
    own.train()
    generators = [np.random.default_rng(seed) for seed in (1, 1, 2)]
    first, again, other = (own(own.prepare(QUERIES, TEXTS[:3]), each) for each in generators)
    assert torch.equal(first, again) and not torch.equal(first, other)
    for share in (0.0, 0.3):
        model = open_trainable(albert, dropout=share)
        shares = {each.p for each in model.parts[0].modules()  # type: ignore[attr-defined]
                  if isinstance(each, torch.nn.Dropout)}  # fmt: skip
        assert shares == {share}
        assert np.array_equal(model.scorer().score(EVERY).values, scores)
        model.save(tmp_path / "made")
        config = json.loads((tmp_path / "made" / "config.json").read_text())
        assert config["classifier_dropout_prob"] == 0.1


def test_a_fresh_head_is_drawn_with_the_seed(tmp_path: Path) -> None:
    base = save(tmp_path / "base", "electra", "AutoModel")
    one, two, other = (open_trainable(base, outputs=2, seed=seed) for seed in (1, 1, 2))
    names = {f"classifier.{part}.{what}" for part in ("dense", "out_proj")
             for what in ("weight", "bias")}  # fmt: skip
    assert one.head_names == names and one.manifest.outputs == 2
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name])
        is_drawn = name in names and name.endswith("weight")
        assert torch.equal(value, other.state_dict()[name]) != is_drawn
    trained = cross_encoder(tmp_path / "trained", "electra", 2)
    with pytest.raises(InputError, match="has a head with 2 outputs, not 1"):
        open_trainable(trained, outputs=1)
    fresh = open_trainable(trained, outputs=1, fresh_head=True)
    assert fresh.manifest.outputs == 1 and fresh.head_names == names
    kept, own = open_trainable(trained).state_dict(), fresh.state_dict()
    assert {name for name in own if own[name].shape != kept[name].shape
            or not torch.equal(own[name], kept[name])} == names  # fmt: skip
    assert open_trainable(trained).manifest.outputs == 2
    random = open_trainable(trained, random_weights=True, seed=3)
    assert "random weights" in random.manifest.base.name  # type: ignore[union-attr]
    assert not torch.equal(random.state_dict()["electra.embeddings.word_embeddings.weight"],
                           kept["electra.embeddings.word_embeddings.weight"])  # fmt: skip


def test_a_body_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    base = save(tmp_path / "base", "electra", "AutoModel")
    tensors = files.load_file(base / "model.safetensors")
    gone = next(name for name in tensors if "layer.1.attention.self.query.weight" in name)
    del tensors[gone]
    files.save_file(tensors, base / "model.safetensors",
                                                    metadata={"format": "pt"})  # fmt: skip
    with pytest.raises(InputError, match=r"has no weights .*query\.weight"):
        open_trainable(base, outputs=1)


def test_the_head_learns_at_its_own_rate(tmp_path: Path) -> None:
    base = save(tmp_path / "base", "deberta-v2", "AutoModel")
    recipe = replace(RECIPE, learning_rate=1e-5, head_learning_rate=1e-3)
    groups = Trainer.of(job_of(base, tmp_path / "out", recipe)).optimizer.param_groups
    by_name = {group["name"]: (group["learning_rate"], group["names"]) for group in groups}
    assert by_name["head"][0] == 1e-3 and by_name["body"][0] == 1e-5
    assert set(by_name["head"][1]) == {
        "pooler.dense.weight", "pooler.dense.bias", "classifier.weight", "classifier.bias"
    }  # fmt: skip


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("architecture", ["bert", "electra"])
def test_layers_after_the_pooling_learn_too(
    architecture: str, include_prompt: bool, tmp_path: Path
) -> None:
    modules = sentence_transformers.sentence_transformer.modules
    torch.manual_seed(0)
    transformer = modules.Transformer(str(save(tmp_path / "plain", architecture, "AutoModel")))
    made = sentence_transformers.SentenceTransformer(
        modules=[
            transformer,
            modules.Pooling(24, pooling_mode="mean", include_prompt=include_prompt),
            modules.Dense(24, 12), modules.LayerNorm(12),
        ],
        device="cpu", prompts={"query": "query : ", "document": ""}, truncate_dim=10,
    )  # fmt: skip
    made.save_pretrained(str(tmp_path / "base"))
    model = open_trainable(tmp_path / "base", scorer="bi-encoder", dropout=0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expected = open_scorer_of(tmp_path / "base")
    found = model.train(False)(model.prepare(*both())).detach().numpy()[:, 0] / 20
    assert np.abs(found - expected).max() < TOLERANCE
    learn(model, loss="listwise-softmax")
    moved = {name for name, value in model.state_dict().items()
             if not torch.equal(value, before[name])}  # fmt: skip
    assert {"2_Dense.linear.weight", "2_Dense.linear.bias", "3_LayerNorm.norm.weight"} <= moved
    model.save(tmp_path / "made")
    scores = open_scorer(tmp_path / "made").score(EVERY).values
    assert np.abs(model.scorer().score(EVERY).values - scores).max() < 1e-6
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "made"), device="cpu")
    rows = theirs.encode_query(QUERIES), theirs.encode_document(TEXTS)
    queries, texts = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in rows)
    assert queries.shape[1] == 10
    assert np.abs((queries @ texts.T).reshape(-1) - scores).max() < TOLERANCE


def both() -> tuple[list[str], list[str]]:
    return [QUERIES[q] for q, _ in EVERY.index], [TEXTS[t] for _, t in EVERY.index]


def open_scorer_of(folder: Path) -> Any:
    return tamis.load_model(folder, device="cpu").scorer.score(EVERY).values


@pytest.mark.parametrize("architecture", ["bert", "albert"])
def test_a_query_encoder_learns_with_prompts_and_leaves_documents_alone(
    architecture: str, tmp_path: Path
) -> None:
    save(tmp_path / "plain", architecture, "AutoModel")
    import_model(
        tmp_path / "plain", tmp_path / "base", kind="bi-encoder", pooling="mean",
        query_prompt="query : ", document_prompt="passage : ",
    )  # fmt: skip
    base: Any = open_scorer(tmp_path / "base")
    recipe = replace(LISTS, fixed_documents=True, epochs=4, learning_rate=5e-3, keep="last")
    done = train(job_of(tmp_path / "base", tmp_path / "made", recipe))
    assert done.history.losses[-1] < done.history.losses[0]
    made: Any = open_scorer(done.folder)
    assert np.array_equal(made.documents.encode(TEXTS), base.documents.encode(TEXTS))
    assert np.abs(made.encode(QUERIES) - base.encode(QUERIES)).max() > 1e-4
    assert made.prompts == ("query : ", "passage : ")
    assert open_model(done.folder).documents == "documents"


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder", "target-words"])
@pytest.mark.parametrize("architecture", ["distilbert", "opt"])
def test_a_length_beyond_the_base_is_the_bases(
    architecture: str, kind: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = {"distilbert": "MaskedLM", "opt": "CausalLM"}[architecture]
    auto = f"AutoModelFor{head}" if kind == "target-words" else "AutoModel"
    base = save(tmp_path / "plain", architecture, auto)
    if kind == "bi-encoder":
        import_model(base, tmp_path / "base", kind=kind, pooling="mean")
        base = tmp_path / "base"
    words: Any = {"words": ("true", "false")} if kind == "target-words" else {}
    made = [open_trainable(base, scorer=kind, max_length=64, **words)]
    assert "at most" not in caplog.text
    made.append(open_trainable(base, scorer=kind, max_length=600, **words))
    assert [model.manifest.max_length for model in made] == [64, 64]
    assert f"{base} takes 64 tokens at most: texts are truncated there, not at 600" in caplog.text


def test_a_text_without_a_token_is_learnt_from_as_it_is_scored(tmp_path: Path) -> None:
    save(tmp_path / "plain", "gpt2", "AutoModel")
    import_model(tmp_path / "plain", tmp_path / "base", kind="bi-encoder", pooling="mean")
    model = open_trainable(tmp_path / "base", scorer="bi-encoder", dropout=0)
    pairs = ["grain", "", ""], ["", "a drum", ""]
    values = model.train(False)(model.prepare(*pairs)).detach().numpy()
    assert np.array_equal(values, np.zeros((3, 1), np.float32))
    assert model(model.prepare(["", ""], ["", ""])).tolist() == [[0.0], [0.0]]
    model.train()
    made = [model.prepare(["grain"] * 3, ["", "grain or sea", "net"])]
    accumulate(model, made, [np.array([0, 1, 0], np.float32)], by("listwise-softmax"), budget=60,
               threads=1)  # fmt: skip
    assert all(value.grad is None or bool(value.grad.isfinite().all())
               for value in model.parameters())  # fmt: skip


def test_what_cannot_be_trained_is_said(tmp_path: Path) -> None:
    modules = sentence_transformers.sentence_transformer.modules
    sides = []
    for side in ("query", "document"):
        transformer = modules.Transformer(
            str(save(tmp_path / side, "electra", "AutoModel", seed=len(side)))
        )
        sides.append([transformer, modules.Pooling(24)])
    router = modules.Router.for_query_document(*sides)
    sentence_transformers.SentenceTransformer(modules=[router], device="cpu").save_pretrained(
        str(tmp_path / "router")
    )
    assert "different modules" in why_not_trained(tmp_path / "router", "bi-encoder")
    with pytest.raises(InputError, match="by different modules, which tamis does not train"):
        open_trainable(tmp_path / "router", scorer="bi-encoder")
    base = save(tmp_path / "lm", "qwen3", "AutoModelForCausalLM")
    with pytest.raises(InputError, match="fresh rows for the two words"):
        open_trainable(base, scorer="target-words", words=("true", "false"), fresh_head=True)


def test_a_causal_model_without_a_pad_token_learns_and_keeps_having_none(tmp_path: Path) -> None:
    base = cross_encoder(tmp_path / "base", "llama", pad_token_id=None)
    model = open_trainable(base, dropout=0, max_length=50)
    losses = learn(model)
    assert losses[-1] < losses[0]
    model.save(tmp_path / "made")
    config = json.loads((tmp_path / "made" / "config.json").read_text())
    assert config.get("pad_token_id") is None
    scores = open_scorer(tmp_path / "made").score(EVERY).values
    assert np.abs(model.scorer().score(EVERY).values - scores).max() < 1e-6


def test_the_loop_takes_any_architecture(albert: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, epochs=8, learning_rate=3e-3, dropout=0.0, keep="last")
    done = train(job_of(albert, tmp_path / "made", recipe))
    losses = done.history.losses
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    assert open_model(done.folder).base is not None
    assert transformers.AutoConfig.from_pretrained(done.folder).architectures == [
        "AlbertForSequenceClassification"
    ]
