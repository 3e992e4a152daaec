"""The rate at every step of each recipe, parameter groups and optimizers, as numbers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tamis.errors import InputError
from tamis.training.recipe import Recipe
from tamis.training.recipes import RECIPES, resolve
from tamis.training.schedules import optimizer_of, parameter_groups, rate_at, set_rates

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

RATES = {
    "monot5": (1e-3, 1e-3, 0.0),
    "few-t5": (1e-3, 1e-3, 0.0),
    "few-bert": (1e-6, 1e-6, 0.0),
    "few-bert-tuned": (5e-5, 5e-5, 0.0),
    "monobert-pairwise": (2e-5, 2e-4, 1e-7),
    "infuse-scores": (2e-5, 2e-5, 0.0),
    "infuse-gold": (2e-5, 2e-5, 0.0),
    "docrank": (1e-5, 1e-5, 0.0),
    "monot5-small": (1e-3, 1e-3, 0.0),
    "few-t5-small": (1e-3, 1e-3, 0.0),
    "few-bert-small": (1e-6, 1e-6, 0.0),
    "few-bert-tuned-small": (5e-5, 5e-5, 0.0),
    "monobert-pairwise-small": (1e-4, 1e-3, 1e-7),
    "infuse-scores-small": (1e-4, 1e-3, 0.0),
    "infuse-gold-small": (1e-4, 1e-3, 0.0),
    "docrank-small": (1e-4, 1e-3, 0.0),
    "bi-encoder": (2e-5, 2e-5, 0.0),
    "query-encoder": (2e-5, 2e-5, 0.0),
}
"""Of the body, of the head, and the decay."""
CONSTANT = [1.0, 1.0, 1.0, 1.0, 1.0]
FALLS = [1.0, 0.8, 0.5, 0.3, 0.1]
TENTH = [1.0, 8 / 9, 5 / 9, 3 / 9, 1 / 9]
FIFTH = [0.5, 1.0, 5 / 8, 3 / 8, 1 / 8]
FACTORS = {
    "monot5": CONSTANT,
    "few-t5": CONSTANT,
    "few-bert": CONSTANT,
    "few-bert-tuned": TENTH,
    "monobert-pairwise": FIFTH,
    "infuse-scores": FALLS,
    "infuse-gold": FALLS,
    "docrank": CONSTANT,
    "monot5-small": CONSTANT,
    "few-t5-small": CONSTANT,
    "few-bert-small": CONSTANT,
    "few-bert-tuned-small": TENTH,
    "monobert-pairwise-small": FIFTH,
    "infuse-scores-small": TENTH,
    "infuse-gold-small": TENTH,
    "docrank-small": TENTH,
    "bi-encoder": TENTH,
    "query-encoder": TENTH,
}
"""At the steps 0, 2, 5, 7 and 9 of ten."""


def model() -> Any:
    return torch.nn.ModuleDict({"body": torch.nn.Linear(3, 2), "head": torch.nn.Linear(2, 1)})


HEAD = {"head.weight", "head.bias"}


@pytest.mark.parametrize("name", RECIPES)
def test_the_rate_of_each_recipe(name: str) -> None:
    found = [rate_at(step, 10, RECIPES[name]) for step in (0, 2, 5, 7, 9)]
    assert found == pytest.approx(FACTORS[name])


@pytest.mark.parametrize("name", RECIPES)
def test_the_groups_of_each_recipe(name: str) -> None:
    body, head = parameter_groups(model().named_parameters(), RECIPES[name], HEAD)
    assert (body["lr"], head["lr"], body["weight_decay"]) == RATES[name]
    assert head["weight_decay"] == body["weight_decay"]
    assert body["names"] == ["body.weight", "body.bias"]
    assert set(head["names"]) == HEAD


@pytest.mark.parametrize("steps", [1, 2, 7, 100, 1000])
@pytest.mark.parametrize("warmup_ratio", [0.0, 0.1, 0.2, 1.0])
def test_a_linear_schedule_is_that_of_transformers_a_step_earlier_while_warm(
    steps: int, warmup_ratio: float
) -> None:
    recipe = Recipe("test", epochs=1, warmup_ratio=warmup_ratio, schedule="linear")
    warm = round(warmup_ratio * steps)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = transformers.get_linear_schedule_with_warmup(optimizer, warm, steps)
    for step in range(steps):
        shifted = step + 1 if step < warm - 1 else step
        wanted = 1.0 if step == warm - 1 else theirs.lr_lambdas[0](shifted)
        assert rate_at(step, steps, recipe) == pytest.approx(wanted)


def test_no_step_has_the_rate_zero() -> None:
    recipe = Recipe("test", epochs=1, warmup_ratio=0.2, schedule="linear")
    for steps in range(1, 40):
        factors = [rate_at(step, steps, recipe) for step in range(steps)]
        assert min(factors) > 0
        assert max(factors) == 1


def test_paper_004_warms_up_over_a_fifth_of_the_steps() -> None:
    recipe = resolve("monobert-pairwise")
    factors = [rate_at(step, 1000, recipe) for step in range(1000)]
    assert factors.index(1.0) == 199
    rises = [b - a for a, b in itertools.pairwise(factors[:200])]
    assert rises == pytest.approx([1 / 200] * 199)


def test_a_head_that_is_not_there_and_a_frozen_body() -> None:
    with pytest.raises(InputError, match=r"no parameter 'neck\.weight'"):
        parameter_groups(model().named_parameters(), RECIPES["docrank"], {"neck.weight"})
    frozen = model()
    frozen["body"].requires_grad_(False)
    (only,) = parameter_groups(frozen.named_parameters(), RECIPES["docrank"], HEAD)
    assert only["name"] == "head"


def test_adamw_is_one_fused_pass_with_the_numbers_of_the_plain_one() -> None:
    recipe = resolve("monobert-pairwise", {"weight_decay": "0.1"})

    def stepped(make: Any) -> list[Any]:
        torch.manual_seed(0)
        made = model()
        optimizer = make(parameter_groups(made.named_parameters(), recipe, HEAD))
        for _ in range(3):
            optimizer.zero_grad()
            made["head"](made["body"](torch.ones(4, 3))).sum().backward()
            optimizer.step()
        return [parameter.detach() for parameter in made.parameters()]

    assert optimizer_of(
        parameter_groups(model().named_parameters(), recipe, HEAD), recipe
    ).defaults["fused"]
    ours = stepped(lambda groups: optimizer_of(groups, recipe))
    plain = stepped(lambda groups: torch.optim.AdamW(groups, foreach=False))
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(ours, plain, strict=True))


def test_adafactor_moves_a_weight_by_its_rate_and_no_more() -> None:
    """One gradient alone, divided by its own size, is 1: the first step is the rate."""
    recipe = resolve("monot5")
    weight = torch.nn.Parameter(torch.full((3,), 50.0))
    optimizer = optimizer_of(parameter_groups([("w", weight)], recipe, ()), recipe)
    (weight * torch.tensor([1.0, -2.0, 30.0])).sum().backward()
    optimizer.step()
    assert (weight.detach() - 50).tolist() == pytest.approx([-1e-3, 1e-3, -1e-3], rel=1e-2)


def test_rates_are_set_from_the_first_ones_every_time() -> None:
    recipe = resolve("monobert-pairwise")
    optimizer = optimizer_of(parameter_groups(model().named_parameters(), recipe, HEAD), recipe)
    for factor in (0.5, 0.5, 0.1):
        set_rates(optimizer, factor)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([2e-6, 2e-5])


def test_the_rates_survive_a_saved_state() -> None:
    recipe = resolve("monobert-pairwise")
    first = optimizer_of(parameter_groups(model().named_parameters(), recipe, HEAD), recipe)
    set_rates(first, 0.25)
    second = optimizer_of(parameter_groups(model().named_parameters(), recipe, HEAD), recipe)
    second.load_state_dict(first.state_dict())
    set_rates(second, 1.0)
    assert [group["lr"] for group in second.param_groups] == [2e-5, 2e-4]
