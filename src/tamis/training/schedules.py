"""Learning rates: the rate at every step, the groups of parameters, the optimizer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from tamis.errors import InputError, require
from tamis.training.recipe import Recipe

Tensor = Any


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """By what the rates are multiplied at a step, counted from 0, of so many.

    The warm-up rises linearly and is over with its last step, so that no step has the rate zero.
    A linear schedule falls from there and would reach zero one step after the last.

    >>> slow = Recipe("slow", epochs=1, warmup_ratio=0.2, schedule="linear")
    >>> [round(rate_at(step, 10, slow), 3) for step in range(10)]
    [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    """
    warm = round(recipe.warmup_ratio * steps)
    if step < warm:
        return (step + 1) / warm
    if recipe.schedule == "constant":
        return 1.0
    return max(0.0, (steps - step) / (steps - warm)) if steps > warm else 0.0


def parameter_groups(
    named_parameters: Iterable[tuple[str, Tensor]], recipe: Recipe, head: Collection[str]
) -> list[dict[str, Any]]:
    """The body and the head, each with its rate, the names kept beside the parameters.

    `head` names the parameters of the head. The decay is the same for all, biases and norms
    included, as in the toolkit of Mokrii, the only paper that names a decay: at 1e-7, and at
    the rates of fine-tuning in general, it moves nothing either way. Frozen parameters are left
    out, and so is a group that has none.
    """
    parameters_by_part: dict[str, list[tuple[str, Tensor]]] = {"body": [], "head": []}
    for name, parameter in named_parameters:
        if parameter.requires_grad:
            parameters_by_part["head" if name in head else "body"].append((name, parameter))
    missing = set(head) - {name for name, _ in parameters_by_part["head"]}
    if missing:
        raise InputError(f"the model has no parameter {min(missing)!r} that learns")
    rates = {
        "body": recipe.learning_rate,
        "head": recipe.head_learning_rate or recipe.learning_rate,
    }
    return [
        {
            "name": group,
            "names": [name for name, _ in members],
            "params": [parameter for _, parameter in members],
            "lr": rates[group],
            "learning_rate": rates[group],
            "weight_decay": recipe.weight_decay,
        }
        for group, members in parameters_by_part.items()
        if members
    ]


def optimizer_of(groups: list[dict[str, Any]], recipe: Recipe) -> Any:
    """The optimizer of a recipe: AdamW in one fused pass, or Adafactor at the rates given."""
    if recipe.optimizer == "adafactor":
        adafactor = require("transformers.optimization").Adafactor
        return adafactor(groups, scale_parameter=False, relative_step=False, warmup_init=False)
    return require("torch").optim.AdamW(groups, fused=True)


def set_rates(optimizer: Any, factor: float) -> None:
    """Give every group its own rate times a factor."""
    for group in optimizer.param_groups:
        group["lr"] = group["learning_rate"] * factor
