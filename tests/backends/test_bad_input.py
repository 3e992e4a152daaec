"""What cannot be run is refused in two lines, and nothing a model brings is run unasked."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import EVERY, TEXTS, change_json, cross_encoder, save, torch, transformers

from tamis.cli.app import run
from tamis.errors import InputError
from tamis.models import import_model, open_ranker, open_scorer
from tamis.models.model_kinds import kind_of, model_config
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.types import Pairs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
safetensors: Any = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")


def weights_of(folder: Path) -> dict[str, Any]:
    weights: dict[str, Any] = safetensors.load_file(folder / "model.safetensors")
    return weights


def write_weights(folder: Path, weights: dict[str, Any]) -> None:
    safetensors.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("architecture", ["distilbert", "bert"])
def test_a_missing_head_is_no_random_head(architecture: str, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, architecture)
    kept = {
        name: weight for name, weight in weights_of(folder).items() if name != "classifier.weight"
    }
    write_weights(folder, kept)
    with pytest.raises(InputError, match=r"no (weights )?classifier\.weight"):
        open_ranker(folder)


@pytest.mark.parametrize("architecture", ["distilbert", "bert"])
def test_layers_that_the_config_does_not_have_are_not_left_out(
    architecture: str, tmp_path: Path
) -> None:
    folder = cross_encoder(tmp_path, architecture)
    change_json(folder / "config.json", n_layers=1, num_hidden_layers=1)
    with pytest.raises(InputError, match=r"layer\.1\..* no layer"):
        open_ranker(folder)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "distilbert")
    weights = weights_of(folder)
    weights["pre_classifier.weight"] = torch.zeros(24, 30)
    write_weights(folder, weights)
    with pytest.raises(InputError):
        open_ranker(folder)


LABELS = {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}}


@pytest.mark.parametrize("backend", ["fast", "transformers"])
@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"hidden_size": 48}, r"[\w.]+"),
        ({"vocab_size": 50}, r"[\w.]+word_embeddings\.weight"),
        (LABELS, r"classifier\.\w+"),
    ],
)
def test_a_config_of_another_model_is_refused(
    config: dict[str, Any], name: str, backend: Any, tmp_path: Path
) -> None:
    folder = cross_encoder(tmp_path, "bert")
    change_json(folder / "config.json", **config)
    with pytest.raises(InputError, match=f": {name} has another shape than config"):
        open_ranker(folder, backend=backend)


@pytest.mark.parametrize("backend", ["fast", "transformers"])
def test_a_damaged_file_and_a_pointer_to_one_are_told_apart(backend: Any, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "bert")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:999])
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read"):
        CrossEncoder.open(folder, backend=backend)
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    with pytest.raises(InputError, match="Git LFS") as error:
        CrossEncoder.open(folder, backend=backend)
    assert "git lfs pull" in error.value.hint


def test_a_config_of_wrong_types_is_refused(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "electra")
    change_json(folder / "config.json", hidden_size="large")
    with pytest.raises(InputError, match="hidden_size"):
        CrossEncoder.open(folder, device="cpu")


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "albert")
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    tokens.add_tokens([f"word{number}" for number in range(9)])
    tokens.save_pretrained(folder)
    with pytest.raises(InputError, match="the tokenizer has 43 ids, the weights have 34"):
        CrossEncoder.open(folder, device="cpu")


@pytest.mark.parametrize("architecture", ["albert", "roberta"])
def test_weights_that_are_no_numbers_are_refused(architecture: str, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, architecture)
    weights = weights_of(folder)
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][7, 0] = float("nan")
    write_weights(folder, weights)
    with pytest.raises(InputError, match=f"{name} has values that are not numbers"):
        open_ranker(folder)


@pytest.mark.parametrize("architecture", ["llama", "electra"])
def test_a_tokenizer_without_a_pad_token_still_scores(architecture: str, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, architecture)
    expected = CrossEncoder.open(folder, device="cpu").score(EVERY).values
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({name: v for name, v in values.items() if name != "pad_token"}))
    assert np.allclose(CrossEncoder.open(folder, device="cpu").score(EVERY).values, expected)


def test_a_length_beyond_all_bounds_is_512_at_most(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "llama", max_position_embeddings=2048)
    change_json(folder / "tokenizer_config.json", model_max_length=1e30)
    scorer = CrossEncoder.open(folder, device="cpu")
    assert scorer.max_length == 512
    pairs = Pairs(["net"], ["sea " * 600], np.zeros((1, 2), np.int32))
    assert scorer.score(pairs).truncated_tokens.tolist() == [601 - 509]


class Harm:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harm"),)


@pytest.mark.parametrize("backend", ["fast", "transformers"])
def test_nothing_that_is_pickled_is_run(
    backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = cross_encoder(tmp_path / "model", "bert")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"w": Harm()}, protocol=2))
    with pytest.raises(InputError):
        CrossEncoder.open(folder, backend=backend, device="cpu")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("backend", ["fast", "transformers"])
def test_weights_in_the_older_format_are_read(backend: Any, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "bert")
    expected = CrossEncoder.open(folder, device="cpu").score(EVERY).values
    torch.save(weights_of(folder), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    values = CrossEncoder.open(folder, backend=backend, device="cpu").score(EVERY).values
    assert np.allclose(values, expected, atol=1e-4)


CODE = """
from pathlib import Path
from transformers import DistilBertForSequenceClassification, DistilBertConfig
Path(__file__).with_name("was_run").touch()
class OwnConfig(DistilBertConfig):
    model_type = "own"
class OwnModel(DistilBertForSequenceClassification):
    config_class = OwnConfig
"""


@pytest.fixture
def with_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose model is defined by code in it."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = cross_encoder(tmp_path / "own", "distilbert")
    (folder / "code_of_own.py").write_text(CODE)
    names = {"AutoConfig": "code_of_own.OwnConfig",
             "AutoModelForSequenceClassification": "code_of_own.OwnModel"}  # fmt: skip
    change_json(folder / "config.json", auto_map=names, model_type="own")
    return folder


def test_code_of_a_model_is_run_only_where_it_is_named(with_code: Path, tmp_path: Path) -> None:
    for other in (False, tmp_path, "own"):
        with pytest.raises(InputError, match="code of its own") as error:
            open_ranker(with_code, trust_remote_code=other)
        assert "--trust-remote-code" in error.value.hint
    assert not list(tmp_path.rglob("was_run"))
    ranker = open_ranker(with_code, trust_remote_code=with_code)
    assert np.isfinite(ranker.scorer.score(EVERY).values).all()
    assert list(tmp_path.rglob("was_run"))


def adapters(folder: Path, base: Path, rank: int = 2, **more: Any) -> dict[str, Any]:
    """LoRA adapters of a tiny base, as peft saves them; the weights that come of them."""
    torch.manual_seed(3)
    folder.mkdir()
    weights = weights_of(base)
    merged, saved = dict(weights), {}
    for number in range(2):
        name = f"model.layers.{number}.self_attn.q_proj"
        first, second = torch.randn(rank, 24), torch.randn(24, rank)
        saved[f"base_model.model.{name}.lora_A.weight"] = first
        saved[f"base_model.model.{name}.lora_B.weight"] = second
        merged[f"{name}.weight"] = weights[f"{name}.weight"] + 8 / rank * second @ first
    saved["base_model.model.score.weight"] = merged["score.weight"] = torch.randn(1, 24)
    safetensors.save_file(saved, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "SEQ_CLS", "r": rank, "lora_alpha": 8,
              "base_model_name_or_path": str(base), **more}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return merged


def test_adapters_are_merged_with_their_base(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = cross_encoder(tmp_path / "base", "llama")
    expected = adapters(tmp_path / "lora", base)
    with pytest.raises(InputError, match="LoRA adapters only; the model they belong to") as error:
        open_ranker(tmp_path / "lora")
    assert "tamis import-model" in error.value.hint and str(base) in str(error.value)
    assert run(["info", str(tmp_path / "lora")]) == 0
    assert "LoRA adapters" in capsys.readouterr().out
    assert run(["import-model", str(tmp_path / "lora"), "-o", str(tmp_path / "out")]) == 0
    whole = cross_encoder(tmp_path / "whole", "llama")
    write_weights(whole, expected)
    values = open_scorer(tmp_path / "out").score(EVERY).values
    assert np.allclose(values, CrossEncoder.open(whole).score(EVERY).values, atol=1e-5)
    assert np.abs(values - CrossEncoder.open(base).score(EVERY).values).max() > 0.01


def test_adapters_of_another_kind_are_refused(tmp_path: Path) -> None:
    base = cross_encoder(tmp_path / "base", "llama")
    adapters(tmp_path / "lora", base, use_dora=True)
    with pytest.raises(InputError, match="kind that tamis does not merge"):
        import_model(tmp_path / "lora", tmp_path / "out")
    adapters(tmp_path / "lost", tmp_path / "base")
    change_json(tmp_path / "lost" / "adapter_config.json", base_model_name_or_path="./nowhere")
    with pytest.raises(InputError, match=r"no folder \./nowhere"):
        import_model(tmp_path / "lost", tmp_path / "out")


def test_a_model_of_no_kind_says_what_was_found(tmp_path: Path) -> None:
    folder = save(tmp_path, "electra", "AutoModel")
    with pytest.raises(InputError, match="architecture is ElectraModel") as error:
        open_ranker(folder)
    assert "--kind" in error.value.hint
    change_json(folder / "config_sentence_transformers.json", model_type="SparseEncoder")
    with pytest.raises(InputError, match="a SparseEncoder of sentence-transformers"):
        kind_of(folder, model_config(folder))
    encoder = BiEncoder.open(folder, pooling="cls", device="cpu")
    assert encoder.encode(TEXTS).shape == (5, 24)
    with pytest.raises(InputError, match="no pooling 'median'"):
        BiEncoder.open(folder, pooling="median", device="cpu")


def test_info_says_how_a_model_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = cross_encoder(tmp_path, "deberta-v2")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    assert run(["info", str(folder), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model"] == "cross-encoder"
    assert facts["architecture"] == "DebertaV2ForSequenceClassification"
    assert (facts["licence"], facts["max_length"]) == ("mit", "60")
    assert facts["back_end"] == "transformers"
    count = sum(weight.numel() for weight in weights_of(folder).values())
    assert facts["parameters"] == f"{count:,}"
