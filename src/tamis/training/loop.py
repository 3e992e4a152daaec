"""The one training loop: examples and a base model in, a model folder out.

It reads top to bottom. What a step learns from depends only on the recipe, the examples and the
number of the step, so a training that was stopped goes on to the very same model. The same code
runs on one processor, on a GPU, and under `torchrun` in several processes; see `learner`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tamis.durable import Progress, folder_exists
from tamis.errors import OutputError
from tamis.training import checkpoints
from tamis.training.checkpoints import History
from tamis.training.model_writer import Trained, finish, finished
from tamis.training.time_estimate import Pace
from tamis.training.trainer import Job, Learner

__all__ = ["Job", "Trained", "train"]

KEPT_EVERY = 300.0
"""After how many seconds a checkpoint is written, beside those at every validation."""


def train(
    job: Job,
    *,
    max_time: float | None = None,
    resume: bool = False,
    force: bool = False,
    said: Callable[[str], object] = lambda words: None,
) -> Trained:
    """Train a model and write its folder.

    `max_time`, in seconds, fits the number of steps to the time. `resume` goes on with a training
    that was stopped; `force` replaces a model that is there.
    """
    began, work = time.monotonic(), checkpoints.work_folder(job.out)
    if not job.out.absolute().parent.is_dir():
        raise OutputError(f"there is no folder to write {job.out} in", hint="make it first")
    if resume and (done := finished(job, work)):
        said(
            f"note: {job.out} is trained already, {done.history.step:,} steps; --force begins anew"
        )
        return done
    if (folder_exists(job.out) or job.out.exists()) and not force:
        raise OutputError(f"{job.out} exists already", hint="choose another name, or give --force")
    known = checkpoints.planned(work) if resume else {}
    if resume and not known:
        said(f"note: nothing to go on with: there is no {work}; beginning anew")
    learner = Learner.of(job, known.get("steps"))
    pace = Pace.of(learner)
    if max_time is not None and not known:
        left = max(0.0, max_time - (time.monotonic() - began))
        learner.steps = learner.alone(lambda: pace.steps_within(left, learner))
    going_on = learner.alone(
        lambda: checkpoints.begin(work, learner.plan(), resume=resume, force=force)
    )
    history = learner.restored(work) if going_on else History()
    said(pace.told(learner, history.step))
    if history.step == 0 and not history.checks:
        learner.check(history, work)
    kept = time.monotonic()
    with Progress("training", learner.steps, "steps") as progress:
        progress.done = history.step
        while history.step < learner.steps and not learner.is_patience_over(history):
            learner.learn(history, work)
            progress.what = learner.told(history)
            progress.advance()
            late = time.monotonic() - kept > KEPT_EVERY
            if history.step % learner.every == 0 or history.step == learner.steps:
                learner.check(history, work)
                kept = time.monotonic()
            elif learner.alone(partial(bool, late)):
                learner.check(history, work, validate=False)
                kept = time.monotonic()
    return finish(learner, history, work, force=force)
