"""Connections whose requests never begin or never get to their body."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest
import uvicorn

from tamis.serve import server
from tamis.serve.server import TimedProtocol, listen

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
SECONDS = 1.0


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def served() -> Iterator[int]:
    listener = listen("127.0.0.1", 0)
    running = uvicorn.Server(
        uvicorn.Config(answer, http=TimedProtocol, lifespan="off", log_config=None)
    )
    thread = Thread(target=running.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join()


def seconds_until_closed(connection: socket.socket, piece: bytes) -> float:
    """Send a byte now and then, until the other side has had enough."""
    start = monotonic()
    connection.settimeout(0.1)
    while monotonic() < start + 10 * SECONDS:
        try:
            connection.sendall(piece)
            if not connection.recv(4096):
                return monotonic() - start
        except TimeoutError:
            continue
        except OSError:
            return monotonic() - start
    raise AssertionError("it was never closed")


@pytest.mark.parametrize("requests_before", [0, 1, 3])
def test_a_trickle_of_headers_is_ended(
    requests_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FIRST_REQUEST_SECONDS", SECONDS)
    with served() as port, socket.create_connection(("127.0.0.1", port), 30) as connection:
        for _ in range(requests_before):
            connection.sendall(REQUEST)
            assert b" 200 " in connection.recv(4096)
        assert seconds_until_closed(connection, b"G") < 5 * SECONDS


def test_a_connection_between_requests_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FIRST_REQUEST_SECONDS", SECONDS)
    with served() as port, socket.create_connection(("127.0.0.1", port), 30) as connection:
        for _ in range(2):
            connection.sendall(REQUEST)
            assert b" 200 " in connection.recv(4096)
            sleep(1.5 * SECONDS)
