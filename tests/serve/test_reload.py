"""What is replaced or deleted on disk while it is served."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.serve.applications import TEXTS, scores_by_index, settings

from tamis.errors import TamisError
from tamis.serve.engine import Engine, rank_texts
from tamis.serve.requests import SearchRequest
from tamis.serve.served import Health


def test_a_reload_under_load_loses_nothing(tiny_cross_encoder: Path, hybrid_sieve: Path) -> None:
    engine = Engine.open(settings(tiny_cross_encoder, hybrid_sieve))
    expected = scores_by_index(rank_texts(engine, "drum", TEXTS))
    stop = threading.Event()

    def ask() -> int:
        count = 0
        while not stop.is_set() or count < 3:
            got = scores_by_index(rank_texts(engine, "drum", TEXTS))
            assert got == pytest.approx(expected, abs=1e-5)
            assert engine.answer(SearchRequest("drum", "hybrid")).items
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        before = [engine.served(name) for name in engine.names]
        assert engine.reload() == ["tiny", "hybrid"]
        stop.set()
        assert all(each.result(120) >= 3 for each in asking)
    assert not {*before} & {engine.served(name) for name in engine.names}
    engine.close()


def test_a_reload_that_fails_leaves_what_was(tiny_cross_encoder: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(tiny_cross_encoder, copy)
    engine = Engine.open(settings(copy))
    assert engine.health()["copy"].readable and not engine.health()["copy"].changed
    (copy / "config.json").rename(copy / "elsewhere")
    assert not engine.health()["copy"].readable
    with pytest.raises(TamisError):
        engine.reload()
    assert rank_texts(engine, "drum", TEXTS).depth == len(TEXTS)
    (copy / "elsewhere").rename(copy / "config.json")
    engine.reload()
    assert engine.health()["copy"].readable
    engine.close()


def test_a_sieve_that_is_deleted_is_not_ready(hybrid_sieve: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy.sieve"
    shutil.copytree(hybrid_sieve, copy)
    engine = Engine.open(settings(copy))
    assert engine.health()["copy"].readable
    shutil.rmtree(copy)
    assert not engine.health()["copy"].readable
    assert engine.answer(SearchRequest("drum")).items  # what is open stays open
    engine.close()


def test_a_sieve_whose_model_is_deleted_is_not_ready(reranking_sieve: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sieve"
    shutil.copytree(reranking_sieve, copy)
    with closing(Engine.open(settings(copy))) as engine:
        assert engine.health()["copy"] == Health(True, False)
        weights = copy / "model" / "model.safetensors"
        weights.touch()
        assert engine.health()["copy"].changed and engine.health()["copy"].readable
        weights.unlink()
        health = engine.health()["copy"]
        assert not health.readable and "lacks model/model.safetensors" in health.message
        assert engine.answer(SearchRequest("drum net")).reranked
