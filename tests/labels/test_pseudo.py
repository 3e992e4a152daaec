"""Examples from a first stage alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.labels.examples import Examples
from tamis.labels.pseudo import pseudo
from tamis.types import Run

RUN = Run.from_dict(
    {
        "q1": {f"d{n:03}": 200.0 - n for n in range(150)},
        "q2": {"d1": 2.0, "d2": 1.0},
        "q3": {"d1": 2.0},
        "q4": {},
    }
)


def rows(examples: Examples, query: str) -> list[tuple[str, str]]:
    wanted = examples.query == examples.queries.ids.number(query)
    roles = ["positive" if value else "other" for value in examples.value[wanted].tolist()]
    return list(zip(examples.docs.take(examples.doc[wanted]), roles, strict=True))


def test_the_first_is_positive_and_some_of_the_first_hundred_negative() -> None:
    made = pseudo(RUN, seed=3)
    first, *others = rows(made, "q1")
    assert first == ("d000", "positive")
    numbers = [int(name[1:]) for name, _ in others]
    assert len(set(numbers)) == 10
    assert min(numbers) >= 1 and max(numbers) <= 99
    assert rows(made, "q2") == [("d1", "positive"), ("d2", "other")]
    assert made.facts["counts"] == {
        "queries": 2,
        "positive": 2,
        "negative": 11,
        "excluded_queries_with_fewer_than_two_results": 2,
    }
    assert made.is_role("negative").sum() == 11


def test_the_seed_draws() -> None:
    assert pseudo(RUN, seed=3) == pseudo(RUN, seed=3)
    assert pseudo(RUN, seed=3) != pseudo(RUN, seed=4)


def test_negatives_are_drawn_evenly_from_the_list() -> None:
    ranks = [
        int(name[1:])
        for seed in range(300)
        for name, _ in rows(pseudo(RUN, negatives_per_query=1, seed=seed), "q1")[1:]
    ]
    assert 40 < sum(ranks) / len(ranks) < 60  # the mean of 1 to 99 is 50
    assert min(ranks) < 10 and max(ranks) > 90


def test_all_of_the_list_is_a_pool() -> None:
    made = pseudo(RUN, negatives_per_query=None)
    assert [name for name, _ in rows(made, "q1")] == [f"d{n:03}" for n in range(100)]
    assert made.is_role("pool").sum() == 99 + 1


def test_ranks() -> None:
    made = pseudo(RUN, positives=2, first=11, depth=13, negatives_per_query=None)
    assert rows(made, "q1") == [
        ("d000", "positive"), ("d001", "positive"), ("d010", "other"), ("d011", "other"),
        ("d012", "other"),
    ]  # fmt: skip
    assert made.facts["counts"]["excluded_queries_without_a_negative"] == 1


def test_a_negative_lies_below_the_margin() -> None:
    made = pseudo(RUN, margin=0.3, negatives_per_query=None)
    # 200 - n <= 0.7 * 200 from n = 60 on
    assert [name for name, _ in rows(made, "q1")][1:] == [f"d{n:03}" for n in range(60, 100)]
    assert rows(made, "q2") == [("d1", "positive"), ("d2", "other")]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"positives": 0}, "positives: 0 is too low"),
        ({"negatives_per_query": 0}, "negatives_per_query: 0 is too low"),
        ({"positives": 3, "first": 3}, "rank 3 would be positive and negative"),
        ({"first": 50, "depth": 20}, "no rank from 50 to 20"),
        ({"margin": 1.0}, "no share of a score"),
        ({"seed": -1}, "seed is -1"),
        ({"first": 140, "depth": 145, "margin": 0.9}, "none of 4 queries"),
    ],
)
def test_what_cannot_be_done_says_so(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        pseudo(RUN, **options)


def test_a_margin_needs_scores_above_zero() -> None:
    with pytest.raises(InputError, match="best score of query 'q1' is -1: no share"):
        pseudo(Run.from_dict({"q1": {"d1": -1.0, "d2": -2.0}}), margin=0.1)


@settings(deadline=None, max_examples=60)
@given(
    lists=st.dictionaries(
        st.sampled_from(["q1", "q2", "q3"]),
        st.dictionaries(st.sampled_from([f"d{n}" for n in range(9)]), st.sampled_from([1.0, 2.0])),
        min_size=1,
    ),
    count=st.one_of(st.none(), st.integers(1, 4)),
    positives=st.integers(1, 3),
    depth=st.integers(4, 9),
    seed=st.integers(0, 3),
)
def test_properties(
    lists: dict[str, dict[str, float]], count: int | None, positives: int, depth: int, seed: int
) -> None:
    run = Run.from_dict(lists)
    enough = {query for query in run if len(run[query]) > positives}
    if not enough:
        with pytest.raises(InputError):
            pseudo(run, negatives_per_query=count, positives=positives, depth=depth)
        return
    made = pseudo(run, negatives_per_query=count, positives=positives, depth=depth, seed=seed)
    assert set(made.queries.ids) == enough
    for query in enough:
        found = rows(made, query)
        first = [name for name, role in found if role == "positive"]
        others = [name for name, role in found if role == "other"]
        assert first == run[query].ids[:positives]
        assert set(others) <= set(run[query].ids[positives:depth])
        assert len(set(others)) == len(others) == min(count or 99, depth - positives,
                                                      len(run[query]) - positives)  # fmt: skip
