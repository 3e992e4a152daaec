"""What each term brings to a lexical score, worked out as the index does, in its floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.search.build import searched_text
from tamis.search.lengths import byte_lengths, length_byte
from tamis.search.rankings import BM25
from tamis.search.rm3 import expand
from tamis.search.sources import IndexSource
from tamis.search.term_search import search_terms, term_queries
from tamis.types import Document
from tamis.types.explanation import LexicalFacts, TermPart, TermStatus


@dataclass(frozen=True, eq=False)
class WeightedQuery:
    """The terms that a source searches for, and what it knows of them."""

    source: IndexSource
    own: Mapping[str, int]
    """The terms of the query, those that no document has too."""
    weights: Mapping[str, float]
    """What is searched for, by term."""

    @classmethod
    def of(cls, source: IndexSource, query: str) -> WeightedQuery:
        """The query as a source searches for it, expanded where the source does."""
        own = Counter(source.index.analyzer.terms(query))
        return cls(source, own, _expanded(source, own) if source.feedback else own)

    def score(self, text: str) -> float:
        """The lexical score of any text; 0 where it has none of the terms."""
        counts = Counter(self.source.index.analyzer.terms(text))
        return float(sum(part.contribution for part in self.parts(counts)))

    def parts(self, counts: Mapping[str, int]) -> tuple[TermPart, ...]:
        """What each term brings to a text with these counts of terms, the most first."""
        snapshot = self.source.index.snapshot
        terms = list({**self.own, **self.weights})
        numbers = np.array(snapshot.lexicon.numbers(terms), np.int64)
        documents_of = np.where(numbers >= 0, snapshot.lexicon.documents_of[numbers], 0)
        contributions, idf = self._contributions(terms, numbers, counts)
        parts = [
            TermPart(
                term,
                self._status(term, counts),
                float(self.weights.get(term, 0)),
                counts.get(term, 0),
                int(documents_of[n]),
                None if np.isnan(idf[n]) else float(idf[n]),
                float(contributions[n]),
            )
            for n, term in enumerate(terms)
        ]
        return tuple(sorted(parts, key=lambda part: -part.contribution))

    def _status(self, term: str, counts: Mapping[str, int]) -> TermStatus:
        if term not in self.own:
            return "expanded"
        return "matched" if counts.get(term) else "missing"

    def _contributions(
        self, terms: list[str], numbers: NDArray[np.int64], counts: Mapping[str, int]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each term what it adds to the score, and its idf where the ranking has one."""
        ranking, snapshot = self.source.ranking, self.source.index.snapshot
        known = np.flatnonzero(numbers >= 0)
        frequency = np.array([counts.get(terms[n], 0) for n in known], np.int32)
        length = np.full(len(known), length_byte(sum(counts.values())), np.int32)
        weights = np.array([self.weights.get(terms[n], 0) for n in known], np.float32)
        of_known = numbers[known]
        term_facts = (
            snapshot.lexicon.documents_of[of_known],
            snapshot.lexicon.occurrences[of_known],
        )
        pairs = ranking.pair_scores(frequency, length, snapshot.statistics)
        scores = ranking.term_scores(weights, *term_facts, snapshot.statistics)
        if pairs.likelihood:
            part = np.log1p(pairs.frequencies[pairs.frequency_of] / scores.priors)
            values = np.maximum(scores.weights * (part + pairs.length_part), 0.0)
        else:
            values = scores.weights - scores.weights / pairs.saturation
        contributions, idf = np.zeros(len(terms)), np.full(len(terms), np.nan)
        contributions[known] = values
        if isinstance(ranking, BM25):
            ones = np.ones(len(known), np.float32)
            idf[known] = ranking.term_scores(ones, *term_facts, snapshot.statistics).weights
        return contributions, idf

    def facts(self, counts: Mapping[str, int], score: float) -> LexicalFacts:
        """What all terms have in common for a text with these counts."""
        statistics = self.source.index.snapshot.statistics
        spec = self.source.ranking.spec()
        feedback = {} if self.source.feedback is None else self.source.feedback.spec()
        parameters = {name: float(str(value)) for name, value in spec.items() if name != "ranking"}
        parameters |= {f"rm3_{name}": float(value) for name, value in feedback.items()}
        return LexicalFacts(
            str(spec["ranking"]),
            parameters,
            int(byte_lengths()[length_byte(sum(counts.values()))]),
            statistics.total_terms / max(statistics.num_documents, 1),
            statistics.num_documents,
            score,
        )


def counts_of(source: IndexSource, document: Document) -> Counter[str]:
    """How often each term occurs in a document, as the index counts it."""
    return Counter(source.index.analyzer.terms(searched_text(document)))


def _expanded(source: IndexSource, own: Mapping[str, int]) -> Mapping[str, float]:
    """The terms of a query and those that RM3 adds, with their weights."""
    assert source.feedback is not None
    snapshot, feedback = source.index.snapshot, source.feedback
    queries = term_queries(snapshot, [own])
    first = search_terms(
        snapshot, queries, source.ranking, feedback.documents, 1, source.conditions
    )
    queries = expand(snapshot, queries, feedback, first)
    terms = snapshot.lexicon.terms.take(queries.terms)
    return dict(zip(terms, queries.weights.tolist(), strict=True))


def without_term(document: Document, term: str, source: IndexSource) -> Document:
    """The document without the words that the analyzer makes this term of.

    >>> from tempfile import mkdtemp
    >>> from tamis import Index
    >>> index = Index.build({"a": "x"}, mkdtemp() + "/index")
    >>> without_term(Document("d", "Sieves sort. A sieve!", "Drums"), "siev", index.bm25()).text
    ' sort. A !'
    """
    spans = source.index.analyzer.spans
    text, title = (_without(each, spans(each), term) for each in (document.text, document.title))
    return Document(document.id, text, title, document.fields)


def _without(text: str, spans: list[tuple[str, int, int]], term: str) -> str:
    pieces, at = [], 0
    for other, start, end in spans:
        if other == term and start >= at:
            pieces.append(text[at:start])
            at = end
    return "".join([*pieces, text[at:]])


def forms_of(document: Document, term: str, source: IndexSource) -> tuple[str, ...]:
    """How a document writes a term, each form once."""
    text = searched_text(document)
    spans = source.index.analyzer.spans(text)
    return tuple(dict.fromkeys(text[start:end] for other, start, end in spans if other == term))
