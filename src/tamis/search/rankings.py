"""What a ranking makes of the pairs and terms of an index: BM25 and Dirichlet query likelihood.

Both compute what Lucene computes, in the floats it computes it in. All parameters belong to the
query, none to the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.search.lengths import byte_lengths
from tamis.search.score_tables import PairScores
from tamis.search.term_counts import Ints, Longs

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """What a ranking needs to know of the whole collection."""

    num_documents: int
    """With at least one term."""
    total_terms: int


@dataclass(frozen=True)
class TermScores:
    """What the kernels need to know of each term, and a bound of its score."""

    weights: Floats
    priors: Doubles
    bounds: Doubles


class Ranking(Protocol):
    """A way to score a document by the query terms it has."""

    def pair_scores(self, frequency: Ints, length: Ints, collection: Statistics) -> PairScores:
        """What can be known of each pair (frequency, length byte) before any term is."""

    def term_scores(
        self, weights: Floats, documents_of: Ints, occurrences: Longs, collection: Statistics
    ) -> TermScores:
        """What can be known of each term, given its weight in the query."""

    def spec(self) -> dict[str, object]:
        """Its name and parameters as plain JSON."""


_NO_FLOATS, _NO_DOUBLES, _NO_INTS = np.empty(0, "f4"), np.empty(0, "f8"), np.empty(0, "i4")


@dataclass(frozen=True)
class BM25:
    """Lucene's BM25: idf times a frequency that saturates and is normalised by length.

    >>> BM25(k1=1.2).spec()
    {'ranking': 'bm25', 'k1': 1.2, 'b': 0.4}
    """

    k1: float = 0.9
    b: float = 0.4

    def __post_init__(self) -> None:
        if not 0 <= self.k1 < float("inf"):
            raise InputError(f"k1 is {self.k1}", hint="k1 is a number from 0 up, such as 0.9")
        if not 0 <= self.b <= 1:
            raise InputError(f"b is {self.b}", hint="b lies between 0 and 1, such as 0.4")

    def pair_scores(self, frequency: Ints, length: Ints, collection: Statistics) -> PairScores:
        """See `Ranking.pair_scores`."""
        unit, k1, b = np.float32(1), np.float32(self.k1), np.float32(self.b)
        average = np.float32(collection.total_terms / max(collection.num_documents, 1))
        lengths = byte_lengths().astype(np.float32)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            norms = unit / (k1 * ((unit - b) + b * lengths / average))
        saturation = unit + frequency.astype(np.float32) * norms[length]
        return PairScores(False, saturation, _NO_DOUBLES, _NO_INTS, _NO_DOUBLES)

    def term_scores(
        self, weights: Floats, documents_of: Ints, occurrences: Longs, collection: Statistics
    ) -> TermScores:
        """See `Ranking.term_scores`."""
        idf = np.log(1 + (collection.num_documents - documents_of + 0.5) / (documents_of + 0.5))
        scaled = weights * idf.astype(np.float32)
        return TermScores(scaled, np.zeros(len(scaled)), scaled.astype(np.float64))

    def spec(self) -> dict[str, object]:
        """See `Ranking.spec`."""
        return {"ranking": "bm25", "k1": self.k1, "b": self.b}


@dataclass(frozen=True)
class QueryLikelihood:
    """Lucene's query likelihood with Dirichlet smoothing; a term's score is zero at least."""

    mu: float = 1000

    def __post_init__(self) -> None:
        if not 0 < self.mu < float("inf"):
            raise InputError(f"mu is {self.mu}", hint="mu is a number above 0, such as 1000")

    def pair_scores(self, frequency: Ints, length: Ints, collection: Statistics) -> PairScores:
        """See `Ranking.pair_scores`."""
        mu = float(np.float32(self.mu))
        length_part = np.log(mu / (byte_lengths() + mu))[length]
        frequencies, frequency_of = np.unique(frequency, return_inverse=True)
        return PairScores(
            True, _NO_FLOATS, frequencies.astype("f8"), frequency_of.astype("i4"), length_part
        )

    def term_scores(
        self, weights: Floats, documents_of: Ints, occurrences: Longs, collection: Statistics
    ) -> TermScores:
        """See `Ranking.term_scores`."""
        priors = float(np.float32(self.mu)) * (occurrences + 1) / (collection.total_terms + 1)
        bounds = weights.astype(np.float64) * np.log(1 + occurrences / priors)
        return TermScores(weights, priors, bounds)

    def spec(self) -> dict[str, object]:
        """See `Ranking.spec`."""
        return {"ranking": "ql", "mu": self.mu}
