"""A folder that a killed writer left under its other name is found by whoever opens it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.cli.app import run
from tamis.collection.detection import detect_format
from tamis.collection.readers import open_collection
from tamis.collection.writers import write_collection
from tamis.models import import_model, open_scorer
from tamis.models.base_models import find_base
from tamis.scorers.word_vectors import WordVectors, read_vectors
from tamis.search import Index
from tamis.types import Document

DOCUMENTS = [Document("d1", "a sieve"), Document("d2", "a drum")]


def make_index(path: Path) -> None:
    Index.build(DOCUMENTS, path)


def make_store(path: Path) -> None:
    source = path.with_name("docs.jsonl")
    source.write_text('{"id": "d1", "text": "a sieve"}\n')
    write_collection(open_collection(source), path, "collection")


def make_vectors(path: Path) -> None:
    WordVectors.of(["sieve"], np.ones((1, 2), np.float32)).save(path)


@pytest.mark.parametrize(
    ("make", "open_it"),
    [
        (make_index, Index.open),
        (make_index, detect_format),
        (make_index, lambda path: run(["search", str(path), "sieve"]) == 0 or 1 / 0),
        (make_index, lambda path: run(["info", str(path), "--verify"]) == 0 or 1 / 0),
        (make_store, open_collection),
        (make_store, lambda path: run(["info", str(path)]) == 0 or 1 / 0),
        (make_vectors, read_vectors),
    ],
)
def test_an_index_a_collection_or_vectors(
    tmp_path: Path, make: Callable[[Path], None], open_it: Callable[[Path], Any]
) -> None:
    path = tmp_path / "folder"
    make(path)
    path.rename(tmp_path / ".folder.old")
    open_it(path)
    assert path.is_dir()
    assert not (tmp_path / ".folder.old").exists()


@pytest.mark.parametrize("open_it", [open_scorer, find_base])
def test_a_model(tmp_path: Path, tiny_cross_encoder: Path, open_it: Callable[[Path], Any]) -> None:
    path = tmp_path / "model"
    import_model(tiny_cross_encoder, path)
    path.rename(tmp_path / ".model.old")
    open_it(path)
    assert path.is_dir()
