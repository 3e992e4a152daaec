"""The application in this process: routing, errors, keys, limits, metrics, logs."""

from __future__ import annotations

import gzip
import io
import json
import logging
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import zstandard
from pydantic import TypeAdapter
from starlette.testclient import TestClient
from tests.serve.applications import RANK, TEI, client_of, open_small

from tamis.serve.dialects import cohere, superset, tamis, tei
from tamis.serve.engine import Engine
from tamis.serve.logs import json_logs


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


def test_a_model_by_name_in_the_shape_of_tei(client: TestClient) -> None:
    stream = io.StringIO()
    with json_logs(stream):
        for name in ("tiny", "docs"):
            assert client.post("/rerank", json={**TEI, "model": name}).status_code == 200
    lines = map(json.loads, stream.getvalue().splitlines())
    assert [line["model"] for line in lines] == ["tiny", "docs"]
    missing = client.post("/rerank", json={**TEI, "model": "nowhere"})
    assert missing.status_code == 404 and missing.json()["error_type"] == "Validation"


def test_ids_and_fields_come_back_as_they_came(client: TestClient) -> None:
    fields = {"lang": "en", "n": 3, "tags": ["a", {"b": None}]}
    documents = [{"id": 7, "text": "a drum", "title": "T", **fields}, "a net"]
    for model in ("tiny", "docs"):
        body = {"query": "drum", "documents": documents, "model": model}
        hits = client.post("/api/rerank", json=body).json()["hits"]
        found = {hit["index"]: (hit["id"], hit["title"], hit["fields"]) for hit in hits}
        assert found == {0: (7, "T", fields), 1: ("1", "", {})}


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/api/rerank"])
def test_a_document_nested_too_deep_to_be_returned(path: str, client: TestClient) -> None:
    nested = "[" * 300 + "]" * 300
    body = (
        f'{{"query": "q", "documents": [{{"text": "a", "n": {nested}}}], "return_documents": %s}}'
    )
    headers = {"content-type": "application/json"}
    response = client.post(path, content=body % "true", headers=headers)
    assert response.status_code == 422 and "nested" in response.text
    if path != "/api/rerank":
        answer = client.post(path, content=body % "false", headers=headers)
        assert answer.status_code == 200


def test_only_a_time_limit_is_called_too_little_time(client: TestClient) -> None:
    body = {"query": "drum", "documents": ["a drum", "", "  "], "model": "docs"}
    answer = client.post("/v1/rerank", json=body).json()
    assert answer["meta"]["depth"] == 1 and "warnings" not in answer["meta"]
    words = {"query": "drum net grain fish", "model": "docs", "top": 1}
    found = client.post("/api/search", json=words).json()
    assert found["depth"] == 20 < found["candidates"]
    assert not [warning for warning in found["warnings"] if "in time" in warning]
    late = client.post("/v1/rerank", json={**RANK, "latency_ms": 0, "model": "docs"}).json()
    assert late["meta"]["warnings"] == ["0 of 3 documents were re-ranked in time"]


def test_an_explanation_is_one_of_this_search(client: TestClient) -> None:
    body = {"query": "drum net", "model": "docs", "explain": True, "filters": ["n>=30"]}
    hits = client.post("/api/search", json=body).json()["hits"]
    assert len(hits) > 1
    assert [hit["explanation"]["rank"] for hit in hits] == [hit["rank"] for hit in hits]
    late = client.post("/api/search", json={**body, "latency_ms": 0}).json()
    assert {hit["explanation"] for hit in late["hits"]} == {None}
    assert f"0 of {len(hits)} hits were explained in time" in late["warnings"]
    for wish in ("explain", "filters"):
        refused = client.post("/api/rerank", json={**RANK, wish: body[wish]})
        assert refused.status_code == 422 and refused.json()["error"]["param"] == wish


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


def test_health_ready_info(client: TestClient, engine: Engine) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.head("/health").status_code == client.head("/ready").status_code == 200
    ready = client.get("/ready")
    assert ready.status_code == 200 and ready.json()["ready"]
    assert {*ready.json()["models"]} == {"tiny", "docs"}
    info = client.get("/info").json()
    assert [model["kind"] for model in info["models"]] == ["model", "sieve"]
    assert info["max_client_batch_size"] == 5 and info["model_id"] == "tiny"
    assert info["models"][1]["documents"] == 42
    assert str(engine.served("docs").folder) not in json.dumps(info)


@pytest.mark.parametrize(("name", "length"), [("reranking_sieve", 24), ("hybrid_sieve", 24)])
def test_how_long_an_input_may_be_where_a_sieve_is_first(
    name: str, length: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = request.getfixturevalue(name)
    with closing(open_small(docs=place)) as engine, client_of(engine) as client:
        info = client.get("/info").json()
        assert info["max_input_length"] == info["models"][0]["max_length"] == length
        monkeypatch.setattr(type(engine.served("docs")), "_max_lengths", lambda _: [])
        assert client.get("/info").json()["max_input_length"] == 200 // 4  # of BM25 alone


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
    client.get("/rerank")
    client.get("/nowhere")
    after = values_of(client.get("/metrics").text)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown['tamis_request_count_total{method="rerank"}'] == 4
    assert grown['tamis_request_failure_total{err="not_found"}'] == 2
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
    monkeypatch.setattr(admission, "max_requests", 1)
    monkeypatch.setattr(admission, "pace", 20.0)
    with admission.admit(130):
        for path, body in {"/rerank": TEI, "/v1/rerank": RANK, "/v2/rerank": RANK}.items():
            response = client.post(path, json=body)
            assert response.status_code == 429
            assert response.headers["retry-after"] == "7"  # 130 / 20 = 6.5 s
            assert response.headers["retry-after-ms"] == "6500"
        assert response.json()["message"].endswith("come back in 7 s")
        admission.progress(100)
        monkeypatch.setattr(admission, "pace", 20.0)
        response = client.post("/v1/rerank", json=RANK)
        assert response.headers["retry-after-ms"] == "1500"  # 30 / 20
    assert client.post("/v1/rerank", json=RANK).status_code == 200


def test_a_log_line_has_the_id_and_no_text(engine: Engine, client: TestClient) -> None:
    stream = io.StringIO()
    asked: dict[str, list[dict[str, Any]]] = {
        path: [
            {"query": "confidential", "documents": ["confidential"], "return_documents": True},
            {"query": "confidential", "documents": [["confidential"]]},
        ]
        for path in ("/rerank", "/v1/rerank", "/v2/rerank", "/score", "/api/rerank")
    }
    asked["/api/search"] = [
        {"query": "drum confidential", "model": "docs", "explain": True},
        {"query": "confidential", "model": "docs", "filters": "x=y"},
    ]
    with json_logs(stream):
        for path, (good, bad) in asked.items():
            answer = client.post(path, json=good)
            assert answer.status_code == 200, answer.text
            assert "confidential" in answer.text or path == "/score"
            assert client.post(path, json=bad).status_code == 422
        answered = client.post("/rerank", json=TEI)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert "confidential" not in stream.getvalue()
    last = lines[-1]
    assert last["id"] == answered.headers["x-request-id"] and last["status"] == 200
    assert last["model"] == "tiny" and last["documents"] == 3 and last["tokens"] > 0
    assert len(lines) == 13 and logging.getLogger("tamis").propagate


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
    for path in ("/", "/nowhere", "/v2/../admin", "/%2e%2e/etc/passwd", "//rerank", "/rerank/"):
        assert client.get(path).status_code == 404, path
    assert client.get("/rerank").status_code == 405
    assert client.get("/rerank").headers["allow"] == "POST"


def test_the_description_names_every_path(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert {*described["paths"]} == {
        "/api/search", "/api/rerank", "/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score",
        "/embed", "/similarity", "/v1/embeddings", "/admin/reload", "/health", "/ready", "/info",
        "/metrics",
    }  # fmt: skip
    assert client.get("/docs").status_code == 200
