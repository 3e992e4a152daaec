"""An encoder is recognised without being run, and another one is refused as before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.models import import_model
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.model_manifest import read_model_manifest, write_model_manifest
from tamis.search import Index
from tamis.search.embeddings import PROBES, EmbeddingModel, probe
from tamis.types import Document

pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def model(tmp_path: Path, tiny_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    import_model(tiny_cross_encoder, folder, kind="bi-encoder", pooling="mean", max_length=24)
    return folder


@pytest.fixture
def index(tmp_path: Path, model: Path) -> Index:
    index = Index.build([Document("a", "a sieve"), Document("b", "grain")], tmp_path / "index")
    index.encode(BiEncoder.open(model), EmbeddingModel("tiny"))
    return index


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were encoded."""
    texts: list[str] = []
    encode = BiEncoder.encode_with_truncation

    def record(self: BiEncoder, batch: Sequence[str]) -> object:
        texts.extend(batch)
        return encode(self, batch)

    monkeypatch.setattr(BiEncoder, "encode_with_truncation", record)
    return texts


def with_documents(model: Path, folder: Path) -> Path:
    """A copy of a model that brings the same model again for documents."""
    shutil.copytree(model, folder)
    shutil.copytree(model, folder / "documents")
    write_model_manifest(folder, replace(read_model_manifest(folder), documents="documents"))
    return folder


def test_an_encoder_is_run_once_to_be_recognised(
    model: Path, index: Index, encoded: list[str]
) -> None:
    rows = probe(BiEncoder.open(model))
    index.dense(BiEncoder.open(model))
    assert encoded == []
    assert np.array_equal(rows, BiEncoder.open(model).encode(PROBES))


def test_a_probe_that_cannot_be_read_is_made_again(
    model: Path, index: Index, tmp_path: Path, encoded: list[str]
) -> None:
    (file,) = (tmp_path / "cache" / "tamis" / "probes").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    index.dense(BiEncoder.open(model))
    index.dense(BiEncoder.open(model))
    assert encoded == [*PROBES]
    (again,) = (tmp_path / "cache" / "tamis" / "probes").iterdir()
    assert len(np.load(again)) == len(PROBES)


def test_where_nothing_can_be_kept_the_encoder_is_run(
    model: Path, index: Index, tmp_path: Path, encoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    index.dense(BiEncoder.open(model))
    assert encoded == [*PROBES]


def test_another_encoder_with_the_same_weights_is_refused(
    model: Path, index: Index, tmp_path: Path
) -> None:
    """By pooling, truncation or tokenizer, in its files or set by hand."""
    manifest = read_model_manifest(model)
    cls, short, spelt = (tmp_path / name for name in ("cls", "short", "spelt"))
    for folder in (cls, short, spelt):
        shutil.copytree(model, folder)
    write_model_manifest(cls, replace(manifest, pooling="cls"))
    write_model_manifest(short, replace(manifest, max_length=6))
    tokenizer = json.loads((spelt / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["grain"], vocabulary["sieve"] = vocabulary["sieve"], vocabulary["grain"]
    (spelt / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    others = [BiEncoder.open(folder) for folder in (cls, short, spelt)]
    others += [BiEncoder.open(model, pooling="cls"), BiEncoder.open(model, max_length=6)]
    others.append(replace(BiEncoder.open(model), pooling="cls"))
    for other in others:
        with pytest.raises(InputError, match="encoded by another encoder"):
            index.dense(other)
    index.dense(BiEncoder.open(model))


def test_what_encodes_documents_is_opened_when_documents_are_encoded(
    model: Path, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_documents(model, tmp_path / "both")
    index.dense(BiEncoder.open(folder))
    opened: list[Path] = []
    open_folder = BiEncoder.open.__func__  # type: ignore[attr-defined]

    def record(cls: type[BiEncoder], /, folder: Path, **settings: object) -> BiEncoder:
        opened.append(Path(folder))
        encoder: BiEncoder = open_folder(cls, folder, **settings)
        return encoder

    monkeypatch.setattr(BiEncoder, "open", classmethod(record))
    encoder = BiEncoder.open(folder)
    index.dense(encoder)
    encoder.encode(["a query"])
    assert opened == [folder]
    assert encoder.documents is encoder.documents
    assert opened == [folder, folder / "documents"]
