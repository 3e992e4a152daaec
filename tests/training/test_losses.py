"""Losses: worked out by hand, their gradients against finite differences, and what they teach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from tamis.errors import InputError
from tamis.training import losses
from tamis.training.losses import LossFunction, loss_of
from tamis.training.recipe import LOSSES_WITH_MARGIN, POINTWISE, Loss, Recipe

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

EVERY: tuple[Loss, ...] = get_args(Loss)
PAIRS = 10


def recipe(loss: Loss, **settings: Any) -> Recipe:
    sampler = "points" if loss in POINTWISE else "lists"
    scorer = "target-words" if loss == "target-words" else "cross-encoder"
    outputs = 2 if loss == "softmax" else 1
    plain: dict[str, Any] = {"sampler": sampler, "scorer": scorer, "outputs": outputs, "epochs": 1}
    return Recipe("test", loss=loss, **(plain | settings))


def columns(loss: Loss) -> int:
    return 2 if loss in ("softmax", "target-words") else 1


def units(loss: Loss, sizes: Sequence[int]) -> list[int]:
    return [1] * sum(sizes) if loss in POINTWISE else list(sizes)


def drawn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# By hand.

SCORES = [0.2, -0.4, 1.1, 0.9, 0.3]
VALUES = [1.0, 0.0, 0.0, 1.0, 0.0]
SIZES = [3, 2]


def by_hand(loss: Loss) -> list[float]:
    """The formulas, a unit at a time, in plain Python."""

    def log_loss(p: float, y: float) -> float:
        return -math.log(p if y else 1 - p)

    if loss in ("softmax", "bce", "target-words"):
        return [log_loss(1 / (1 + math.exp(-s)), y) for s, y in zip(SCORES, VALUES, strict=True)]
    if loss == "squared":
        return [(s - y) ** 2 for s, y in zip(SCORES, VALUES, strict=True)]
    if loss == "margin":
        return [((1 - 0.6) + (1 + 0.9)) / 2, 1 - 0.6]
    if loss == "listwise-hinge":
        return [1.1 - 0.2, 0.0]
    if loss == "listwise-softmax":
        first = math.exp(0.2) + math.exp(-0.4) + math.exp(1.1)
        return [math.log(first / math.exp(0.2)), math.log(1 + math.exp(0.3 - 0.9))]
    first = ((0.6 - 1) ** 2 + (-0.9 - 1) ** 2 + (-1.5 - 0) ** 2) / 3
    return [first, (0.6 - 1) ** 2]


@pytest.mark.parametrize("loss", EVERY)
def test_values_are_those_of_the_formula(loss: Loss) -> None:
    scores = torch.tensor(SCORES, dtype=torch.float64)
    if loss == "softmax":
        scores = torch.stack([torch.full_like(scores, 0.7), scores + 0.7], 1)
    if loss == "target-words":
        scores = torch.stack([scores - 2, torch.full_like(scores, -2)], 1)
    values = torch.tensor(VALUES, dtype=torch.float64)
    found = loss_of(recipe(loss))(scores, values, units(loss, SIZES))
    assert found.tolist() == pytest.approx(by_hand(loss), abs=1e-12)


@pytest.mark.parametrize("loss", EVERY)
def test_gradients_are_finite_differences(loss: Loss) -> None:
    sizes = [3, 2, 4, 1]
    values = torch.tensor([1, 0, 0, 1, 0, 1, 1, 0, 0, 1], dtype=torch.float64)
    scores = drawn(10, columns(loss)).requires_grad_()
    function = loss_of(recipe(loss, margin=0.25 if loss in LOSSES_WITH_MARGIN else None))

    def sums(given: Any) -> Any:
        return function(given, values, units(loss, sizes))

    assert torch.autograd.gradcheck(sums, (scores,))


@pytest.mark.parametrize("loss", EVERY)
def test_a_unit_does_not_see_the_others(loss: Loss) -> None:
    sizes, function = (
        [2, 5, 3],
        loss_of(recipe(loss, margin=0.5 if loss in LOSSES_WITH_MARGIN else None)),
    )
    scores, values = drawn(10, columns(loss)), (drawn(10, seed=1) > 0).double()
    whole = function(scores, values, units(loss, sizes))
    alone, start = [], 0
    for size in sizes:
        part = slice(start, start + size)
        alone += function(scores[part], values[part], units(loss, [size])).tolist()
        start += size
    assert whole.tolist() == pytest.approx(alone)


GRADIENTS: list[tuple[LossFunction, list[float]]] = [
    (losses.bce, [1 / (1 + math.exp(-0.5)) - 1, 1 / (1 + math.exp(0.25))]),
    (losses.squared, [2 * (0.5 - 1), 2 * (-0.25 - 0)]),
    (losses.pairwise_margin, [-1, 1]),
    (losses.listwise_hinge, [0, 0]),
    (losses.listwise_softmax, [-1 / (1 + math.exp(0.75)), 1 / (1 + math.exp(0.75))]),
    (losses.margin_distillation, [2 * (0.75 - 1), -2 * (0.75 - 1)]),
]


@pytest.mark.parametrize(("function", "wanted"), GRADIENTS)
def test_gradients_by_hand(function: LossFunction, wanted: list[float]) -> None:
    scores = torch.tensor([0.5, -0.25], dtype=torch.float64, requires_grad=True)
    sizes = [1, 1] if function in (losses.bce, losses.squared) else [2]
    function(scores, torch.tensor([1.0, 0.0]).double(), sizes).sum().backward()
    assert scores.grad.tolist() == pytest.approx(wanted)


def test_the_pairwise_margin_is_that_of_torch() -> None:
    scores = drawn(20)
    values = torch.tensor([1.0, 0.0] * 10, dtype=torch.float64)
    ours = losses.pairwise_margin(scores, values, [2] * 10, margin=0.3)
    theirs = torch.nn.MarginRankingLoss(0.3, reduction="none")
    assert torch.allclose(ours, theirs(scores[::2], scores[1::2], torch.ones(10)))


def test_distillation_is_the_mean_over_all_pairs() -> None:
    scores, teacher = drawn(6), drawn(6, seed=3)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    wanted = sum(
        float((scores[i] - scores[j] - teacher[i] + teacher[j]) ** 2) for i, j in pairs
    ) / len(pairs)
    assert losses.margin_distillation(scores, teacher, [6]).item() == pytest.approx(wanted)


def test_grades_are_taken_against_all_lower_ones() -> None:
    scores, values = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([2.0, 1.0, 0.0])
    found = losses.listwise_softmax(scores, values, [3]).item()
    assert found == pytest.approx((math.log(3) + math.log(2)) / 2)
    assert losses.pairwise_margin(scores, values, [3]).item() == pytest.approx(1)


@pytest.mark.parametrize("loss", [loss for loss in EVERY if loss not in POINTWISE])
def test_a_unit_with_nothing_to_compare_costs_nothing(loss: Loss) -> None:
    scores = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    found = loss_of(recipe(loss))(scores, torch.tensor([1.0, 1.0, 0.0]), [1, 2])
    assert found[0].item() == 0
    found[0].backward()
    assert scores.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("loss", EVERY)
def test_a_score_that_is_no_number_is_not_hidden(loss: Loss) -> None:
    scores = torch.zeros(4, columns(loss))
    scores[1] = torch.nan
    values = torch.tensor([1.0, 0.0, 1.0, 0.0])
    found = loss_of(recipe(loss))(scores, values, units(loss, [2, 2]))
    assert found.isnan().any()


def test_the_wrong_number_of_scores_is_refused() -> None:
    values = torch.tensor([1.0, 0.0])
    with pytest.raises(
        InputError, match=r"takes 1 score\(s\) per text, not scores of shape \(2, 2\)"
    ):
        losses.bce(torch.zeros(2, 2), values, [1, 1])
    with pytest.raises(InputError, match="takes 2"):
        losses.softmax(torch.zeros(2), values, [1, 1])


# Collapse.


def test_the_listwise_hinge_rests_on_equal_scores_unless_it_has_a_margin() -> None:
    features, values = drawn(12, 8), torch.tensor([1.0, 0.0, 0.0] * 4, dtype=torch.float64)

    def trained(margin: float) -> tuple[float, Any]:
        weights = torch.zeros(8, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([weights], lr=0.05)
        function = loss_of(recipe("listwise-hinge", margin=margin))
        first = 0.0
        for step in range(100):
            loss = function(features @ weights, values, [3] * 4).mean()
            first = loss.item() if step == 0 else first
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return first, (features @ weights).detach().reshape(4, 3)

    first, scores = trained(0.0)
    assert first == 0
    assert scores.tolist() == [[0, 0, 0]] * 4
    first, scores = trained(1.0)
    assert first == 2
    assert (scores[:, :1] > scores[:, 1:]).all()


# Learning.


def lead(scores: Any, loss: Loss) -> Any:
    """One score a text, higher for the better."""
    if loss == "softmax":
        return scores[:, 1] - scores[:, 0]
    return scores[:, 0] - scores[:, 1] if loss == "target-words" else scores[:, 0]


@pytest.mark.parametrize("loss", EVERY)
def test_a_tiny_model_learns_ten_pairs(loss: Loss) -> None:
    features = drawn(2 * PAIRS, 32)
    values = torch.tensor([1.0, 0.0] * PAIRS, dtype=torch.float64)
    if loss == "squared":
        values *= 5
    torch.manual_seed(2)
    model = torch.nn.Linear(32, columns(loss)).double()
    before = lead(model(features), loss).reshape(PAIRS, 2)
    assert (before[:, 0] < before[:, 1]).any()
    function = loss_of(recipe(loss))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        function(model(features), values, units(loss, [2] * PAIRS)).mean().backward()
        optimizer.step()
    after = lead(model(features), loss).reshape(PAIRS, 2)
    assert (after[:, 0] > after[:, 1]).all()


@pytest.mark.parametrize(
    "loss", [loss for loss in EVERY if loss not in ("softmax", "target-words")]
)
def test_target_words_learn_by_any_loss_as_the_lead_of_the_first_word(loss: Loss) -> None:
    logits, values = drawn(5, 2), torch.tensor(VALUES, dtype=torch.float64)
    found = loss_of(recipe(loss, scorer="target-words"))(logits, values, units(loss, SIZES))
    plain = loss_of(recipe(loss))(logits[:, 0] - logits[:, 1], values, units(loss, SIZES))
    assert torch.equal(found, plain)


# The label loss of transformers.


@pytest.fixture(scope="module")
def t5() -> Any:
    torch.manual_seed(0)
    shape = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(
        vocab_size=40, decoder_start_token_id=0, dropout_rate=0.0, **shape
    )
    return transformers.T5ForConditionalGeneration(config).eval()


class OnlyTwo(torch.nn.Module):  # type: ignore[misc, name-defined]
    """An output layer for which no other token exists."""

    def __init__(self, whole: Any, ids: tuple[int, int]) -> None:
        super().__init__()
        self.whole, self.ids = whole, list(ids)

    def forward(self, states: Any) -> Any:
        logits = self.whole(states)
        others = torch.ones(logits.shape[-1], dtype=torch.bool)
        others[self.ids] = False
        return logits.masked_fill(others, -torch.inf)


@pytest.mark.parametrize("word_loss", ["words", "vocabulary"])
def test_target_words_are_the_label_loss_of_transformers(t5: Any, word_loss: str) -> None:
    ids, values = (7, 21), torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0])
    tokens = torch.randint(1, 40, (5, 9), generator=torch.Generator().manual_seed(1))
    labels = torch.where(values > 0, ids[0], ids[1])[:, None]
    head = t5.lm_head
    t5.lm_head = OnlyTwo(head, ids) if word_loss == "words" else head
    theirs = t5(input_ids=tokens, labels=labels).loss
    theirs.backward()
    wanted, _ = head.weight.grad.clone(), t5.zero_grad()
    t5.lm_head = head
    logits = t5(input_ids=tokens, decoder_input_ids=torch.zeros(5, 1, dtype=torch.long)).logits[
        :, 0
    ]
    function = loss_of(recipe("target-words", word_loss=word_loss), ids)
    ours = function(logits if word_loss == "vocabulary" else logits[:, list(ids)], values, [1] * 5)
    ours.mean().backward()
    assert ours.mean().item() == pytest.approx(theirs.item(), rel=1e-6)
    assert torch.allclose(head.weight.grad, wanted, atol=1e-7)
    t5.zero_grad()


def test_the_vocabulary_needs_to_know_the_words() -> None:
    with pytest.raises(InputError, match="needs the ids"):
        loss_of(recipe("target-words", word_loss="vocabulary"))
