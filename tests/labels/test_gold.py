"""Examples from judgements: exact small cases, and what must hold for any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.labels._groups import sample_queries
from tamis.labels.examples import Examples
from tamis.labels.gold import NEGATIVE_SOURCES, Negatives, gold
from tamis.types import Ids, Qrels, Queries, Query, Run

DOCS = Ids.of(f"d{n}" for n in range(1, 9))
QUERIES = Queries.of(Query(f"q{n}", f"query {n}") for n in range(1, 5))
RUN = Run.from_dict(
    {
        "q1": {"d1": 9, "d2": 8, "d3": 7, "d4": 6, "d5": 5},
        "q2": {"d6": 3, "d7": 2},
        "q3": {"d1": 1, "d2": 0.5},
    }
)
QRELS = Qrels.from_dict(
    {"q1": {"d3": 2, "d2": 1, "d8": 0, "d1": 0}, "q2": {"d1": 1}, "q3": {"d1": 0}}
)


def rows(examples: Examples, query: str) -> dict[str, list[str]]:
    """The documents of a query by role."""
    found: dict[str, list[str]] = {}
    wanted = examples.query == examples.queries.ids.number(query)
    for role in ("positive", "negative", "pool"):
        documents = examples.docs.take(examples.doc[wanted & examples.is_role(role)])
        if documents:
            found[role] = documents
    return found


def test_a_pool_is_the_list_without_what_is_relevant() -> None:
    made = gold(QRELS, QUERIES, RUN, DOCS)
    assert rows(made, "q1") == {"positive": ["d2", "d3"], "pool": ["d1", "d4", "d5"]}
    assert rows(made, "q2") == {"positive": ["d1"], "pool": ["d6", "d7"]}
    assert made.facts["counts"] == {
        "queries": 2,
        "positive": 3,
        "pool": 5,
        "excluded_queries_without_a_judgement": 1,
        "excluded_queries_without_a_positive": 1,
    }
    assert made.value.tolist() == [1, 1, 0, 0, 0, 1, 0, 0]
    assert made.queries.texts == ("query 1", "query 2")
    assert made.facts["labelled_by"] == "gold"


def test_what_lies_below_the_grade_is_neither() -> None:
    made = gold(QRELS, QUERIES, RUN, grade=2)
    assert rows(made, "q1") == {"positive": ["d3"], "pool": ["d1", "d4", "d5"]}
    assert made.facts["counts"]["excluded_documents_below_grade"] == 1
    assert made.facts["counts"]["excluded_queries_without_a_positive"] == 2


def test_a_number_of_negatives_is_drawn() -> None:
    made = gold(QRELS, QUERIES, RUN, negatives_per_query=2)
    drawn = rows(made, "q1")["negative"]
    assert len(drawn) == 2
    assert set(drawn) < {"d1", "d4", "d5"}
    assert sorted(rows(made, "q2")["negative"]) == ["d6", "d7"]
    assert made == gold(QRELS, QUERIES, RUN, negatives_per_query=2)
    others = {
        tuple(rows(gold(QRELS, QUERIES, RUN, negatives_per_query=2, seed=seed), "q1")["negative"])
        for seed in range(20)
    }
    assert len(others) > 2


def test_depth_ends_the_list() -> None:
    made = gold(QRELS, QUERIES, RUN, depth=4)
    assert rows(made, "q1")["pool"] == ["d1", "d4"]


def test_judged_negatives() -> None:
    made = gold(QRELS, QUERIES, negatives="judged")
    assert rows(made, "q1")["pool"] == ["d1", "d8"]
    assert rows(made, "q2") == {"positive": ["d1"]}
    assert made.facts["counts"]["queries_without_a_negative"] == 1


def test_random_negatives() -> None:
    made = gold(QRELS, QUERIES, None, DOCS, negatives="random", depth=100)
    assert sorted(rows(made, "q1")["pool"]) == ["d1", "d4", "d5", "d6", "d7", "d8"]
    few = gold(QRELS, QUERIES, None, DOCS, negatives="random", depth=3)
    assert len(rows(few, "q1")["pool"]) == 3
    drawn = gold(QRELS, QUERIES, None, DOCS, negatives="random", negatives_per_query=4)
    assert len(rows(drawn, "q1")["negative"]) == 4


def test_mixed_negatives_come_in_turn() -> None:
    made = gold(QRELS, QUERIES, RUN, DOCS, negatives="mixed", negatives_per_query=2)
    first, second = rows(made, "q1")["negative"]
    assert first in ("d1", "d8")
    assert second in ("d1", "d4", "d5")
    pool = gold(QRELS, QUERIES, RUN, DOCS, negatives="mixed")
    assert sorted(rows(pool, "q1")["pool"]) == ["d1", "d4", "d5", "d6", "d7", "d8"]


def test_a_query_keeps_its_negatives_whatever_else_is_labelled() -> None:
    options: Any = {"negatives": "mixed", "negatives_per_query": 3, "seed": 5}
    alone = QUERIES.select(np.array([1]))
    together = gold(QRELS, QUERIES, RUN, DOCS, **options)
    assert rows(gold(QRELS, alone, RUN, DOCS, **options), "q2") == rows(together, "q2")


def test_a_document_that_is_not_there() -> None:
    some = Ids.of(["d2", "d4", "d5", "d6", "d7"])
    with pytest.raises(
        InputError, match="'d3', judged relevant for query 'q1', is not in the coll"
    ):
        gold(QRELS, QUERIES, RUN, some)
    made = gold(QRELS, QUERIES, RUN, some, missing="skip")
    assert rows(made, "q1") == {"positive": ["d2"], "pool": ["d4", "d5"]}
    assert made.facts["counts"]["left out: documents judged relevant, not in the collection"] == 2
    assert made.facts["counts"]["left out: documents of the run, not in the collection"] == 2
    with pytest.raises(InputError, match="'d1', of the run for query 'q1'"):
        gold(Qrels.from_dict({"q1": {"d2": 1}}), QUERIES, RUN, some)


def test_what_cannot_be_done_says_so() -> None:
    with pytest.raises(InputError, match="no run"):
        gold(QRELS, QUERIES)
    with pytest.raises(InputError, match="ids of all documents"):
        gold(QRELS, QUERIES, RUN, negatives="mixed")
    with pytest.raises(InputError, match="none of 4 queries has a document judged 3"):
        gold(QRELS, QUERIES, RUN, grade=3)
    wrong: list[Any] = [{"grade": 0}, {"depth": 0}, {"negatives_per_query": 0}]
    for bad in wrong:
        with pytest.raises(InputError, match="too low"):
            gold(QRELS, QUERIES, RUN, **bad)


names = st.sampled_from([f"d{n}" for n in range(12)])
asked = st.sampled_from(["q1", "q2", "q3"])


@settings(deadline=None, max_examples=60)
@given(
    judged=st.dictionaries(asked, st.dictionaries(names, st.integers(-1, 3)), min_size=1),
    lists=st.dictionaries(asked, st.dictionaries(names, st.floats(0, 9, width=32))),
    negatives=st.sampled_from(list(NEGATIVE_SOURCES)),
    count=st.one_of(st.none(), st.integers(1, 5)),
    grade=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_properties(
    judged: dict[str, dict[str, int]],
    lists: dict[str, dict[str, float]],
    negatives: Negatives,
    count: int | None,
    grade: int,
    seed: int,
) -> None:
    qrels, run = Qrels.from_dict(judged), Run.from_dict(lists)
    queries = Queries(Ids.of(["q1", "q2", "q3"]))
    positives = {q: {d for d, g in grades.items() if g >= grade} for q, grades in judged.items()}
    documents = Ids.of(f"d{n}" for n in range(12))
    try:
        made = gold(qrels, queries, run, documents, grade=grade, negatives=negatives,
                    negatives_per_query=count, seed=seed)  # fmt: skip
    except InputError:
        assert not any(positives.values())
        return
    assert set(made.queries.ids) == {query for query, found in positives.items() if found}
    for query in made.queries.ids:
        found = rows(made, query)
        others = found.get("negative", []) + found.get("pool", [])
        assert set(found["positive"]) == positives[query]
        assert len(set(others)) == len(others)
        assert not {d for d in others if judged[query].get(d, 0) > 0}
        assert count is None or len(others) <= count
        assert ("pool" in found) <= (count is None)


def test_a_smaller_sample_is_part_of_a_larger() -> None:
    qrels = Qrels.from_dict({f"q{n}": {"d1": 1} for n in range(50)})
    made = gold(qrels, Queries(qrels.queries), None, DOCS, negatives="random")
    some = {size: sample_queries(made, size, seed=1) for size in (5, 20, 50)}
    used = {size: set(part.queries.ids.take(np.unique(part.query))) for size, part in some.items()}
    assert [len(used[size]) for size in (5, 20, 50)] == [5, 20, 50]
    assert used[5] < used[20] < used[50]
    assert some[5].facts["counts"] == {"queries": 5, "positive": 5, "pool": 35}
    assert sample_queries(made, 5, seed=2) != some[5]
