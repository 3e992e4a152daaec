"""A service in the process of the test, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tamis.serve.app import create_app
from tamis.serve.auth import Keys
from tamis.serve.engine import Engine
from tamis.serve.metrics import Metrics
from tamis.serve.service import Service
from tamis.serve.settings import Limits, ModelPlace, ServeSettings

KEY, OTHER_KEY = "a-key-that-is-long-enough", "another-key-of-the-team"
RANK = {"query": "drum", "documents": ["a drum", "a net", "fish"]}
TEI = {"query": "drum", "texts": ["a drum", "a net", "fish"]}
SMALL = Limits(documents=5, text_characters=200, body_bytes=2000)


TEXTS = [
    f"a {one} sort the {other}" for one in ("drum", "net", "fish") for other in ("grain", "flour")
]


def settings(*places: Path, **limits: int) -> ServeSettings:
    models = tuple(ModelPlace(place.stem, str(place)) for place in places)
    return ServeSettings(models, limits=replace(Limits(), **limits), threads=1)


def open_small(**paths: Path) -> Engine:
    """What is in these places under these names, with small limits."""
    places = tuple(ModelPlace(name, str(path)) for name, path in paths.items())
    return Engine.open(ServeSettings(places, threads=1, limits=SMALL), Metrics())


@contextmanager
def client_of(engine: Engine, keys: Keys | None = None, **settings: Any) -> Iterator[TestClient]:
    assert isinstance(engine.observer, Metrics)
    service = Service(engine, replace(engine.settings, **settings), keys, engine.observer)
    app = create_app(service)
    yield TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def scores_by_index(answer: Any, raw: bool = True) -> list[float]:
    items = sorted(answer.items, key=lambda item: item.index)
    return [item.raw_score if raw else item.score for item in items]
