"""How many times the queries of one thread two threads answer.

    TAMIS_DATA=... python -m benchmarks.threads INDEX [INDEX …]

BM25, 4,000 real queries as strings, three interleaved rounds, medians; wants two idle cores.
"""

import os
import sys
from functools import partial
from pathlib import Path

from benchmarks.first_stage import read_queries
from benchmarks.timing import interleaved
from tamis.search import Index
from tamis.types import Ids, Queries


def main() -> None:
    """Print a line an index and depth."""
    texts = read_queries(Path(os.environ["TAMIS_DATA"]), 4000)
    queries = Queries(Ids.of(f"{n:06}" for n in range(len(texts))), tuple(texts))
    for path in sys.argv[1:]:
        index = Index.open(path)
        for depth in (10, 100, 1000):
            contestants = {
                str(threads): partial(index.bm25(threads=threads).search, queries, depth)
                for threads in (1, 2)
            }
            seconds = interleaved(contestants)
            print(f"{path} top {depth}: {seconds['1'] / seconds['2']:.2f} times", flush=True)


if __name__ == "__main__":
    main()
