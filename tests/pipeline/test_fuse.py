"""Several runs made into one: values by hand, and against a slow version with dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.pipeline.fuse import (
    WEIGHTS,
    Normalisation,
    reciprocal_rank,
    scores_in,
    tune_weight,
    weighted_sum,
)
from tamis.types import Ids, Qrels, Queries, Query, Run

Rankings = Mapping[str, Mapping[str, float]]

FIRST = Run.from_dict({"q": {"a": 10.0, "b": 6.0, "c": 2.0}})
SECOND = Run.from_dict({"q": {"b": 0.5, "d": 0.25}})


def fused(run: Run, query: str = "q") -> dict[str, Any]:
    return {doc: pytest.approx(score, abs=1e-6) for doc, score in run[query]}


def test_reciprocal_rank_by_hand() -> None:
    run = reciprocal_rank([FIRST, SECOND])
    assert run["q"].ids == ["b", "a", "d", "c"]
    assert fused(run) == {"b": 1 / 62 + 1 / 61, "a": 1 / 61, "d": 1 / 62, "c": 1 / 63}
    assert fused(reciprocal_rank([FIRST, SECOND], k=0)) == {
        "b": 1 / 2 + 1,
        "a": 1.0,
        "d": 1 / 2,
        "c": 1 / 3,
    }


def test_minmax_by_hand() -> None:
    run = weighted_sum([FIRST, SECOND], [0.25, 0.75])
    assert fused(run) == {
        "b": 0.25 * (6 - 2) / (10 - 2) + 0.75 * 1,
        "a": 0.25 * 1,
        "d": 0.0,
        "c": 0.0,
    }
    assert run["q"].ids == ["b", "a", "d", "c"]
    assert fused(weighted_sum([FIRST, SECOND])) == {"b": 0.75, "a": 0.5, "d": 0.0, "c": 0.0}


def test_z_by_hand() -> None:
    spread = (32 / 3) ** 0.5
    assert fused(weighted_sum([FIRST, SECOND], [1, 2], "z")) == {
        "b": 0 + 2 * 1,
        "a": 4 / spread - 2 * 1,
        "d": -4 / spread - 2 * 1,
        "c": -4 / spread - 2 * 1,
    }


def test_a_single_hit_counts_where_lists_are_filled() -> None:
    """Forty-nine zeros beside one score s: mean s / 50, deviation s * sqrt(49) / 50, so z = 7."""
    words = Run.from_dict({"q": {"a": 9.0}})
    vectors = Run.from_dict({"q": {"b": 0.5, "a": 0.25}})
    mean = 0.75 / 50
    spread = ((0.3125 - 50 * mean**2) / 50) ** 0.5
    assert fused(weighted_sum([words, vectors], [1, 1], "filled")) == pytest.approx(
        {"a": 7 + (0.25 - mean) / spread, "b": -1 / 7 + (0.5 - mean) / spread}, rel=1e-6
    )
    assert fused(weighted_sum([words, vectors], [1, 1], "z")) == {"b": 1.0, "a": -1.0}
    both = weighted_sum([words, vectors], [1, 1], ("filled", "z"))
    assert fused(both) == pytest.approx({"a": 7 - 1, "b": -1 / 7 + 1}, rel=1e-6)
    with pytest.raises(InputError, match="2 runs but 1 normalisations"):
        weighted_sum([words, vectors], [1, 1], ("z",))


def test_scores_of_another_run_row_by_row() -> None:
    other = Run.from_dict({"p": {"a": 1.0}, "q": {"b": 3.0, "x": -2.0}, "s": {}})
    run = Run.from_dict({"q": {"a": 2.0, "b": 1.0}, "r": {"a": 1.0}, "s": {"b": 1.0}})
    assert scores_in(other, run).tolist() == [-2.0, 3.0, 0.0, 0.0]
    assert scores_in(Run.from_dict({}), run).tolist() == [0.0] * 4
    many = Run.from_dict({"q": {f"d{n}": 1.0 + n for n in range(50)}})
    assert scores_in(many, run).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_scores_as_they_are_by_hand() -> None:
    assert fused(weighted_sum([FIRST, SECOND], [1, 4], "none")) == {
        "a": 10 + 4 * 0.25,
        "b": 6 + 4 * 0.5,
        "c": 2 + 4 * 0.25,
        "d": 2 + 4 * 0.25,
    }


def test_a_query_that_one_run_lacks_is_taken_from_the_other() -> None:
    other = Run.from_dict({"p": {"x": 3.0, "y": 1.0}, "q": {"b": 1.0, "a": 0.0}})
    run = weighted_sum([FIRST, other], [0.5, 0.5])
    assert list(run) == ["p", "q"]
    assert fused(run, "p") == {"x": 0.5, "y": 0.0}
    assert fused(run) == {"a": 0.5, "b": 0.25 + 0.5, "c": 0.0}
    assert fused(reciprocal_rank([FIRST, other]), "p") == {"x": 1 / 61, "y": 1 / 62}


@pytest.mark.parametrize("normalisation", ["minmax", "z", "none"])
def test_equal_scores_are_not_divided_by_their_range(normalisation: Normalisation) -> None:
    flat = Run.from_dict({"q": {"a": 3.0, "b": 3.0}, "one": {"a": 7.0}})
    run = weighted_sum([flat, flat], [0.5, 0.5], normalisation)
    same = {"minmax": 1.0, "z": 0.0}.get(normalisation)
    level = {"q": 3.0, "one": 7.0} if same is None else {"q": same, "one": same}
    assert run.to_dict() == {
        "q": {"b": level["q"], "a": level["q"]},
        "one": {"a": level["one"]},
    }


@pytest.mark.parametrize("normalisation", ["minmax", "z", "filled", "none"])
def test_queries_without_results_stay(normalisation: Normalisation) -> None:
    empty = Run.from_dict({"q": {}, "r": {}})
    assert weighted_sum([empty, empty], None, normalisation).to_dict() == {"q": {}, "r": {}}
    run = weighted_sum([FIRST, empty], [1, 1], normalisation)
    assert run["q"].ids == ["a", "b", "c"]
    assert run["r"].ids == []
    assert len(weighted_sum([Run.from_dict({})] * 2, None, normalisation)) == 0


def filled(values: Sequence[float], normalisation: str) -> list[float]:
    return [*values, *[0.0] * (50 - len(values))] if normalisation == "filled" else [*values]


def slow_lowest(ranking: Mapping[str, float], normalisation: str) -> float:
    """What a document counts that a run did not find."""
    if normalisation == "minmax":
        return 0.0
    if normalisation == "filled":
        ranking = {**ranking, **{f"not found {n}": 0.0 for n in range(50 - len(ranking))}}
    return min(slow_scores(ranking, normalisation).values())


def slow_scores(ranking: Mapping[str, float], normalisation: str) -> dict[str, float]:
    values = [float(np.float32(score)) for score in ranking.values()]
    shift, scale = 0.0, 1.0
    if normalisation == "minmax":
        shift, scale = min(values), max(values) - min(values)
        shift -= scale == 0
    elif normalisation in ("z", "filled"):
        values_filled = filled(values, normalisation)
        shift, scale = fmean(values_filled), pstdev(values_filled)
    return dict(zip(ranking, [(v - shift) / (scale or 1.0) for v in values], strict=True))


def slow_sum(
    runs: Sequence[Rankings], weights: Sequence[float], normalisation: str
) -> dict[str, dict[str, float]]:
    used = [(run, weight) for run, weight in zip(runs, weights, strict=True) if weight]
    runs, weights = [run for run, _ in used], [weight for _, weight in used]
    result: dict[str, dict[str, float]] = {}
    for query in {query for run in runs for query in run}:
        parts = [
            slow_scores(run.get(query) or {}, normalisation) if run.get(query) else {}
            for run in runs
        ]
        docs = {doc for part in parts for doc in part}
        result[query] = {
            doc: sum(
                weight * (part[doc] if doc in part else slow_lowest(run[query], normalisation))
                for run, weight, part in zip(runs, weights, parts, strict=True)
                if part
            )
            for doc in docs
        }
    return result


SCORES = st.integers(-40, 40).map(lambda n: n / 4)
RANKINGS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(st.sampled_from("abcdefg"), SCORES, max_size=6),
    max_size=3,
)
RUNS = st.lists(RANKINGS, min_size=1, max_size=3)


def assert_close(run: Run, expected: Rankings) -> None:
    assert set(run) == set(expected)
    for query, docs in expected.items():
        assert dict(run[query]) == pytest.approx(dict(docs), rel=1e-5, abs=1e-5)
        rows = [(score, doc) for doc, score in run[query]]
        assert rows == sorted(rows, reverse=True)


@pytest.mark.parametrize("normalisation", ["minmax", "z", "filled", "none"])
@settings(max_examples=50, deadline=None)
@given(runs=RUNS, data=st.data())
def test_sums_equal_those_of_a_slow_version(
    normalisation: Normalisation, runs: list[Rankings], data: st.DataObject
) -> None:
    weights = data.draw(
        st.lists(
            st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), min_size=len(runs), max_size=len(runs)
        )
    )
    assume(any(weights))
    run = weighted_sum([Run.from_dict(each) for each in runs], weights, normalisation)
    assert_close(run, slow_sum(runs, weights, normalisation))


@settings(max_examples=50, deadline=None)
@given(runs=RUNS, k=st.integers(0, 60))
def test_reciprocal_ranks_equal_those_of_a_slow_version(runs: list[Rankings], k: int) -> None:
    made = [Run.from_dict(each) for each in runs]
    expected: dict[str, dict[str, float]] = {query: {} for run in runs for query in run}
    for run in made:
        for query in run:
            for rank, doc in enumerate(run[query].ids, 1):
                expected[query][doc] = expected[query].get(doc, 0.0) + 1 / (k + rank)
    assert_close(reciprocal_rank(made, k), expected)


def test_the_table_of_ids_does_not_matter() -> None:
    shared = Ids.of("abcdxyz")
    moved = [FIRST.with_docs(shared), SECOND.with_docs(shared)]
    assert weighted_sum(moved) == weighted_sum([FIRST, SECOND])
    assert weighted_sum(moved).docs is shared


def test_texts_come_from_a_run_that_knows_them() -> None:
    queries = Queries.of([Query("q", "sieve")])
    assert reciprocal_rank([FIRST, SECOND.with_queries(queries)]).queries.texts == ("sieve",)
    other = Run.from_dict({"p": {"a": 1.0}})
    assert reciprocal_rank([FIRST.with_queries(queries), other]).queries.texts is None


@pytest.mark.parametrize(
    ("runs", "weights", "normalisation", "said"),
    [
        ([], None, "minmax", "no runs to fuse"),
        ([], [], "minmax", "no runs to fuse"),
        ([FIRST, SECOND], [1.0], "minmax", "2 runs but 1 weights"),
        ([FIRST, SECOND], [0.0, 0.0], "minmax", "every weight is 0"),
        ([FIRST, SECOND], None, "softmax", "no normalisation 'softmax'"),
        ([FIRST, Run.from_dict({"q": {"a": float("inf")}})], None, "minmax", "without end"),
    ],
)
def test_what_cannot_be_fused(
    runs: list[Run], weights: list[float] | None, normalisation: Normalisation, said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        weighted_sum(runs, weights, normalisation)
    assert caught.value.hint


def test_ranks_that_cannot_be_fused() -> None:
    with pytest.raises(InputError, match="no runs to fuse"):
        reciprocal_rank([])
    with pytest.raises(InputError, match="k is -1"):
        reciprocal_rank([FIRST], k=-1)


def test_the_best_weight_is_found() -> None:
    """The right document is second in both runs: it comes first where both have a say.

    With minmax, right scores .9 (1 - w) + .9 w = .9; the wrong ones score 1 - w and w.
    """
    first = Run.from_dict({"q": {"wrong1": 1.0, "right": 0.9, "low": 0.0}, "unjudged": {"x": 1.0}})
    second = Run.from_dict({"q": {"wrong2": 1.0, "right": 0.9, "low": 0.0}})
    tuned = tune_weight(first, second, Qrels.from_dict({"q": {"right": 1}}), "RR@10")
    assert tuple(tuned.values) == WEIGHTS
    assert WEIGHTS[0] == 0.0
    assert WEIGHTS[-1] == 1.0
    assert len(WEIGHTS) == 21
    right = {weight for weight, value in tuned.values.items() if value == 1.0}
    assert right >= {weight for weight in WEIGHTS if 0.15 <= weight <= 0.85}
    assert right <= {weight for weight in WEIGHTS if 0.1 <= weight <= 0.9}
    assert tuned.values[0.0] == tuned.values[1.0] == 0.5
    assert tuned.weight == min(right)


def test_of_equal_weights_the_first_run_alone_is_taken() -> None:
    tuned = tune_weight(FIRST, FIRST, Qrels.from_dict({"q": {"a": 1}}))
    assert set(tuned.values.values()) == {1.0}
    assert tuned.weight == 0.0


def test_the_second_run_alone_where_it_is_best() -> None:
    second = Run.from_dict({"q": {"c": 2.0, "b": 1.5, "a": 1.0}})
    tuned = tune_weight(FIRST, second, Qrels.from_dict({"q": {"c": 1}}), "RR@10", "none")
    assert tuned.values[0.0] == pytest.approx(1 / 3)
    assert tuned.values[1.0] == 1.0
    assert tuned.weight == min(w for w, value in tuned.values.items() if value == 1.0)


def test_judgements_of_other_queries_tune_nothing() -> None:
    with pytest.raises(InputError, match="no query of the two runs is judged") as caught:
        tune_weight(FIRST, SECOND, Qrels.from_dict({"other": {"a": 1}}))
    assert "same collection" in caught.value.hint
