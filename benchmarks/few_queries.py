"""How often the 95% interval of a mean difference over few queries holds the true one.

`python -m benchmarks.few_queries SIEVE COLLECTION`: RR@10 of the sieve's retriever less BM25 on up
to 1,200 training queries; some are drawn 2,000 times. Student's interval against the bootstrap's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import tamis
from tamis.evaluation import bootstrap_interval, evaluate, t_interval

MEASURE = "RR@10"
MAX_QUERIES, DRAWS, RESAMPLES = 1_200, 2_000, 1_000


def differences(sieve_path: str, collection_path: str) -> NDArray[np.float64]:
    """The retriever of the sieve less BM25, per query."""
    sieve, collection = tamis.load_sieve(sieve_path), tamis.open_collection(collection_path)
    qrels = collection.qrels["train"]
    qrels = qrels.select(qrels.queries.select(np.arange(min(MAX_QUERIES, len(qrels)))))
    queries = collection.queries.select(qrels.queries.positions_in(collection.queries.ids))
    runs = {
        "retriever": sieve.retriever.search(queries, 50),
        "bm25": sieve.index.bm25().search(queries, 50),
    }
    evaluation = evaluate(qrels, runs, [MEASURE])
    return evaluation.values("retriever", MEASURE) - evaluation.values("bm25", MEASURE)


def main(arguments: Sequence[str]) -> None:
    values = differences(*arguments)
    generator = np.random.default_rng(0)
    print(f"{len(values)} queries, mean {values.mean():+.4f}")
    for count in (5, 8, 10, 20, 39):
        results: list[list[tuple[bool, float]]] = []
        for _ in range(DRAWS):
            drawn = values[generator.integers(0, len(values), count)]
            both = t_interval(drawn), bootstrap_interval(drawn, samples=RESAMPLES)
            pair = [
                (interval.low <= values.mean() <= interval.high, interval.high - interval.low)
                for interval in both
                if interval is not None
            ]
            results += [pair] if pair else []
        student, bootstrap = np.mean(results, axis=0)
        figures = [f"{held:.3f}, {width:.2f} wide" for held, width in (student, bootstrap)]
        print(f"{count:3} queries: Student {figures[0]}; bootstrap {figures[1]}", end="; ")
        print(f"{DRAWS - len(results)} draws without an interval")


if __name__ == "__main__":
    main(sys.argv[1:])
