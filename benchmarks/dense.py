"""Exact search over vectors: tamis, numpy's matrix product with argpartition, and faiss.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.dense INDEX [INDEX …] --work FOLDER [--rows 200000]

Rows are the vectors of the indexes, then copies of them with noise until there are enough; queries
are other such copies, which lie nearer to some rows than to others as real ones do. All contestants
search the same rows for the same queries, one at a time and many at once, interleaved; medians of
processor time, so that a busy machine matters less; two threads or more are measured by the clock.
faiss (IndexFlatIP) takes part where it is installed: `pip install faiss-cpu`. Encoding queries is
left out. `--work` keeps the index between runs; `--rows` of 200,000 need 800 MB of disk.
"""

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.search import Index
from tamis.search.dense_search import search_embeddings
from tamis.types import Document

Matrix = NDArray[np.float32]
NOISE = 0.6
"""How long the noise is in a copy, relative to the vector."""
MANY = 256


class Numbered:
    """An encoder for documents whose text is the number of their row."""

    def __init__(self, rows: Matrix) -> None:
        self.rows = rows

    def encode(self, texts: Sequence[str]) -> Matrix:
        """The rows that the texts number; of any other text the first."""
        return self.rows[[int(text) if text.isdigit() else 0 for text in texts]]


def copies(real: Matrix, count: int, seed: int) -> Matrix:
    """Embeddings with noise, of length one."""
    draw = np.random.default_rng(seed)
    made = real[draw.integers(len(real), size=count)].copy()
    noise = draw.standard_normal(made.shape, np.float32)
    made += noise * np.float32(NOISE / np.sqrt(made.shape[1]))
    return np.ascontiguousarray(made / np.linalg.norm(made, axis=1, keepdims=True))


def real_rows(indexes: Sequence[Path]) -> Matrix:
    """The float vectors of some indexes."""
    encoded = [vectors for path in indexes for vectors in Index.open(path).snapshot.embeddings]
    return np.concatenate([vectors.column("float32") for vectors in encoded])


def by_numpy(rows: Matrix, queries: Matrix, top: int) -> NDArray[np.int64]:
    """The best rows of each query, as anyone would write it."""
    scores = queries @ rows.T
    found = np.argpartition(-scores, top - 1, axis=1)[:, :top]
    order = np.argsort(-np.take_along_axis(scores, found, 1), axis=1, kind="stable")
    best: NDArray[np.int64] = np.take_along_axis(found, order, 1)
    return best


def by_tamis(index: Index, queries: Matrix, top: int, threads: int) -> NDArray[np.int32]:
    """The same by tamis; document numbers are row numbers here."""
    hits = search_embeddings(
        index.snapshot, queries, np.zeros(len(queries), np.int32), top, threads
    )
    return hits.doc.reshape(len(queries), top)


def faiss_index(rows: Matrix, threads: int) -> Any:
    """The exact index of faiss, if it is installed."""
    if find_spec("faiss") is None:
        return None
    faiss = import_module("faiss")
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return index


def made_index(rows: Matrix, work: Path) -> Index:
    """An index whose documents have these vectors, made once."""
    path = work / f"dense-{len(rows)}.index"
    if not path.exists():
        Index.build((Document(f"{n:08}", str(n)) for n in range(len(rows))), path)
    index = Index.open(path)
    start = time.perf_counter()
    index.encode(Numbered(rows))
    print(f"vectors written in {time.perf_counter() - start:.1f} s")
    return index


def interleaved(
    contestants: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """The median seconds of each contestant by some clock, all warmed up first."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, contestant in contestants.items():
            start = clock()
            contestant()
            if number:
                taken[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in taken.items()}


def one_by_one(search: Callable[[Matrix], object], queries: Matrix) -> None:
    """Search for each query alone."""
    for n in range(len(queries)):
        search(queries[n : n + 1])


def resident() -> float:
    """Megabytes of memory in use, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    """Print queries a second and the ratio to tamis, by depth."""
    parser = argparse.ArgumentParser()
    parser.add_argument("indexes", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    real = real_rows(given.indexes)
    rows = np.concatenate([real, copies(real, max(0, given.rows - len(real)), 1)])[: given.rows]
    queries = copies(real, MANY, 2)
    index = made_index(rows, given.work)
    before = resident()
    by_tamis(index, queries[:1], 10, given.threads)
    print(f"resident for a first query: {resident() - before:.0f} MB "
          f"(bytes {rows.size / 1e6:.0f}, floats {rows.nbytes / 1e6:.0f})")  # fmt: skip
    flat = faiss_index(rows, given.threads)
    for top in (10, 100, 1000):
        searches: dict[str, Callable[[Matrix], Any]] = {
            "tamis": partial(lambda k, q: by_tamis(index, q, k, given.threads), top),
            "numpy": partial(lambda k, q: by_numpy(rows, q, k), top),
        }
        if flat is not None:
            searches["faiss"] = partial(lambda k, q: flat.search(q, k)[1], top)
        agree(searches, queries[:64], top)
        for name, asked, how in (("alone", queries[:16], one_by_one), ("many", queries, None)):
            contestants = {
                peer: partial(how, search, asked) if how else partial(search, asked)
                for peer, search in searches.items()
            }
            clock = time.process_time if given.threads == 1 else time.perf_counter
            seconds = interleaved(contestants, given.rounds, clock)
            print(f"top {top}, {name}: " + ", ".join(
                f"{peer} {len(asked) / took:,.0f}/s (tamis {took / seconds['tamis']:.2f} times)"
                for peer, took in seconds.items()
            ), flush=True)  # fmt: skip


def agree(searches: dict[str, Callable[[Matrix], Any]], queries: Matrix, top: int) -> None:
    """Say how many of the documents found the peers have in common with tamis."""
    found = {name: search(queries) for name, search in searches.items()}
    for name, best in found.items():
        if name != "tamis":
            pairs = zip(best.tolist(), found["tamis"].tolist(), strict=True)
            shared = sum(len(set(a) & set(b)) for a, b in pairs) / best.size
            print(f"top {top}: {shared:.6f} of the documents of {name} are tamis's")


if __name__ == "__main__":
    if not os.environ.get("OPENBLAS_NUM_THREADS"):
        print("note: numpy takes as many threads as it likes; set OPENBLAS_NUM_THREADS")
    main()
