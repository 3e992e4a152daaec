"""`tamis demo`: the main job on the built-in collection."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tamis.cli.app import run
from tamis.errors import install_command
from tamis.fitting import demo
from tamis.fitting.sieve import load_sieve
from tamis.models import import_model


def test_the_demo_runs_with_words_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "has_model", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--quick"]) == 0
    out = capsys.readouterr().out
    assert "query: how do I stop a loop early" in out and out.count("query: ") == 3
    assert "BM25 *" not in out and "selected  BM25" in out
    assert len(out[out.index("selected  ") :].splitlines()) <= 12
    assert install_command("neural", "models") in out
    sieve = load_sieve("demo.sieve")
    assert sieve.verified and sieve.manifest["test"]["BM25"]["nDCG@10"] > 0.1
    assert run(["demo", "--quick", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "nDCG@10" in out and "BM25 *" in out


def test_it_replaces_nothing_but_a_sieve(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.sieve").mkdir()
    assert run(["demo"]) == 1
    assert "is no sieve" in capsys.readouterr().err


def test_without_torch_or_the_package_there_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PACKAGE", "no_such_package")
    assert not demo.has_model()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not demo.has_model()


def test_a_model_is_used_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_cross_encoder: Path
) -> None:
    import_model(
        tiny_cross_encoder, tmp_path / "tiny", kind="bi-encoder", pooling="mean", max_length=24
    )
    monkeypatch.setattr(demo, "has_model", lambda: True)
    monkeypatch.setattr(demo, "DEFAULT_BASE", str(tmp_path / "tiny"))
    monkeypatch.setattr(demo, "QUICK", 0.7)
    monkeypatch.setattr("tamis.fitting.candidate_models.MAX_LENGTH", 24)
    sieve = demo.run_demo(tmp_path / "s", quick=True)
    names = {system.name for system in sieve.result.systems}
    assert {"BM25", "base model"} <= names
    assert len(demo.searches(sieve)) == 3
