"""Files of a folder that are not read are counted by kind, wherever the folder is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis.cli.app import run

KINDS = {".xlsx": 2, ".png": 1, "without a suffix": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("notes/deep").mkdir(parents=True)
    Path("notes/a.md").write_text("# Sieves\n\nA drum sieve sorts grain.\n")
    Path("notes/deep/b.txt").write_text("Nets catch fish in the sea.\n")
    for name in ("one.xlsx", "deep/two.XLSX", "photo.png", "Makefile"):
        Path("notes", name).write_bytes(b"x")
    return tmp_path


def is_said(text: str) -> bool:
    return text.count("4 files") == 1 and all(
        f"{count} {kind}" in text for kind, count in KINDS.items()
    )


def test_index_and_convert_say_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "notes", "-o", "index"]) == 0
    assert is_said(capsys.readouterr().err)
    assert run(["convert", "notes", "out"]) == 0
    assert is_said(capsys.readouterr().err)


def test_info_counts_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "notes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_left_out"] == KINDS


def test_fit_says_so_and_its_report_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "notes", "--base", "none", "-o", "a.sieve"]) == 0
    assert is_said(capsys.readouterr().err)
    page = Path("a.sieve/report.html").read_text()
    assert "files left out" in page
    assert ".xlsx 2" in page
    assert run(["info", "a.sieve", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_left_out"] == KINDS


def test_files_that_trec_disks_have_beside_documents_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "fr94").write_text("<DOC><DOCNO>1</DOCNO>sieve</DOC>\n")
    (tmp_path / "disk" / "tape.bin").write_bytes(b"\x7fELF\0\0")
    assert run(["info", str(tmp_path / "disk"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_left_out"] == {".bin": 1}
