"""Terms of candidates: numbers, idf, overlaps by hand; what cannot be read is refused."""

from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.rankers.term_texts import CandidateTerms, TermSource
from tamis.scorers.word_vectors import WordVectors
from tamis.types import Document, Queries, Query, Run

TABLE = np.array([[3, 0], [0, 4], [3, 4]], np.float32)
VECTORS = WordVectors.of(["drum", "sieve", "fine"], TABLE)
DOCUMENTS = {
    "d1": Document("d1", "a fine drum sieve, a fine drum"),
    "d2": Document("d2", "sieve drum sieve"),
    "d3": Document("d3", ""),
}
UNKNOWN = np.array([1 + 0 + 0.6, 0 + 1 + 0.8])


def candidates(query: str, scores: dict[str, float] | None = None) -> Run:
    run = Run.from_dict({"q": scores or {"d1": 3.0, "d2": 2.0, "d3": 1.0}})
    return run.with_queries(Queries.of([Query("q", query)]))


def terms_of(query: str, most: int = 4, longest: int = 5) -> CandidateTerms:
    return TermSource(VECTORS, DOCUMENTS).of(candidates(query), most, longest)


def test_terms_have_vectors_of_length_one_and_unknown_words_the_mean() -> None:
    terms = terms_of("Fine sieves")
    of_query = terms.vectors[terms.query_terms[0]]
    unknown = (UNKNOWN / sqrt(UNKNOWN @ UNKNOWN)).tolist()
    expected = [[0.6, 0.8], unknown, [0.0, 0.0], [0.0, 0.0]]
    assert np.allclose(of_query, expected, atol=1e-6)
    assert terms.query_lengths.tolist() == [2]
    rows = np.array([1, 0, 2])
    assert terms.document_lengths[terms.document[rows]].tolist() == [3, 5, 0]
    read = terms.vectors[terms.documents(rows)]
    assert np.allclose(read[0], [[0, 1], [1, 0], [0, 1], [0, 0], [0, 0]], atol=1e-6)
    assert np.allclose(read[1, :4], [unknown, [0.6, 0.8], [1, 0], [0, 1]], atol=1e-6)
    assert (read[2] == 0).all()


def test_idf_is_that_of_all_documents_and_zero_after_the_query() -> None:
    terms = terms_of("fine sieve tamis")
    idf = {df: log(1 + (3 - df + 0.5) / (df + 0.5)) for df in (0, 1, 2)}
    assert terms.query_idf[0] == pytest.approx([idf[1], idf[2], idf[0], 0])


def test_a_long_query_loses_its_terms_of_least_idf_and_keeps_its_order() -> None:
    terms = terms_of("drum fine sieve tamis", most=3)
    idf = {df: log(1 + (3 - df + 0.5) / (df + 0.5)) for df in (0, 1, 2)}
    assert terms.query_idf[0] == pytest.approx([idf[2], idf[1], idf[0]])  # drum before sieve
    assert np.allclose(terms.vectors[terms.query_terms[0, 0]], [1, 0])


def test_overlaps_by_hand() -> None:
    """Of the query's words d1 has fine, drum and sieve (as it has `drum sieve`), not river."""
    terms = terms_of("fine drum sieve river fine drum", most=2, longest=1)
    idf = {df: log(1 + (3 - df + 0.5) / (df + 0.5)) for df in (0, 1, 2)}
    total = idf[1] + 2 * idf[2] + idf[0]
    deviation = sqrt(2 / 3)
    # bigrams: fine drum (twice), drum sieve, sieve river, river fine
    first = [1 / deviation, 3 / 4, 2 / 4, (idf[1] + 2 * idf[2]) / total]
    second = [0, 2 / 4, 1 / 4, 2 * idf[2] / total]  # `sieve drum` is none of them
    third = [-1 / deviation, 0, 0, 0]
    assert np.allclose(terms.features, [first, second, third], atol=1e-6)


@settings(deadline=None)  # the first call compiles
@given(
    st.lists(st.sampled_from("abc"), max_size=6),
    st.lists(st.lists(st.sampled_from("abcd"), max_size=8), min_size=1, max_size=4),
)
def test_overlaps_are_those_of_sets(query: list[str], texts: list[list[str]]) -> None:
    documents = {f"d{n}": Document(f"d{n}", " ".join(text)) for n, text in enumerate(texts)}
    source = TermSource(WordVectors.of(["a"], np.ones((1, 2), np.float32)), documents).complete()
    assert source.counts is not None
    run = candidates(" ".join(query), dict.fromkeys(documents, 0.0))
    terms = source.of(run, 3, 3)
    words, bigrams = set(query), set(pairwise(query))
    for row, name in enumerate(run["q"].ids):
        text = documents[name].text.split()
        both = words & set(text)
        idf = [float(source.counts.idf(sorted(some)).sum()) for some in (both, words)]
        two = bigrams & set(pairwise(text))
        expected = [
            len(both) / max(len(words), 1),
            len(two) / max(len(bigrams), 1),
            idf[0] / idf[1] if words else 0,
        ]
        assert terms.features[row, 1:] == pytest.approx(expected, abs=1e-6)


def test_counts_and_the_unknown_vector_are_those_that_are_given() -> None:
    source = TermSource(VECTORS, DOCUMENTS).complete()
    more = {**DOCUMENTS, "d4": Document("d4", "sieve")}
    assert source.counts is not None
    again = TermSource(VECTORS, more, counts=source.counts, unknown=source.unknown)
    run = candidates("a fine river")
    for field in ("query_idf", "features", "vectors"):
        assert np.array_equal(
            getattr(again.of(run, 3, 3), field), getattr(source.of(run, 3, 3), field)
        )


def test_bad_input() -> None:
    source = TermSource(VECTORS, DOCUMENTS)
    with pytest.raises(InputError, match="have no texts"):
        source.of(Run.from_dict({"q": {"d1": 1.0}}), 3, 3)
    with pytest.raises(InputError, match="not in the collection"):
        source.of(candidates("a", {"d9": 1.0}), 3, 3)
    with pytest.raises(InputError, match="only once"):
        TermSource(VECTORS, iter(DOCUMENTS.values())).complete()
    with pytest.raises(InputError, match="in no file"):
        source.spec()
    with_nan = candidates("a").with_extra(first=np.array([1.0, np.nan, 0.0]))
    with pytest.raises(InputError, match=r"'first' is nan for document 'd2'"):
        TermSource(VECTORS, DOCUMENTS, "first").of(with_nan, 3, 3)
