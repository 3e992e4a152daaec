"""The service under load, over loopback.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.service PART --work FOLDER

Parts: `burst` (a thousand requests at once, compared with offline scores), `throughput` (one
worker beside the scorer alone), `peer` (beside sentence-transformers behind FastAPI), `lengths`
(requests a second by length of the passages), `search` (no model), `soak` (memory), and those of
`benchmarks.service_faults`. A request is a query of trec-dl19 with stretches of so many words of
its collection, drawn at random. The model is the folder `ce` of TAMIS_MODELS, a cross-encoder of
MiniLM-L6 shape.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

import tamis
from benchmarks.first_stage import passages, read_queries, write_passages
from benchmarks.service_load import (
    Client,
    Load,
    Request,
    Server,
    Setting,
    bodies_of,
    closed_loop,
    measured,
    open_loop,
    pairs_of,
    serving,
    tamis_serving,
)
from tamis.pages.charts import Line, Point, line_panel
from tamis.pages.svg import WIDE, stacked_file
from tamis.types import Document

LEVELS = (1, 2, 4, 8, 16, 32, 64)
"""How many clients ask at once."""
SHOWN_LEVELS = (1, 8, 64)
SHARES = (50, 95, 99)
BURST = 1000
TOLERANCE = 1e-5
LENGTHS = (10, 20, 50, 100, 200)
TOKENS = "tamis_request_input_length_sum"
MEMORY_OF = ("ce", "minilm", "mpnet")
PASSAGES, SEARCH_SECONDS = 200_000, 20


def burst(setting: Setting) -> None:
    """A thousand requests at once: all are answered 200 or 429, as offline."""
    requests = setting.take(BURST)
    with setting.serving("--queue", setting.queue) as server:
        load = measured(server, closed_loop(server.port, "/rerank", bodies_of(requests), BURST))
        print(
            f"a queue of {setting.queue}, {setting.documents} passages of {setting.words} words: "
            f"{load}"
        )
        again = asyncio.run(Client(server.port).send("POST", "/rerank", requests[0].body()))
    statuses = Counter(reply.status for reply in load.replies)
    print(f"statuses {dict(statuses)}, the next request {again.status}")
    refused = [reply for reply in load.replies if reply.status == 429]
    without = sum(b"retry-after: " not in reply.headers for reply in refused)
    print(f"429 without Retry-After: {without}")
    assert {*statuses} <= {200, 429} and again.status == 200 and not without
    compare(setting, requests, load)


def compare(setting: Setting, requests: Sequence[Request], load: Load) -> None:
    """Scores and orders beside those of the model alone."""
    answered = [number for number, reply in enumerate(load.replies) if reply.status == 200]
    scorer = tamis.load_model(setting.model, threads=setting.threads).scorer
    offline = scorer.score(pairs_of([requests[number] for number in answered])).values
    worst, swaps, unexplained = 0.0, 0, 0
    for place, number in enumerate(answered):
        exact = offline[place * setting.documents : (place + 1) * setting.documents]
        results = load.replies[number].json()
        order = [result["index"] for result in results]
        assert sorted(order) == list(range(setting.documents))
        scores = np.array([result["score"] for result in results])
        worst = max(worst, float(np.abs(scores - exact[order]).max()))
        swapped = inversions(exact[order])
        swaps, unexplained = swaps + len(swapped), unexplained + int((swapped > TOLERANCE).sum())
    print(
        f"{len(offline)} pairs, scores from {offline.min():.4f} to {offline.max():.4f}: at most "
        f"{worst:.1e} from offline, {swaps} neighbours in another order, {unexplained} of them by "
        f"more than {TOLERANCE}"
    )
    assert worst <= TOLERANCE and not unexplained


def inversions(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """By how much a score is exceeded by the next one below it.

    >>> inversions(np.array([3, 1, 2], np.float32)).tolist()
    [1.0]
    """
    steps: NDArray[np.float32] = np.diff(scores)
    return steps[steps > 0]


def throughput(setting: Setting) -> None:
    """Pairs a second of one worker beside those of the scorer alone, in turn."""
    model = tamis.load_model(setting.model, threads=setting.threads)
    requests = setting.take(128)
    pairs = pairs_of(requests[:24])
    model.scorer.score(pairs_of(requests[:4]))
    with setting.serving() as server:
        loaded(server, requests[:4], 4)
        for number in range(setting.rounds):
            start, own = time.perf_counter(), time.process_time()
            model.scorer.score(pairs)
            rate = len(pairs.index) / (time.perf_counter() - start)
            used = (time.process_time() - own) / len(pairs.index)
            print(f"round {number + 1}, offline: {rate:.1f} pairs a second, {1000 * used:.2f} ms "
                  "of processor time each", flush=True)  # fmt: skip
            for level in SHOWN_LEVELS:
                load, size = loaded(server, requests[: max(16, min(4 * level, 128))], level)
                cost = load.server_processor_seconds / len(load.replies) / setting.documents
                print(
                    f"{level} at once: {load.rate * setting.documents / rate:.3f} of offline, "
                    f"{cost / used:.3f} of its processor time a pair, {size:.0f} pairs a batch; "
                    f"{load}",
                    flush=True,
                )


def loaded(server: Server, requests: Sequence[Request], level: int) -> tuple[Load, float]:
    """So many clients at once, and the mean number of pairs a batch."""
    count, pairs = server.batches()
    load = measured(server, closed_loop(server.port, "/rerank", bodies_of(requests), level))
    now_count, now_pairs = server.batches()
    assert all(reply.status == 200 for reply in load.replies)
    return load, (now_pairs - pairs) / max(1.0, now_count - count)


def peer(setting: Setting) -> None:
    """Beside sentence-transformers behind FastAPI, in turn."""
    found: dict[str, dict[int, list[Load]]] = {"tamis": {}, "sentence-transformers": {}}
    name = "benchmarks.service_peer"
    with (
        setting.serving() as ours,
        serving(setting.work, setting.model, module=name) as theirs,
    ):
        for turn, level in itertools.product(range(setting.rounds), LEVELS):
            requests = setting.take(max(20, 3 * level), seed=turn)
            for server, (who, loads) in zip((ours, theirs), found.items(), strict=True):
                body = bodies_of(requests)
                load = measured(server, closed_loop(server.port, "/rerank", body, level))
                assert all(reply.status == 200 for reply in load.replies)
                loads.setdefault(level, []).append(load)
                used = load.server_processor_seconds / len(load.replies)
                print(f"{who}, {level} at once: {load}; {1000 * used:.0f} ms of processor time "
                      "a request", flush=True)  # fmt: skip
    all_loads = {who: {n: pooled(x) for n, x in loads.items()} for who, loads in found.items()}
    at_same_p99(*all_loads.values())
    title = f"Re-ranking {setting.documents} passages of {setting.words} words"
    (setting.work / "service-latency.svg").write_text(draw(all_loads, title), "utf-8")


def pooled(loads: Sequence[Load]) -> Load:
    """Several runs of the same load as one."""
    return Load(
        [reply for load in loads for reply in load.replies],
        sum(load.seconds for load in loads),
        sum(load.client_processor_seconds for load in loads),
        sum(load.server_processor_seconds for load in loads),
    )


def at_same_p99(ours: Mapping[int, Load], theirs: Mapping[int, Load]) -> None:
    """Of every level of the peer: our highest rate whose p99 is no longer than the peer's."""
    for level, load in theirs.items():
        limit = load.percentile(99)
        fits = {n: mine for n, mine in ours.items() if mine.percentile(99) <= limit}
        best = max(fits, key=lambda n: fits[n].rate, default=None)
        what = "none of tamis's levels is as fast"
        if best is not None:
            ratio = fits[best].rate / load.rate
            what = f"tamis {fits[best].rate:.2f} with {best} at once, {ratio:.2f} times"
        print(f"p99 {limit:.0f} ms, {load.rate:.2f} a second with {level} at once: {what}")


def draw(found: Mapping[str, Mapping[int, Load]], title: str) -> str:
    """Latency against concurrency, a panel a server."""
    labels = {math.log2(level): f"{level}" for level in LEVELS}
    panels = []
    for name, loads in found.items():
        lines = [
            Line(
                f"p{share}",
                [Point(math.log2(n), load.percentile(share) / 1000) for n, load in loads.items()],
            )
            for share in SHARES
        ]
        panels.append(
            line_panel(
                lines, x_name=f"clients that ask at once, {name}", y_name="seconds",
                frame=WIDE, x_labels=labels,
            )
        )  # fmt: skip
    return stacked_file(title, panels, [f"p{share}" for share in SHARES])


def lengths(setting: Setting) -> None:
    """Requests a second by how many words a passage has, 8 clients at once."""
    with setting.serving() as server:
        for words in LENGTHS:
            requests = setting.take(max(8, 400 // words), words)
            loaded(server, requests[:8], 8)
            before = server.counter(TOKENS)
            load, _ = loaded(server, requests, 8)
            tokens = (server.counter(TOKENS) - before) / len(requests)
            used = load.server_processor_seconds / len(requests)
            print(
                f"{words} words, {tokens / setting.documents:.0f} tokens a pair: {load}; a second "
                f"of processor time: {1 / used:.2f} requests, {tokens / used:.0f} tokens",
                flush=True,
            )


def memory(setting: Setting) -> None:
    """Resident memory of one worker at the start and after eight requests with long passages."""
    requests = setting.take(8, words=300)
    queries = [orjson.dumps({"query": request.query}) for request in requests]
    for path in [*(setting.model.parent / name for name in MEMORY_OF), fitted(setting)]:
        is_sieve = path.suffix == ".sieve"
        with tamis_serving(setting.work, f"m={path}", "--threads", setting.threads) as server:
            start = server.resident()
            where, bodies = "/rerank", bodies_of(requests)
            if is_sieve:
                where, bodies = "/api/search", queries
            replies = asyncio.run(closed_loop(server.port, where, bodies, 4))
            assert all(reply.status == 200 for reply in replies)
            print(f"{path.name}: {start:.0f} MB, later {server.resident():.0f} MB", flush=True)


def search(setting: Setting) -> None:
    """BM25 alone on 200,000 passages, 50 requests a second; the service has one core."""
    place = fitted(setting)
    queries = read_queries(setting.data, 50 * SEARCH_SECONDS)
    bodies = [orjson.dumps({"query": query, "top": 10}) for query in queries]
    os.sched_setaffinity(0, {1})
    with tamis_serving(setting.work, f"docs={place}", "--threads", 1, core=0) as server:
        measured(server, open_loop(server.port, "/api/search", bodies[:200], 50))
        for rate in (50, 50, 50, 100):
            load = measured(server, open_loop(server.port, "/api/search", bodies, rate))
            assert all(reply.status == 200 for reply in load.replies)
            used = 1000 * load.server_processor_seconds / len(bodies)
            print(f"{rate} a second: {load}; {used:.2f} ms of processor time a request, "
                  f"{server.resident():.0f} MB", flush=True)  # fmt: skip


def fitted(setting: Setting) -> Path:
    """The sieve of BM25 alone, made once."""
    place = setting.work / f"{PASSAGES}.sieve"
    if not place.exists():
        path = setting.work / "passages.jsonl"
        write_passages(setting.data, path, PASSAGES)
        documents = (Document(name, text) for name, text in passages(path))
        tamis.fit(documents, out=place, base=None, threads=setting.threads)
    return place


def soak(setting: Setting) -> None:
    """Resident memory at a steady rate; every third request has passages of 200 words."""
    bodies = bodies_of([*setting.take(400), *setting.take(200, words=200, seed=1)])
    random.Random(0).shuffle(bodies)
    with setting.serving() as server:
        print(f"before: {server.resident():.0f} MB", flush=True)
        last, done = 0, 0
        for minute in (1, 2, 3, 5, 7, 10):
            if minute > setting.minutes:
                break
            count = round(60 * (minute - last) * setting.rate)
            asked = list(itertools.islice(itertools.cycle(bodies), done, done + count))
            replies = asyncio.run(open_loop(server.port, "/rerank", asked, setting.rate))
            statuses = Counter(reply.status for reply in replies)
            last, done = minute, done + count
            print(f"{minute} min, {done} requests, statuses {dict(statuses)}: "
                  f"{server.resident():.0f} MB", flush=True)  # fmt: skip


PARTS = {
    "burst": burst,
    "throughput": throughput,
    "peer": peer,
    "lengths": lengths,
    "memory": memory,
    "search": search,
    "soak": soak,
}


def main() -> None:
    """One part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=50)
    parser.add_argument("--words", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=2, help="requests a second of soak")
    parser.add_argument("--queue", type=int, default=512, help="requests that wait in burst")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    setting = Setting(
        Path(os.environ["TAMIS_DATA"]),
        options.work,
        Path(os.environ["TAMIS_MODELS"]) / "ce",
        options.documents,
        options.words,
        options.threads,
        options.rounds,
        options.minutes,
        options.rate,
        options.queue,
    )
    PARTS[options.part](setting)


if __name__ == "__main__":
    main()
