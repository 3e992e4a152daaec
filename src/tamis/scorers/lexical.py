"""Lexical: the score that an index's ranking, such as BM25, gives any text. It needs no model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.registry import Opening, check_keys
from tamis.scorers.bag_of_words import (
    MAX_TABLE_WORDS,
    Bags,
    Block,
    Ints,
    Longs,
    distinct_queries,
    read_bags,
    text_blocks,
)
from tamis.search.index import Index
from tamis.search.index_spec import index_spec, open_index, open_ranking
from tamis.search.lengths import length_byte
from tamis.search.rankings import BM25, Doubles, Floats, Ranking
from tamis.search.score_tables import PairScores
from tamis.search.term_search import MAX_SUM, sums_of
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import SPEC_VERSION, Scale

Number = Any


@dataclass(frozen=True, eq=False)
class Lexical:
    """Scores texts as an index would if they were documents, under its collection's statistics.

    A text of the collection gets the very score that a search gives it; any other text will do.

    >>> from tempfile import mkdtemp
    >>> from tamis.types import Document, score_texts
    >>> index = Index.build([Document("d1", "sieves"), Document("d2", "a drum")], mkdtemp() + "/i")
    >>> score_texts(Lexical(index), "sieve", ["sieves", "a drum sieve", "nets"]).round(3)
    array([0.365, 0.307, 0.   ], dtype=float32)
    """

    index: Index
    ranking: Ranking = field(default_factory=BM25)
    scale: Scale = "regression"

    def spec(self) -> Spec:
        """Plain JSON from which the scorer can be opened again."""
        return {
            "scorer": "lexical",
            "version": SPEC_VERSION,
            "index": index_spec(self.index),
            **self.ranking.spec(),
        }

    def score(self, pairs: Pairs) -> Scores:
        """The score of every pair; each text is read once, block by block."""
        values = np.empty(len(pairs), np.float32)
        queries, query = distinct_queries(pairs)
        bulk = self.index.analyzer.bulk()
        weighted = self._weigh_queries(read_bags(bulk, queries), bulk.terms)
        for block in text_blocks(pairs, query):
            if len(bulk.terms) > MAX_TABLE_WORDS:
                bulk = self.index.analyzer.bulk()
                read_bags(bulk, queries)
            values[block.rows] = self._score_block(weighted, read_bags(bulk, block.texts), block)
        return Scores(values, np.zeros(len(pairs), np.int32))

    def _weigh_queries(self, queries: Bags, terms: list[str]) -> WeightedQueries:
        """What is known of the queries' terms; those that no document has are left out."""
        snapshot = self.index.snapshot
        numbers = np.array(snapshot.lexicon.numbers(terms), np.int32)
        in_index = queries.where(numbers[queries.words] >= 0)
        term_numbers, lexicon = numbers[in_index.words], snapshot.lexicon
        scores = self.ranking.term_scores(
            in_index.counts.astype(np.float32),
            lexicon.documents_of[term_numbers],
            lexicon.occurrences[term_numbers],
            snapshot.statistics,
        )
        highest = np.maximum(sums_of(in_index.offsets, scores.bounds), 1e-25)
        scales = np.exp2(np.floor(np.log2(MAX_SUM / highest)))
        return WeightedQueries(len(terms), in_index, scores.weights, scores.priors, scales)

    def _score_block(self, weighted: WeightedQueries, texts: Bags, block: Block) -> Floats:
        lengths = sums_of(texts.offsets, texts.counts.astype(np.float64)).astype(np.int64)
        hits = texts.where(texts.words < weighted.terms)
        coded = np.repeat(length_bytes(lengths), hits.sizes())
        pairs = self.ranking.pair_scores(hits.counts, coded, self.index.snapshot.statistics)
        values = np.empty(len(block.index), np.float32)
        queries, entry = weighted.bags, np.full(weighted.terms, -1, np.int64)
        score_pairs(
            queries.words, queries.offsets, weighted.weights, weighted.priors, weighted.scales,
            hits.words, hits.offsets, pairs, block.index, entry, values,
        )  # fmt: skip
        return values


def open_scorer(values: Spec, opening: Opening) -> Lexical:
    """See `registry.OPENERS`."""
    ranking, settings = open_ranking("a lexical scorer", values)
    check_keys("a lexical scorer", settings, {"index": dict})
    return Lexical(open_index(settings["index"], opening), ranking)


@dataclass(frozen=True, eq=False)
class WeightedQueries:
    """Queries as the kernel reads them; their terms have the numbers below `terms`."""

    terms: int
    bags: Bags
    weights: Floats
    priors: Doubles
    scales: Doubles
    """Of each query: how many units a score of one has, as in a search."""


@jit
def length_bytes(lengths: Longs) -> Ints:
    """The byte of each length."""
    coded = np.empty(len(lengths), np.int32)
    for n in range(len(lengths)):
        coded[n] = length_byte(lengths[n])
    return coded


@jit
def units_of(pairs: PairScores, hit: Number, weight: Number, prior: Number, scale: Number) -> Any:
    """What one term brings one text, in units: an entry of the table that a search makes."""
    if pairs.likelihood:
        frequency = pairs.frequencies[pairs.frequency_of[hit]]
        score = np.float64(weight) * (np.log(1.0 + frequency / prior) + pairs.length_part[hit])
        return max(np.int64(np.float64(np.float32(max(score, 0.0))) * scale + 0.5), 1)
    return max(np.int64((weight - weight / pairs.saturation[hit]) * np.float32(scale)), 1)


@jit
def score_pairs(
    query_terms: Ints,
    query_offsets: Longs,
    weights: Floats,
    priors: Doubles,
    scales: Doubles,
    terms: Ints,
    offsets: Longs,
    pairs: PairScores,
    index: Ints,
    entry: Longs,
    values: NDArray[np.float32],
) -> None:
    """The score of each pair of the index; pairs of one query are best handed in side by side.

    `entry` holds for each term where it stands among the query's terms, or -1. A sum of as many
    units as the query has terms is a score of zero, as in a search.
    """
    last = -1
    for pair in range(len(index)):
        query, text = index[pair, 0], index[pair, 1]
        if query != last:
            if last >= 0:
                for i in range(query_offsets[last], query_offsets[last + 1]):
                    entry[query_terms[i]] = -1
            for i in range(query_offsets[query], query_offsets[query + 1]):
                entry[query_terms[i]] = i
            last = query
        total, scale = np.int64(0), scales[query]
        for hit in range(offsets[text], offsets[text + 1]):
            i = entry[terms[hit]]
            if i >= 0:
                total += units_of(pairs, hit, weights[i], priors[i], scale)
        num_terms = query_offsets[query + 1] - query_offsets[query]
        values[pair] = total * (1.0 / scale) if total > num_terms else 0.0
