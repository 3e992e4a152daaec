"""Weak labels by hand: a score put on 0 to 5 within one query's candidates."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.labels.example_texts import row_texts
from tamis.labels.weak import LUCENE_BM25, scale_scores, weak
from tamis.pipeline.document_lookup import MappingLookup
from tamis.scorers.lexical import Lexical
from tamis.search import Index
from tamis.types import Document, Pairs, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

DOCUMENTS = [
    Document("a", "One two three. Four five."),
    Document("b", "Six. Seven eight nine ten.", "Title"),
    Document("c", "eleven"),
    Document("d", "twelve"),
    Document("e", "", "only a title"),
    Document("f", ""),
]
QUERIES = Queries.of([Query("q1", "five"), Query("q2", "ten"), Query("q3", " ")])
RUN = Run.from_dict(
    {
        "q1": {"a": 9, "b": 8, "c": 7, "e": 5, "f": 4},
        "q2": {"d": 3, "c": 2},
        "q3": {"a": 1},
    }
).with_queries(QUERIES)


@dataclass
class Words:
    """The number of words of a text."""

    scale: Scale = "regression"
    seen: list[tuple[str, str]] = field(default_factory=list)

    def score(self, pairs: Pairs) -> Scores:
        asked = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        self.seen.extend(asked)
        values = np.array([len(text.split()) for _, text in asked], np.float32)
        return Scores(values, np.zeros(len(pairs), np.int32))


def test_by_hand() -> None:
    made = weak(RUN, Words(), DOCUMENTS, model="words")
    assert made.queries.ids.take(made.query) == ["q1"] * 4 + ["q2"] * 2
    assert made.docs.take(made.doc) == ["a", "b", "c", "e", "d", "c"]
    # of q1's: 5, 6 (with the title), 1 and 3 words; q2's have one word each
    expected = [(5 - 1) / 5 * 5, 5, 0, (3 - 1) / 5 * 5, 0, 0]
    assert made.value.tolist() == pytest.approx(expected)
    assert made.is_role("pool").all()
    assert made.facts["labelled_by"] == "weak"
    assert made.facts["scorer"] == "words"
    assert made.facts["counts"] == {
        "queries": 2,
        "documents": 5,
        "pool": 6,
        "queries_with_all_scores_equal": 1,
        "left out: documents without text": 1,
        "excluded_queries_without_text": 1,
    }


def test_passages_are_rows_that_lead_back_to_what_was_scored() -> None:
    scorer = Words()
    made = weak(RUN, scorer, DOCUMENTS, passages="sentences:1:1", depth=2)
    assert [(int(s), int(e)) for s, e in zip(made.start, made.end, strict=True)][:4] == [
        (0, 14), (15, 25), (0, 4), (5, 26),
    ]  # fmt: skip
    library = MappingLookup({document.id: document for document in DOCUMENTS})
    queries, texts = row_texts(made, np.arange(len(made)), library)
    assert list(zip(queries, texts, strict=True)) == scorer.seen
    # least 2 words, most 5: the minimum and maximum are over the query's passages
    assert made.value[:4].tolist() == pytest.approx([(3 - 2) / 3 * 5, 0, 0, 5])


@pytest.mark.parametrize("spec", ["words:2", "words:2:1", "whole"])
def test_titles_stand_where_the_spec_says(spec: str) -> None:
    scorer = Words()
    documents = [Document("a", "one two three four. five six", "Title"), *DOCUMENTS[1:]]
    made = weak(RUN, scorer, documents, passages=spec)
    library = MappingLookup({document.id: document for document in documents})
    queries, texts = row_texts(made, np.arange(len(made)), library)
    read = [(query, text.strip()) for query, text in zip(queries, texts, strict=True)]
    assert set(read) == set(scorer.seen)


@given(st.lists(st.lists(st.floats(-(2**60), 2**60, width=32), min_size=1, max_size=9), max_size=5))
def test_scaling_hits_0_and_5_exactly(scores: list[list[float]]) -> None:
    query = np.repeat(np.arange(len(scores)), [len(each) for each in scores]).astype(np.int64)
    flat = np.array([score for each in scores for score in each], np.float32)
    value, equal = scale_scores(query, flat)
    assert equal == sum(len(set(each)) == 1 for each in scores)
    for number, each in enumerate(scores):
        own = value[query == number]
        assert own.min() == 0
        assert own.max() == (5 if len(set(each)) > 1 else 0)
        assert own[int(np.argmax(each))] == own.max()


def test_bm25_with_lucenes_own_defaults(tmp_path: Path) -> None:
    index = Index.build(DOCUMENTS, tmp_path / "index")
    run = index.bm25(k1=1.2, b=0.75).search(QUERIES, 10)
    assert (LUCENE_BM25.k1, LUCENE_BM25.b) == (1.2, 0.75)
    made = weak(run, Lexical(index, LUCENE_BM25), index)
    assert made.facts["counts"]["queries_with_all_scores_equal"] == 2  # one candidate each
    both = Queries.of([Query("q", "five eleven one")])
    run = index.bm25(k1=1.2, b=0.75).search(both, 10)
    value = weak(run, Lexical(index, LUCENE_BM25), index).value
    least, most = run.score.min(), run.score.max()
    assert value.tolist() == pytest.approx((run.score - least) / (most - least) * 5)


def test_what_cannot_be_labelled() -> None:
    stale = Run.from_dict({"q1": {"gone": 2.0, "a": 1.0}}).with_queries(QUERIES)
    with pytest.raises(InputError, match="'gone' of query 'q1' is not in the collection"):
        weak(stale, Words(), DOCUMENTS)
    made = weak(stale, Words(), DOCUMENTS, missing="skip")
    assert made.facts["counts"]["excluded_documents_not_in_the_collection"] == 1
    with pytest.raises(InputError, match="have no texts"):
        weak(Run.from_dict({"q1": {"a": 1.0}}), Words(), DOCUMENTS)
    with pytest.raises(InputError, match="first 0"):
        weak(RUN, Words(), DOCUMENTS, depth=0)
