"""Which trainings a recipe's name stands for, what each learns from and what it is validated on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.labels.examples import LABEL_TYPES, Examples, join_examples
from tamis.training.recipe import BY_HAND, Recipe
from tamis.training.recipes import CHAINS, resolve
from tamis.training.validation import Validation, hold_out

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TrainingStage:
    """One training: a recipe, what is learnt by it, and examples of held-out queries."""

    recipe: Recipe
    examples: Examples
    held_out: Examples | None = None

    @property
    def validation(self) -> Validation | None:
        """What it is validated on; scores are not measured by a recipe's own measure."""
        if self.held_out is None:
            return None
        by_hand = self.recipe.source_of("measure") == BY_HAND
        is_measure = by_hand or _is_class(self.held_out).all()
        return Validation.of(self.held_out, self.recipe.measure if is_measure else "")


def recipes_of(name: str, settings: Mapping[str, str]) -> list[Recipe]:
    """The recipes that a name stands for, one after the other.

    >>> [recipe.name for recipe in recipes_of("infuse", {"seed": "7"})]
    ['infuse-scores', 'infuse-gold']
    """
    return [resolve(recipe_name, settings) for recipe_name in CHAINS.get(name, (name,))]


def stages_of(
    name: str, recipes: Sequence[Recipe], example_sets: Sequence[Examples]
) -> list[TrainingStage]:
    """Each recipe with what is learnt by it: scores come before judgements."""
    joined = join_examples(example_sets)
    if len(recipes) == 1:
        return [TrainingStage(recipes[0], joined)]
    is_class = _is_class(joined)
    stages = []
    for recipe, rows, missing in zip(recipes, (~is_class, is_class), ("weak", "gold"), strict=True):
        if not rows.any():
            raise InputError(
                f"{name} learns from scores and then from judgements: there are no {missing} "
                "examples",
                hint="name a file of scores and a file of judgements",
            )
        stages.append(TrainingStage(recipe, joined.select(rows)))
    return stages


def with_held_out(
    stages: Sequence[TrainingStage], validate: Examples | None, *, no_validation: bool = False
) -> list[TrainingStage]:
    """The stages with what each is validated on: these examples, else some of its queries; none
    learns from queries that a later one is validated on.
    """
    prepared: list[TrainingStage] = []
    for stage in reversed(stages):
        learn, held_out = stage.examples, validate
        if held_out is not None:
            refuse_shared(learn, held_out)
        elif not no_validation:
            for later in prepared:
                learn = _without(learn, later.held_out) if later.held_out else learn
            learn, held_out = hold_out(learn, stage.recipe.seed)
        _check_values(learn)
        _log_kept_state(stage.recipe, held_out)
        prepared.append(replace(stage, examples=learn, held_out=held_out))
    return prepared[::-1]


def refuse_shared(learn: Examples, held_out: Examples) -> None:
    """Refuse validation on queries that are learnt from: they say nothing about others."""
    used = {learn.queries.ids[n] for n in set(learn.query.tolist())}
    shared = sorted(used & {held_out.queries.ids[n] for n in set(held_out.query.tolist())})
    if shared:
        raise InputError(
            f"query {shared[0]!r} is both learnt from and validated on ({len(shared):,} such)",
            hint="label other queries for validation, or leave --validate out",
        )


def _log_kept_state(recipe: Recipe, held_out: Examples | None) -> None:
    if held_out is None:
        _log.info("nothing is held out, so nothing is validated and the last state is kept")
    elif recipe.keep == "best" and not Validation.of(held_out).selects:
        _log.info("the held-out labels are pseudo-labels: the last state is kept, not the best")


def _check_values(examples: Examples) -> None:
    if not len(examples):
        raise InputError("there are no examples to learn from", hint="label some first")
    if (examples.value == examples.value[0]).all():
        _log.warning("all values are %g: there is nothing to tell apart", examples.value[0])


def _without(learn: Examples, held_out: Examples) -> Examples:
    """Examples of queries that are not held out."""
    used = held_out.queries.ids.select(np.unique(held_out.query))
    return learn.select((learn.queries.ids.positions_in(used) < 0)[learn.query])


def _is_class(examples: Examples) -> NDArray[np.bool_]:
    """Which rows hold a class, and no score."""
    is_class: NDArray[np.bool_] = examples.kind == LABEL_TYPES.index("class")
    return is_class
