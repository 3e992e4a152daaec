"""What each verb says where the packages it needs are not installed: every extra at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tamis.cli.app import run
from tamis.errors import EXTRA_OF, install_command

NAME, FOLDER = "all-MiniLM-L6-v2", "folder"
RERANK = "rerank run.trec -c index --queries queries.txt -o out.trec --model"
EXAMPLES = "examples.parquet -c index --queries queries.txt"
TRAIN = f"train {EXAMPLES} --recipe monobert-pairwise-small -o out --base"
LABEL = "label teacher -c index --queries queries.txt -o out.parquet --teacher"
BOTH, NEURAL = ("neural", "models"), ("neural",)
COMMANDS = {
    f"{RERANK} {NAME}": BOTH,
    f"{RERANK} {FOLDER}": NEURAL,
    f"index docs.jsonl -o out --dense {NAME}": BOTH,
    f"index docs.jsonl -o out --dense {FOLDER}": NEURAL,
    f"import-model {NAME} -o out": BOTH,
    f"import-model {FOLDER} -o out": NEURAL,
    f"{TRAIN} {NAME}": BOTH,
    f"{TRAIN} {FOLDER}": NEURAL,
    f"{LABEL} {NAME}": BOTH,
    f"{LABEL} {FOLDER}": NEURAL,
    f"fit docs.jsonl -o out --base {FOLDER}": NEURAL,
    f"fit docs.jsonl -o out --base {FOLDER} --teacher {NAME}": BOTH,
    f"export {FOLDER} -o out": ("neural", "onnx"),
    f"serve {FOLDER}": ("neural", "serve"),
    "serve index": ("neural", "serve"),
}


@pytest.fixture
def base_install(tmp_path: Path, tiny_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents, an index, a run, examples and a model; no extra is installed."""
    monkeypatch.chdir(tmp_path)
    Path(FOLDER).symlink_to(tiny_cross_encoder)
    texts = ["a drum sieve", "sift the flour", *(f"drum and flour {n}" for n in range(20))]
    documents = [f'{{"id": "d{n}", "text": "{text}"}}\n' for n, text in enumerate(texts)]
    Path("docs.jsonl").write_text("".join(documents))
    Path("queries.txt").write_text("drum\nflour\nsieve\n")
    assert run(["index", "docs.jsonl", "-o", "index"]) == 0
    assert run(["search", "index", "queries.txt", "-o", "run.trec"]) == 0
    pseudo = "label pseudo -c index --queries queries.txt -o examples.parquet"
    assert run(pseudo.split()) == 0
    for name in EXTRA_OF:
        monkeypatch.setitem(sys.modules, name, None)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_extra_is_named_at_once(
    command: str, base_install: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(command.split()) == 1
    err = capsys.readouterr().err
    assert "is not installed" in err
    assert f"hint: {install_command(*COMMANDS[command])}\n" in err


def test_a_fit_without_torch_warns_and_ranks_by_words(
    base_install: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["fit", "docs.jsonl", "-o", "my.sieve"]) == 0
    err = capsys.readouterr().err
    consequence = "torch is not installed, so ranking uses words only"
    assert f"warning: {consequence}; {install_command('neural', 'models')}\n" in err
    assert f"base model: none: {consequence}\n" in err
    assert f"none: {consequence}" in Path("my.sieve/report.html").read_text("utf-8")


def test_a_fit_that_was_asked_for_no_model_does_not_warn(
    base_install: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["fit", "docs.jsonl", "-o", "my.sieve", "--base", "none"]) == 0
    err = capsys.readouterr().err
    assert "base model: none, as requested\n" in err and "torch" not in err
