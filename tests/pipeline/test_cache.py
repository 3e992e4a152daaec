"""Scores that are kept survive whatever happens to the process that keeps them."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from tamis.collection.runs import read_run
from tamis.errors import InputError, OutputError
from tamis.pipeline.cache import HEAD, ScoreCache
from tamis.types import Pairs, Scores

TEXTS = [f"text {n}" for n in range(40)]


def pairs_of(numbers: range, query: str = "sieve") -> Pairs:
    index = np.array([[0, n] for n in numbers], np.int32).reshape(-1, 2)
    return Pairs([query], TEXTS, index)


def scores_of(values: Iterable[float], truncated_tokens: Iterable[int] = ()) -> Scores:
    found = np.fromiter(values, np.float32)
    return Scores(found, np.fromiter(truncated_tokens or [0] * len(found), np.int32))


def fill(path: Path, *parts: range, model: str = "model") -> None:
    with ScoreCache(path, model) as cache:
        for part in parts:
            keys = cache.keys(pairs_of(part))
            cache.add(keys, scores_of([n / 2 for n in part], part))


def known(path: Path, model: str = "model", query: str = "sieve") -> list[int]:
    with ScoreCache(path, model) as cache:
        scores, found = cache.find(cache.keys(pairs_of(range(40), query)))
    numbers: list[int] = np.flatnonzero(found).tolist()
    assert scores.values[found].tolist() == [n / 2 for n in numbers]
    assert scores.truncated_tokens[found].tolist() == numbers
    return numbers


def test_scores_are_found_again_by_model_query_and_text(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    fill(path, range(10), range(20, 25), range(3, 6))
    fill(path, range(30, 31))
    assert known(path) == [*range(10), *range(20, 25), 30]
    assert known(path, model="another") == []
    assert known(path, query="drum") == []
    fill(path, range(2), model="another")
    assert known(path, model="another") == [0, 1]


def test_what_is_added_is_found_at_once(tmp_path: Path) -> None:
    with ScoreCache(tmp_path / "scores", "m") as cache:
        assert len(cache) == 0
        for n in range(40):
            keys = cache.keys(pairs_of(range(n, n + 1)))
            assert not cache.find(keys)[1].any()
            cache.add(keys, scores_of([n]))
        assert len(cache) == 40
        scores, found = cache.find(cache.keys(pairs_of(range(40))))
        assert found.all()
        assert scores.values.tolist() == list(range(40))
        cache.add(keys[:0], scores_of([]))


def test_a_tail_cut_off_anywhere_loses_only_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    fill(path, range(3))
    first = path.stat().st_size
    fill(path, range(3, 5))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with ScoreCache(path, "model") as cache:
            end = first if size >= first else len(HEAD) if size >= len(HEAD) else 0
            assert cache.dropped == size - end
        assert known(path) == (list(range(3)) if size >= first else [])
        fill(path, range(7, 9))
        assert known(path)[-2:] == [7, 8]


def test_a_changed_byte_is_never_believed(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    fill(path, range(3), range(3, 5))
    whole = path.read_bytes()
    for place in range(len(HEAD), len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x40
        path.write_bytes(changed)
        assert known(path) in ([], [0, 1, 2])


def test_another_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    with pytest.raises(InputError, match=r"notes\.txt is not a file of scores"):
        ScoreCache(path, "m").__enter__()
    assert path.read_text() == "dear diary"
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    with (
        ScoreCache(path, "m"),
        pytest.raises(OutputError, match="being written"),
        ScoreCache(path, "m"),
    ):
        pass
    assert known(path) == []


JOB = """
import sys, time
from pathlib import Path
import numpy as np
from tamis.collection.runs import write_run
from tamis.pipeline import passage_scores
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.rerank import rerank
from tamis.types import Document, Queries, Query, Run, Scores

passage_scores.FULL_CHUNK_PAIRS = 16


class Sums:
    scale = "regression"

    def score(self, pairs):
        time.sleep(float(sys.argv[1]))
        with open("calls", "a") as calls:
            calls.write("x" * len(pairs) + chr(10))
        values = [hash_of(pairs.queries[q] + pairs.texts[t]) for q, t in pairs.index.tolist()]
        return Scores(np.array(values, np.float32), np.zeros(len(pairs), np.int32))


def hash_of(text):
    return sum(n * ord(c) for n, c in enumerate(text, 1)) % 997 / 997


documents = {f"d{n}": Document(f"d{n}", f"text {n * n}") for n in range(200)}
queries = Queries.of(Query(f"q{n}", f"words {n}") for n in range(10))
run = Run.from_dict(
    {f"q{q}": {f"d{n}": float(n * 7 % 100) for n in range(q, 100 + q)} for q in range(10)}
).with_queries(queries)
with ScoreCache(Path("scores"), "sums") as cache:
    print("dropped", cache.dropped, flush=True)
    write_run(rerank(Sums(), documents, cache=cache)(run), "out.parquet", force=True)
"""


def test_killed_at_any_moment_it_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()

    def job(pause: float) -> list[str]:
        return [sys.executable, "-c", JOB, str(pause)]

    subprocess.run(job(0), cwd=whole, check=True, stdout=subprocess.DEVNULL)
    rng = random.Random(7)
    for _ in range(3):
        with subprocess.Popen(job(0.01), cwd=broken, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.readline()  # the cache is open
            time.sleep(rng.uniform(0.05, 0.25))
            running.kill()
        assert not (broken / "out.parquet").exists()
    subprocess.run(job(0), cwd=broken, check=True, stdout=subprocess.DEVNULL)
    assert read_run(broken / "out.parquet") == read_run(whole / "out.parquet")
    calls = (broken / "calls").read_text().splitlines()
    # each kill can cost the chunk that was being scored, and no more
    assert 1000 <= sum(map(len, calls)) <= 1000 + 3 * 16
