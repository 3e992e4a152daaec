"""The join of judgements and run: ranks, counts, and both ways of finding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.evaluation import join
from tamis.types import Qrels, Run

Grades = dict[str, dict[str, int]]
Scores = dict[str, dict[str, float]]

doc_ids = st.integers(0, 60).map(lambda n: f"d{n}")
query_ids = st.sampled_from(["q1", "q2", "q3", "é4"])
all_grades = st.dictionaries(
    query_ids, st.dictionaries(doc_ids, st.integers(-2, 4), min_size=1, max_size=40), min_size=1
)
all_scores = st.dictionaries(
    query_ids, st.dictionaries(doc_ids, st.integers(0, 6).map(float), max_size=50)
)


def test_every_judged_document_has_its_rank() -> None:
    qrels = Qrels.from_dict({"q1": {"d1": 1, "d2": 0, "d9": 2}, "q2": {"d1": 1}})
    run = Run.from_dict({"q1": {"d1": 1.0, "d2": 2.0, "d3": 3.0}, "q9": {"d1": 1.0}})
    judged = join(qrels, run)
    assert qrels.docs.take(judged.doc) == ["d2", "d1", "d9", "d1"]
    assert judged.rank.tolist() == [2, 3, 0, 0]
    assert judged.grade.tolist() == [0, 1, 2, 1]
    assert judged.retrieved.tolist() == [3, 0]
    assert list(judged.missing) == ["q2"]
    assert list(judged.unjudged) == ["q9"]


def test_a_query_with_an_empty_ranking_is_missing() -> None:
    judged = join(Qrels.from_dict({"q1": {"d1": 1}}), Run.from_dict({"q1": {}}))
    assert list(judged.missing) == ["q1"]
    assert list(judged.unjudged) == []


def test_an_empty_run_misses_every_query() -> None:
    judged = join(Qrels.from_dict({"q1": {"d1": 1}, "q2": {"d1": 0}}), Run.from_dict({}))
    assert judged.rank.tolist() == [0, 0]
    assert list(judged.missing) == ["q1", "q2"]


@pytest.mark.parametrize("judgements", [1, 6, 7, 300])
def test_few_and_many_judgements_find_the_same(judgements: int) -> None:
    random = np.random.default_rng(judgements)
    documents = [f"d{n}" for n in random.permutation(2000)]
    retrieved = documents[:1000]
    run = Run.from_dict({"q": {d: float(-n) for n, d in enumerate(retrieved)}})
    chosen = [documents[n] for n in random.choice(2000, judgements, replace=False)]
    qrels = Qrels.from_dict({"q": dict.fromkeys(chosen, 1)})
    judged = join(qrels, run)
    expected = sorted(retrieved.index(d) + 1 for d in chosen if d in set(retrieved))
    assert judged.rank[: len(expected)].tolist() == expected
    assert not judged.rank[len(expected) :].any()


def test_documents_that_meet_in_the_hash_table_are_told_apart() -> None:
    """Numbers that are equal modulo the size of the table, 1024, for queries one after another."""
    numbers = [1024 * n + shift for n in range(10) for shift in (0, 1, 2, 7)]
    random = np.random.default_rng(0)
    rankings = {q: [f"d{n:05d}" for n in random.permutation(numbers)] for q in ("q1", "q2", "q3")}
    everything = {f"d{n:05d}": -float(n) for n in range(1024 * 10)}
    scores = {q: {d: float(-n) for n, d in enumerate(docs)} for q, docs in rankings.items()}
    chosen = {q: random.permutation(docs[:30])[:20].tolist() for q, docs in rankings.items()}
    qrels = Qrels.from_dict({q: dict.fromkeys(docs, 1) for q, docs in chosen.items()})
    judged = join(qrels, Run.from_dict({**scores, "q4": everything}))
    for number, query in enumerate(judged.queries):
        rows = slice(judged.offsets[number], judged.offsets[number + 1])
        ranked = sorted(chosen[query], key=rankings[query].index)
        assert qrels.docs.take(judged.doc[rows]) == ranked
        assert judged.rank[rows].tolist() == [rankings[query].index(d) + 1 for d in ranked]


@given(all_grades, all_scores)
@settings(max_examples=60, deadline=None)
def test_join_equals_looking_each_document_up(grades: Grades, scores: Scores) -> None:
    qrels, run = Qrels.from_dict(grades), Run.from_dict(scores)
    judged = join(qrels, run)
    for number, query in enumerate(judged.queries):
        rows = slice(judged.offsets[number], judged.offsets[number + 1])
        ranking = run[query].ids if query in run else []
        found = {
            doc: (int(grade), int(rank))
            for doc, grade, rank in zip(
                qrels.docs.take(judged.doc[rows]),
                judged.grade[rows],
                judged.rank[rows],
                strict=True,
            )
        }
        assert found == {
            doc: (grade, ranking.index(doc) + 1 if doc in ranking else 0)
            for doc, grade in grades[query].items()
        }
        assert judged.retrieved[number] == len(ranking)
        order = [rank or 10**9 for rank in judged.rank[rows].tolist()]
        assert order == sorted(order)
    assert set(judged.missing) == {query for query in grades if not scores.get(query)}
    assert set(judged.unjudged) == scores.keys() - grades.keys()
