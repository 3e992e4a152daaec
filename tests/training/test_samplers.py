"""Samplers: what may never be drawn together, what must be, and that nothing is remembered."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.labels.examples import COLUMNS, LABEL_TYPES, ROLES, Examples, LabelType, Role
from tamis.training.recipe import Recipe, Sampler
from tamis.training.samplers import batches, counts, steps_in_epoch, targets
from tamis.types import Ids, Queries

ROW = st.tuples(
    st.integers(0, 4), st.integers(0, 6), st.sampled_from(ROLES), st.integers(0, 2)
)  # group, document, role, start
SAMPLERS: tuple[Sampler, ...] = ("points", "balanced", "pairs", "lists")


def recipe(sampler: Sampler, **given: Any) -> Recipe:
    grouped = sampler in ("pairs", "lists")
    plain: dict[str, Any] = {"epochs": 1, "batch_size": 4, "loss": "margin" if grouped else "bce"}
    return Recipe("test", sampler=sampler, **(plain | given))


def examples(rows: list[tuple[str, str, Role]], kind: LabelType = "class") -> Examples:
    valued = [(query, doc, float(role == "positive"), role) for query, doc, role in rows]
    return Examples.of_rows(valued, source="gold", kind=kind)


def of_drawn(rows: list[tuple[int, int, Role, int]], kind: LabelType) -> Examples:
    rows = sorted(rows)
    made = examples([(f"q{group}", f"d{doc}", role) for group, doc, role, _ in rows], kind)
    return replace(made, start=np.array([start for *_, start in rows], np.int32))


def text(found: Examples, row: int) -> tuple[int, ...]:
    return tuple(int(getattr(found, name)[row]) for name in ("group", "doc", "start", "end"))


MANY = examples(
    [
        (f"q{query}", f"d{doc}", "positive" if doc < 2 else "pool" if doc % 2 else "negative")
        for query in range(30)
        for doc in range(12)
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ROW, min_size=1, max_size=40),
    st.sampled_from(SAMPLERS),
    st.sampled_from(LABEL_TYPES),
    st.integers(2, 5) | st.none(),
    st.integers(0, 3),
)
def test_what_always_holds(
    rows: list[tuple[int, int, Role, int]],
    sampler: Sampler,
    kind: LabelType,
    list_size: int | None,
    epoch: int,
) -> None:
    made, mine = of_drawn(rows, kind), recipe(sampler, list_size=list_size)
    try:
        found = batches(made, mine, epoch)
    except InputError:
        return
    positive = made.is_role("positive")
    units = [unit.tolist() for batch in found for unit in batch]
    drawn = [row for unit in units for row in unit]
    assert len(drawn) == len(set(drawn))
    assert len(found) == steps_in_epoch(made, mine) == counts(made, mine)["steps"]
    assert len(units) == counts(made, mine)["instances"]
    assert all(len(batch) == 4 for batch in found[:-1])
    good = {text(made, row) for row in np.flatnonzero(positive).tolist()}
    assert not any(text(made, row) in good for row in drawn if not positive[row])
    if sampler in ("pairs", "lists"):
        check_groups(made, mine, units)
    if sampler == "balanced":
        for batch in found:
            assert sum(positive[unit[0]] for unit in batch) * 2 == len(batch)


def check_groups(made: Examples, mine: Recipe, units: list[list[int]]) -> None:
    positive = made.is_role("positive")
    assert len({int(made.group[unit[0]]) for unit in units}) == len(units)
    for unit in units:
        assert len({int(made.group[row]) for row in unit}) == 1
        good = [row for row in unit if positive[row]]
        if mine.sampler == "pairs":
            assert len(unit) == 2
            assert good == unit[:1]
        else:
            whole = np.flatnonzero(made.group == made.group[unit[0]])
            assert set(good) == set(whole[positive[whole]])
            assert len(unit) >= 2
            assert mine.list_size is None or len(unit) <= max(mine.list_size, len(good) + 1)
            assert len(good) < len(unit) or LABEL_TYPES[made.kind[unit[0]]] != "class"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_epoch_depends_on_seed_and_number_only(sampler: Sampler) -> None:
    def drawn(epoch: int, seed: int = 0) -> list[list[list[int]]]:
        found = batches(MANY, recipe(sampler, seed=seed, list_size=4), epoch)
        return [[unit.tolist() for unit in batch] for batch in found]

    third = drawn(3)
    for other in (0, 7):
        assert drawn(other) != third
    assert drawn(3) == third
    assert drawn(3, seed=1) != third
    assert sorted(map(str, third)) != list(map(str, third))


def test_negatives_change_and_positives_stay() -> None:
    mine = recipe("lists", list_size=5, batch_size=30)
    seen: list[set[int]] = []
    for epoch in range(6):
        (units,) = batches(MANY, mine, epoch)
        assert [len(unit) for unit in units] == [5] * 30
        rows = {int(row) for unit in units for row in unit}
        assert set(np.flatnonzero(MANY.is_role("positive")).tolist()) <= rows
        seen.append(rows)
    assert all(a != b for a, b in pairwise(seen))
    assert len(set.union(*seen)) > 300


def test_a_list_of_positives_has_one_negative_more() -> None:
    role: list[Role] = ["positive", "positive", "positive", "pool", "pool"]
    one = examples([("q", f"d{number}", role[number]) for number in range(5)])
    for size, wanted in ((2, 4), (3, 4), (4, 4), (5, 5), (9, 5)):
        unit = batches(one, recipe("lists", list_size=size), 0)[0][0]
        assert len(unit) == wanted
        assert sorted(unit[:3].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_units_come_in_no_order(sampler: Sampler) -> None:
    found = batches(MANY, recipe(sampler, list_size=4), 0)
    groups = [int(MANY.group[unit[0]]) for batch in found for unit in batch]
    assert abs(np.corrcoef(groups, np.arange(len(groups)))[0, 1]) < 0.5


def test_every_negative_is_as_likely_as_another() -> None:
    one = examples([("q", f"d{n}", "positive" if n == 0 else "pool") for n in range(5)])
    times = np.zeros(5, int)
    for epoch in range(800):
        times[batches(one, recipe("pairs"), epoch)[0][0]] += 1
    assert times[0] == 800
    assert abs(times[1:] - 200).max() < 60


def test_points_are_every_row_once() -> None:
    found = batches(MANY, recipe("points", batch_size=7), 0)
    assert sorted(int(unit[0]) for batch in found for unit in batch) == list(range(360))
    assert len(found) == 52
    assert len(found[51]) == 3
    some = batches(MANY, recipe("points", list_size=4), 0)
    rows = [int(unit[0]) for batch in some for unit in batch]
    assert len(rows) == 30 * 4
    assert MANY.is_role("positive")[rows].sum() == 60


def test_balanced_ends_with_the_rarer_class() -> None:
    found = batches(MANY, recipe("balanced", batch_size=16), 0)
    rows = [int(unit[0]) for batch in found for unit in batch]
    assert sorted(row for row in rows if MANY.is_role("positive")[row]) == sorted(
        np.flatnonzero(MANY.is_role("positive"))
    )
    assert len(rows) == 120
    assert [len(batch) for batch in found] == [16] * 7 + [8]


def test_samples_are_drawn_once() -> None:
    mine = recipe("balanced", samples=20, batch_size=8)
    epochs = [{int(u[0]) for b in batches(MANY, mine, epoch) for u in b} for epoch in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    assert MANY.is_role("positive")[list(epochs[0])].sum() == 10
    other = {int(u[0]) for b in batches(MANY, replace(mine, seed=1), 0) for u in b}
    assert other != epochs[0]
    assert steps_in_epoch(MANY, recipe("points", samples=21)) == 6
    with pytest.raises(InputError, match=r"samples=200 .* from 60 positives and 300 neg") as caught:
        batches(MANY, recipe("balanced", samples=200), 0)
    assert "samples=120" in caught.value.hint


def test_few_samples_are_189_steps() -> None:
    many = big(groups=1000, size=4)
    assert 3 * steps_in_epoch(many, recipe("balanced", samples=2000, batch_size=32)) == 189


def test_accumulation_makes_a_step_larger() -> None:
    mine = recipe("points", batch_size=32, gradient_accumulation_steps=8)
    assert [len(batch) for batch in batches(MANY, mine, 0)] == [256, 104]


def test_groups_that_give_nothing_are_skipped_and_counted() -> None:
    rows: list[tuple[str, str, Role]] = [
        ("q1", "d1", "positive"), ("q1", "d2", "pool"),
        ("q2", "d1", "positive"),
        ("q3", "d1", "negative"), ("q3", "d2", "pool"),
        ("q4", "d1", "positive"), ("q4", "d1", "pool"),
    ]  # fmt: skip
    for sampler in ("pairs", "lists"):
        found = counts(examples(rows), recipe(sampler))
        assert found == {
            "instances": 1, "steps": 1, "queries": 1, "groups": 4, "groups_skipped": 3,
            "groups_without_a_positive": 1, "groups_without_a_negative": 2,
            "negatives_that_are_also_positives": 1,
        }  # fmt: skip
    scored = counts(examples(rows, "score"), recipe("lists", loss="margin-distillation"))
    assert (scored["instances"], scored["groups_skipped"]) == (2, 2)


def test_another_passage_of_the_same_document_may_be_a_negative() -> None:
    one = examples([("q", "d", "positive"), ("q", "d", "pool"), ("q", "d", "pool")])
    one = replace(one, start=np.array([0, 0, 9], np.int32), end=np.array([9, 9, 18], np.int32))
    assert batches(one, recipe("lists"), 0)[0][0].tolist() == [0, 2]


def test_what_cannot_be_drawn_is_refused() -> None:
    alone = examples([("q1", "d1", "positive"), ("q2", "d1", "pool")])
    with pytest.raises(InputError, match="in one group, and these examples have 1 and 1"):
        batches(alone, recipe("pairs"), 0)
    assert len(batches(alone, recipe("balanced"), 0)) == 1
    with pytest.raises(InputError, match=r"needs positives and negatives, and .* 0 and 1"):
        batches(alone.select(np.array([1])), recipe("balanced"), 0)
    with pytest.raises(InputError, match="no examples"):
        batches(alone.select(np.array([], int)), recipe("points"), 0)
    with pytest.raises(InputError, match="'bce' cannot learn from examples of the kind 'scaled'"):
        batches(examples([("q", "d", "positive")], "scaled"), recipe("balanced"), 0)


def test_an_epoch_is_a_sequence() -> None:
    found = batches(MANY, recipe("lists", list_size=3), 0)
    assert [len(batch) for batch in found] == [4] * 7 + [2]
    assert [u.tolist() for u in found[-1]] == [u.tolist() for u in found[7]]
    assert [u.tolist() for b in found[6:] for u in b] == [
        u.tolist() for b in list(found)[6:] for u in b
    ]
    with pytest.raises(IndexError, match="no step 8 of 8"):
        found[8]


def test_targets() -> None:
    mixed = replace(
        examples([("q", "d1", "positive"), ("q", "d2", "negative"), ("q", "d3", "pool")]),
        value=np.array([1, 0, 2.5], np.float32),
        kind=np.array([0, 0, 1], np.int8),
    )
    assert targets(mixed, "squared").tolist() == [5, 0, 2.5]
    assert targets(mixed, "squared").dtype == np.float32
    assert targets(mixed, "margin").tolist() == [1, 0, 2.5]
    for loss in ("bce", "softmax", "target-words"):
        with pytest.raises(InputError, match="kind 'scaled'"):
            targets(mixed, loss)
    with pytest.raises(InputError, match="kind 'class'") as caught:
        targets(mixed, "margin-distillation")
    assert "scaled and score" in caught.value.hint


def big(groups: int, size: int) -> Examples:
    """Groups of so many rows, the first of each a positive."""
    count = groups * size
    group = np.repeat(np.arange(groups, dtype=np.int32), size)
    columns: dict[str, Any] = {name: np.zeros(count, np.int32) for name in COLUMNS}
    columns |= {
        "group": group,
        "query": group,
        "doc": np.tile(np.arange(size, dtype=np.int32), groups),
    }
    columns["role"] = np.where(np.arange(count) % size, 2, 0).astype(np.int8)
    columns["value"] = (columns["role"] == 0).astype(np.float32)
    ids = Ids.of(f"{n:07}" for n in range(groups))
    return Examples(Queries(ids), Ids.of(f"{n:03}" for n in range(size)), **columns)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_million_rows_are_drawn_quickly(sampler: Sampler) -> None:
    many = big(groups=100_000, size=10)
    mine = recipe(sampler, list_size=5 if sampler == "lists" else None, batch_size=32)
    start = time.process_time()
    found = batches(many, mine, 0)
    assert time.process_time() - start < 4
    assert len(found) == steps_in_epoch(many, mine)
