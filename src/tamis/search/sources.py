"""The index as a source of a pipeline: a ranking, and perhaps RM3 on top of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tamis.cores import usable_cores
from tamis.errors import InputError
from tamis.registry import NUMBER, Opening, check_keys
from tamis.search.index_spec import (
    index_spec,
    open_index,
    open_ranking,
    open_where,
    where_spec,
)
from tamis.search.lengths import length_byte
from tamis.search.rankings import Floats, Ranking
from tamis.search.rm3 import RM3, expand
from tamis.search.score_tables import fill_table
from tamis.search.snapshot import Snapshot
from tamis.search.term_counts import Ints, Longs
from tamis.search.term_search import TermQueries, as_run, search_terms, term_queries
from tamis.types import Condition, Queries, Run, Source, Spec
from tamis.types.conditions import as_conditions
from tamis.types.pipeline import SPEC_VERSION

if TYPE_CHECKING:
    from tamis.search.index import Index


@dataclass(frozen=True)
class IndexSource(Source):
    """Finds documents by a ranking; `threads` is how many queries are searched at once."""

    index: Index
    ranking: Ranking
    feedback: RM3 | None = None
    threads: int | None = None
    conditions: tuple[Condition, ...] = ()
    """What must hold for a document to be found."""

    def where(self, *conditions: str | Condition) -> IndexSource:
        """See `Source.where`; what RM3 learns from is filtered too.

        >>> from tempfile import mkdtemp
        >>> from tamis import Document, Index, Query
        >>> texts = {"ada": "a drum sieve", "bob": "a fine sieve"}
        >>> documents = [Document(n, text, fields={"author": n}) for n, text in texts.items()]
        >>> index = Index.build(documents, mkdtemp() + "/index")
        >>> filtered = index.bm25().where("author=bob")
        >>> filtered.search(Queries.of([Query("q", "drum sieve")]), 10)["q"].ids
        ['bob']
        """
        return replace(self, conditions=(*self.conditions, *as_conditions(conditions)))

    def rm3(self, terms: int = 10, documents: int = 10, weight: float = 0.5) -> IndexSource:
        """The same ranking with RM3 on top of it."""
        return replace(self, feedback=RM3(terms, documents, weight))

    def search(self, queries: Queries, top: int) -> Run:
        """The best `top` documents of every query."""
        if queries.texts is None:
            raise InputError(
                "the queries have no texts", hint="read them from a file of queries, not of a run"
            )
        analyse = self.index.analyzer.terms
        return self.search_weighted(
            queries, [Counter(analyse(text)) for text in queries.texts], top
        )

    def search_weighted(
        self, queries: Queries, weighted: Sequence[Mapping[str, float]], top: int
    ) -> Run:
        """The best `top` documents of queries given as terms and weights, one for each id."""
        if len(weighted) != len(queries):
            raise InputError(f"{len(queries)} query ids but {len(weighted)} weighted queries")
        snapshot = self.index.snapshot
        columns = self._columns(snapshot, term_queries(snapshot, weighted), top)
        return as_run(queries, snapshot, columns)

    def _columns(
        self, snapshot: Snapshot, queries: TermQueries, top: int
    ) -> tuple[Longs, Ints, Floats]:
        how = self.threads or usable_cores(), self.conditions
        if self.feedback is not None:
            first = search_terms(snapshot, queries, self.ranking, self.feedback.documents, *how)
            queries = expand(snapshot, queries, self.feedback, first)
        return search_terms(snapshot, queries, self.ranking, top, *how)

    def score_text(self, query: str, text: str) -> float:
        """The score of any text under the collection's statistics (without RM3)."""
        return self._score(query, Counter(self.index.analyzer.terms(text)))

    def score_document(self, query: str, doc_id: str) -> float:
        """The score of a document, also of one that is not among the best (without RM3);
        `KeyError` where there is none.

        >>> from tempfile import mkdtemp
        >>> from tamis import Document, Index
        >>> texts = {"drum": "a drum sieve", "net": "a net for fish"}
        >>> documents = [Document(name, text) for name, text in texts.items()]
        >>> bm25 = Index.build(documents, mkdtemp() + "/index").bm25()
        >>> bm25.score_document("fish net", "net") > bm25.score_document("fish net", "drum")
        True
        """
        return self._score(query, self.index.snapshot.term_vector(doc_id))

    def _score(self, query: str, text_counts: Mapping[str, int]) -> float:
        snapshot, query_counts = self.index.snapshot, Counter(self.index.analyzer.terms(query))
        shared = [term for term in query_counts if term in text_counts]
        numbers = np.array(snapshot.lexicon.numbers(shared), np.int32)
        in_index, lexicon = numbers >= 0, snapshot.lexicon
        frequency = np.array([text_counts[term] for term in shared], np.int32)[in_index]
        length = np.full(len(frequency), length_byte(sum(text_counts.values())), np.int32)
        weights = np.array([query_counts[term] for term in shared], np.float32)[in_index]
        counts = lexicon.documents_of[numbers[in_index]], lexicon.occurrences[numbers[in_index]]
        pairs = self.ranking.pair_scores(frequency, length, snapshot.statistics)
        scores = self.ranking.term_scores(weights, *counts, snapshot.statistics)
        highest = max(float(scores.bounds.max(initial=0.0)), 1e-25)
        scale = 2.0 ** np.floor(30 - np.log2(highest))
        table, frequency_scores = (
            np.zeros(len(frequency), np.int32),
            np.empty(len(pairs.frequencies)),
        )
        total = 0.0
        for n in range(len(frequency)):
            fill_table(scores.weights[n], scores.priors[n], scale, pairs, frequency_scores, table)
            total += float(table[n]) / scale
        return float(np.float32(total))

    def spec(self) -> Spec:
        """See `Source.spec`."""
        feedback = {} if self.feedback is None else {"rm3": self.feedback.spec()}
        return {
            "source": "index",
            "version": SPEC_VERSION,
            "index": index_spec(self.index),
            **self.ranking.spec(),
            **feedback,
            **where_spec(self.conditions),
        }


def open_source(values: Spec, opening: Opening) -> IndexSource:
    """See `registry.OPENERS`."""
    ranking, other = open_ranking("an index source", values)
    check_keys("an index source", other, {"index": dict}, {"rm3": dict, "where": list})
    feedback = None
    if "rm3" in other:
        check_keys("rm3", other["rm3"], {"terms": int, "documents": int, "weight": NUMBER})
        feedback = RM3(**other["rm3"])
    index, conditions = open_index(other["index"], opening), open_where(other)
    return IndexSource(index, ranking, feedback, opening.threads, conditions)
