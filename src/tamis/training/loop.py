"""The one training loop: examples and a base model in, a model folder out.

It reads top to bottom. What a step learns from depends only on the recipe, the examples and the
number of the step, so a training that was stopped goes on to the very same model. The same code
runs on one processor, on a GPU, and under `torchrun` in several processes; see `trainer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tamis.durable import Progress, folder_exists
from tamis.errors import OutputError
from tamis.training import checkpoints
from tamis.training.checkpoints import History
from tamis.training.model_writer import Trained, find_finished, finish
from tamis.training.time_estimate import TimeEstimate
from tamis.training.trainer import Job, Trainer

__all__ = ["Job", "Trained", "train"]

CHECKPOINT_SECONDS = 300.0
"""Between checkpoints, beside those at every validation."""


def train(
    job: Job,
    *,
    max_time: float | None = None,
    resume: bool = False,
    force: bool = False,
    log: Callable[[str], object] = lambda words: None,
) -> Trained:
    """Train a model and write its folder.

    `max_time`, in seconds, fits the number of steps to the time. `resume` goes on with a training
    that was stopped; `force` replaces a model that is there.
    """
    began, work = time.monotonic(), checkpoints.work_folder(job.out)
    if not job.out.absolute().parent.is_dir():
        raise OutputError(f"there is no folder to write {job.out} in", hint="make it first")
    if resume and (trained := find_finished(job, work)):
        steps = f"{trained.history.step:,} steps"
        log(f"note: {job.out} is trained already, {steps}; --force begins anew")
        return trained
    if (folder_exists(job.out) or job.out.exists()) and not force:
        raise OutputError(f"{job.out} exists already", hint="choose another name, or give --force")
    plan = checkpoints.read_plan(work) if resume else {}
    if resume and not plan:
        log(f"note: nothing to resume: there is no {work}; training starts anew")
    trainer = Trainer.of(job, plan.get("steps"))
    time_estimate = TimeEstimate.of(trainer)
    if max_time is not None and not plan:
        seconds_left = max(0.0, max_time - (time.monotonic() - began))
        trainer.steps = trainer.on_main_process(
            lambda: time_estimate.steps_within(seconds_left, trainer)
        )
    is_resumed = trainer.on_main_process(
        lambda: checkpoints.begin(work, trainer.plan(), resume=resume, force=force)
    )
    history = trainer.restore(work) if is_resumed else History()
    log(time_estimate.describe(trainer, history.step))
    if history.step == 0 and not history.checks:
        trainer.check(history, work)
    last_checkpoint = time.monotonic()
    with Progress("training", trainer.steps, "steps") as progress:
        progress.done = history.step
        while history.step < trainer.steps and not trainer.is_patience_over(history):
            trainer.learn(history, work)
            progress.what = trainer.describe(history)
            progress.advance()
            is_due = time.monotonic() - last_checkpoint > CHECKPOINT_SECONDS
            if history.step % trainer.every == 0 or history.step == trainer.steps:
                trainer.check(history, work)
                last_checkpoint = time.monotonic()
            elif trainer.on_main_process(partial(bool, is_due)):
                trainer.check(history, work, validate=False)
                last_checkpoint = time.monotonic()
    return finish(trainer, history, work, force=force)
