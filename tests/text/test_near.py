"""Texts that say nearly the same, against comparing every pair."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tamis.text.near import connected_groups, near_any, near_duplicates

TEXTS = st.lists(
    st.lists(st.sampled_from("a b c d e f g h i j".split()), max_size=12).map(" ".join),
    max_size=14,
)
THRESHOLDS = {0.5: Fraction(1, 2), 0.75: Fraction(3, 4), 0.8: Fraction(4, 5), 1.0: Fraction(1)}


def by_brute_force(texts: list[str], threshold: Fraction) -> list[list[int]]:
    """Every pair compared, with exact fractions; groups by spreading until nothing changes."""
    words = [set(re.findall(r"\w+", text.casefold())) for text in texts]
    alike = {
        (a, b)
        for a, b in combinations(range(len(texts)), 2)
        if words[a]
        and words[b]
        and Fraction(len(words[a] & words[b]), len(words[a] | words[b])) >= threshold
    }
    label = list(range(len(texts)))
    while True:
        before = list(label)
        for a, b in alike:
            label[a] = label[b] = min(label[a], label[b])
        if label == before:
            break
    groups = [[n for n, own in enumerate(label) if own == group] for group in sorted(set(label))]
    return [group for group in groups if len(group) > 1]


@pytest.mark.parametrize("threshold", THRESHOLDS)
@settings(max_examples=100, deadline=None)
@given(texts=TEXTS)
@example(texts=["a b c d", "a b c d e", "a b c d e f"])
@example(texts=["", "", "a", "a"])
def test_the_same_as_comparing_every_pair(threshold: float, texts: list[str]) -> None:
    assert near_duplicates(texts, threshold) == by_brute_force(texts, THRESHOLDS[threshold])


@settings(max_examples=50, deadline=None)
@given(
    st.permutations(["a b c d e", "a b c d e f", "x y", "y x", "b c d e f", "z", "!", "a b c d"])
)
def test_order_does_not_matter(texts: list[str]) -> None:
    found = {frozenset(texts[n] for n in group) for group in near_duplicates(texts)}
    assert found == {
        frozenset({"a b c d", "a b c d e", "a b c d e f", "b c d e f"}),
        frozenset({"x y", "y x"}),
    }


def test_alike_through_each_other() -> None:
    texts = ["a b c d e", "a b c d e f", "b c d e f"]
    assert near_duplicates([texts[0], texts[2]]) == []
    assert near_duplicates(texts) == [[0, 1, 2]]


def test_the_threshold_itself_is_enough() -> None:
    assert near_duplicates(["a b c d", "a b c d e"], 0.8) == [[0, 1]]
    assert near_duplicates(["a b c", "a b c d"], 0.8) == []
    fifty = [str(n) for n in range(50)]
    assert near_duplicates([" ".join(fifty), " ".join(fifty[:40])]) == [[0, 1]]
    assert near_duplicates([" ".join(fifty), " ".join(fifty[:39])]) == []


def test_case_order_and_punctuation_do_not_count() -> None:
    assert near_duplicates(["STRASSE, groß?", "gross straße"]) == [[0, 1]]


def test_texts_without_words_are_like_nothing() -> None:
    assert near_duplicates(["", "", "?!", "?!"]) == []
    assert near_duplicates([]) == []


def test_languages_are_told_apart_by_their_signs() -> None:
    assert near_duplicates(["C++", "c#", "C", "c++ ?"]) == [[0, 3]]
    assert near_any(["c#", "c", "C++!"], ["C++"]) == [2]


@given(TEXTS, TEXTS)
def test_near_any_is_what_comparing_every_pair_gives(mine: list[str], theirs: list[str]) -> None:
    def near(one: str, other: str) -> bool:
        a, b = set(one.split()), set(other.split())
        return bool(a and b) and Fraction(len(a & b), len(a | b)) >= Fraction(4, 5)

    expected = [n for n, text in enumerate(mine) if any(near(text, other) for other in theirs)]
    assert near_any(mine, theirs) == expected


def components_of_scipy(pairs: list[tuple[int, int]], count: int) -> list[list[int]]:
    """The same groups by scipy's connected components."""
    edges = np.array(pairs, int).reshape(-1, 2)
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    label = connected_components(graph, directed=False)[1]
    groups: dict[int, list[int]] = {}
    for number, component in enumerate(label.tolist()):
        groups.setdefault(component, []).append(number)
    return sorted(group for group in groups.values() if len(group) > 1)


@given(st.data(), st.integers(1, 40))
def test_connected_groups_are_the_components_of_scipy(data: st.DataObject, count: int) -> None:
    number = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(number, number), max_size=60))
    assert connected_groups(pairs, count) == components_of_scipy(pairs, count)


def test_nothing_is_connected_without_pairs() -> None:
    assert connected_groups([], 0) == [] and connected_groups([], 3) == []
    assert connected_groups([(1, 1)], 3) == []


@pytest.mark.parametrize("num_pairs", [0, 20_000, 100_000, 400_000])
def test_connected_groups_of_many_numbers(num_pairs: int) -> None:
    count, rng = 200_000, np.random.default_rng(num_pairs)
    pairs = list(map(tuple, rng.integers(0, count, (num_pairs, 2)).tolist()))
    assert connected_groups(pairs, count) == components_of_scipy(pairs, count)


def test_a_long_chain_is_one_group() -> None:
    count = 200_000
    order = np.random.default_rng(0).permutation(count).tolist()
    assert connected_groups(pairwise(order), count) == [list(range(count))]
    assert connected_groups(pairwise(range(count)), count) == [list(range(count))]
