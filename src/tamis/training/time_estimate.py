"""How long a training will take, from a few of its steps, and how many steps fit into a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tamis.durable import duration
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.training.trainer import Trainer

TRIAL_STEPS = 3
BYTES_WRITTEN_PER_SECOND = 2e8
TRIAL_ROWS = 64


@dataclass(frozen=True)
class TimeEstimate:
    """Seconds per step, and per validation with what is written then."""

    step: float
    check: float

    @classmethod
    def of(cls, trainer: Trainer) -> TimeEstimate:
        """Try a few steps, spread over the first epoch, at a rate of zero: nothing is learnt."""
        places = np.linspace(0, trainer.counts["steps"] - 1, TRIAL_STEPS).astype(int).tolist()
        seconds = []
        for number, step in enumerate([places[0], *places]):
            began = time.monotonic()
            trainer.gradient(trainer.batch(step), step)
            trainer.advance(0.0)
            if number:  # the first is slower than those that follow
                seconds.append(time.monotonic() - began)
        trainer.reset_optimizer()
        return cls(sum(seconds) / len(seconds), _check_seconds(trainer) + _keep_seconds(trainer))

    def total(self, steps: int, every: int) -> float:
        """Seconds of so many steps with a validation after so many, and one before the first."""
        return steps * self.step + (1 + -(-steps // every)) * self.check

    def steps_within(self, seconds: float, trainer: Trainer) -> int:
        """How many steps fit into a time, as many as the recipe has at most."""
        max_steps = trainer.steps
        if self.total(max_steps, trainer.every) <= seconds:
            return max_steps
        low, high = 0, max_steps
        while low < high:
            middle = (low + high + 1) // 2
            trainer.steps = middle
            fits = self.total(middle, trainer.every) <= seconds
            low, high = (middle, high) if fits else (low, middle - 1)
        if low == 0:
            raise InputError(
                f"not one step fits into the {duration(seconds)} that are left: a step takes "
                f"{self.step:.1f} s and a validation {self.check:.1f} s",
                hint="allow more time, or set a smaller batch or max_length",
            )
        return low

    def describe(self, trainer: Trainer, steps_done: int) -> str:
        """The prediction in words."""
        total = self.total(trainer.steps, trainer.every)
        remaining = total - self.total(steps_done, trainer.every) if steps_done else total
        texts = sum(map(len, trainer.batch(0))) / self.step
        epochs = trainer.steps / trainer.counts["steps"]
        text = (
            f"{trainer.steps:,} steps ({trainer.counts['instances']:,} instances, {epochs:.3g} "
            f"{'epoch' if epochs == 1 else 'epochs'}), about {texts:.0f} texts per second: "
            f"{duration(remaining)}"
        )
        return f"{text} left after step {steps_done:,}" if steps_done else text


def _check_seconds(trainer: Trainer) -> float:
    validation = trainer.job.validation
    if validation is None:
        return 0.0
    sample = validation.examples.select(np.arange(min(TRIAL_ROWS, len(validation.examples))))
    trainer.scores(sample)
    began = time.monotonic()
    trainer.scores(sample)
    return (time.monotonic() - began) / len(sample) * len(validation.examples)


def _keep_seconds(trainer: Trainer) -> float:
    """How long a checkpoint takes to write, about."""
    sizes = sum(int(parameter.numel()) for parameter in trainer.model.parameters())
    copies = 3 if trainer.job.recipe.optimizer == "adamw" else 1
    return copies * 4 * sizes / BYTES_WRITTEN_PER_SECOND
