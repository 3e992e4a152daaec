"""Probabilities from few judged queries: how true they are of other queries.

    python -m benchmarks.calibration SIEVE QUERIES QRELS

SIEVE is fitted without judgements. Its rankings of QUERIES are calibrated on some of them, drawn
again and again, and measured on all others: Brier score and expected calibration error over the
first five documents a query, and the error over the first alone. `bounded` is what a fit does,
`unbounded` the same regression without bounds, `fixed` the scale of a sieve without calibration.
The last columns are searches for the two rarest words of a document, which no judged query
resembles: the median probability of the first document, and the share shown as 0%.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tamis import Document, Queries, Query, load_sieve, read_qrels, read_queries
from tamis.errors import InputError
from tamis.fitting.answer_features import features, relevant_rows
from tamis.fitting.calibration import Calibration, calibration_error, reliability

QUERIES_TO_FIT = (8, 13, 20, 50, 100)
DEPTH = 5
SHORT_QUERIES = 150


class Unbounded(Calibration):
    """The regression without bounds."""

    @property
    def bounds(self) -> tuple[float, float]:
        """None."""
        return 0.0, 1.0


def rarest_words(documents: list[Document]) -> Queries:
    """A query a document: its two rarest words."""
    counts = Counter(word for document in documents for word in set(document.text.split()))
    queries = []
    for document in documents[:SHORT_QUERIES]:
        words = [word for word in dict.fromkeys(document.text.split()) if word.isalpha()]
        rarest = sorted(words, key=lambda word: (counts[word], -len(word), word))[:2]
        if rarest:
            queries.append(Query(document.id, " ".join(rarest)))
    return Queries.of(queries)


def measured(probabilities: NDArray[np.float64], relevant: NDArray[np.bool_]) -> list[float]:
    """Brier score and expected calibration error."""
    brier = float(((probabilities - relevant) ** 2).mean())
    return [brier, calibration_error(reliability(probabilities, relevant))]


def main() -> None:
    """Fit again and again and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("sieve", "queries", "qrels"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    sieve, qrels = load_sieve(options.sieve), read_qrels(options.qrels)
    comparable, scale = sieve.pipeline.has_comparable_scores, sieve.pipeline.score_scale
    assert scale is not None, "the sieve is calibrated: fit it without judgements"
    run = sieve.source.search(read_queries(options.queries), DEPTH)
    short = sieve.source.search(rarest_words(list(sieve.index)), 1)
    rows, relevant = features(run, comparable), relevant_rows(run, qrels)
    query = np.repeat(np.arange(len(run)), run.sizes())
    first = np.append(True, np.diff(query) > 0)
    fixed, short_fixed = scale.scores(run, comparable), scale.scores(short, comparable)
    print("fitted on  how          Brier    ECE  of first  short queries  shown as 0%  not fitted")
    for count in QUERIES_TO_FIT:
        generator = np.random.default_rng(count)
        values: dict[str, list[list[float]]] = {"bounded": [], "unbounded": [], "fixed": []}
        for _ in range(options.rounds):
            fitted = np.isin(query, generator.choice(len(run), count, replace=False))
            found = {"fixed": (fixed, short_fixed)}
            for name, kind in (("bounded", Calibration), ("unbounded", Unbounded)):
                try:
                    made = kind.fit(rows[fitted], relevant[fitted], query[fitted])
                except InputError:
                    continue
                far = made.probability(features(short, comparable))
                found[name] = made.probability(rows), far
            for name, (own, far) in found.items():
                others = measured(own[~fitted], relevant[~fitted])
                firsts = measured(own[~fitted & first], relevant[~fitted & first])
                values[name].append([*others, firsts[1], *spread(far)])
        for name, table in values.items():
            if table:
                brier, error, of_first, middle, zero = np.mean(table, axis=0)
                print(
                    f"{count:9d}  {name:10s} {brier:7.4f} {error:6.3f} {of_first:9.3f} "
                    f"{middle:14.3f} {zero:12.1%} {options.rounds - len(table):11d}"
                )


def spread(probabilities: NDArray[np.float64]) -> list[float]:
    """The median, and the share that is shown as 0%."""
    return [float(np.median(probabilities)), float((probabilities < 0.005).mean())]


if __name__ == "__main__":
    main()
