"""Pairs to batches: chunks that keep memory flat, and in each chunk batches of like lengths.

A batch holds as many sequences as a budget of tokens allows, sorted by length across queries, so
that nothing needs padding. What a batch costs is left to the model that runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.cores import usable_cores
from tamis.errors import InputError
from tamis.types import Pairs

PAIRS_PER_CHUNK = 4096
TOKENS_PER_BATCH, TOKENS_PER_GPU_BATCH = 1024, 32_768
"""A sequence that is longer has a batch of its own."""

Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


def tokens_per_batch(device: str) -> int:
    """How many tokens a batch holds at most on a device.

    >>> tokens_per_batch("cpu"), tokens_per_batch("cuda:1")
    (1024, 32768)
    """
    return TOKENS_PER_BATCH if device == "cpu" else TOKENS_PER_GPU_BATCH


def batches(lengths: Sequence[int] | Numbers, budget: int = TOKENS_PER_BATCH) -> list[Numbers]:
    """The numbers of the sequences in each batch, longest batch first, shortest sequence first.

    >>> [batch.tolist() for batch in batches([3, 9, 4, 3], budget=10)]
    [[1], [0, 3, 2]]
    """
    sizes = np.asarray(lengths, np.int64)
    order = np.argsort(sizes, kind="stable")
    batch_list: list[Numbers] = []
    start, total = 0, 0
    for place, size in enumerate(sizes[order].tolist()):
        if place > start and total + size > budget:
            batch_list.append(order[start:place])
            start, total = place, 0
        total += size
    if len(order):
        batch_list.append(order[start:])
    return batch_list[::-1]


def groups(lengths: Sequence[int] | Numbers) -> list[tuple[int, int]]:
    """Neighbours of the same length as (how many, length).

    >>> groups([3, 3, 4])
    [(2, 3), (1, 4)]
    """
    sizes = np.asarray(lengths, np.int64)
    starts = np.flatnonzero(np.diff(sizes, prepend=-1))
    counts = np.diff(starts, append=len(sizes))
    return [(int(count), int(sizes[start])) for start, count in zip(starts, counts, strict=True)]


def probability(logits: Rows) -> Rows:
    """One over one plus e to the minus logit.

    >>> probability(np.array([0.0, -1000.0, 1000.0], np.float32)).tolist()
    [0.5, 0.0, 1.0]
    """
    small = np.exp(-np.abs(logits))
    values: Rows = np.where(logits < 0, small, np.float32(1)) / (1 + small)
    return values


def chunks(pairs: Pairs, size: int = PAIRS_PER_CHUNK) -> Iterator[tuple[slice, Pairs]]:
    """Pieces of some pairs, each with only the queries and texts it needs.

    >>> pairs = Pairs(["q"], ["a", "b"], np.array([[0, 1], [0, 0], [0, 1]], np.int32))
    >>> [(piece.texts, piece.index[:, 1].tolist()) for _, piece in chunks(pairs, 2)]
    [(['a', 'b'], [1, 0]), (['b'], [0])]
    """
    for start in range(0, len(pairs), size):
        rows = slice(start, min(start + size, len(pairs)))
        queries, query = np.unique(pairs.index[rows, 0], return_inverse=True)
        texts, text = np.unique(pairs.index[rows, 1], return_inverse=True)
        yield (
            rows,
            Pairs(
                [pairs.queries[number] for number in queries.tolist()],
                [pairs.texts[number] for number in texts.tolist()],
                np.stack([query, text], 1).astype(np.int32),
            ),
        )


def run_batches(
    forward: Callable[[Numbers], Rows],
    lengths: Sequence[int] | Numbers,
    *,
    width: int = 1,
    budget: int = TOKENS_PER_BATCH,
    threads: int | None = None,
) -> Rows:
    """What `forward` gives for each batch of sequence numbers, back in the order of `lengths`.

    Batches run side by side, each on one thread: on small matrices that beats sharing every
    multiplication, and which batch a sequence is in does not depend on how many there are.
    """
    values = np.empty((len(lengths), width), np.float32)
    work = batches(lengths, budget)
    for batch, rows in zip(work, _side_by_side(forward, work, threads), strict=True):
        values[batch] = rows.reshape(len(batch), width)
    return values


def _side_by_side(
    forward: Callable[[Numbers], Rows], work: list[Numbers], threads: int | None
) -> Iterator[Rows]:
    workers = min(usable_threads(threads), len(work))
    torch = sys.modules.get("torch")  # who runs in torch has imported it
    with single_threaded_torch(torch):
        if workers <= 1:
            yield from map(forward, work)
            return
        with ThreadPoolExecutor(workers, initializer=_one_thread, initargs=(torch,)) as pool:
            yield from pool.map(forward, work)


_torch_lock = Lock()
_torch_threads: dict[str, int] = {}
"""How many blocks run on one thread now, and how many threads torch had before the first."""


def _one_thread(torch: Any) -> None:
    if torch is not None and torch.get_num_threads() != 1:  # of this thread
        torch.set_num_threads(1)


@contextmanager
def single_threaded_torch(torch: Any) -> Iterator[None]:
    """Torch, if it is loaded, on one thread inside the block, and as before after it.

    Inside such a block nothing is set again: a server is in one for as long as it runs.
    """
    if torch is None:
        yield
        return
    with _torch_lock:
        _torch_threads.setdefault("before", torch.get_num_threads())
        _torch_threads["users"] = _torch_threads.get("users", 0) + 1
        _one_thread(torch)
    try:
        yield
    finally:
        with _torch_lock:
            _torch_threads["users"] -= 1
            if not _torch_threads["users"]:  # the last of several threads puts it back
                torch.set_num_threads(_torch_threads.pop("before"))


def usable_threads(threads: int | None) -> int:
    """How many threads to use: as many as given, or one per core this process may run on."""
    if threads is not None and threads < 1:
        raise InputError(f"cannot score on {threads} threads", hint="use at least one")
    return threads or usable_cores()
