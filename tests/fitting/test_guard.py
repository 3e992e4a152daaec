"""The guard: small cases by hand, p-values by enumeration, and what must hold for any values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tamis.errors import InputError
from tamis.fitting import guard
from tamis.fitting.guard import ComparedSystem, Selection, compare_with, decide, select
from tamis.fitting.json_records import from_json, to_json

THREE = [ComparedSystem("bm25", 0), ComparedSystem("base", 1), ComparedSystem("tuned", 2)]
FOUR = [*THREE, ComparedSystem("fused", 3)]


REQUIRED = ("base", "bm25")


def chosen(
    systems: Sequence[ComparedSystem], values: Sequence[Sequence[float]], **more: Any
) -> Selection:
    return select(systems, np.array(values), REQUIRED, **more)


def p_of(choice: Selection, name: str) -> float | None:
    return next(one.p_value for one in choice.systems if one.system.name == name)


def test_a_lead_on_every_query_is_no_luck() -> None:
    choice = chosen(THREE, [[0.1] * 4, [0.2] * 4, [0.3, 0.4, 0.5, 0.6]])
    assert (choice.selected, choice.best, choice.queries) == ("tuned", "tuned", 4)
    assert choice.rejections == {
        "bm25": ".100 below base",
        "base": ".250 below tuned (p = .06)",
    }
    assert p_of(choice, "base") == 1 / 16  # only the signs observed give as much


def test_a_lead_on_two_queries_is_luck_in_one_case_of_four() -> None:
    choice = chosen(THREE, [[0.1] * 4, [0.2] * 4, [0.2, 0.2, 0.5, 0.6]])
    assert (choice.selected, choice.best) == ("base", "tuned")
    assert p_of(choice, "tuned") == 1 / 4
    assert choice.rejections["tuned"] == (
        "+.175 over base, not significant (p = .25); the simpler base is kept"
    )


def test_the_same_lead_is_less_certain_among_more_options() -> None:
    """Three queries of three won: 1 of 8 alone; beside its mirror image 2 of 8, so it is luck."""
    base, tuned = [0.5, 0.5, 0.5], [0.6, 0.7, 0.8]
    mirrored = [0.4, 0.3, 0.2]
    assert chosen(THREE, [[0.1] * 3, base, tuned]).selected == "tuned"
    choice = chosen(FOUR, [[0.1] * 3, base, tuned, mirrored])
    assert choice.selected == "base"
    assert p_of(choice, "tuned") == 2 / 8


def test_an_option_that_is_the_same_again_does_not_count_twice() -> None:
    base, tuned = [0.5, 0.5, 0.5], [0.6, 0.7, 0.8]
    choice = chosen(FOUR, [[0.1] * 3, base, tuned, tuned])
    assert choice.selected == "tuned"
    assert choice.rejections["fused"] == "no better than tuned; the simpler tuned is kept"


@pytest.mark.parametrize("last", [0.6, 0.0])
def test_errors_are_those_of_the_paired_difference_to_the_best(last: float) -> None:
    values = np.array([[0.1, 0.2, 0.3, 0.1], [0.3, 0.2, 0.3, 0.5], [0.9, 0.4, 0.8, last]])
    choice = select(THREE, values, REQUIRED)
    assert (choice.best, choice.selected) == ("tuned", "tuned" if last == 0.6 else "base")
    for each, row in zip(choice.systems, values, strict=True):
        assert each.mean == pytest.approx(row.mean())
        assert each.difference == pytest.approx(row.mean() - values[2].mean())
        assert each.standard_error == pytest.approx(stats.sem(row - values[2]))


def test_of_equally_simple_options_the_best_mean() -> None:
    systems = [*THREE[:2], ComparedSystem("point .5", 2), ComparedSystem("point 1", 2)]
    choice = chosen(systems, [[0.1] * 5, [0.2] * 5, [0.5] * 5, [0.5, 0.5, 0.5, 0.5, 0.6]])
    assert choice.selected == "point 1"
    assert choice.rejections["point .5"] == ".020 below point 1"


def test_what_is_below_the_start_or_the_baseline_is_refused_however_simple() -> None:
    systems = [ComparedSystem("bm25", 1), ComparedSystem("base", 2), ComparedSystem("words", 0)]
    choice = chosen(systems, [[0.4, 0.5], [0.3, 0.5], [0.3, 0.5]])
    assert choice.selected == "bm25"
    assert choice.rejections == {"base": ".050 below bm25", "words": ".050 below bm25"}


def test_a_sure_option_is_taken_where_the_best_is_unsure() -> None:
    """The best leads by more but on one query only; the other leads a little on all."""
    base = [0.5] * 6
    sure, unsure = [0.55] * 6, [0.5, 0.5, 0.5, 0.5, 0.5, 1.0]
    choice = chosen(FOUR, [[0.1] * 6, base, sure, unsure])
    assert (choice.selected, choice.best) == ("tuned", "fused")
    assert choice.rejections["base"].startswith(".050 below tuned")


def test_what_a_simpler_option_surpasses_is_never_chosen() -> None:
    """`tuned` is lower than `base`, and too noisy for the best to be surely ahead of it."""
    base, best = [0.50] * 8, [0.6] * 8
    tuned = [1.0, 0.0, 1.0, 0.0, 0.9, 0.0, 1.0, 0.0]
    choice = chosen(FOUR, [[0.1] * 8, base, tuned, best])
    assert choice.selected == "fused"
    assert choice.rejections["tuned"] == ".013 below base"


@pytest.mark.parametrize("queries", [1, 2])
def test_one_or_two_queries_never_leave_the_start(queries: int) -> None:
    choice = chosen(THREE, [[0.0] * queries, [0.1] * queries, [1.0] * queries])
    assert choice.selected == "base"
    assert choice.systems[0].standard_error is None or queries == 2


def test_many_queries_draw_signs_and_come_near_every_sign() -> None:
    values = np.zeros((3, guard.MAX_EXACT_QUERIES))
    values[0] = -1
    values[2] = np.arange(guard.MAX_EXACT_QUERIES) / 10 - 0.45
    exact = p_of(chosen(THREE, values.tolist()), "tuned")
    padded = np.column_stack([values, [[-1.0] * 9, [0.0] * 9, [0.0] * 9]]).tolist()
    drawn = p_of(chosen(THREE, padded), "tuned")  # no difference there: luck is the same
    assert exact is not None and drawn is not None and drawn != exact
    assert drawn == pytest.approx(
        exact, abs=4 * np.sqrt(exact * (1 - exact) / guard.RANDOM_ASSIGNMENTS)
    )
    assert p_of(chosen(THREE, padded, seed=1), "tuned") != drawn


def test_with_one_rival_and_many_queries_luck_is_that_of_the_normal_distribution() -> None:
    """A quarter of it lies more than .674 standard errors above the mean."""
    generator = np.random.default_rng(2)
    for lead, wins in ((0.55, False), (0.8, True)):
        noise = generator.normal(0, 1, 400)
        noise = (noise - noise.mean()) / stats.sem(noise)
        values = np.array([np.full(400, -9.0), np.zeros(400), noise + lead])
        assert (chosen(THREE, values.tolist()).selected == "tuned") is wins


@pytest.mark.parametrize(
    ("systems", "values", "problem"),
    [
        (THREE, [[0.1], [0.1]], "values of shape"),
        (THREE, [[], [], []], "values of shape"),
        (THREE, [[0.1], [np.nan], [0.1]], "no number"),
        ([*THREE[:2], THREE[1]], [[0.1]] * 3, "same name"),
        (THREE[1:], [[0.1]] * 2, "'bm25' is not among"),
    ],
)
def test_bad_input_is_refused(
    systems: list[ComparedSystem], values: list[list[float]], problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        chosen(systems, values)
    assert caught.value.hint


@st.composite
def offers(draw: st.DrawFn) -> tuple[list[ComparedSystem], NDArray[np.float64]]:
    count, queries = draw(st.integers(2, 6)), draw(st.integers(1, 14))
    levels = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    names = ["bm25", "base", *(f"system {n}" for n in range(count - 2))]
    cells = st.lists(st.integers(0, 4), min_size=queries, max_size=queries)
    values = np.array([draw(cells) for _ in names]) / 4
    return [ComparedSystem(*each) for each in zip(names, levels, strict=True)], values


@given(offers())
@settings(max_examples=150, deadline=None)
def test_the_chosen_is_never_below_and_never_surpassed_by_something_simpler(
    offer: tuple[list[ComparedSystem], NDArray[np.float64]],
) -> None:
    systems, values = offer
    choice = select(systems, values, REQUIRED)
    means = {system.name: row.mean() for system, row in zip(systems, values, strict=True)}
    level = {system.name: system.complexity for system in systems}
    mine = means[choice.selected]
    assert mine >= max(means["base"], means["bm25"]) - 1e-9
    for name, mean in means.items():
        if level[name] <= level[choice.selected]:
            assert mean <= mine + 1e-9
        if level[name] < level[choice.selected]:
            assert mean < mine
    assert means[choice.best] == pytest.approx(max(means.values()))
    assert set(choice.rejections) == set(means) - {choice.selected}
    assert from_json(Selection, json.loads(json.dumps(to_json(choice)))) == choice


@given(offers())
@settings(max_examples=80, deadline=None)
def test_order_of_queries_does_not_matter_and_a_worse_option_is_never_chosen(
    offer: tuple[list[ComparedSystem], NDArray[np.float64]],
) -> None:
    systems, values = offer
    before = select(systems, values, REQUIRED)
    if values.shape[1] <= guard.MAX_EXACT_QUERIES:
        turned = select(systems, values[:, ::-1], REQUIRED)
        assert turned.selected == before.selected
    worse = np.vstack([values, values.min(axis=0) - 0.25])
    after = select([*systems, ComparedSystem("worse", 9)], worse, REQUIRED)
    assert after.selected != "worse"
    levels = {system.name: system.complexity for system in systems}
    assert levels[after.selected] <= levels[before.selected], "more systems make it more careful"


def test_luck_protects_from_the_luckiest_of_many() -> None:
    """Ten systems that are exactly as good as the start: few are taken, by best mean nearly all."""
    generator = np.random.default_rng(0)
    systems = [*THREE[:2], *(ComparedSystem(f"lucky {n}", 2) for n in range(10))]
    taken = naive = 0
    for _ in range(150):
        start = generator.random(60)
        lucky = start + generator.normal(0, 0.3, (10, 60))
        values = np.vstack([start - 1, start, lucky])
        taken += chosen(systems, values.tolist()).selected != "base"
        naive += int(values.mean(axis=1).argmax() > 1)
    assert taken / 150 < guard.SELECTION_LEVEL + 3 * np.sqrt(
        guard.SELECTION_LEVEL * (1 - guard.SELECTION_LEVEL) / 150
    )
    assert naive / 150 > 0.9


def test_a_test_is_paired_and_corrected() -> None:
    generator = np.random.default_rng(3)
    mine = generator.random(40)
    base, bm25 = mine + generator.normal(0.1, 0.1, 40), mine - generator.normal(0.01, 0.1, 40)
    found = compare_with(mine, {"base": base, "bm25": bm25})
    raw = [stats.ttest_rel(mine, other).pvalue for other in (base, bm25)]
    assert [each.p_value for each in found.comparisons] == pytest.approx([min(raw) * 2, max(raw)])
    assert found.worse_than == ("base",)
    assert found.comparisons[0].difference == pytest.approx((mine - base).mean())
    interval = found.comparisons[0].interval
    assert (
        interval is not None and interval.low < found.comparisons[0].difference < interval.high < 0
    )
    assert found.comparisons[1].is_worse is False
    assert from_json(guard.BaselineTest, json.loads(json.dumps(to_json(found)))) == found


def test_significantly_better_is_not_worse_and_one_query_says_nothing() -> None:
    assert compare_with([0.5, 0.6, 0.7], {"base": [0.1, 0.1, 0.1]}).worse_than == ()
    single = compare_with([0.1], {"base": [0.9]})
    assert single.worse_than == () and single.comparisons[0].p_value is None
    with pytest.raises(InputError, match="'base' do not fit"):
        compare_with([0.1, 0.2], {"base": [0.9]})
    with pytest.raises(InputError, match="no number"):
        compare_with([0.1, 0.2], {"base": [0.9, np.nan]})


def test_holm_can_acquit() -> None:
    """p = .04 alone is significant, beside another test it is not."""
    differences = np.array([-1.0, -1.0, -1.0, -1.0, 0.25, 0.25])
    p = stats.ttest_1samp(differences, 0).pvalue
    assert 0.025 < p < 0.05 * 1.6
    zero = np.zeros(6)
    both = compare_with(zero, {"base": -differences, "bm25": zero}, level=p * 1.5)
    alone = compare_with(zero, {"base": -differences}, level=p * 1.5)
    assert (both.worse_than, alone.worse_than) == ((), ("base",))


def settle(bm25: float, base: float, tuned: float, choice: Selection) -> guard.Decision:
    jitter = np.array([0.01, -0.01, 0.02, 0.0, -0.02, 0.0])
    values: dict[str, Any] = {"bm25": bm25 + jitter, "base": base - jitter, "tuned": [tuned] * 6}
    return decide(choice, values, REQUIRED)


def test_what_fails_its_test_is_replaced_by_the_better_of_start_and_baseline() -> None:
    choice = chosen(THREE, [[0.1] * 4, [0.2] * 4, [0.3, 0.4, 0.5, 0.6]])
    for bm25, base, name in ((0.5, 0.7, "base"), (0.8, 0.7, "bm25"), (0.2, 0.7, "base")):
        done = settle(bm25, base, 0.3, choice)
        assert (done.selected, done.fell_back) == (name, True)
    assert str(settle(0.2, 0.7, 0.3, choice)) == (
        "base: tuned is significantly below base on test queries"
    )
    kept = settle(0.2, 0.3, 0.5, choice)
    assert (kept.selected, kept.fell_back) == ("tuned", False)


def test_the_start_is_not_compared_with_itself() -> None:
    choice = chosen(THREE, [[0.1] * 4, [0.3] * 4, [0.2] * 4])
    done = settle(0.7, 0.5, 0.0, choice)
    assert [each.baseline for each in done.test.comparisons] == ["bm25"]
    assert done.selected == "bm25"


def test_p_values_are_those_of_enumeration() -> None:
    """Against every sign tried in plain Python, two rivals, Student's t as the statistic."""
    generator = np.random.default_rng(8)
    values = np.vstack([np.full(7, -1.0), np.zeros(7), generator.normal(0.3, 0.5, (2, 7))])
    observed = [stats.ttest_1samp(row, 0).statistic for row in values[2:]]
    highest = [
        max(stats.ttest_1samp(row * signs, 0).statistic for row in values[2:])
        for signs in itertools.product((1, -1), repeat=7)
    ]
    expected = [np.mean([each >= seen - 1e-9 for each in highest]) for seen in observed]
    flipped = next(guard._signs(7, 0)) @ values.T
    p_values = guard._p_values(values, flipped, 1, np.array([False, False, True, True]))
    assert p_values.tolist() == pytest.approx([1, 1, *expected])


def test_a_floor_that_is_named_replaces_start_and_baseline() -> None:
    systems = [ComparedSystem("usual", 0), ComparedSystem("bm25", 1), ComparedSystem("base", 1)]
    lucky = [[0.5, 0.5, 0.5, 0.5], [0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.5, 0.9]]
    assert select(systems, lucky, REQUIRED).selected == "base"
    choice = select(systems, lucky, ["usual"])
    assert choice.selected == "usual"
    assert choice.rejections["bm25"] == ".300 below usual"
    sure = [*lucky[:2], [0.9, 0.9, 0.9, 0.9]]
    assert select(systems, sure, ["usual"]).selected == "base"
    with pytest.raises(InputError, match="'no' is not among the systems"):
        select(systems, lucky, ["no"])
