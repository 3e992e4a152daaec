"""`tamis export` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis.cli.app import run
from tamis.cores import processor
from tamis.errors import install_command

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
FIVE = ["a drum sieve", "the grain", "fish", "a net the fish sort", "flour grain drum net"]
TEXTS = [*FIVE, *(f"{text} sort {text}" for text in FIVE), "drum", "net the flour"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_cross_encoder: Path) -> Path:
    """A folder with a model, documents, queries, a run and judgements."""
    monkeypatch.chdir(tmp_path)
    assert run(["import-model", str(tiny_cross_encoder), "-o", "model"]) == 0
    documents = [json.dumps({"_id": f"d{n}", "text": text}) for n, text in enumerate(TEXTS)]
    Path("docs.jsonl").write_text("\n".join(documents) + "\n")
    Path("queries.tsv").write_text("q1\tsieve grain\nq2\tfish\n")
    rows = [f"{q} Q0 d{n} {n + 1} {9 - n} x" for q in ("q1", "q2") for n in range(12)]
    Path("run.trec").write_text("\n".join(rows) + "\n")
    Path("qrels.txt").write_text("q1 0 d4 1\nq2 0 d2 2\n")
    return tmp_path


GIVEN = "-c docs.jsonl --candidates run.trec --queries queries.tsv".split()


def test_a_model_is_exported_and_what_was_measured_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = ["--min-overlap", "0", "--max-drop", "1"]
    assert run(["export", "model", "-o", "out", *GIVEN, "--qrels", "qrels.txt", *wide]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].split()[:2] == ["export", "MB"]
    assert lines[1].split()[0] == "onnx"
    assert lines[2].split()[0] == "onnx-int8"
    assert all(line.rstrip().endswith("kept") for line in lines[1:])
    assert "scoring 24 documents of run.trec in torch" in printed.err
    assert Path("out/onnx/model.onnx").is_file()
    assert Path("out/onnx/model_qint8.onnx").is_file()
    assert run(["info", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["onnx-int8"]
    assert "nDCG@10" in told
    assert "overlap of the top 10" in told
    assert told.endswith(processor())
    assert run(["export", "model", "-o", "out", *GIVEN]) == 1
    assert "exists already" in capsys.readouterr().err


def test_the_report_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "model", "-o", "out", *GIVEN, "--no-int8", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["exports"]
    assert (found["backend"], found["refused"], found["before"]) == ("onnx", "", None)
    assert found["difference"] < 1e-4


def test_int8_that_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.models.export_sample.ScoredSample.overlap", lambda *both: 0.8)
    assert run(["export", "model", "-o", "out", *GIVEN]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("refused: shares 0.800 of the top 10") == 1
    assert "the 8-bit export was not kept: it shares 0.800" in printed.err
    assert run(["export", "model", "-o", "other", *GIVEN, "--int8"]) == 1
    first, second = capsys.readouterr().err.splitlines()[-2:]
    assert first == (
        "error: the 8-bit export shares 0.800 of the top 10 with float (0.9 is needed), "
        "in a sample of 2 queries"
    )
    assert second.startswith("hint: ")
    assert not Path("other").exists()


def test_misuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "model", "-o", "out", "-c", "docs.jsonl"]) == 2
    assert "--collection and --candidates go together" in capsys.readouterr().err
    assert run(["export", "model", "-o", "out", "--qrels", "qrels.txt"]) == 2
    assert run(["export", "docs.jsonl", "-o", "out"]) == 1
    assert run(["export", "out", "-o", "out"]) == 1
    capsys.readouterr()
    Path("model/model.safetensors").unlink()
    assert run(["export", "model", "-o", "out", *GIVEN]) == 1
    assert "has no weights" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_package_that_lacks(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    assert run(["export", "model", "-o", "out", *GIVEN]) == 1
    assert f"hint: {install_command('onnx')}" in capsys.readouterr().err
