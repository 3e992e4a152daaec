"""The clients that people have, against a running service."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serve.running import Running, Start

import tamis
from tamis.labels.rerank_service import RerankService
from tamis.types import Pairs

cohere = pytest.importorskip("cohere", reason="cohere is not installed")
KEY = "a-key-that-is-long-enough"
DOCUMENTS = ["a drum sort grain", "fish net", "the flour sieve", "drum drum"]


@pytest.fixture(scope="module")
def service(
    start: Start,
    tiny_cross_encoder: Path,
    hybrid_sieve: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{KEY}\n")
    models = (f"tiny={tiny_cross_encoder}", f"docs={hybrid_sieve}")
    with start(*models, "--api-key-file", keys, "--threads", 1) as running:
        yield running
        assert running.end() == 0
        assert KEY not in running.log.read_text()


@pytest.fixture(scope="module")
def offline(tiny_cross_encoder: Path) -> Any:
    return tamis.load_model(tiny_cross_encoder, threads=1).rank("drum grain", DOCUMENTS)


@pytest.fixture
def connection() -> Iterator[httpx.Client]:
    """What the client of Cohere would leave open."""
    with httpx.Client(timeout=60) as connection:
        yield connection


def probabilities(offline: Any) -> list[float]:
    return [1 / (1 + np.exp(-ranked.score)) for ranked in offline]


def test_the_client_of_cohere_v2(service: Running, connection: httpx.Client, offline: Any) -> None:
    client = cohere.ClientV2(api_key=KEY, base_url=service.url, httpx_client=connection)
    answer = client.rerank(model="tiny", query="drum grain", documents=DOCUMENTS, top_n=3)
    assert [result.index for result in answer.results] == [each.index for each in offline[:3]]
    assert [result.relevance_score for result in answer.results] == pytest.approx(
        probabilities(offline)[:3], abs=1e-5
    )
    assert answer.id and answer.meta.api_version.version == "2"
    assert answer.meta.tokens.input_tokens > 0
    limited = client.rerank(
        model="tiny", query="drum", documents=DOCUMENTS, max_tokens_per_doc=1, priority=1
    )
    assert len(limited.results) == 4


def test_the_client_of_cohere_v1(service: Running, connection: httpx.Client, offline: Any) -> None:
    client = cohere.Client(api_key=KEY, base_url=service.url, httpx_client=connection)
    documents = [{"text": text, "id": f"d{n}"} for n, text in enumerate(DOCUMENTS)]
    answer = client.rerank(
        model="tiny", query="drum grain", documents=documents, return_documents=True
    )
    assert [result.index for result in answer.results] == [each.index for each in offline]
    assert [result.document.text for result in answer.results] == [each.text for each in offline]
    plain = client.rerank(model="tiny", query="drum grain", documents=DOCUMENTS)
    assert all(result.document is None for result in plain.results)
    fields = client.rerank(
        model="tiny", query="drum grain", rank_fields=["body"],
        documents=[{"text": "", "body": text} for text in DOCUMENTS],
    )  # fmt: skip
    assert [result.index for result in fields.results] == [each.index for each in offline]


def test_the_client_of_cohere_understands_errors(
    service: Running, connection: httpx.Client
) -> None:
    client = cohere.ClientV2(api_key=KEY, base_url=service.url, httpx_client=connection)
    with pytest.raises(cohere.errors.NotFoundError) as missing:
        client.rerank(model="rerank-v3.5", query="q", documents=["a"])
    assert "there is tiny, docs" in str(missing.value.body)
    with pytest.raises(cohere.errors.BadRequestError):
        client.rerank(model="tiny", query="q", documents=[])
    with pytest.raises(cohere.errors.UnprocessableEntityError):
        client.rerank(model="tiny", query="q", documents=["a"] * 1001)
    stranger = cohere.ClientV2(api_key="wrong", base_url=service.url, httpx_client=connection)
    with pytest.raises(cohere.errors.UnauthorizedError):
        stranger.rerank(model="tiny", query="q", documents=["a"])


def test_the_client_of_cohere_asks_a_sieve(
    service: Running, connection: httpx.Client, hybrid_sieve: Path
) -> None:
    client = cohere.ClientV2(api_key=KEY, base_url=service.url, httpx_client=connection)
    answer = client.rerank(model="docs", query="drum grain", documents=DOCUMENTS)
    ranked = tamis.load_sieve(hybrid_sieve).rerank("drum grain", DOCUMENTS)
    assert {result.index for result in answer.results} == {each.index for each in ranked}
    scores = [result.relevance_score for result in answer.results]
    assert scores == sorted(scores, reverse=True) and 0 <= scores[-1] <= scores[0] <= 1
    body = {"query": "drum grain", "documents": DOCUMENTS, "model": "docs"}
    headers = {"authorization": f"Bearer {KEY}"}
    ours = connection.post(f"{service.url}/api/rerank", json=body, headers=headers).json()["hits"]
    assert [hit["index"] for hit in ours] == [each.index for each in ranked]
    assert {result.index: result.relevance_score for result in answer.results} == {
        hit["index"]: pytest.approx(hit["score"], abs=1e-6) for hit in ours
    }


class TeiError(Exception):
    """An error as the documentation of text-embeddings-inference has it."""


@dataclass
class TeiClient:
    """A client of text-embeddings-inference, from its documentation: `POST /rerank` with query and
    texts, an array of rank objects back; errors have `error` and `error_type`.
    """

    url: str
    key: str

    def _ask(self, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response), dict(response.headers)
        except urllib.error.HTTPError as error:
            raise TeiError(error.code, json.load(error)["error_type"]) from None

    def rerank(self, query: str, texts: list[str], **options: bool) -> list[tuple[int, float]]:
        ranks, _ = self._ask("/rerank", {"query": query, "texts": texts, **options})
        for rank in ranks:
            expected = texts[rank["index"]] if options.get("return_text") else None
            assert rank.get("text") == expected and {*rank} <= {"index", "score", "text"}
        return [(rank["index"], rank["score"]) for rank in ranks]

    def info(self) -> Any:
        return self._ask("/info")[0]


def test_a_client_of_tei(service: Running, offline: Any) -> None:
    client = TeiClient(service.url, KEY)
    ranks = client.rerank("drum grain", DOCUMENTS, return_text=True)
    assert [index for index, _ in ranks] == [each.index for each in offline]
    assert [score for _, score in ranks] == pytest.approx(probabilities(offline), abs=1e-5)
    raw = client.rerank("drum grain", DOCUMENTS, raw_scores=True)
    assert [score for _, score in raw] == pytest.approx([each.score for each in offline], abs=1e-5)
    assert client.info()["max_client_batch_size"] == 1000
    long = ["drum " * 50]
    assert len(client.rerank("net", long)) == 1
    for texts, options, expected in (
        (long, {"truncate": False}, (422, "Tokenizer")),
        ([], {}, (400, "Empty")),
        (["a"] * 1001, {}, (422, "Validation")),
        ([3], {}, (422, "Validation")),
    ):
        with pytest.raises(TeiError) as refused:
            client.rerank("net", texts, **options)  # type: ignore[arg-type]
        assert refused.value.args == expected


def test_our_own_teacher_asks_it(service: Running, offline: Any) -> None:
    teacher = RerankService(f"{service.url}/v2/rerank", "tiny", key=KEY)
    pairs = Pairs(["drum grain"], DOCUMENTS, np.array([[0, n] for n in range(4)], np.int32))
    expected = dict(zip([each.index for each in offline], probabilities(offline), strict=True))
    assert teacher.score(pairs).values == pytest.approx([expected[n] for n in range(4)], abs=1e-5)
