"""`tamis serve` before it serves: what it refuses, and what it does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tamis.cli.app import run

pytest.importorskip("fastapi", reason="fastapi is not installed")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["serve", *arguments]) in (1, 2)
    err = capsys.readouterr().err
    assert "hint: " in err and "Traceback" not in err
    return err


def test_it_is_not_open_to_others_without_keys(
    tiny_cross_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", "127.example.org"):
        assert "--api-key-file" in refused([str(tiny_cross_encoder), "--host", host], capsys)


def test_what_cannot_be_served(
    tiny_cross_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(tiny_cross_encoder)
    (tmp_path / "keys").write_text("short\n")
    assert "same name" in refused([f"a={model}", f"a={model}"], capsys)
    assert "16" in refused([model, "--api-key-file", str(tmp_path / "keys")], capsys)
    assert "nowhere" in refused([model, "--api-key-file", str(tmp_path / "nowhere")], capsys)
    assert run(["index", "tamis:pydocs", "-o", str(tmp_path / "index")]) == 0
    capsys.readouterr()
    assert "is an index" in refused([str(tmp_path / "index"), "--port", "0"], capsys)
    (tmp_path / "empty").mkdir()
    assert "neither a sieve nor a model" in refused(
        [str(tmp_path / "empty"), "--port", "0"], capsys
    )
    for origin in ("app.example", "https://app.example/", "https://app.example/page"):
        assert "no origin" in refused([model, "--cors-origin", origin], capsys)
    assert "--max-body 0" in refused([model, "--max-body", "0"], capsys)
    assert "no-such-model" in refused(["no-such-model", "--port", "0"], capsys)


def test_a_port_that_is_taken(tiny_cross_encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run(["serve", str(tiny_cross_encoder), "--port", port]) == 1
    err = capsys.readouterr().err
    assert f"127.0.0.1, port {port}: Address already in use\nhint: " in err and "--port" in err


def test_nothing_of_it_is_imported_by_other_verbs() -> None:
    code = (
        "import sys; from tamis.cli.app import run; run(['--help']); run(['info', 'tamis:pydocs']);"
        "heavy = {'fastapi', 'uvicorn', 'prometheus_client', 'starlette', 'torch'};"
        "heavy &= set(sys.modules); sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
