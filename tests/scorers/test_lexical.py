"""The lexical scorer equals the index's own scores, and takes texts the index never saw."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.collection.readers import open_collection
from tamis.scorers import bag_of_words
from tamis.scorers import lexical as module
from tamis.scorers.lexical import Lexical
from tamis.search import Index
from tamis.search.build import searched_text
from tamis.search.rankings import BM25, QueryLikelihood, Ranking
from tamis.search.sources import IndexSource
from tamis.testing import check_scorer
from tamis.text.analysis import FunctionAnalyzer
from tamis.types import Document, Pairs, Queries, Query, score_texts

DOCUMENTS = [
    Document("d1", "A drum sieve is a net stretched over a frame.", title="Tamis"),
    Document("d2", "Rivers flow to the sea; drums drum, drumming."),
    Document("d3", "Grain " * 70 + "sieve"),
    Document("d4", "the of and"),
    Document("d5", ""),
]
RANKINGS: list[Ranking] = [BM25(), BM25(1.5, 0.9), BM25(0.0, 0.0), QueryLikelihood(50)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    index = Index.build(DOCUMENTS[:2], tmp_path_factory.mktemp("lexical") / "index")
    index.add(DOCUMENTS[2:])
    return index


def test_by_hand(index: Index) -> None:
    # three documents have terms: 7, 6 and 71 of them; two have the term sieve
    average = (7 + 6 + 71) / 3
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    length = 3  # "sieve", "sieve", "bowl"
    expected = idf * 2 / (2 + 0.9 * (1 - 0.4 + 0.4 * length / average))
    value = score_texts(Lexical(index), "the sieve", ["A sieve? Sieves and a bowl."])[0]
    assert value == pytest.approx(expected, rel=1e-6)


def test_the_contract(index: Index) -> None:
    check_scorer(Lexical(index))
    # query likelihood gives a rare term in a long text nothing, so the end of it does not count
    check_scorer(Lexical(index, QueryLikelihood()), long_text=20)


@pytest.mark.parametrize("ranking", RANKINGS, ids=str)
def test_a_document_scores_as_in_a_search(index: Index, ranking: Ranking) -> None:
    texts = ["drum sieve grain drum", "Tamis unheard", "sieve"]
    queries = Queries.of([Query(str(n), text) for n, text in enumerate(texts)])
    run = IndexSource(index, ranking)(queries)
    by_id = {document.id: searched_text(document) for document in DOCUMENTS}
    for query in queries:
        found = run[query.id]
        values = score_texts(Lexical(index, ranking), query.text, [by_id[d] for d in found.ids])
        np.testing.assert_array_equal(values, found.score)


WORD = st.sampled_from("drum drums Sieve sieves grain net the of river unheard 🙂 ß".split())
TEXT = st.lists(WORD, max_size=60).map(" ".join)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(TEXT, min_size=1, max_size=4),
    st.lists(TEXT, min_size=1, max_size=5),
    st.sampled_from(RANKINGS),
)
def test_any_text_scores_as_score_text_says(
    index: Index, queries: list[str], texts: list[str], ranking: Ranking
) -> None:
    rows = np.indices((len(queries), len(texts)), np.int32).reshape(2, -1).T
    pairs = Pairs(queries, texts, np.ascontiguousarray(rows))
    source = IndexSource(index, ranking)
    expected = [source.score_text(queries[q], texts[t]) for q, t in rows.tolist()]
    values = Lexical(index, ranking).score(pairs).values
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)
    with pytest.MonkeyPatch.context() as patch:  # tiny blocks, a fresh table after each
        patch.setattr(module, "MAX_TABLE_WORDS", 3)
        patch.setattr(module, "text_blocks", lambda p, query: bag_of_words.text_blocks(p, query, 9))
        np.testing.assert_array_equal(Lexical(index, ranking).score(pairs).values, values)


def test_odd_texts(index: Index) -> None:
    texts = ["", "\x00\x07", "\ud800 sieve", "🙂", "grain " * 1_000_000]
    values = score_texts(Lexical(index), "sieve grain", texts)
    assert values[[0, 1, 3]].tolist() == [0, 0, 0]
    assert (values[[2, 4]] > 0).all()
    assert score_texts(Lexical(index), "", ["sieve"]).tolist() == [0]
    assert score_texts(Lexical(index), "unheard", ["unheard"]).tolist() == [0]
    assert score_texts(Lexical(index), "word " * 10**6 + "sieve", ["sieve"])[0] > 0


def test_an_index_without_documents(tmp_path: Path) -> None:
    empty = Index.build([], tmp_path / "index")
    assert score_texts(Lexical(empty), "sieve", ["sieve", ""]).tolist() == [0, 0]


def test_an_analyzer_of_ones_own(tmp_path: Path) -> None:
    letters = FunctionAnalyzer("letters", "1", lambda text: text.split("-"))
    index = Index.build([Document("1", "a-b"), Document("2", "b-c-c")], tmp_path / "i", letters)
    texts = ["a-b", "c-c-d", "x"]
    expected = [index.score_text("c-a", text) for text in texts]
    assert score_texts(Lexical(index), "c-a", texts) == pytest.approx(expected)


def test_real_documents_score_as_in_a_search(data: Path, tmp_path: Path) -> None:
    collection = open_collection(data / "cacm")
    index = Index.build(collection.documents, tmp_path / "index")
    run = (index.bm25() % 50)(collection.queries)
    texts = [searched_text(index.document(doc_id)) for doc_id in run.docs]
    query = np.repeat(np.arange(len(run)), run.sizes())
    assert run.queries.texts is not None
    pairs = Pairs(run.queries.texts, texts, np.stack([query, run.doc], 1).astype(np.int32))
    np.testing.assert_array_equal(Lexical(index).score(pairs).values, run.score)
