"""What a query of a sieve costs: measured in a process of its own, as an application would pay.

`python -m tamis.fitting.query_cost SIEVE` reads queries as a JSON list and prints what it measured.
"""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TIME_LIMIT = 120.0
"""Seconds after which nothing is measured: the fit does not wait for it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueryCost:
    """What it takes to answer a query with a sieve that is open."""

    milliseconds: float
    """The median of some queries, one after another, retrieval and re-ranking included."""
    memory_bytes: int
    """The most that the process had in memory."""
    disk_bytes: int
    """The size of the sieve."""
    queries: int
    threads: int | None
    """None for all cores."""


def measure_query_cost(
    sieve: Path, queries: Sequence[str], threads: int | None
) -> QueryCost | None:
    """Open a sieve in a new process and search; None where that fails."""
    command = [sys.executable, "-m", __name__, str(sieve), str(threads or 0)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(list(queries)),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=True,
        )
        measured = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        _log.info("what a query costs was not measured: %s", error)
        return None
    disk = sum(file.stat().st_size for file in sieve.rglob("*") if file.is_file())
    return QueryCost(
        round(float(measured["milliseconds"]), 2),
        int(measured["memory_bytes"]),
        disk,
        len(queries),
        threads,
    )


def peak_memory() -> int:
    """The most bytes that this process had in memory.

    >>> peak_memory() > 1_000_000
    True
    """
    status = Path("/proc/self/status")
    if status.exists():  # rusage also counts the process that started this one
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _main(path: str, threads: int) -> None:
    from tamis.fitting.sieve import load_sieve

    queries = json.load(sys.stdin)
    sieve = load_sieve(path, threads=threads or None)
    sieve.warm_up()
    seconds = []
    for query in queries:
        began = time.perf_counter()
        sieve.search(query, top=10)
        seconds.append(time.perf_counter() - began)
    milliseconds = 1000 * statistics.median(seconds)
    print(json.dumps({"milliseconds": milliseconds, "memory_bytes": peak_memory()}))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
