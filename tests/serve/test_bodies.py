"""The body of a request: how much of it is held, and looked at, at a time."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

import pytest
import zstandard
from pydantic import BaseModel, ValidationError
from starlette.testclient import TestClient
from tests.serve.applications import RANK, client_of

from tamis.serve import bodies, service
from tamis.serve.bodies import BodyBudget, as_object, check_counts, decompress, read_json
from tamis.serve.dialects.cohere import CohereRequest
from tamis.serve.dialects.superset import ScoreBody, SupersetRequest
from tamis.serve.dialects.tamis import RerankBody, SearchBody
from tamis.serve.dialects.tei import TeiRequest
from tamis.serve.engine import Engine
from tamis.serve.errors import (
    InvalidError,
    MalformedError,
    OverloadedError,
    SlowClientError,
    TooLargeError,
    TooManyTextsError,
)
from tamis.serve.settings import Limits

JSON = {"content-type": "application/json"}
MANY = 2_500_000


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/v1/rerank", "documents"),
        ("/v1/rerank", "passages"),
        ("/v1/rerank", "rank_fields"),
        ("/v2/rerank", "documents"),
        ("/rerank", "texts"),
        ("/score", "queries"),
        ("/score", "text_2"),
        ("/api/rerank", "documents"),
        ("/api/search", "filters"),
    ],
)
def test_millions_of_values_are_refused_by_their_number(
    path: str, key: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_at(*_: object) -> None:
        raise AssertionError("every value was looked at")

    monkeypatch.setattr(BaseModel, "model_validate", looked_at)
    others = {"documents"} if key == "texts" else {key}
    small = {name: values for name, values in RANK.items() if name not in others}
    body = json.dumps(small)[:-1] + f', "{key}": [{"1," * (MANY - 1)}1]}}'
    packed = gzip.compress(body.encode(), 1)
    with client_of(engine, limits=Limits()) as client:
        for content, encoding in ((body.encode(), "identity"), (packed, "gzip")):
            headers = {**JSON, "content-encoding": encoding}
            response = client.post(path, content=content, headers=headers)
            assert response.status_code == 422, response.text
            assert f"{MANY} {key}, 1000 at most" in response.text
            assert ("error_type" in response.json()) == (key == "texts")  # the shape of TEI


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (SupersetRequest, "documents"),
        (SupersetRequest, "rank_fields"),
        (CohereRequest, "documents"),
        (TeiRequest, "texts"),
        (ScoreBody, "queries"),
        (ScoreBody, "documents"),
        (RerankBody, "documents"),
        (SearchBody, "filters"),
    ],
)
def test_the_first_value_that_is_wrong_ends_the_look_at_them(
    kind: type[BaseModel], key: str
) -> None:
    def errors(count: int) -> int:
        body = {"query": "q", "documents": ["a"], "texts": ["a"], "queries": ["a"]}
        with pytest.raises(ValidationError) as refused:
            kind.model_validate({**body, key: [1] * count})
        return refused.value.error_count()

    assert errors(100) == errors(1)


def test_how_many_values_a_body_has() -> None:
    check_counts({"query": "q", "documents": ["a"] * 3, "n": {"documents": ["a"] * 9}}, 3)
    for body in ({"documents": ["a"] * 4}, {"inputs": {"sentences": ["a"] * 4}}):
        with pytest.raises(TooManyTextsError, match=r"4 .*, 3 at most"):
            check_counts(body, 3)
    keys = {str(number): number for number in range(bodies.MAX_KEYS + 1)}
    for wide in (keys, {"documents": [keys]}, {"inputs": keys}):
        with pytest.raises(InvalidError, match="1001 keys"):
            check_counts(wide, 3)


def test_how_many_values_json_may_become(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_MARKS", 4)
    assert as_object(b'{"a": [1, 2, 3]}') == {"a": [1, 2, 3]}
    for body in (b'{"a": [1, 2, 3, 4]}', b'{"a": [[[[]]]]}', b'{"a": {"b": {"c": {"d": {}}}}}'):
        with pytest.raises(InvalidError, match="more than 4 commas and brackets"):
            as_object(body)


class Client:
    """Sends pieces of a body, each once it is let go; the last one when `end` is called."""

    def __init__(self, *pieces: bytes) -> None:
        self.messages = asyncio.Queue[dict[str, Any]]()
        for piece in pieces:
            self.send(piece)

    def send(self, piece: bytes, more: bool = True) -> None:
        self.messages.put_nowait({"type": "http.request", "body": piece, "more_body": more})


def test_slow_clients_share_a_budget() -> None:
    budget, limits = BodyBudget(100), Limits(body_bytes=80, body_seconds=60)

    async def read(client: Client) -> Any:
        return await read_json(client.messages.get, JSON, limits, budget)

    async def main() -> None:
        slow = [Client(b'{"a":' + b" " * 45), Client(b'{"a":' + b" " * 40)]
        reading = [asyncio.ensure_future(read(client)) for client in slow]
        for _ in range(100):
            await asyncio.sleep(0)
        assert budget.held == 95
        other = Client()
        other.send(b'{"a": 1}', more=False)
        with pytest.raises(OverloadedError, match="95 bytes are held, 100 at most") as refused:
            await read(other)
        assert refused.value.retry_after == 1
        slow[0].send(b"1}", more=False)
        assert await reading[0] == {"a": 1} and budget.held == 45
        other.send(b'{"a": 1}', more=False)
        assert await read(other) == {"a": 1}
        slow[1].messages.put_nowait({"type": "http.disconnect"})
        with pytest.raises(Exception, match="client has gone"):
            await reading[1]
        assert budget.held == 0

    asyncio.run(main())


@pytest.mark.parametrize("most", [5, 100])
def test_nothing_is_waited_for_after_the_last_piece(most: int) -> None:
    messages = iter([{"type": "http.request", "body": b"[1, 2, 3]", "more_body": False}])

    async def receive() -> Any:
        return next(messages)  # a second one would be an error

    budget = BodyBudget(100)
    budget.held = 95
    expected = TooLargeError if most == 5 else OverloadedError
    with pytest.raises(expected):
        asyncio.run(read_json(receive, JSON, Limits(body_bytes=most), budget))


@pytest.mark.parametrize("piece", [b"no JSON", b'{"a":[' + b"1," * 60])
def test_what_was_held_is_let_go_whatever_happens(piece: bytes) -> None:
    budget = BodyBudget(1000)

    async def main() -> None:
        client = Client()
        client.send(piece, more=False)
        limits = Limits(body_bytes=100)
        with pytest.raises((MalformedError, TooLargeError)):
            await read_json(client.messages.get, JSON, limits, budget)
        slow = Client(b"{")
        with pytest.raises(SlowClientError):
            await read_json(slow.messages.get, JSON, Limits(body_seconds=0.01), budget)

    asyncio.run(main())
    assert budget.held == 0


def test_a_body_over_the_budget_is_answered_429(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Taken(BodyBudget):
        def __init__(self, most: int) -> None:
            super().__init__(most)
            self.held = most

    monkeypatch.setattr(service, "BodyBudget", Taken)
    with client_of(engine) as client:
        response = client.post("/v1/rerank", json=RANK)
    assert response.status_code == 429 and response.headers["retry-after"] == "1"
    assert response.json()["error"]["code"] == "overloaded"


def test_compressed_in_several_parts() -> None:
    two = gzip.compress(b'{"a":') + gzip.compress(b"1}")
    assert decompress(two, "gzip", 100) == b'{"a":1}'
    pack = zstandard.ZstdCompressor().compress
    assert decompress(pack(b'{"a":') + pack(b"1}"), "zstd", 100) == b'{"a":1}'
    for junk in (two + b"junk", two + two[:10]):
        with pytest.raises(MalformedError):
            decompress(junk, "gzip", 100)
    with pytest.raises(MalformedError):
        decompress(zlib.compress(b"{}") + b"junk", "deflate", 100)
    with pytest.raises(MalformedError):
        decompress(gzip.compress(b"") * (bodies.MAX_MEMBERS + 1), "gzip", 100)


def test_the_hint_about_numbers_stands_where_there_are_such(client: TestClient) -> None:
    for body, hint in ((b'{"a": NaN}', "NaN"), (b'{"a": -Infinity}', "NaN"), (b"{", "query")):
        response = client.post("/v1/rerank", content=body, headers=JSON)
        assert response.status_code == 400 and hint in response.json()["hint"]
    assert "NaN" not in response.json()["hint"]
