"""A service in a process of its own, and clients that load it over loopback.

Clients are plain sockets of asyncio in one thread: a request costs them about a tenth of a
millisecond, so that what is measured is the service. Processor time of both is reported.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import orjson

from tamis.types import Pairs

START_SECONDS, END_SECONDS, ANSWER_SECONDS = 180.0, 90.0, 600.0
LOST, REFUSED = 0, -1
"""In place of a status: no answer came; there was no connection, so nothing was sent."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A process that serves; its log is a file."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def end(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_SECONDS)

    def processor_seconds(self) -> float:
        """What the process has used, all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self, process: int | None = None) -> float:
        """Megabytes in memory."""
        text = Path(f"/proc/{process or self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]

    def logged(self) -> list[dict[str, Any]]:
        """The lines of JSON in its log."""
        lines = self.log.read_bytes().splitlines()
        return [orjson.loads(line) for line in lines if line.startswith(b"{")]

    def said(self, words: str) -> bool:
        """Whether such words are in its log."""
        return words in self.log.read_text("utf-8")

    def batches(self) -> tuple[float, float]:
        """How many batches there were, and how many pairs in them."""
        name = "tamis_batch_next_size"
        return self.counter(f"{name}_count"), self.counter(f"{name}_sum")

    def counter(self, name: str) -> float:
        """A metric, over all labels."""
        text = asyncio.run(Client(self.port).send("GET", "/metrics")).body.decode()
        values = re.findall(rf"^{name}(?:\{{\S*)? (\S+)$", text, re.MULTILINE)
        return sum(map(float, values))


Serving = AbstractContextManager[Server]


@contextmanager
def serving(
    work: Path, *arguments: object, core: int | None = None, module: str = "tamis"
) -> Iterator[Server]:
    """A module that prints the URL it serves at, until the end of the block."""
    log = work / f"{module.rpartition('.')[2]}-{time.time_ns()}.log"
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    command = [*pinned, sys.executable, "-m", module, *map(str, arguments)]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        yield Server(process, _wait_for_port(process, log), log)
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tamis_serving(work: Path, *arguments: object, core: int | None = None) -> Serving:
    """`tamis serve` on a free port."""
    return serving(work, "serve", *arguments, "--port", 0, core=core)


def _wait_for_port(process: subprocess.Popen[bytes], log: Path) -> int:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"at http://127\.0\.0\.1:(\d+)", log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise SystemExit(f"the service did not start: {log.read_text()[-2000:]}")


@dataclass(frozen=True)
class Reply:
    """What came of a request."""

    status: int
    body: bytes
    seconds: float
    id: str
    """Which stands in the log of the service."""
    headers: bytes = b""

    def json(self) -> Any:
        """The body."""
        return orjson.loads(self.body)


class Client:
    """One connection, kept open as long as the service keeps it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, path: str, body: bytes = b"") -> Reply:
        """One request and its answer."""
        start, name = time.perf_counter(), uuid4().hex
        if self._streams is None:
            try:
                self._streams = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                return Reply(REFUSED, b"", time.perf_counter() - start, name)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status, headers, answer = await self._exchange(method, path, body, name)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            self.close()
            return Reply(LOST, b"", time.perf_counter() - start, name)
        if b"connection: close" in headers:
            self.close()
        return Reply(status, answer, time.perf_counter() - start, name, headers)

    async def _exchange(
        self, method: str, path: str, body: bytes, name: str
    ) -> tuple[int, bytes, bytes]:
        assert self._streams is not None
        reader, writer = self._streams
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nX-Request-Id: {name}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(headers.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(headers.split(b" ", 2)[1]), headers, await reader.readexactly(length)

    def close(self) -> None:
        """Let go of the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def closed_loop(
    port: int,
    path: str,
    bodies: Sequence[bytes],
    concurrency: int,
    until: Callable[[], bool] = lambda: False,
    keep: bool = True,
) -> list[Reply]:
    """All bodies by so many clients, each of which asks again once it is answered.

    Unless connections are kept every request opens its own.
    """
    numbers, replies = iter(range(len(bodies))), dict[int, Reply]()

    async def ask_on() -> None:
        client = Client(port)
        for number in numbers:
            if until():
                break
            replies[number] = await client.send("POST", path, bodies[number])
            if not keep:
                client.close()
        client.close()

    await asyncio.gather(*(ask_on() for _ in range(concurrency)))
    return [replies[number] for number in sorted(replies)]


async def open_loop(
    port: int, path: str, bodies: Sequence[bytes], rate: float, clients: int = 32
) -> list[Reply]:
    """All bodies, so many a second whatever the service does; their seconds count from when due."""
    idle = asyncio.Queue[Client]()
    for _ in range(clients):
        idle.put_nowait(Client(port))
    start = time.perf_counter()

    async def ask(number: int) -> Reply:
        due = start + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        client = await idle.get()
        reply = await client.send("POST", path, bodies[number])
        idle.put_nowait(client)
        return replace(reply, seconds=time.perf_counter() - due)

    replies = await asyncio.gather(*(ask(number) for number in range(len(bodies))))
    while not idle.empty():
        idle.get_nowait().close()
    return replies


@dataclass(frozen=True)
class Load:
    """What a service did under some load."""

    replies: Sequence[Reply]
    seconds: float
    client_processor_seconds: float
    server_processor_seconds: float

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.replies) / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds within which such a share of the requests was answered."""
        times = [reply.seconds for reply in self.replies]
        return float(np.percentile(times, share, method="higher")) * 1000

    def __str__(self) -> str:
        """For people.

        >>> str(Load([Reply(200, b"", 0.1, "a")], 1.0, 0.01, 1.5))
        '1 answered, 1.00 a second, p50 100 p95 100 p99 100 ms; processor: server 150%, client 1%'
        """
        times = " ".join(f"p{share} {self.percentile(share):.3g}" for share in (50, 95, 99))
        server, client = (
            f"{100 * value / self.seconds:.0f}%"
            for value in (self.server_processor_seconds, self.client_processor_seconds)
        )
        return (
            f"{len(self.replies)} answered, {self.rate:.2f} a second, {times} ms; "
            f"processor: server {server}, client {client}"
        )


def measured(server: Server, coroutine: Any) -> Load:
    """The replies that a coroutine gives, timed."""
    used, start, own = server.processor_seconds(), time.perf_counter(), time.process_time()
    replies = asyncio.run(coroutine)
    seconds, own = time.perf_counter() - start, time.process_time() - own
    return Load(replies, seconds, own, server.processor_seconds() - used)


@dataclass(frozen=True)
class Request:
    """A query with passages."""

    query: str
    texts: Sequence[str]

    def body(self) -> bytes:
        """In the shape of TEI, with the model's own scores."""
        return orjson.dumps({"query": self.query, "texts": self.texts, "raw_scores": True})


@dataclass(frozen=True)
class Setting:
    """What the parts are told."""

    data: Path
    work: Path
    model: Path
    documents: int
    words: int
    threads: int
    rounds: int
    minutes: float
    rate: float
    queue: int

    def requests(self, words: int | None = None, seed: int = 0) -> Iterator[Request]:
        """Requests without end, the same for the same seed."""
        folder = self.data / "trec-dl19"
        with (folder / "queries.jsonl").open("rb") as file:
            queries = [orjson.loads(line)["text"] for line in file]
        with (folder / "corpus.jsonl").open("rb") as file:
            words_of_all = " ".join(orjson.loads(line)["text"] for line in file).split()
        draw, size = random.Random(seed), words or self.words
        starts = range(len(words_of_all) - size)
        for query in itertools.cycle(queries):
            drawn = draw.sample(starts, self.documents)
            yield Request(query, [" ".join(words_of_all[at : at + size]) for at in drawn])

    def take(self, count: int, words: int | None = None, seed: int = 0) -> list[Request]:
        """The first of them."""
        return list(itertools.islice(self.requests(words, seed), count))

    def serving(self, *arguments: object) -> Serving:
        """The service with the model."""
        return tamis_serving(self.work, f"ce={self.model}", "--threads", self.threads, *arguments)


def pairs_of(requests: Sequence[Request]) -> Pairs:
    """All their pairs."""
    texts = [text for request in requests for text in request.texts]
    query = np.repeat(np.arange(len(requests)), [len(request.texts) for request in requests])
    index = np.stack([query, np.arange(len(texts))], 1).astype(np.int32)
    return Pairs([request.query for request in requests], texts, index)


def bodies_of(requests: Sequence[Request]) -> list[bytes]:
    """As they are sent."""
    return [request.body() for request in requests]
