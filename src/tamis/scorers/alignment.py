"""Alignment: for each word of the query the nearest word of the text, weighted by its idf.

The method of Yadav, Bethard and Surdeanu (SIGIR 2020, equations 1 and 2). Words are lower-cased
and not stemmed; how near two words are is the cosine of their vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.registry import HasSpec, python_spec
from tamis.scorers._nearest import WORDS_PER_STEP, nearest_sums
from tamis.scorers.bag_of_words import (
    MAX_TABLE_WORDS,
    Bags,
    Ints,
    distinct_queries,
    read_bags,
    text_blocks,
)
from tamis.scorers.word_counts import WordCounts
from tamis.scorers.word_vectors import Matrix, WordVectors
from tamis.text.analysis import analyzer
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Scores a text by the sum, over the words of the query, of idf times the best cosine.

    A word is 1 near itself; two words of which one has no vector are 0 near each other, and so is
    any word to a text without words. Nothing is ever truncated.

    >>> from tamis.types import Document, score_texts
    >>> vectors = WordVectors.of(["car", "auto"], np.array([[1, 0], [0.8, 0.6]], np.float32))
    >>> counts = WordCounts.of([Document("d1", "car"), Document("d2", "drum")])
    >>> score_texts(Alignment(vectors, counts), "car", ["a CAR!", "an auto", "a drum"]).round(3)
    array([0.693, 0.555, 0.   ], dtype=float32)
    """

    vectors: WordVectors
    counts: WordCounts
    scale: Scale = "regression"
    origin: HasSpec | None = None
    """What opens it again, where its parts lie on disk."""

    def spec(self) -> Spec:
        """Plain JSON from which the scorer can be opened again."""
        if self.origin is not None:
            return self.origin.spec()
        return python_spec("scorer", self)

    def score(self, pairs: Pairs) -> Scores:
        """The score of every pair; each text is read once, block by block."""
        values = np.empty(len(pairs), np.float32)
        queries, query = distinct_queries(pairs)
        table = WordTable(self.vectors, self.counts)
        weighted = table.weigh_queries(queries)
        for block in text_blocks(pairs, query):
            if table.size > MAX_TABLE_WORDS:
                table = WordTable(self.vectors, self.counts)
                weighted = table.weigh_queries(queries)
            values[block.rows] = table.score(weighted, table.read(block.texts), block.index)
        return Scores(values, np.zeros(len(pairs), np.int32))


@dataclass(frozen=True, eq=False)
class WeightedQueries:
    """Queries as numbers of words, and what each word weighs: its idf times its occurrences."""

    bags: Bags
    weights: Floats


class WordTable:
    """Numbers words and holds the vectors of those it has met; not for two threads at once.

    Texts read once can be scored again and again for queries asked of the same table.

    >>> from tamis.types import Document
    >>> vectors = WordVectors.of(["car", "auto"], np.array([[1, 0], [0.8, 0.6]], np.float32))
    >>> table = WordTable(vectors, WordCounts.of([Document("d1", "car"), Document("d2", "drum")]))
    >>> texts = table.read(["a car", "an auto"])
    >>> queries = table.weigh_queries(["car"])
    >>> table.score(queries, texts, np.array([[0, 0], [0, 1]], np.int32)).round(3)
    array([0.693, 0.555], dtype=float32)
    """

    def __init__(self, vectors: WordVectors, counts: WordCounts) -> None:
        self._vectors, self._counts = vectors, counts
        self._bulk = analyzer(counts.analyzer).bulk()
        self._row = np.empty(0, np.int32)
        """Of each word its row among the vectors here; 0, a vector of zeros, for a word without."""
        self._units: Matrix = np.zeros((1, vectors.dimensions), np.float32)
        self._rows = 1

    @property
    def size(self) -> int:
        """How many distinct words were met."""
        return len(self._row)

    def read(self, texts: Sequence[str]) -> Bags:
        """Texts as numbers of words."""
        bags = read_bags(self._bulk, texts)
        self._add_words(self._bulk.terms[self.size :])
        return bags

    def weigh_queries(self, queries: Sequence[str]) -> WeightedQueries:
        """Queries as numbers of words, with weights."""
        bags = self.read(queries)
        words, word = np.unique(bags.words, return_inverse=True)
        idf = self._counts.idf([self._bulk.terms[number] for number in words.tolist()])
        return WeightedQueries(bags, (idf[word] * bags.counts).astype(np.float32))

    def score(self, queries: WeightedQueries, texts: Bags, index: Ints) -> Floats:
        """The score of each pair (query, text); fast where the pairs of a query are neighbours."""
        _check(index, len(queries.bags), len(texts))
        query_bags, values = queries.bags, np.zeros(len(index), np.float64)
        last_use = np.zeros((self.size, 2), np.int32)
        nearness = np.empty((self.size, WORDS_PER_STEP), np.float32)
        nearest_sums(
            self._units, self._row, query_bags.words, queries.weights, query_bags.offsets,
            texts.words, texts.offsets, index, last_use, nearness, values,
        )  # fmt: skip
        return values.astype(np.float32)

    def _add_words(self, words: list[str]) -> None:
        """Find the vectors of new words."""
        with_vector, units = self._vectors.units(words)
        row = np.zeros(len(words), np.int32)
        row[with_vector] = np.arange(self._rows, self._rows + len(with_vector))
        self._row = np.append(self._row, row)
        if self._rows + len(with_vector) > len(self._units):
            room = max(2 * len(self._units), self._rows + len(with_vector))
            grown = np.zeros((room, units.shape[1]), np.float32)
            grown[: self._rows] = self._units[: self._rows]
            self._units = grown
        self._units[self._rows : self._rows + len(with_vector)] = units
        self._rows += len(with_vector)


def _check(index: Ints, queries: int, texts: int) -> None:
    """Kernels do not check where they read."""
    if len(index) and not (index.min() >= 0 and (index.max(0) < (queries, texts)).all()):
        raise InputError(
            f"a pair lies outside {queries:,} queries and {texts:,} texts",
            hint="number both from 0",
        )
