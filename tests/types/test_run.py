from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.types import Ids, Qrels, Queries, Query, Run, join_runs

IDS = st.text("ab1é", min_size=1, max_size=3)
SCORES = st.floats(-4, 4, width=16) | st.sampled_from([0.0, -0.0, 1.0, 1 + 1e-9])
RANKINGS = st.dictionaries(IDS, st.dictionaries(IDS, SCORES, max_size=8), max_size=6)


def trec_eval_order(ranking: dict[str, float]) -> list[str]:
    """trec_eval's rule, written as a sort: float32 score down, then id down by bytes."""
    by_id = sorted(ranking, key=str.encode, reverse=True)
    return sorted(by_id, key=lambda doc: -float(np.float32(ranking[doc])))


@given(RANKINGS)
@settings(deadline=None)
def test_every_query_is_in_the_order_of_trec_eval(rankings: dict[str, dict[str, float]]) -> None:
    run = Run.from_dict(rankings)
    assert sorted(run) == sorted(rankings)
    for query, ranking in rankings.items():
        assert run[query].ids == trec_eval_order(ranking)


@given(RANKINGS, st.randoms())
@settings(deadline=None)
def test_the_order_things_come_in_does_not_matter(
    rankings: dict[str, dict[str, float]], random: Random
) -> None:
    items = [(q, sorted(r.items(), key=lambda _: random.random())) for q, r in rankings.items()]
    random.shuffle(items)
    assert Run.from_dict({q: dict(r) for q, r in items}) == Run.from_dict(rankings)


@given(RANKINGS, st.integers(1, 9))
@settings(deadline=None)
def test_top_keeps_the_first(rankings: dict[str, dict[str, float]], k: int) -> None:
    run = Run.from_dict(rankings).with_extra
    whole = run(row=np.arange(sum(map(len, rankings.values()))))
    cut = whole.top(k)
    for query in rankings:
        assert cut[query].ids == whole[query].ids[:k]
        assert cut[query].extra["row"].tolist() == whole[query].extra["row"].tolist()[:k]


@given(RANKINGS, st.sets(IDS))
@settings(deadline=None)
def test_select_keeps_whole_rankings(
    rankings: dict[str, dict[str, float]], wanted: set[str]
) -> None:
    part = Run.from_dict(rankings).select(Ids.of(wanted))
    assert part == Run.from_dict({q: r for q, r in rankings.items() if q in wanted})


@given(RANKINGS, RANKINGS)
@settings(deadline=None)
def test_joining_runs_over_other_queries(
    here: dict[str, dict[str, float]], there: dict[str, dict[str, float]]
) -> None:
    there = {q: r for q, r in there.items() if q not in here}
    joined = join_runs([Run.from_dict(here), Run.from_dict(there)])
    assert joined == Run.from_dict({**here, **there})


def test_equal_scores_are_ordered_by_id_descending() -> None:
    run = Run.from_dict({"q": {"d1": 1.0, "d10": 1.0, "d9": 1.0, "d2": 2.0}})
    assert run["q"].ids == ["d2", "d9", "d10", "d1"]


def test_scores_are_compared_as_float32() -> None:
    """1 + 1e-9 is 1 in float32, so the ids decide."""
    assert Run.from_dict({"q": {"a": 1 + 1e-9, "b": 1.0}})["q"].ids == ["b", "a"]


def test_extra_columns_move_with_their_rows() -> None:
    queries = Queries(Ids.of(["q1", "q2"]))
    run = Run(
        queries,
        Ids.of(["a", "b", "c"]),
        np.array([0, 2, 3]),
        np.array([0, 1, 2], np.int32),
        np.array([1, 2, 5], np.float32),
        {"passage": np.array([7, 8, 9]), "note": np.array(["x", "y", "z"])},
    )
    assert run["q1"].extra["passage"].tolist() == [8, 7]
    assert run["q1"].extra["note"].tolist() == ["y", "x"]
    assert run["q2"].extra["passage"].tolist() == [9]


def test_nothing_handed_in_is_changed() -> None:
    doc, score = np.array([0, 1], np.int32), np.array([1, 2], np.float32)
    Run(Queries(Ids.of(["q"])), Ids.of(["a", "b"]), np.array([0, 2]), doc, score)
    assert doc.tolist() == [0, 1]
    assert score.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("doc", "score", "offsets", "said"),
    [
        ([0, 0], [2, 1], [0, 2], "lists document 'a' twice"),
        ([0, 1], [np.nan, 1], [0, 2], "not a number"),
        ([0, 2], [2, 1], [0, 2], "outside the table"),
        ([0, 1], [2], [0, 2], "2 documents but 1 values of 'score'"),
        ([0, 1], [2, 1], [0, 1], "ascend to the number of rows"),
        ([0, 1], [2, 1], [0, 1, 2], "1 queries need 2 offsets"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(
    doc: list[int], score: list[float], offsets: list[int], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        Run(
            Queries(Ids.of(["q"])),
            Ids.of(["a", "b"]),
            np.array(offsets),
            np.array(doc, np.int32),
            np.array(score, np.float32),
        )


def test_texts_are_added_to_a_run_that_has_none() -> None:
    run = Run.from_dict({"q2": {"a": 1.0}})
    queries = Queries.of([Query("q1", "one"), Query("q2", "two", {"description": "second"})])
    assert run.queries.texts is None
    assert run.with_queries(queries).queries["q2"] == Query("q2", "two", {"description": "second"})
    with pytest.raises(InputError, match="'q2' of the run is not among the queries"):
        run.with_queries(Queries.of([Query("q1", "one")]))


def test_another_table_of_ids() -> None:
    run = Run.from_dict({"q": {"b": 2.0, "d": 1.0}})
    moved = run.with_docs(Ids.of("abcde"))
    assert moved == run
    assert moved.doc.tolist() == [1, 3]
    with pytest.raises(InputError, match="'b' of the run"):
        run.with_docs(Ids.of("de"))


def test_cutting_to_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="top 0"):
        Run.from_dict({"q": {"a": 1.0}}).top(0)


def test_ranks_start_anew_for_each_query() -> None:
    run = Run.from_dict({"q1": {"a": 3.0, "b": 2.0}, "q2": {}, "q3": {"a": 1.0}})
    assert run.ranks().tolist() == [1, 2, 1]
    assert run.sizes().tolist() == [2, 0, 1]


GRADES = st.dictionaries(IDS, st.dictionaries(IDS, st.integers(-2, 4), max_size=5), max_size=5)


@given(GRADES, st.sets(IDS))
@settings(deadline=None)
def test_judgements_keep_zero_apart_from_absent(
    judged: dict[str, dict[str, int]], wanted: set[str]
) -> None:
    qrels = Qrels.from_dict(judged)
    assert qrels.to_dict() == judged
    assert qrels.select(Ids.of(wanted)).to_dict() == {
        q: g for q, g in judged.items() if q in wanted
    }


def test_a_pair_judged_twice_is_refused() -> None:
    with pytest.raises(InputError, match="'q' judges document 'd' twice"):
        Qrels.of_rows(
            Ids.of(["q"]),
            Ids.of(["d"]),
            np.zeros(2, np.int32),
            np.zeros(2, np.int32),
            np.ones(2, np.int32),
        )


def test_a_query_id_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="'q' occurs twice"):
        Queries.of([Query("q", "a"), Query("q", "b")])


def test_another_field_can_be_searched() -> None:
    topics = Queries.of([Query("1", "title", {"description": "long", "narrative": "longer"})])
    swapped = topics.searching("description")
    assert swapped["1"] == Query("1", "long", {"narrative": "longer", "text": "title"})
    with pytest.raises(InputError, match="no field 'abstract'"):
        topics.searching("abstract")
