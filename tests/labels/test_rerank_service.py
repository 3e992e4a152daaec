"""A service that scores, played by a small server: what is sent, what is understood, what fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.labels.rerank_service import RerankService
from tamis.testing import check_scorer
from tamis.types import Pairs, score_texts

Answer = tuple[int, dict[str, str], bytes]


def lengths(request: dict[str, Any]) -> Answer:
    """Texts scored by their length, the longest first, as services sort them."""
    scored = [
        {"index": n, "relevance_score": len(text) / 1000}
        for n, text in enumerate(request["documents"])
    ]
    scored.sort(key=lambda one: -one["relevance_score"])
    return 200, {}, json.dumps({"results": scored, "id": "x", "meta": {}}).encode()


@dataclass
class Service:
    """A service on this machine, and what it was asked."""

    answer: Callable[[dict[str, Any]], Answer] = lengths
    before: list[Answer] = field(default_factory=list)
    """What it answers first."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    paused: list[float] = field(default_factory=list)

    def scorer(self, **more: Any) -> RerankService:
        return RerankService(self.url, "strong", pause=self.paused.append, timeout=10, **more)


@pytest.fixture
def service() -> Iterator[Service]:
    told = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            told.asked.append(json.loads(raw))
            told.headers.append(dict(self.headers))
            code, headers, body = told.before.pop(0) if told.before else told.answer(told.asked[-1])
            if not code:  # breaks off without an answer
                return
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}/v2/rerank"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_sent_and_what_comes_back(service: Service) -> None:
    index = np.array([[1, 2], [0, 0], [1, 0], [0, 1]], np.int32)
    scores = service.scorer().score(Pairs(["drum", "net"], ["a", "bbbb", "cc"], index))
    assert scores.values.tolist() == pytest.approx([0.002, 0.001, 0.001, 0.004])
    assert scores.truncated_tokens.tolist() == [0] * 4
    assert service.asked == [
        {"model": "strong", "query": "drum", "documents": ["a", "bbbb"], "top_n": 2},
        {"model": "strong", "query": "net", "documents": ["cc", "a"], "top_n": 2},
    ]
    assert "Authorization" not in service.headers[0]


def test_the_contract_of_scorers(service: Service) -> None:
    check_scorer(service.scorer(threads=3, documents=2))
    assert max(len(request["documents"]) for request in service.asked) == 2


def test_the_key_goes_along_and_is_never_shown(service: Service) -> None:
    scorer = service.scorer(key="s3cret")
    score_texts(scorer, "drum", ["a"])
    assert service.headers[0]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(scorer) + scorer.identity
    service.before.append((400, {}, b'{"message": "bad key s3cret"}'))
    with pytest.raises(InputError) as error:
        score_texts(scorer, "drum", ["a"])
    assert "s3cret" not in str(error.value) + error.value.hint
    assert "bad key …" in str(error.value)


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_no_redirection_is_followed(service: Service, code: int) -> None:
    service.before = [(code, {"Location": "http://elsewhere/"}, b"")]
    with pytest.raises(InputError, match=f"answers {code}") as error:
        score_texts(service.scorer(key="s3cret"), "drum", ["a"])
    assert "http://elsewhere/" in error.value.hint
    assert len(service.asked) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504, 0])
def test_a_busy_service_is_asked_again(service: Service, code: int) -> None:
    service.before = [(code, {}, b"busy")] * 3
    assert score_texts(service.scorer(), "drum", ["abc"]).tolist() == pytest.approx([0.003])
    assert service.paused == [1, 2, 4]


def test_a_service_says_how_long_to_wait(service: Service) -> None:
    waits = ["7", "Wed, 21 Oct 2015 07:28:00 GMT", "3600"]
    service.before = [(429, {"Retry-After": wait}, b"") for wait in waits]
    score_texts(service.scorer(), "drum", ["abc"])
    assert service.paused == [7, 2, 60]


def test_patience_ends(service: Service) -> None:
    service.answer = lambda _: (503, {}, b"overloaded\nfor now")
    with pytest.raises(InputError, match="answers 503: overloaded for now, after 3 tries") as error:
        score_texts(service.scorer(tries=3), "drum", ["abc"])
    assert "goes on" in error.value.hint
    assert len(service.asked) == 3
    assert service.paused == [1, 2]


@pytest.mark.parametrize(
    ("code", "hint"),
    [(401, "key"), (403, "key"), (404, "/v2/rerank"), (422, "model"), (418, "see")],
)
def test_what_is_no_use_repeating(service: Service, code: int, hint: str) -> None:
    service.answer = lambda _: (code, {}, b"no")
    with pytest.raises(InputError, match=f"answers {code}: no") as error:
        score_texts(service.scorer(), "drum", ["abc"])
    assert hint in error.value.hint
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>", "something else"),
        (b'{"scores": [1, 2]}', "something else"),
        (b'{"results": [{"index": 0, "relevance_score": 1}]}', "of 1 documents to a request of 2"),
        (
            b'{"results": [{"index": 0, "relevance_score": 1},'
            b' {"index": 2, "relevance_score": 1}]}',
            "of 2 documents to a request of 2",
        ),
        (
            b'{"results": [{"index": 0, "relevance_score": NaN},'
            b' {"index": 1, "relevance_score": 1}]}',
            "no number",
        ),
        (
            b'{"results": [{"index": 0, "relevance_score": "1"},'
            b' {"index": 1, "relevance_score": 1}]}',
            "no number",
        ),
    ],
)
def test_answers_that_are_not_understood(service: Service, body: bytes, problem: str) -> None:
    service.answer = lambda _: (200, {}, body)
    with pytest.raises(InputError, match=problem):
        score_texts(service.scorer(), "drum", ["a", "b"])


def test_a_service_that_is_not_there(service: Service) -> None:
    with pytest.raises(InputError, match="nothing answers") as error:
        score_texts(RerankService("http://127.0.0.1:1/v2/rerank", ""), "drum", ["a"])
    assert error.value.hint == "is the service running?"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "http://", "model"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InputError, match="no address"):
        RerankService(url, "")


def test_an_address_with_a_password_is_refused_unshown() -> None:
    with pytest.raises(InputError) as error:
        RerankService("https://me:s3cret@host/v2/rerank", "")
    assert "s3cret" not in str(error.value) + error.value.hint
