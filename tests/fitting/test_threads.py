"""A sieve in a server: many threads from the first call on, and processes that were forked."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

import tamis
from tamis.fitting.sieve import Sieve, load_sieve
from tamis.models import import_model
from tamis.search import Index

pytest.importorskip("torch", reason="torch is not installed")
WORDS = "sieve drum net grain flour fish sort".split()
PAIRS = [(one, other) for one in WORDS for other in WORDS if one != other]
DOCUMENTS = [
    {"id": f"d{n:02}", "text": f"a {one} the {other}", "n": str(n), "half": "ab"[n % 2]}
    for n, (one, other) in enumerate(PAIRS)
]
NUM_THREADS = 24
SERVER = """
import os, sys, threading
import tamis

sieve = tamis.load_sieve(sys.argv[1])
sieve.warm_up()
want = [hit.id for hit in sieve.search("drum net")]
threads = [threading.Thread(target=sieve.search, args=(word,)) for word in ("net", "fish") * 4]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        found = [hit.id for hit in sieve.search("drum net")]
        os._exit(0 if found == want and sieve.search_many(["net", "fish"], where="half=a") else 1)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
assert [hit.id for hit in sieve.search("drum net")] == want
sys.exit(max(codes))
"""


@pytest.fixture(scope="module", params=["words", "model"])
def folder(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tiny_cross_encoder: Path,
) -> Path:
    place = tmp_path_factory.mktemp("threads")
    base = None
    if request.param == "model":
        base = str(place / "tiny")
        import_model(
            tiny_cross_encoder, place / "tiny", kind="bi-encoder", pooling="mean", max_length=24
        )
    tamis.fit(DOCUMENTS, out=place / "s", base=base, threads=1)
    return place / "s"


def found(sieve: Sieve, number: int) -> list[Any]:
    one, other = PAIRS[number % len(PAIRS)]
    where = () if number % 3 else f"half={'ab'[number % 2]}"
    return [(hit.id, hit.score, hit.passage) for hit in sieve.search(f"{one} {other}", 7, where)]


def test_many_threads_from_the_first_call_on(folder: Path) -> None:
    alone = load_sieve(folder)
    want = [found(alone, number) for number in range(4 * NUM_THREADS)]
    for _ in range(3):
        sieve, barrier = load_sieve(folder), Barrier(NUM_THREADS)

        def search(thread: int, sieve: Sieve = sieve, barrier: Barrier = barrier) -> list[Any]:
            barrier.wait(60)
            return [found(sieve, number) for number in range(thread, len(want), NUM_THREADS)]

        with ThreadPoolExecutor(NUM_THREADS) as pool:
            for thread, results in enumerate(pool.map(search, range(NUM_THREADS))):
                assert results == want[thread::NUM_THREADS]


def test_every_part_is_opened_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    open_index = Index.open.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Index], path: Path, *rest: Any) -> Index:
        opened.append(path)
        index: Index = open_index(cls, path, *rest)
        return index

    monkeypatch.setattr(Index, "open", classmethod(counted))
    sieve, barrier = load_sieve(folder), Barrier(NUM_THREADS)

    def search(_: int) -> None:
        barrier.wait(60)
        sieve.search("drum")

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        list(pool.map(search, range(NUM_THREADS)))
    assert len(opened) == 1


def test_searching_while_documents_change(folder: Path) -> None:
    sieve = load_sieve(folder)
    sieve.warm_up()
    errors: list[BaseException] = []
    stop = False

    def search() -> None:
        while not stop:
            try:
                assert all(hit.text for hit in sieve.search("drum net", 50))
            except BaseException as error:
                errors.append(error)
                return

    threads = [Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(6):
        sieve.update(DOCUMENTS[n:], delete_missing=True)
    sieve.update(DOCUMENTS)
    stop = True
    for thread in threads:
        thread.join(60)
    assert not errors


def test_a_server_that_forks(folder: Path) -> None:
    command = [sys.executable, "-c", SERVER, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
