"""Validation by hand, and queries held out together with their near-duplicates."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.labels import Examples
from tamis.training.validation import Validation, hold_out
from tamis.types import Queries, Query

ROWS = [
    ("q1", "a", 1.0, "positive"),
    ("q1", "b", 0.0, "pool"),
    ("q1", "c", 0.0, "negative"),
    ("q2", "a", 0.0, "pool"),
    ("q2", "b", 1.0, "positive"),
]
BOTH = {"d": (1.0, "positive"), "e": (0.0, "negative")}


def test_classes_are_measured_by_reciprocal_rank() -> None:
    validation = Validation.of(Examples.of_rows(ROWS, source="gold"))  # type: ignore[arg-type]
    assert validation.measure == "RR@10"
    scores = np.array([2.0, 3.0, 1.0, 0.0, 5.0], np.float32)
    assert validation.value(scores) == pytest.approx((1 / 2 + 1) / 2)
    assert validation.value(-scores) == pytest.approx((1 / 2 + 1 / 2) / 2)


def test_scores_are_measured_by_what_they_gain() -> None:
    rows = [("q", name, value, "pool") for name, value in (("a", -4.0), ("b", 6.0), ("c", 1.0))]
    validation = Validation.of(
        Examples.of_rows(rows, source="teacher", kind="score")  # type: ignore[arg-type]
    )
    assert validation.measure == "nDCG@10"
    # on 0 to 5: 0, 5, 2.5, which rounds to 2; gains are the grades themselves
    best = 5 / np.log2(2) + 2 / np.log2(3)
    worst = 0 / np.log2(2) + 2 / np.log2(3) + 5 / np.log2(4)
    assert validation.value(np.array([1, 3, 2], np.float32)) == pytest.approx(1)
    assert validation.value(np.array([3, 1, 2], np.float32)) == pytest.approx(worst / best)


def test_nothing_to_validate_on() -> None:
    with pytest.raises(InputError, match="no examples"):
        Validation.of(Examples.of_rows([], source="gold"))


def test_queries_that_say_the_same_are_held_out_together() -> None:
    texts = [f"how do I sieve flour number {n // 2}" for n in range(60)]
    queries = Queries.of([Query(f"q{n:02}", text) for n, text in enumerate(texts)])
    rows = [(f"q{n:02}", doc, *is_one) for n in range(60) for doc, is_one in BOTH.items()]
    examples = Examples.of_rows(rows, source="gold").with_queries(queries)  # type: ignore[arg-type]
    learn, held = hold_out(examples, seed=1)
    assert held is not None
    assert len(learn) + len(held) == 120
    assert 8 <= len(held) <= 16

    def asked(part: Examples) -> set[str]:
        return {(part.queries.texts or ())[n] for n in part.query.tolist()}

    assert not asked(learn) & asked(held)


def test_of_few_queries_none_is_held_out() -> None:
    rows = [(f"q{n}", "d", 1.0, "positive") for n in range(19)]
    examples = Examples.of_rows(rows, source="gold")  # type: ignore[arg-type]
    assert hold_out(examples, 0) == (examples, None)


def test_of_long_lists_the_positives_and_some_others_are_ranked() -> None:
    rows = [
        (f"q{q:02}", f"d{n}", float(n > 47), "positive" if n > 47 else "pool")
        for q in range(30)
        for n in range(50)
    ]
    examples = Examples.of_rows(rows, source="gold")  # type: ignore[arg-type]
    learn, held = hold_out(examples, 0)
    assert held is not None
    assert len(learn) == 27 * 50
    assert np.diff(held.offsets).tolist() == [20] * 3
    assert np.add.reduceat(held.value, held.offsets[:-1]).tolist() == [2] * 3
    others = [set(held.doc[a:b].tolist()) for a, b in pairwise(held.offsets)]
    assert others[0] != others[1]


@pytest.mark.parametrize(("positives", "others", "kept"), [(25, 25, 10), (25, 4, 16), (3, 40, 3)])
def test_positives_leave_room_for_others(positives: int, others: int, kept: int) -> None:
    rows = [
        (f"q{q:02}", f"d{n:02}", float(n < positives), "positive" if n < positives else "negative")
        for q in range(30)
        for n in range(positives + others)
    ]
    _, held = hold_out(Examples.of_rows(rows, source="gold"), 0)  # type: ignore[arg-type]
    assert held is not None
    assert np.diff(held.offsets).tolist() == [20] * 3
    assert np.add.reduceat(held.value, held.offsets[:-1]).tolist() == [kept] * 3
    validation = Validation.of(held, "AP")
    assert validation.value(held.value.astype(np.float32)) == 1
    assert validation.value(-held.value.astype(np.float32)) < 0.8


def test_where_every_order_is_right_nothing_is_held_out() -> None:
    alike = [(f"q{n:02}", "d", 1.0, "positive") for n in range(30)]
    examples = Examples.of_rows(alike, source="gold")  # type: ignore[arg-type]
    assert hold_out(examples, 0) == (examples, None)
    mixed = [*alike, *((f"q{n:02}", "e", 0.0, "negative") for n in range(15))]
    _, held = hold_out(Examples.of_rows(sorted(mixed), source="gold"), 0)  # type: ignore[arg-type]
    assert held is None or np.diff(held.offsets).tolist() == [2] * held.groups
