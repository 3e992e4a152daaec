"""Positives stay, negatives are drawn up to |P|, short lists are filled for the neural ranker."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.rankers.sampling import (
    check_trainable,
    relevant_rows,
    sample_fixed_lists,
    sample_negatives,
)
from tamis.types import Qrels, Run

LISTS = st.lists(st.lists(st.booleans(), max_size=12), min_size=1, max_size=6)


@given(LISTS, st.integers(1, 8), st.integers(0, 9))
def test_negatives_up_to_the_size(lists: list[list[bool]], size: int, seed: int) -> None:
    offsets = np.cumsum([0, *map(len, lists)])
    relevant = np.array([label for labels in lists for label in labels], bool)
    sample = sample_negatives(offsets, relevant, size, np.random.default_rng(seed))
    again = sample_negatives(offsets, relevant, size, np.random.default_rng(seed))
    assert np.array_equal(sample.rows, again.rows)
    for number, labels in enumerate(lists):
        rows = sample.rows[sample.offsets[number] : sample.offsets[number + 1]]
        assert len(set(rows.tolist())) == len(rows)
        assert ((rows >= offsets[number]) & (rows < offsets[number + 1])).all()
        assert relevant[rows].sum() == sum(labels)
        assert len(rows) == max(sum(labels), min(size, len(labels)))


@pytest.mark.parametrize("size", [4, 8])  # 3 and 7 of 9 others: few of a list, most of it
def test_each_draw_is_another_and_every_negative_gets_its_turn(size: int) -> None:
    rng = np.random.default_rng(0)
    relevant = np.arange(12) == 3
    offsets = np.array([0, 2, 12])
    draws = [sample_negatives(offsets, relevant, size, rng).rows for _ in range(300)]
    counts = np.bincount(np.concatenate(draws), minlength=12)
    assert counts[3] == 300
    assert counts[:2].tolist() == [300, 300]  # a short list is taken whole
    expected = 300 * (size - 1) / 9
    assert np.abs(counts[2:][~relevant[2:]] - expected).max() < 4 * np.sqrt(expected)


def test_a_list_whose_places_are_all_relevant_is_left_out() -> None:
    relevant = np.array([True] * 6 + [False])
    assert not len(sample_fixed_lists(np.array([0, 7]), relevant, 3, np.random.default_rng(0)))
    assert len(sample_fixed_lists(np.array([0, 7]), relevant, 7, np.random.default_rng(0)))


def test_all_candidates() -> None:
    relevant = np.array([True, False, False])
    sample = sample_negatives(np.array([0, 3]), relevant, None, np.random.default_rng(0))
    assert sample.rows.tolist() == [0, 1, 2]
    with pytest.raises(InputError):
        sample_negatives(np.array([0, 3]), relevant, 0, np.random.default_rng(0))


@given(LISTS, st.integers(2, 8), st.integers(0, 9))
def test_fixed_lists(lists: list[list[bool]], size: int, seed: int) -> None:
    offsets = np.cumsum([0, *map(len, lists)])
    relevant = np.array([label for labels in lists for label in labels], bool)
    query = np.repeat(np.arange(len(lists)), [*map(len, lists)])
    fixed = sample_fixed_lists(offsets, relevant, size, np.random.default_rng(seed))
    for n, number in enumerate(fixed.query.tolist()):
        rows = fixed.rows[n][fixed.is_real[n]]
        own = query[rows] == number
        assert len(set(rows.tolist())) == len(rows)
        assert own.sum() == min(size, len(lists[number]))
        assert relevant[rows[~own]].all()
        assert np.array_equal(fixed.is_relevant[n][fixed.is_real[n]], own & relevant[rows])
        assert fixed.is_relevant[n].sum() == min(size, sum(lists[number]))
        others = relevant.sum() - sum(lists[number])
        assert len(rows) == min(size, own.sum() + others)
    usable = {
        n for n, labels in enumerate(lists)
        if 0 < sum(labels) < size and (not all(labels) or relevant.sum() > sum(labels))
    }  # fmt: skip
    assert set(fixed.query.tolist()) == usable


def test_relevant_rows_of_judgements_in_another_order() -> None:
    run = Run.from_dict({"b": {"x": 1.0, "y": 2.0}, "a": {"y": 1.0}, "none": {}})
    qrels = Qrels.from_dict({"a": {"z": 1, "y": 0}, "b": {"x": 2, "y": -1}, "other": {"x": 1}})
    rows = {
        (query, doc): bool(flag)
        for query, doc, flag in zip(
            ["a", "b", "b"], run.docs.take(run.doc), relevant_rows(run, qrels), strict=True
        )
    }
    assert rows == {("a", "y"): False, ("b", "y"): False, ("b", "x"): True}


def test_nothing_to_learn_from() -> None:
    run = Run.from_dict({"a": {"x": 1.0, "y": 2.0}})
    for judged, message in (({"x": 0}, "no candidate"), ({"x": 1, "y": 1}, "every candidate")):
        with pytest.raises(InputError, match=message) as caught:
            check_trainable(run, relevant_rows(run, Qrels.from_dict({"a": judged})))
        assert caught.value.hint
