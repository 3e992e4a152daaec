"""How long a training will take, from a few of its steps, and how many steps fit into a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tamis.durable import duration
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.training.trainer import Learner

TRIED = 3
"""How many steps are tried out."""
WRITTEN = 2e8
"""How many bytes are taken to be written a second."""
SCORED = 64
"""How many rows of the validation are tried out."""


@dataclass(frozen=True)
class Pace:
    """Seconds a step, and seconds a validation with what is written then."""

    step: float
    check: float

    @classmethod
    def of(cls, learner: Learner) -> Pace:
        """Try a few steps, spread over the first epoch, at a rate of zero: nothing is learnt."""
        places = np.linspace(0, learner.counts["steps"] - 1, TRIED).astype(int).tolist()
        taken = []
        for number, step in enumerate([places[0], *places]):
            began = time.monotonic()
            learner.gradient(learner.batch(step), step)
            learner.advance(0.0)
            if number:  # the first is slower than those that follow
                taken.append(time.monotonic() - began)
        learner.forget()
        return cls(sum(taken) / len(taken), _check_seconds(learner) + _keep_seconds(learner))

    def total(self, steps: int, every: int) -> float:
        """Seconds of so many steps with a validation after so many, and one before the first."""
        return steps * self.step + (1 + -(-steps // every)) * self.check

    def steps_within(self, seconds: float, learner: Learner) -> int:
        """How many steps fit into a time, as many as the recipe has at most."""
        wanted = learner.steps
        if self.total(wanted, learner.every) <= seconds:
            return wanted
        low, high = 0, wanted
        while low < high:
            middle = (low + high + 1) // 2
            learner.steps = middle
            fits = self.total(middle, learner.every) <= seconds
            low, high = (middle, high) if fits else (low, middle - 1)
        if low == 0:
            raise InputError(
                f"not one step fits into the {duration(seconds)} that are left: a step takes "
                f"{self.step:.1f} s and a validation {self.check:.1f} s",
                hint="allow more time, or set a smaller batch or max_length",
            )
        return low

    def told(self, learner: Learner, done: int) -> str:
        """The prediction in words."""
        whole = self.total(learner.steps, learner.every)
        left = whole - self.total(done, learner.every) if done else whole
        texts = sum(map(len, learner.batch(0))) / self.step
        epochs = learner.steps / learner.counts["steps"]
        said = (
            f"{learner.steps:,} steps ({learner.counts['units']:,} units, {epochs:.3g} "
            f"{'epoch' if epochs == 1 else 'epochs'}), about {texts:.0f} texts a second: "
            f"{duration(left)}"
        )
        return f"{said} left after step {done:,}" if done else said


def _check_seconds(learner: Learner) -> float:
    validation = learner.job.validation
    if validation is None:
        return 0.0
    some = validation.examples.select(np.arange(min(SCORED, len(validation.examples))))
    learner.scores(some)
    began = time.monotonic()
    learner.scores(some)
    return (time.monotonic() - began) / len(some) * len(validation.examples)


def _keep_seconds(learner: Learner) -> float:
    """How long a checkpoint takes to write, about."""
    sizes = sum(int(parameter.numel()) for parameter in learner.model.parameters())
    copies = 3 if learner.job.recipe.optimizer == "adamw" else 1
    return copies * 4 * sizes / WRITTEN
