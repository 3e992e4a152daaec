"""Embeddings over HTTP: as offline, in the batches of all, in the shapes of TEI and OpenAI."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient
from tests.serve.applications import TEXTS, client_of, open_small

import tamis
from tamis.models import import_model
from tamis.serve.dialects.embeddings import OpenAiAnswer
from tamis.serve.embedding import MixedScorer, TextToEncode, encode_all
from tamis.serve.engine import Engine, rank_texts
from tamis.serve.errors import InferenceError, TooManyTextsError, TruncationError
from tamis.serve.requests import EmbedRequest, SearchRequest

SOME = TEXTS[:3]


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Path:
    out = tmp_path_factory.mktemp("prompted") / "prompted"
    import_model(
        tiny_cross_encoder, out, kind="bi-encoder", pooling="mean", max_length=24,
        query_prompt="drum ", document_prompt="fish ",
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def engine(
    bi_encoder: Path, prompted: Path, tiny_cross_encoder: Path, hybrid_sieve: Path
) -> Iterator[Engine]:
    places = {"bi": bi_encoder, "prompted": prompted}
    with closing(open_small(**places, cross=tiny_cross_encoder, docs=hybrid_sieve)) as engine:
        yield engine


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with client_of(engine) as client:
        yield client


def offline(path: Path, texts: list[str], **options: Any) -> Any:
    return tamis.load_model(path, threads=1).encode(texts, **options)


def test_embed_is_a_bare_array(client: TestClient, bi_encoder: Path) -> None:
    expected = offline(bi_encoder, SOME)
    response = client.post("/embed", json={"inputs": SOME, "normalize": True, "truncate": None})
    assert response.status_code == 200, response.text
    TypeAdapter(list[list[float]]).validate_python(response.json(), strict=True)
    assert np.array(response.json()) == pytest.approx(expected, abs=1e-5)
    assert int(response.headers["x-compute-tokens"]) > 3
    one = client.post("/embed", json={"inputs": SOME[0]})
    assert np.array(one.json()) == pytest.approx(expected[:1], abs=1e-5)


def test_a_prompt_by_name(client: TestClient, prompted: Path) -> None:
    for name, are_queries in (("query", True), ("document", False), ("passage", False)):
        body = {"inputs": SOME, "model": "prompted", "prompt_name": name}
        expected = offline(prompted, SOME, are_queries=are_queries)
        assert np.array(client.post("/embed", json=body).json()) == pytest.approx(
            expected, abs=1e-5
        )
    del body["prompt_name"]
    assert np.array(client.post("/embed", json=body).json()) == pytest.approx(expected, abs=1e-5)
    refused = client.post("/embed", json={**body, "prompt_name": "clustering"})
    assert refused.status_code == 422 and "prompt" in refused.json()["error"]


def test_similarity_is_a_bare_array_of_cosines(client: TestClient, bi_encoder: Path) -> None:
    rows = offline(bi_encoder, SOME)
    inputs = {"source_sentence": SOME[0], "sentences": SOME}
    response = client.post("/similarity", json={"inputs": inputs, "parameters": {"truncate": True}})
    assert response.json() == pytest.approx([float(row @ rows[0]) for row in rows], abs=1e-5)
    assert response.json()[0] == pytest.approx(1)
    for wrong in ({"inputs": SOME}, {"inputs": {"source_sentence": "a", "sentences": "b"}}):
        refused = client.post("/similarity", json=wrong)
        assert refused.status_code == 422 and refused.json()["error_type"] == "Validation"


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_the_shape_of_openai(encoding: str | None, client: TestClient, bi_encoder: Path) -> None:
    expected = offline(bi_encoder, SOME)
    body = {"input": SOME, "model": "bi", "encoding_format": encoding, "user": "me"}
    answer = client.post("/v1/embeddings", json=body).json()
    TypeAdapter(OpenAiAnswer).validate_python(answer, strict=True)
    assert [datum["index"] for datum in answer["data"]] == [0, 1, 2]
    rows = [datum["embedding"] for datum in answer["data"]]
    if encoding == "base64":
        rows = [np.frombuffer(base64.b64decode(row), "<f4").tolist() for row in rows]
    assert np.array(rows) == pytest.approx(expected, abs=1e-5)
    assert (answer["model"], answer["object"]) == ("bi", "list")
    tokens = offline_tokens(bi_encoder)
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


def offline_tokens(path: Path) -> int:
    scorer: Any = tamis.load_model(path, threads=1).scorer
    return int(scorer.tokenize_texts(SOME).lengths.sum())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"inputs": "a"}),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
        ("/v1/embeddings", {"input": "a"}),
    ],
)
def test_a_model_without_embeddings(path: str, body: dict[str, Any], client: TestClient) -> None:
    for name in ("cross", "docs"):
        refused = client.post(path, json={**body, "model": name})
        if path == "/v1/embeddings":
            assert refused.status_code == 422
            assert refused.json()["error"]["code"] == "model_type"
        else:
            assert refused.status_code == 424
            assert refused.json()["error_type"] == "Backend" and name in refused.json()["error"]
    assert client.post(path, json={**body, "model": "nowhere"}).status_code == 404


def test_what_is_refused(client: TestClient) -> None:
    long = "drum " * 40
    for path, body, status in (
        ("/embed", {"inputs": []}, 400),
        ("/embed", {"inputs": ["a"] * 6}, 422),
        ("/embed", {"inputs": "a" * 201}, 422),
        ("/embed", {"inputs": [[1, 2]]}, 422),
        ("/embed", {"inputs": "a", "normalize": False}, 422),
        ("/embed", {"inputs": "a", "dimensions": 3}, 422),
        ("/embed", {"inputs": "a", "truncation_direction": "left"}, 422),
        ("/embed", {"inputs": long, "truncate": False}, 422),
        ("/embed", {}, 422),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": []}}, 400),
        ("/v1/embeddings", {"input": []}, 400),
        ("/v1/embeddings", {"input": [1, 2]}, 422),
        ("/v1/embeddings", {"input": "a", "dimensions": 3}, 422),
        ("/v1/embeddings", {"input": "a", "encoding_format": "int8"}, 422),
    ):
        response = client.post(path, json=body)
        assert response.status_code == status, (path, body, response.text)
    cut = client.post("/embed", json={"inputs": long})
    assert cut.status_code == 200 and int(cut.headers["x-tamis-truncated-tokens"]) > 0
    dimensions = len(cut.json()[0])
    body = {"input": "a", "dimensions": dimensions}
    assert client.post("/v1/embeddings", json=body).status_code == 200


def test_embeddings_are_counted(client: TestClient) -> None:
    def value(name: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    names = (
        'tamis_request_success_total{method="embed"}', 'tamis_predict_count_total{model="bi"}',
        'tamis_request_success_total{method="similarity"}', 'tamis_request_failure_total{err="mod',
        'tamis_request_count_total{method="embed"}', "tamis_request_input_length_count",
    )  # fmt: skip
    before = [value(name) for name in names]
    client.post("/embed", json={"inputs": SOME})
    client.post("/v1/embeddings", json={"input": "a"})
    client.post("/similarity", json={"inputs": {"source_sentence": "a", "sentences": ["b"]}})
    client.post("/embed", json={"inputs": "a", "model": "cross"})
    assert [value(name) - old for name, old in zip(names, before, strict=True)] == [
        2, 3 + 1 + 2, 1, 1, 3, 3,
    ]  # fmt: skip


def test_texts_and_pairs_share_batches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = engine.embed(EmbedRequest(tuple(SOME))).embeddings
    ranked = rank_texts(engine, "drum", SOME)
    batcher, go, entered = engine.served("bi").batchers[0], threading.Event(), threading.Event()
    score, batches = batcher.scorer.score_tokenized, list[int]()

    def held(items: Any) -> Any:
        batches.append(len(items))
        entered.set()
        assert go.wait(60)
        return score(items)

    assert isinstance(batcher.scorer, MixedScorer)
    monkeypatch.setattr(batcher.scorer, "score_tokenized", held)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(rank_texts, engine, "drum", SOME)
        assert entered.wait(60)
        others = [pool.submit(engine.embed, EmbedRequest(tuple(SOME))) for _ in range(2)]
        last = pool.submit(rank_texts, engine, "drum", SOME)
        for _ in range(2000):
            if len(batcher._queue) >= 4:
                break
            threading.Event().wait(0.01)
        go.set()
        for each in others:
            assert each.result(60).embeddings == pytest.approx(alone, abs=1e-6)
        for answer in (first.result(60), last.result(60)):
            assert [item.raw_score for item in answer.items] == pytest.approx(
                [item.raw_score for item in ranked.items], abs=1e-6
            )
    assert batches == [3, 9]


def test_the_engine_refuses_what_http_does(engine: Engine) -> None:
    with pytest.raises(TooManyTextsError, match="6 texts, 5 at most"):
        engine.embed(EmbedRequest(("a",) * 6))
    with pytest.raises(TruncationError, match=r"text 1 has \d+ tokens too many: there is room"):
        engine.embed(EmbedRequest(("a", "drum " * 40), truncate=False))


def test_an_embedding_that_is_no_number(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder: Any = engine.served("bi").batchers[0].scorer
    rows = np.full((1, encoder.scorer.dimensions), np.nan, np.float32)
    monkeypatch.setattr(type(encoder.scorer), "encode_tokenized", lambda *_: rows)
    with pytest.raises(InferenceError, match="not finite"):
        engine.embed(EmbedRequest(("a",)))


def test_queries_of_searches_go_through_the_batches(engine: Engine) -> None:
    batches = list[int]()
    batcher = engine.served("docs").batchers[0]
    score = batcher.scorer.score_tokenized

    def counted(items: Any) -> Any:
        batches.append(len(items))
        return score(items)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batcher.scorer, "score_tokenized", counted)
        answer = engine.answer(SearchRequest("drum net", "docs"))
    assert batches == [1] and answer.tokens > 2 and answer.times.inference > 0
    sieve = tamis.load_sieve(str(engine.served("docs").folder), threads=1)
    assert [item.id for item in answer.items] == [hit.id for hit in sieve.search("drum net", 10)]


class Constant:
    """Gives every text the same embedding."""

    dimensions = 1

    def __init__(self, value: float) -> None:
        self.value = value

    def tokenize_texts(self, texts: Any) -> Any:
        raise NotImplementedError

    def encode_tokenized(self, encoded: Any) -> Any:
        return np.full((len(encoded), 1), self.value, np.float32)


def test_each_text_of_a_batch_goes_to_its_own_encoder() -> None:
    query, document = Constant(1), Constant(2)
    texts = [TextToEncode(encoder, None) for encoder in (query, document, query)]
    encode_all(texts)
    assert [None if text.embedding is None else text.embedding[0] for text in texts] == [1, 2, 1]
