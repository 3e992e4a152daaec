"""What a load notices of a worker that is killed, of an end, of a reload, of a sieve that changes.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.service_faults [PART …] --work FOLDER

Sixteen clients ask on and on, each on one connection, for ten seconds or more. An answer that did
not come is looked up in the log of the service: one that the service has taken is lost, another
was never taken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path

import orjson

import tamis
from benchmarks.service_load import (
    LOST,
    REFUSED,
    Client,
    Reply,
    Server,
    Setting,
    bodies_of,
    closed_loop,
    tamis_serving,
)
from tamis.types import Document

CLIENTS, SECONDS = 16, 10.0
Act = Callable[[Server], Awaitable[None]]


def killed(setting: Setting) -> None:
    """kill -9 of one of two workers."""
    with setting.serving("--workers", 2) as server:

        async def act(server: Server) -> None:
            old = answering(server)
            os.kill(min(old), signal.SIGKILL)
            start = time.monotonic()
            while not {*answering(server)} - {*old}:
                await asyncio.sleep(0.1)
            print(f"another worker answers after {time.monotonic() - start:.1f} s")

        replies = under_load(setting, server, act, SECONDS, keep=False)
        report("kill -9 of one of two workers", server, replies)
        print(f"answers of each process: {[*answering(server).values()]}")
        lost = sum(reply.status == LOST for reply in replies)
        assert lost <= CLIENTS and {reply.status for reply in replies} <= {LOST, 200}


def answering(server: Server) -> Counter[int]:
    """How many requests each process has answered."""
    return Counter(line["process"] for line in server.logged() if line.get("path") == "/rerank")


def terminated(setting: Setting, count: int = 1) -> None:
    """SIGTERM under load."""
    with setting.serving("--workers", count) as server:

        async def act(server: Server) -> None:
            server.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(server.process.wait, 60)

        replies = under_load(setting, server, act, SECONDS)
        assert server.process.returncode == 0
        assert not report(f"SIGTERM, workers: {count}", server, replies)


def reloaded(setting: Setting, count: int = 1) -> None:
    """SIGHUP under load."""
    with setting.serving("--workers", count) as server:

        async def act(server: Server) -> None:
            server.process.send_signal(signal.SIGHUP)
            while not server.said('"reloaded'):
                await asyncio.sleep(0.1)

        replies = under_load(setting, server, act, SECONDS)
        report(f"SIGHUP, workers: {count}", server, replies)
        assert {reply.status for reply in replies} == {200}


def replaced(setting: Setting) -> None:
    """A sieve is replaced on disk, taken up by SIGHUP, and then deleted."""
    place, other = (made_sieve(setting, name) for name in ("old", "new"))
    body = orjson.dumps({"query": "what is a drum sieve for", "top": 3})
    with tamis_serving(setting.work, f"docs={place}", "--threads", 1) as server:

        async def act(server: Server) -> None:
            shutil.rmtree(place)
            other.rename(place)
            print(f"replaced: {await ready(server)}")
            await asyncio.sleep(2)
            server.process.send_signal(signal.SIGHUP)
            while not server.said('"reloaded'):
                await asyncio.sleep(0.1)
            print(f"reloaded: {await ready(server)}")
            await asyncio.sleep(2)
            shutil.rmtree(place)
            print(f"deleted: {await ready(server)}")

        replies = under_load(setting, server, act, SECONDS, "/api/search", [body])
        report("sieve replaced and deleted", server, replies)
        assert {reply.status for reply in replies} == {200}
        titles = [reply.json()["hits"][0]["title"] for reply in replies]
        changes = sum(one != other for one, other in pairwise(titles))
        print(f"first hits: {Counter(titles)}, {changes} changes in the order of the questions")
        assert {*titles} == {"old", "new"}


def made_sieve(setting: Setting, name: str) -> Path:
    """A small sieve whose documents say which one it is."""
    place = setting.work / f"{name}.sieve"
    shutil.rmtree(place, ignore_errors=True)
    texts = [text for request in setting.take(40) for text in request.texts]
    documents = [Document(f"d{number:05}", text, name) for number, text in enumerate(texts)]
    tamis.fit([*documents, Document("sieve", "a drum sieve", name)], out=place, base=None)
    return place


async def ready(server: Server) -> str:
    """What /ready says."""
    reply = await Client(server.port).send("GET", "/ready")
    return f"/ready {reply.status} {reply.json()['models']['docs']}"


def under_load(
    setting: Setting,
    server: Server,
    act: Act,
    seconds: float,
    path: str = "/rerank",
    bodies: Sequence[bytes] = (),
    keep: bool = True,
) -> list[Reply]:
    """The replies while something happens after a quarter of the time."""
    asked = list(bodies) or bodies_of(setting.take(200))
    end = time.monotonic() + seconds
    is_over = False

    async def acting() -> None:
        nonlocal is_over
        await asyncio.sleep(seconds / 4)
        await act(server)
        await asyncio.sleep(max(1.0, end - time.monotonic()))
        is_over = True

    async def both() -> list[Reply]:
        def until() -> bool:
            return is_over or server.process.poll() is not None

        many = asked * (200_000 // len(asked))
        load = closed_loop(server.port, path, many, CLIENTS, until, keep)
        replies, _ = await asyncio.gather(load, acting())
        return replies

    return asyncio.run(both())


def report(title: str, server: Server, replies: Sequence[Reply]) -> int:
    """Print what came of the requests; how many that were taken are lost."""
    counts = Counter(reply.status for reply in replies)
    logged = {line["id"] for line in server.logged() if line.get("path")}
    unanswered = [reply for reply in replies if reply.status == LOST]
    lost = sum(reply.id in logged for reply in unanswered)
    longest = max(reply.seconds for reply in replies)
    others = {code: count for code, count in counts.items() if code not in (LOST, REFUSED, 200)}
    print(
        f"{title}: {counts[200]} answered, at most {longest:.2f} s; taken and lost {lost}, "
        f"closed before the log knew of it {len(unanswered) - lost}, refused {counts[REFUSED]}, "
        f"others {others}",
        flush=True,
    )
    return lost


PARTS: dict[str, Callable[[Setting], None]] = {
    "killed": killed,
    "terminated": terminated,
    "terminated-2": lambda setting: terminated(setting, 2),
    "reloaded": reloaded,
    "reloaded-2": lambda setting: reloaded(setting, 2),
    "replaced": replaced,
}


def main() -> None:
    """The parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    data, models = Path(os.environ["TAMIS_DATA"]), Path(os.environ["TAMIS_MODELS"])
    setting = Setting(data, options.work, models / "ce", 5, 20, 1, 1, 1, 1, 512)
    for name in options.parts or PARTS:
        print(f"-- {name}", flush=True)
        PARTS[name](setting)


if __name__ == "__main__":
    main()
