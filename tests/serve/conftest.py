"""Small sieves and models to serve, and servers that end by themselves."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.serve.running import END_SECONDS, Running, Start, wait_for_line

import tamis
from tamis.fitting.score_scale import ScoreScale
from tamis.fitting.sieve import Sieve
from tamis.manifest import read_manifest
from tamis.models import import_model
from tamis.pipeline.rerank import rerank
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.types import Document

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from tamis.serve.engine import Engine

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("torch", reason="torch is not installed")
WORDS = "sieve drum net grain flour fish sort".split()


def documents() -> list[Document]:
    pairs = [(one, other) for one in WORDS for other in WORDS if one != other]
    return [
        Document(f"d{n:02}", f"a {one} the {other}. " * (1 + 9 * (n % 7 == 0)), "", {"n": f"{n}"})
        for n, (one, other) in enumerate(pairs)
    ]


@pytest.fixture(scope="session")
def bi_encoder(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Path:
    out = tmp_path_factory.mktemp("serve-base") / "tiny"
    import_model(tiny_cross_encoder, out, kind="bi-encoder", pooling="mean", max_length=24)
    return out


@pytest.fixture(scope="session")
def hybrid_sieve(tmp_path_factory: pytest.TempPathFactory, bi_encoder: Path) -> Path:
    """Without judgements: BM25 and embeddings fused."""
    out = tmp_path_factory.mktemp("hybrid") / "hybrid.sieve"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.fitting.sieve_folder.measure_query_cost", lambda *_: None)
        tamis.fit(documents(), out=out, base=str(bi_encoder), threads=1)
    return out


@pytest.fixture(scope="session")
def reranking_sieve(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Path:
    """BM25, and a cross-encoder that reads the passages of the first 20."""
    out = tmp_path_factory.mktemp("reranking") / "reranking.sieve"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.fitting.sieve_folder.measure_query_cost", lambda *_: None)
        sieve: Sieve = tamis.fit(documents(), out=out, base=None, threads=1)
    import_model(tiny_cross_encoder, out / "model", kind="cross-encoder")
    scorer = CrossEncoder.open(out / "model", threads=1)
    stage = rerank(scorer, sieve.index, passages="words:10", depth=20, model="cross-encoder")
    manifest = dict(read_manifest(out) or {})
    spec = json.loads(json.dumps(stage.spec()).replace(f"{out}/", ""))
    scale = ScoreScale("logistic", (1.0,), (0.0,), (1.0,), -20.0, 0)
    manifest["pipeline"] |= {"stage": spec, "score_scale": vars(scale), "passages": "words:10"}
    manifest.pop("calibration", None)
    (out / "tamis.json").write_text(json.dumps(manifest), "utf-8")
    return out


@pytest.fixture(scope="module")
def engine(tiny_cross_encoder: Path, reranking_sieve: Path) -> Iterator[Engine]:
    """A model `tiny` and a sieve `docs`, with small limits."""
    from tests.serve.applications import open_small

    with closing(open_small(tiny=tiny_cross_encoder, docs=reranking_sieve)) as engine:
        yield engine


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    from tests.serve.applications import client_of

    with client_of(engine) as client:
        yield client


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts `tamis serve` on a free port; it is killed at the end of the block."""

    @contextlib.contextmanager
    def started(*arguments: object) -> Iterator[Running]:
        log = tmp_path_factory.mktemp("served") / "log"
        command = [sys.executable, "-m", "tamis", "serve", *map(str, arguments), "--port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(log.parent)}
        with log.open("w") as stream:
            process = subprocess.Popen(command, stderr=stream, text=True, env=environment)
        try:
            url = wait_for_line(log, r"serving .* at (http://\S+),", process)
            yield Running(process, url, log)
        finally:
            process.kill()
            process.wait(END_SECONDS)

    return started
