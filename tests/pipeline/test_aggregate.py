"""Aggregations by hand, against a plain implementation, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.pipeline.aggregate import Aggregation, aggregate, check_scale, parse_aggregation

FORMS = ["first", "max", "sum", "mean", "top:1", "top:3"]


@pytest.mark.parametrize("text", FORMS)
def test_an_aggregation_prints_as_itself(text: str) -> None:
    assert str(parse_aggregation(text)) == text


@pytest.mark.parametrize("text", ["", "Max", "top", "top:0", "top:-1", "top:03", "top:3 ", "max:3"])
def test_a_bad_aggregation_is_named_with_the_valid_forms(text: str) -> None:
    with pytest.raises(InputError, match="is not an aggregation") as caught:
        parse_aggregation(text)
    assert caught.value.hint == "use first, max, sum, mean or top:3"


def test_an_aggregation_cannot_be_made_wrongly() -> None:
    for kind, k in (("max", 3), ("top", 0), ("top", -1)):
        with pytest.raises(InputError):
            Aggregation(kind, k)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "scores", "winners"),
    [
        ("first", [0.25, 0.5, -np.inf], [0, 0, -1]),
        ("max", [0.75, 0.5, -np.inf], [1, 0, -1]),
        ("sum", [0.25 + 0.75 + 0.5, 0.5 + 0.5, -np.inf], [1, 0, -1]),
        ("mean", [(0.25 + 0.75 + 0.5) / 3, 0.5, -np.inf], [1, 0, -1]),
        ("top:2", [(0.75 + 0.5) / 2, 0.5, -np.inf], [1, 0, -1]),
        ("top:9", [(0.25 + 0.75 + 0.5) / 3, 0.5, -np.inf], [1, 0, -1]),
    ],
)
def test_by_hand(text: str, scores: list[float], winners: list[int]) -> None:
    found = aggregate([0, 3, 5, 5], [0.25, 0.75, 0.5, 0.5, 0.5], parse_aggregation(text))
    assert found.scores.tolist() == scores
    assert found.passages.tolist() == winners
    assert (found.scores.dtype.name, found.passages.dtype.name) == ("float32", "int32")


def test_winners_by_the_passages_own_numbers() -> None:
    numbers = [0, 17, 40, 0]
    found = aggregate([0, 3, 4, 4], [1, 3, 2, 1], parse_aggregation("max"), numbers=numbers)
    assert found.passages.tolist() == [17, 0, -1]
    with pytest.raises(InputError, match="4 passages but 2 numbers"):
        aggregate([0, 4], [1, 3, 2, 1], parse_aggregation("max"), numbers=[0, 1])


@pytest.mark.parametrize("text", FORMS)
def test_nothing_to_aggregate(text: str) -> None:
    assert len(aggregate([0], [], parse_aggregation(text)).scores) == 0
    assert aggregate([0, 0], [], parse_aggregation(text)).passages.tolist() == [-1]


def plain(values: list[float], text: str) -> tuple[float, int]:
    winner = max(range(len(values)), key=lambda n: (values[n], -n))
    kind, _, k = text.partition(":")
    best = sorted(values, reverse=True)[: int(k or 1)]
    result = {
        "first": values[0],
        "max": max(values),
        "sum": sum(values),
        "mean": sum(values) / len(values),
        "top": sum(best) / len(best),
    }[kind]
    return result, 0 if kind == "first" else winner


SCORES = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=8)


@settings(deadline=None, max_examples=150)
@given(st.lists(SCORES, max_size=6), st.sampled_from(FORMS))
def test_the_same_as_a_plain_implementation(groups: list[list[float]], text: str) -> None:
    offsets = np.cumsum([0, *map(len, groups)])
    found = aggregate(offsets, [s for group in groups for s in group], parse_aggregation(text))
    expected = [plain(group, text) for group in groups]
    assert found.passages.tolist() == [winner for _, winner in expected]
    np.testing.assert_allclose(found.scores, [score for score, _ in expected], rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(InputError, match=f"passage 1 is {value}"):
        aggregate([0, 2], [0.5, value], parse_aggregation("max"))


@pytest.mark.parametrize("offsets", [[], [1, 2], [0, 2, 1], [0, 1], [0, 3]])
def test_offsets_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    with pytest.raises(InputError, match="offsets"):
        aggregate(offsets, [0.5, 0.5], parse_aggregation("max"))


def test_logits_are_not_added_up() -> None:
    total = parse_aggregation("sum")
    with pytest.raises(InputError, match="sum of logits") as caught:
        check_scale(total, "logit")
    assert "probabilities" in caught.value.hint
    with pytest.raises(InputError, match="sum of logits"):
        aggregate([0, 1], [0.5], total, scale="logit")
    for scale in ("probability", "regression", "cosine"):
        check_scale(total, scale)
    for text in ("first", "max", "mean", "top:3"):
        check_scale(parse_aggregation(text), "logit")


@pytest.mark.parametrize("scores", [[-0.5, -2.0], [0.5, 1.5]])
def test_what_is_called_a_probability_must_be_one(scores: list[float]) -> None:
    with pytest.raises(InputError, match="called probabilities but reach from") as caught:
        aggregate([0, 2], scores, parse_aggregation("max"), scale="probability")
    assert "exponentials" in caught.value.hint
    assert aggregate([0, 2], [0.0, 1.0], parse_aggregation("sum"), scale="probability").scores == 1
