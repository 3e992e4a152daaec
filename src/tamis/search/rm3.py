"""RM3: the query again, with terms that its best documents have in common, as Anserini does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.search.rankings import Doubles, Floats
from tamis.search.snapshot import Snapshot
from tamis.search.term_counts import Ints, Longs
from tamis.search.term_search import TermQueries

COMMON_SHARE = np.float32(0.1)
"""Terms in more than this share of the documents are no feedback."""


@dataclass(frozen=True)
class RM3:
    """How many terms of how many documents are added, and what weight the query itself keeps.

    >>> RM3().spec()
    {'terms': 10, 'documents': 10, 'weight': 0.5}
    """

    terms: int = 10
    documents: int = 10
    weight: float = 0.5

    def __post_init__(self) -> None:
        for name in ("terms", "documents"):
            if getattr(self, name) < 1:
                raise InputError(f"RM3 with {getattr(self, name)} {name}", hint="at least one")
        if not 0 <= self.weight <= 1:
            raise InputError(f"the weight is {self.weight}", hint="it lies between 0 and 1")

    def spec(self) -> dict[str, Any]:
        """The parameters as plain JSON."""
        return {"terms": self.terms, "documents": self.documents, "weight": self.weight}


def expand(
    snapshot: Snapshot, queries: TermQueries, rm3: RM3, columns: tuple[Longs, Ints, Floats]
) -> TermQueries:
    """The queries mixed with the terms of the documents that they found."""
    bounds, documents, scores = columns
    term_vectors = snapshot.term_vectors(documents)
    models = relevance_models(bounds, scores, *term_vectors, feedback_terms(snapshot), rm3.terms)
    columns_of_queries = (queries.offsets, queries.terms, queries.weights, queries.totals)
    offsets, terms, weights = mix(np.float32(rm3.weight), *columns_of_queries, *models)
    return TermQueries(offsets, terms, weights, np.ones(len(queries.totals)))


def feedback_terms(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Of each term whether it may be added: plain, and in at most a tenth of the documents."""
    lexicon = snapshot.lexicon
    documents = np.float32(max(snapshot.total("documents"), 1))
    rare = lexicon.documents_of.astype(np.float32) / documents <= COMMON_SHARE
    allowed: NDArray[np.bool_] = rare & plain(lexicon.terms.data, lexicon.terms.offsets)
    return allowed


@jit
def plain(data: NDArray[np.uint8], offsets: Longs) -> NDArray[np.bool_]:
    """Of each string whether it is 2 to 20 letters a to z or digits."""
    good = np.zeros(len(offsets) - 1, np.bool_)
    for n in range(len(good)):
        size = offsets[n + 1] - offsets[n]
        good[n] = size >= 2 and size <= 20
        for i in range(offsets[n], offsets[n + 1]):
            letter = np.int64(data[i])
            if not (97 <= letter <= 122 or 48 <= letter <= 57):
                good[n] = False
    return good


@jit
def keep_largest(values: Floats, terms: Ints, count: int, k: int) -> int:
    """Move the k largest values with their terms to the front, in order; how many there are.

    Equal values are ordered by term.
    """
    size = 0
    for i in range(count):
        value, term = values[i], terms[i]
        if size == k and not (
            value > values[k - 1] or (value == values[k - 1] and term < terms[k - 1])
        ):
            continue
        at = min(size, k - 1)
        while at > 0 and (
            value > values[at - 1] or (value == values[at - 1] and term < terms[at - 1])
        ):
            values[at], terms[at] = values[at - 1], terms[at - 1]
            at -= 1
        values[at], terms[at] = value, term
        size = min(size + 1, k)
    return size


@jit
def relevance_models(
    bounds: Longs,
    scores: Floats,
    vector_offsets: Longs,
    vector_terms: Ints,
    frequencies: Ints,
    allowed: NDArray[np.bool_],
    k: int,
) -> Any:
    """For each query the best k terms of its documents and their weights, which sum to one.

    Each document's term vector keeps its k most frequent terms, scaled to sum to one, and weighted
    by the document's score.
    """
    queries = len(bounds) - 1
    found_terms, found_weights = (
        np.empty((queries, k), np.int32),
        np.empty((queries, k), np.float32),
    )
    counts = np.zeros(queries, np.int64)
    slot = np.full(len(allowed), -1, np.int32)
    longest = 1
    for query in range(queries):
        longest = max(longest, k * (bounds[query + 1] - bounds[query]))
    for n in range(len(vector_offsets) - 1):
        longest = max(longest, vector_offsets[n + 1] - vector_offsets[n])
    terms, weights = np.empty(longest, np.int32), np.empty(longest, np.float32)
    one_terms, one_values = np.empty(longest, np.int32), np.empty(longest, np.float32)
    for query in range(queries):
        count = 0
        for n in range(bounds[query], bounds[query + 1]):
            size = 0
            for i in range(vector_offsets[n], vector_offsets[n + 1]):
                if allowed[vector_terms[i]]:
                    one_terms[size], one_values[size] = vector_terms[i], frequencies[i]
                    size += 1
            size = keep_largest(one_values, one_terms, size, k)
            norm = np.float32(0)
            for i in range(size):
                norm += one_values[i]
            for i in range(size):
                term = one_terms[i]
                if slot[term] < 0:
                    slot[term] = count
                    terms[count], weights[count] = term, 0
                    count += 1
                weights[slot[term]] += one_values[i] / norm * scores[n]
        for i in range(count):
            slot[terms[i]] = -1
        count = keep_largest(weights, terms, count, k)
        total = 0.0
        for i in range(count):
            total += np.float64(weights[i])
        if total > 0:  # documents may all score nothing, under query likelihood
            counts[query] = count
            for i in range(count):
                found_terms[query, i] = terms[i]
                found_weights[query, i] = np.float32(np.float64(weights[i]) / total)
    return found_terms, found_weights, counts


@jit
def mix(
    share: np.float32,
    offsets: Longs,
    terms: Ints,
    weights: Floats,
    totals: Doubles,
    model_terms: Any,
    model_weights: Any,
    model_counts: Longs,
) -> Any:
    """Each query, scaled to sum to one, mixed with its model; terms without weight are left out."""
    queries = len(offsets) - 1
    room = len(terms) + model_counts.sum()
    new_terms, new_weights = np.empty(room, np.int32), np.empty(room, np.float32)
    new_offsets = np.zeros(queries + 1, np.int64)
    model_share = 1.0 - np.float64(share)
    at = 0
    for query in range(queries):
        first = at
        for i in range(offsets[query], offsets[query + 1]):
            own = share * np.float32(np.float64(weights[i]) / totals[query])
            added = 0.0
            for m in range(model_counts[query]):
                if model_terms[query, m] == terms[i]:
                    added = model_share * np.float64(model_weights[query, m])
            new_terms[at], new_weights[at] = terms[i], np.float32(np.float64(own) + added)
            at += 1
        last = at
        for m in range(model_counts[query]):
            is_present = False
            for i in range(first, last):
                is_present = is_present or new_terms[i] == model_terms[query, m]
            if not is_present:
                new_terms[at] = model_terms[query, m]
                new_weights[at] = np.float32(model_share * np.float64(model_weights[query, m]))
                at += 1
        end = first
        for i in range(first, at):
            if new_weights[i] >= np.float32(1e-20):
                new_terms[end], new_weights[end] = new_terms[i], new_weights[i]
                end += 1
        at = end
        new_offsets[query + 1] = at
    return new_offsets, new_terms[:at].copy(), new_weights[:at].copy()
