"""What goes wrong between a client and a service: it is answered, and so is the next request."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import pytest
from tests.serve.running import Running, Start

RANK = {"query": "drum", "documents": ["a drum", "a net", "fish"]}
HEAD = "POST /v1/rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def service(start: Start, tiny_cross_encoder: Path) -> Iterator[Running]:
    with start(f"tiny={tiny_cross_encoder}", "--threads", 1, "--max-body", "1MB") as running:
        yield running
        lines = running.lines()
        assert running.end() == 0
        assert not [line for line in lines if line["level"] == "error"]


@pytest.fixture
def client(service: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as client:
        yield client
        answer = client.post("/v1/rerank", json=RANK)  # the next request is served
        assert answer.status_code == 200 and len(answer.json()["results"]) == 3


def raw(service: Running, request: bytes, seconds: float = 30.0) -> bytes:
    """What the service answers to some bytes."""
    with socket.create_connection(("127.0.0.1", service.port), seconds) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_a_body_of_100_megabytes(service: Running, client: httpx.Client) -> None:
    huge = b'{"query": "' + b"a" * 100_000_000 + b'"}'
    response = client.post("/v1/rerank", content=huge, headers={"content-type": "application/json"})
    assert response.status_code == 413 and response.json()["hint"]

    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield b"a" * 1_000_000

    response = client.post(  # without saying how long it is
        "/v1/rerank", content=pieces(), headers={"content-type": "application/json"}
    )
    assert response.status_code == 413


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"GET " + b"/a" * 40_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"X-A: b\r\n" * 10_000 + b"\r\n",
        b"POST /rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9e9\r\n\r\n",
        b"POST /rerank HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \xff\xfe\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /%00%ff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /docs/%2e%2e%2fetc HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"TRACE /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        b"Connection: upgrade\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: a\x0bb\r\n\r\n",
        b"POST /rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \xc3\xa9\r\n\r\n",
    ],
)
def test_tricks_with_lines_and_headers(
    request_line: bytes, service: Running, client: httpx.Client
) -> None:
    answer = raw(service, request_line)
    status = answer.split(b" ", 2)[1:2]
    assert not status or not status[0].startswith(b"5"), answer
    assert b"Traceback" not in answer and b"root:" not in answer


def test_a_client_that_goes_while_it_sends(service: Running, client: httpx.Client) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", service.port), 30) as connection:
            connection.sendall(f"{HEAD}Content-Length: 1000\r\n\r\n{{".encode())


def test_a_client_that_goes_before_its_answer(service: Running, client: httpx.Client) -> None:
    body = json.dumps({"query": "drum", "documents": ["a drum sort"] * 1000})
    request = f"{HEAD}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", service.port), 30) as connection:
            connection.sendall(request)
    gone = wait_for_status(service, 499)
    assert gone["error"] == "client_closed_request"


def wait_for_status(service: Running, status: int) -> dict[str, Any]:
    end = monotonic() + 60
    while monotonic() < end:
        found = [line for line in service.lines() if line.get("status") == status]
        if found:
            return found[0]
        sleep(0.1)
    raise AssertionError(f"no request ended with {status}")


def test_many_clients_that_say_nothing(service: Running, client: httpx.Client) -> None:
    idle = [socket.create_connection(("127.0.0.1", service.port), 30) for _ in range(200)]
    assert client.get("/health").status_code == 200
    for connection in idle:
        connection.close()


def test_a_slow_client_is_sent_away(start: Start, tiny_cross_encoder: Path) -> None:
    with start(f"tiny={tiny_cross_encoder}", "--threads", 1, "--body-time", "1s") as service:
        with socket.create_connection(("127.0.0.1", service.port), 30) as connection:
            connection.sendall(f"{HEAD}Content-Length: 1000\r\n\r\n{{".encode())
            assert b" 408 " in connection.recv(65536)
        assert httpx.get(f"{service.url}/health").status_code == 200


def test_a_burst_is_answered_200_or_429(start: Start, tiny_cross_encoder: Path) -> None:
    body = {"query": "drum", "documents": ["a drum sort grain"] * 50}
    with start(f"tiny={tiny_cross_encoder}", "--threads", 1, "--queue", 20) as service:
        offline = httpx.post(f"{service.url}/v1/rerank", json=body, timeout=60).json()["results"]
        with (
            httpx.Client(base_url=service.url, timeout=120) as client,
            ThreadPoolExecutor(60) as pool,
        ):
            asked = [pool.submit(client.post, "/v1/rerank", json=body) for _ in range(300)]
            answers = [each.result() for each in asked]
        statuses = {answer.status_code for answer in answers}
        assert statuses <= {200, 429} and 200 in statuses
        for answer in answers:
            if answer.status_code == 200:
                got = [result["relevance_score"] for result in answer.json()["results"]]
                assert got == pytest.approx([r["relevance_score"] for r in offline], abs=1e-5)
            else:
                assert int(answer.headers["retry-after"]) >= 1
        assert service.end() == 0


def test_sigterm_under_load_loses_nothing_that_was_let_in(
    start: Start, tiny_cross_encoder: Path
) -> None:
    body = {"query": "drum", "documents": ["a drum sort grain"] * 200}
    with start(f"tiny={tiny_cross_encoder}", "--threads", 1) as service:

        def ask(_: int) -> int | None:
            try:
                return httpx.post(f"{service.url}/v1/rerank", json=body, timeout=60).status_code
            except httpx.TransportError:  # not taken any more
                return None

        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask, number) for number in range(200)]
            while sum(each.done() for each in asked) < 20:
                sleep(0.01)
            assert service.end() == 0
            statuses = [each.result() for each in asked]
        answered = [line for line in service.lines() if line.get("path") == "/v1/rerank"]
        assert {line["status"] for line in answered} == {200}
        assert statuses.count(200) == len(answered) >= 20
        assert {*statuses} <= {200, None}


def test_sigterm_cuts_off_no_kept_connection(start: Start, tiny_cross_encoder: Path) -> None:
    with start(f"tiny={tiny_cross_encoder}", "--threads", 1) as service:

        def ask_until_told() -> int:
            connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
            while True:
                connection.request(
                    "POST", "/v1/rerank", json.dumps(RANK), {"content-type": "application/json"}
                )
                response = connection.getresponse()
                assert response.status == 200 and response.read()
                if response.getheader("connection") == "close":
                    return response.status

        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask_until_told) for _ in range(8)]
            wait_for_status(service, 200)
            assert service.end() == 0
            assert [each.result() for each in asked] == [200] * 8


def test_a_model_replaced_and_deleted_while_it_is_served(
    start: Start, tiny_cross_encoder: Path, hybrid_sieve: Path, tmp_path: Path
) -> None:
    model, sieve, keys = tmp_path / "model", tmp_path / "docs.sieve", tmp_path / "keys"
    shutil.copytree(tiny_cross_encoder, model)
    shutil.copytree(hybrid_sieve, sieve)
    keys.write_text("a-key-that-is-long-enough")
    with start(model, sieve, "--api-key-file", keys, "--threads", 1) as service:
        headers = {"authorization": "Bearer a-key-that-is-long-enough"}
        with httpx.Client(base_url=service.url, headers=headers, timeout=60) as client:
            before = client.post("/v1/rerank", json=RANK).json()["results"]
            assert client.get("/ready").status_code == 200
            config = model / "config.json"
            config.write_text(config.read_text() + "\n")
            ready = client.get("/ready")
            assert ready.status_code == 200 and ready.json()["models"]["model"]["changed"]
            assert client.post("/admin/reload").json()["models"] == ["model", "docs"]
            assert not client.get("/ready").json()["models"]["model"]["changed"]
            shutil.rmtree(sieve)
            ready = client.get("/ready")
            assert ready.status_code == 503
            assert "cannot be read" in ready.json()["models"]["docs"]["message"]
            assert client.post("/admin/reload").status_code in (422, 503)
            assert client.post("/v1/rerank", json=RANK).json()["results"] == before
            found = client.post("/api/search", json={"query": "drum net", "model": "docs"})
            assert found.status_code == 200 and found.json()["hits"]
        assert service.end() == 0


def test_sighup_reloads_under_load(start: Start, tiny_cross_encoder: Path) -> None:
    import signal

    with start(f"tiny={tiny_cross_encoder}", "--threads", 1) as service:
        with (
            ThreadPoolExecutor(4) as pool,
            httpx.Client(base_url=service.url, timeout=60) as client,
        ):
            asked = [pool.submit(client.post, "/v1/rerank", json=RANK) for _ in range(100)]
            service.process.send_signal(signal.SIGHUP)
            asked += [pool.submit(client.post, "/v1/rerank", json=RANK) for _ in range(100)]
            assert {each.result().status_code for each in asked} == {200}
            end = monotonic() + 60
            while not any("reloaded" in line["message"] for line in service.lines()):
                assert monotonic() < end
                sleep(0.1)
        assert service.end() == 0
