"""Weights that are not what was written are refused when they are opened, not only on request."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tamis.backends import weight_digests
from tamis.backends.weight_digests import WEIGHT_DIGESTS_KEY
from tamis.cli.app import run
from tamis.errors import DamagedError, InputError
from tamis.models import import_model, open_scorer
from tamis.models.folder import open_model, verify_model


@pytest.fixture
def model(tmp_path: Path, tiny_cross_encoder: Path) -> Path:
    import_model(tiny_cross_encoder, tmp_path / "model")
    return tmp_path / "model"


def flip(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[-3] ^= 1  # the lowest bits of a weight: the score is another, but a number
    file.write_bytes(raw)


def test_a_flipped_bit_in_the_weights_is_found_on_opening(model: Path) -> None:
    open_scorer(model)
    flip(model / "model.safetensors")
    with pytest.raises(DamagedError, match="SHA-256") as caught:
        open_scorer(model)
    assert caught.value.hint
    with pytest.raises(DamagedError, match="SHA-256"):
        verify_model(model)


def test_a_file_is_read_for_it_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, read = weight_digests.sha256_of, []

    def counted(file: Path) -> str:
        read.append(file.name)
        return real(file)

    monkeypatch.setattr(weight_digests, "sha256_of", counted)
    open_scorer(model)
    open_scorer(model)
    assert read == ["model.safetensors"]
    os.utime(model / "model.safetensors", ns=(1, 1))
    open_scorer(model)
    assert len(read) == 2


def test_it_works_where_nothing_can_be_remembered(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(weight_digests, "cache_folder", lambda: tmp_path / "file" / "cache")
    open_scorer(model)
    flip(model / "model.safetensors")
    with pytest.raises(DamagedError, match="SHA-256"):
        open_scorer(model)


def test_a_note_without_digests_is_not_checked_and_a_damaged_one_is_told(model: Path) -> None:
    note = json.loads((model / "tamis.json").read_text())
    assert note[WEIGHT_DIGESTS_KEY].keys() == {"model.safetensors"}
    assert WEIGHT_DIGESTS_KEY not in open_model(model).facts
    (model / "tamis.json").write_text(json.dumps({**note, WEIGHT_DIGESTS_KEY: ["x"]}))
    with pytest.raises(DamagedError, match=WEIGHT_DIGESTS_KEY):
        open_scorer(model)
    del note[WEIGHT_DIGESTS_KEY]
    (model / "tamis.json").write_text(json.dumps(note))
    flip(model / "model.safetensors")
    open_scorer(model)
    with pytest.raises(InputError, match="no checksums"):
        verify_model(model)


def test_info_verifies_a_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(model), "--verify"]) == 0
    assert "the weights match their checksums" in capsys.readouterr().err
    flip(model / "model.safetensors")
    assert run(["info", str(model), "--verify"]) == 1
    error = capsys.readouterr().err
    assert "SHA-256" in error and "hint:" in error
