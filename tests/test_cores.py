"""The processor, and its cores, also where the system does not tell which may be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tamis
from tamis.cores import processor, processor_in, usable_cores

SOURCE = Path(tamis.__file__).parent


def test_those_this_process_may_run_on() -> None:
    if hasattr(os, "sched_getaffinity"):
        assert usable_cores() == len(os.sched_getaffinity(0))


def test_the_processor_and_its_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    first = "model name\t: Xeon\nflags\t\t: fpu avx2 avx_vnni\n"
    second = first.replace("Xeon", "another core")
    assert processor_in(first + "\n" + second) == "Xeon (AVX2, VNNI)"
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert processor_in("") == "arm"
    assert processor()


def test_all_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_searching_and_scoring_do_without_it(tmp_path: Path) -> None:
    code = """
import os, sys
if hasattr(os, "sched_getaffinity"):
    del os.sched_getaffinity
from pathlib import Path
from tamis.backends.batches import usable_threads
from tamis.search import Index
from tamis.types import Document, Queries, Query
index = Index.build([Document("d1", "drum sieve"), Document("d2", "net")], Path(sys.argv[1]))
assert index.bm25().search(Queries.of([Query("q", "sieve")]), 10)["q"].ids == ["d1"]
assert usable_threads(None) >= 1
"""
    command = [sys.executable, "-c", code, str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nobody_asks_the_system_directly() -> None:
    asking = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "sched_getaffinity" in path.read_text("utf-8")
    ]
    assert asking == ["cores.py"]
