"""The application in this process: routing, errors, keys, limits, metrics, logs."""

from __future__ import annotations

import gzip
import io
import json
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from tamis.serve.app import create_app
from tamis.serve.auth import Keys
from tamis.serve.dialects import cohere, superset, tamis, tei
from tamis.serve.engine import Engine
from tamis.serve.logs import json_logs
from tamis.serve.metrics import Metrics
from tamis.serve.service import Service
from tamis.serve.settings import Limits, ModelPlace, ServeSettings

KEY, OTHER_KEY = "a-key-that-is-long-enough", "another-key-of-the-team"
RANK = {"query": "drum", "documents": ["a drum", "a net", "fish"]}
TEI = {"query": "drum", "texts": ["a drum", "a net", "fish"]}
SMALL = Limits(documents=5, text_characters=200, body_bytes=2000)


@pytest.fixture(scope="module")
def engine(tiny_cross_encoder: Path, reranking_sieve: Path) -> Iterator[Engine]:
    places = (
        ModelPlace("tiny", str(tiny_cross_encoder)),
        ModelPlace("docs", str(reranking_sieve)),
    )
    metrics = Metrics()
    engine = Engine.open(ServeSettings(places, threads=1, limits=SMALL), metrics)
    yield engine
    engine.close()


@contextmanager
def client_of(engine: Engine, keys: Keys | None = None, **settings: Any) -> Iterator[TestClient]:
    assert isinstance(engine.observer, Metrics)
    service = Service(engine, replace(engine.settings, **settings), keys, engine.observer)
    app = create_app(service)
    yield TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with client_of(engine) as client:
        yield client


def scores(body: Any) -> dict[int, float]:
    return {
        each["index"]: each["score"] if "score" in each else each["relevance_score"]
        for each in (body if isinstance(body, list) else body["results"])
    }


def test_every_shape_has_the_same_scores(client: TestClient) -> None:
    bodies = {
        path: client.post(path, json=body).json()
        for path, body in {
            "/rerank": TEI, "/v1/rerank": RANK, "/v2/rerank": RANK, "/score": {
                "text_1": "drum", "text_2": RANK["documents"]},
        }.items()
    }  # fmt: skip
    [*values] = [scores(body) for body in bodies.values()]
    assert all(value == pytest.approx(values[0]) for value in values) and len(values[0]) == 3
    ours = client.post("/api/rerank", json=RANK).json()
    assert {hit["index"]: hit["score"] for hit in ours["hits"]} == pytest.approx(values[0])


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/rerank", TEI, list[tei.TeiResult]),
        ("/rerank", RANK, superset.SupersetAnswer),
        ("/v1/rerank", TEI, superset.SupersetAnswer),
        ("/v1/rerank", RANK, superset.SupersetAnswer),
        ("/v2/rerank", RANK, cohere.CohereAnswer),
        ("/score", {"queries": "drum", "documents": ["a"]}, superset.ScoreAnswer),
        ("/api/rerank", RANK, tamis.AnswerBody),
        ("/api/search", {"query": "drum", "model": "docs"}, tamis.AnswerBody),
    ],
)
def test_answers_are_of_the_documented_types(
    path: str, body: dict[str, Any], kind: Any, client: TestClient
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    TypeAdapter(kind).validate_python(response.json(), strict=True)
    assert response.headers["x-request-id"]
    assert int(response.headers["x-tamis-depth"]) > 0


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/rerank", superset.SupersetErrorBody),
        ("/v1/rerank", superset.SupersetErrorBody),
        ("/v2/rerank", cohere.CohereErrorBody),
        ("/score", superset.SupersetErrorBody),
        ("/api/rerank", tamis.TamisErrorBody),
        ("/api/search", tamis.TamisErrorBody),
    ],
)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b'{"query": NaN}', 400),
        (b'{"query": "\\ud800", "documents": ["a"]}', 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 413),
        (b"[" * 1500, 400),
        (b"[]", 422),
        (b"3", 422),
        (b'{"query": 1}', 422),
        (b'{"query": "a", "queries": 4, "documents": 3, "top": "x"}', 422),
    ],
)
def test_a_malformed_body_gets_its_paths_default(
    path: str, kind: Any, body: bytes, status: int, client: TestClient
) -> None:
    wish = {"x-request-id": "my-own.id:1", "content-type": "application/json"}
    response = client.post(path, content=body, headers=wish)
    assert response.status_code == status, response.text
    TypeAdapter(kind).validate_python(response.json(), strict=True)
    assert response.headers["x-request-id"] == response.json()["id"] == "my-own.id:1"
    assert "Traceback" not in response.text


def test_an_id_that_could_be_anything_is_not_taken_over(client: TestClient) -> None:
    for wish in ("a b", "x" * 200, "<script>", ""):
        response = client.get("/health", headers={"x-request-id": wish})
        assert len(response.headers["x-request-id"]) == 32


@pytest.mark.parametrize("dialect", ["tei", "cohere", "superset", "tamis"])
def test_a_dialect_may_be_forced(dialect: Any, engine: Engine) -> None:
    with client_of(engine, dialect=dialect) as client:
        body = TEI if dialect == "tei" else RANK
        answers = [client.post(path, json=body).json() for path in ("/rerank", "/v2/rerank")]
        assert scores(answers[0] if dialect != "tamis" else answers[0]["hits"]) == scores(
            answers[1] if dialect != "tamis" else answers[1]["hits"]
        )
        assert isinstance(answers[0], list) == (dialect == "tei")
        broken = client.post("/v2/rerank", json={"query": 3})
        assert ("error_type" in broken.json()) == (dialect == "tei")


def test_a_model_by_name(client: TestClient) -> None:
    answer = client.post("/v1/rerank", json={**RANK, "model": "docs"}).json()
    assert answer["model"] == "docs"
    missing = client.post("/v1/rerank", json={**RANK, "model": "../../etc/passwd"})
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "model_not_found"
    assert "tiny, docs" in missing.json()["message"]


def test_a_search(client: TestClient) -> None:
    body = {"query": "drum net", "model": "docs", "top": 2, "filters": ["n=6"], "explain": True}
    answer = client.post("/api/search", json=body).json()
    [hit] = answer["hits"]
    assert hit["id"] == "d06" and hit["fields"] == {"n": "6"} and hit["explanation"]["id"] == "d06"
    assert [stage["name"] for stage in hit["stages"]] == ["BM25", "cross-encoder"]
    assert answer["depth"] == 1 and answer["reranked"] and answer["verified"] is False
    assert [stage["name"] for stage in answer["timings_ms"]["stages"]] == ["BM25", "cross-encoder"]
    refused = client.post("/api/search", json={**body, "filters": ["nowhere=1"]})
    assert refused.status_code == 422 and refused.json()["error"]["hint"]
    assert client.post("/api/search", json={**body, "top": 21}).status_code == 422


def test_time_for_a_request(client: TestClient) -> None:
    body = {**RANK, "latency_ms": 0.0001}
    answer = client.post("/v1/rerank", json=body).json()
    assert answer["meta"]["depth"] == 0 and not answer["meta"]["reranked"]
    assert answer["meta"]["warnings"] == ["0 of 3 documents were re-ranked in time"]
    response = client.post("/rerank", json=TEI, headers={"x-latency-ms": "0.0001"})
    assert response.headers["x-tamis-depth"] == "0"
    assert response.headers["x-tamis-reranked"] == "false"
    for wrong in ("soon", "-1", "nan", "inf", "1e99"):
        refused = client.post("/rerank", json=TEI, headers={"x-latency-ms": wrong})
        assert refused.status_code == 422, wrong


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": "q", "documents": ["a"] * 6}, 422, "too_many_documents"),
        ({"query": "q", "documents": ["a" * 201]}, 422, "invalid_request"),
        ({"query": "q" * 201, "documents": ["a"]}, 422, "invalid_request"),
        ({"query": "q", "documents": ["a" * 2001]}, 413, "body_too_large"),
        ({"query": "q", "documents": []}, 400, "empty"),
        ({"query": " ", "documents": ["a"]}, 400, "empty"),
    ],
)
def test_limits(body: Any, status: int, code: str, client: TestClient) -> None:
    response = client.post("/v1/rerank", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["hint"]
    assert client.post("/v1/rerank", json=RANK).status_code == 200


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("name", COMPRESS)
def test_compressed_bodies(name: str, client: TestClient) -> None:
    headers = {"content-encoding": name, "content-type": "application/json"}
    body = COMPRESS[name](json.dumps(RANK).encode())
    plain = client.post("/v1/rerank", json=RANK).json()["results"]
    assert client.post("/v1/rerank", content=body, headers=headers).json()["results"] == plain
    bomb = COMPRESS[name](b" " * 1_000_000)
    assert len(bomb) < 2000
    assert client.post("/v1/rerank", content=bomb, headers=headers).status_code == 413
    for broken in (b"no", body[:-6], b""):
        response = client.post("/v1/rerank", content=broken, headers=headers)
        assert response.status_code == 400, response.text
    twice = {**headers, "content-encoding": f"{name}, {name}"}
    assert client.post("/v1/rerank", content=body, headers=twice).status_code == 415


def test_a_body_has_to_be_said_to_be_json(client: TestClient) -> None:
    body = json.dumps(RANK)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = client.post("/v1/rerank", content=body, headers={"content-type": kind})
        assert response.status_code == 415
    good = {"content-type": "application/json; charset=utf-8"}
    assert client.post("/v1/rerank", content=body, headers=good).status_code == 200


def test_keys(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# of the team\n\n{KEY}\n{OTHER_KEY}\n")
    with client_of(engine, Keys.read(file)) as client:
        for headers in (
            {"authorization": f"Bearer {KEY}"},
            {"x-api-key": "another-key-of-the-team"},
        ):
            assert client.post("/v2/rerank", json=RANK, headers=headers).status_code == 200
            assert client.get("/metrics", headers=headers).status_code == 200
        for headers in ({}, {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Basic {KEY}"}):
            response = client.post("/v2/rerank", json=RANK, headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert KEY not in response.text
            assert client.get("/metrics", headers=headers).status_code == 401
        for path in ("/health", "/ready", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200, path


@pytest.mark.parametrize("text", ["", "# nothing\n", "short\n", "a-key-that-is-löng-enough\n"])
def test_a_file_without_good_keys_is_refused(text: str, tmp_path: Path) -> None:
    from tamis.errors import InputError

    file = tmp_path / "keys"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match="key"):
        Keys.read(file)


def test_without_keys_another_name_of_this_machine_is_refused(client: TestClient) -> None:
    response = client.get("/info", headers={"host": "rebound.example:80"})
    assert response.status_code == 403
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080"):
        assert client.get("/info", headers={"host": host}).status_code == 200


def test_cors_is_off_unless_an_origin_is_named(engine: Engine, client: TestClient) -> None:
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options("/rerank", headers=asked).headers
    with client_of(engine, cors_origins=("https://app.example",)) as open_client:
        allowed = open_client.options("/rerank", headers=asked)
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        other = open_client.options("/rerank", headers={**asked, "origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def test_health_ready_info(client: TestClient, engine: Engine) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    ready = client.get("/ready")
    assert ready.status_code == 200 and ready.json()["ready"]
    assert {*ready.json()["models"]} == {"tiny", "docs"}
    info = client.get("/info").json()
    assert [model["kind"] for model in info["models"]] == ["model", "sieve"]
    assert info["max_client_batch_size"] == 5 and info["model_id"] == "tiny"
    assert info["models"][1]["documents"] == 42
    assert str(engine.served("docs").folder) not in json.dumps(info)


def test_a_reload_needs_a_key(client: TestClient, engine: Engine) -> None:
    assert client.post("/admin/reload").status_code == 403
    with client_of(engine, Keys.of([KEY])) as guarded:
        assert guarded.post("/admin/reload").status_code == 401
        done = guarded.post("/admin/reload", headers={"authorization": f"Bearer {KEY}"})
        assert done.json()["models"] == ["tiny", "docs"]
        assert guarded.post("/v1/rerank", json=RANK, headers={"x-api-key": KEY}).status_code == 200


def values_of(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_metrics(client: TestClient) -> None:
    before = values_of(client.get("/metrics").text)
    client.post("/rerank", json=TEI)
    client.post("/score", json={"text_1": "a", "text_2": "b"})
    client.post("/api/search", json={"query": "drum", "model": "docs"})
    client.post("/rerank", json={"query": 3, "texts": []})
    client.post("/v1/rerank", json={"query": "q", "documents": ["a"] * 6})
    after = values_of(client.get("/metrics").text)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown['tamis_request_count_total{method="rerank"}'] == 3
    assert grown['tamis_request_success_total{method="rerank"}'] == 1
    assert grown['tamis_request_success_total{method="score"}'] == 1
    assert grown['tamis_request_success_total{method="search"}'] == 1
    assert grown['tamis_request_failure_total{err="validation"}'] == 1
    assert grown['tamis_request_failure_total{err="batch_size"}'] == 1
    assert grown['tamis_batch_next_size_count{model="tiny"}'] == 2
    assert grown['tamis_predict_count_total{model="tiny"}'] == 4
    assert grown["tamis_request_queue_duration_count"] == 3
    assert grown['tamis_request_stage_duration_count{model="docs",stage="BM25"}'] == 1
    assert after['tamis_queue_size{model="tiny"}'] == 0


def test_a_queue_that_is_full_says_when_to_come_back(
    engine: Engine, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = engine.served("tiny").admission
    monkeypatch.setattr(admission, "requests", admission.max_requests)
    for path, body in {"/rerank": TEI, "/v1/rerank": RANK, "/v2/rerank": RANK}.items():
        response = client.post(path, json=body)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        assert int(response.headers["retry-after-ms"]) >= 1
    assert response.json()["message"]


def test_a_log_line_has_the_id_and_no_text(engine: Engine, client: TestClient) -> None:
    stream = io.StringIO()
    with json_logs(stream):
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            body = {"query": "confidential", "documents": ["confidential"], "top_n": 1}
            client.post(path, json=body)
            client.post(path, json={"query": "confidential", "documents": [["confidential"]]})
        client.post(
            "/api/search", json={"query": "confidential", "model": "docs", "filters": "x=y"}
        )
        answered = client.post("/rerank", json=TEI)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert "confidential" not in stream.getvalue()
    last = lines[-1]
    assert last["id"] == answered.headers["x-request-id"] and last["status"] == 200
    assert last["model"] == "tiny" and last["documents"] == 3 and last["tokens"] > 0
    assert len(lines) == 8 and logging.getLogger("tamis").propagate


def test_a_failure_nobody_foresaw_shows_nothing(
    engine: Engine, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: object) -> None:
        raise KeyError("confidential")

    monkeypatch.setattr(engine, "submit", fail)
    stream = io.StringIO()
    with json_logs(stream):
        response = client.post("/v1/rerank", json=RANK)
    assert response.status_code == 500 and "confidential" not in response.text
    assert response.json()["message"] == "the service failed; see its log"
    assert "confidential" not in stream.getvalue() and "KeyError" in stream.getvalue()


def test_paths_and_methods_that_are_not_there(client: TestClient) -> None:
    for path in ("/", "/nowhere", "/v2/../admin", "/%2e%2e/etc/passwd", "//rerank", "/rerank/x"):
        assert client.get(path).status_code == 404, path
    assert client.get("/rerank").status_code == 405
    assert client.get("/rerank").headers["allow"] == "POST"


def test_the_description_names_every_path(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert {*described["paths"]} == {
        "/api/search", "/api/rerank", "/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score",
        "/admin/reload", "/health", "/ready", "/info", "/metrics",
    }  # fmt: skip
    assert client.get("/docs").status_code == 200
