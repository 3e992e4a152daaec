"""Contestants timed in turn, round after round, so that a busy machine is busy for all."""

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The median seconds of each contestant; every one is warmed up by a call that is not timed.

    `time.process_time` as the clock counts the processor time of all threads.
    """
    for contestant in contestants.values():
        contestant()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            start = clock()
            contestant()
            seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def report(title: str, seconds: Mapping[str, float], ours: str = "tamis") -> None:
    """Print how many times longer than tamis each peer takes."""
    print(f"\n{title}")
    for name, value in seconds.items():
        ratio = "" if name == ours else f"  {value / seconds[ours]:8.1f} times tamis"
        print(f"  {name:<12} {value:9.3f} s{ratio}", flush=True)
