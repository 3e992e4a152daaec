"""The end of a training: the model that is kept, its note, and a picture of how it went."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tamis import __version__
from tamis.durable import folder_exists, new_folder
from tamis.labels.examples import LABEL_SOURCES, ROLES, Examples, digest, readable_facts
from tamis.models.base_models import find_base
from tamis.models.model import Model, load_model
from tamis.scorers.model_manifest import (
    find_model_manifest,
    read_model_manifest,
    write_model_manifest,
)
from tamis.training import checkpoints
from tamis.training.checkpoints import History
from tamis.training.plots import training_curves
from tamis.training.trainer import Job, Trainer

HISTORY, PICTURE = "training.json", "training.svg"
PLAN = "plan"
"""What a note calls the digest of the plan of a training."""
PLANNED = "steps planned"


@dataclass(frozen=True)
class Trained:
    """A finished training: the folder, what happened, after which step its model was kept."""

    folder: Path
    history: History
    kept: int
    facts: Mapping[str, Any]

    def load(self, *, device: str = "auto", threads: int | None = None) -> Model:
        """The model, ready to rank."""
        return load_model(self.folder, device=device, threads=threads)


def finish(learner: Trainer, history: History, work: Path, *, force: bool) -> Trained:
    """Write the model folder and remove what was kept on the way."""
    job = learner.job
    best = history.best() if job.selects and job.recipe.keep == "best" else None
    kept = best.step if best else history.step
    facts = _facts(learner, history, kept)
    if learner.accelerator.is_main_process:
        with new_folder(job.out, force=force) as part:
            shutil.copytree(checkpoints.model_at(work, kept), part, dirs_exist_ok=True)
            note = replace(read_model_manifest(part), facts=facts)
            write_model_manifest(part, replace(note, scale=_scale(learner, note.scale)))
            (part / HISTORY).write_text(json.dumps(asdict(history)), "utf-8")
            measure = job.validation.measure if job.validation else ""
            (part / PICTURE).write_text(training_curves(history, measure, kept), "utf-8")
        checkpoints.remove(work)
    learner.accelerator.wait_for_everyone()
    return Trained(job.out, history, kept, facts)


def finished(job: Job, work: Path) -> Trained | None:
    """The training of a job whose model is written, with what was kept on the way removed; None
    where there is no model, or one of another training.
    """
    there = folder_exists(job.out) and (job.out / HISTORY).is_file()
    note = find_model_manifest(job.out) if there else None
    learnt = note.facts.get("learnt", {}) if note else {}
    steps = checkpoints.planned(work).get("steps") or learnt.get(PLANNED)
    if note is None or steps is None:
        return None
    learner = Trainer.of(job, steps)
    if note.facts.get(PLAN) != checkpoints.digest_of(learner.plan()):
        return None
    if learner.accelerator.is_main_process and work.exists():
        checkpoints.remove(work)
    learner.accelerator.wait_for_everyone()
    history = checkpoints.history_in(job.out / HISTORY)
    return Trained(job.out, history, int(learnt["kept after"]), note.facts)


def _scale(learner: Trainer, usual: Any) -> Any:
    recipe = learner.job.recipe
    return recipe.scale or usual


def _facts(learner: Trainer, history: History, kept: int) -> dict[str, Any]:
    """What `tamis.json` says of the training."""
    job = learner.job
    before = find_model_manifest(find_base(job.base))
    chain = list(before.facts.get("chain", [])) if before else []
    labels = label_counts(job.examples)
    step = {"base": str(job.base), "recipe": job.recipe.name, "examples": digest(job.examples),
            "labels": labels}  # fmt: skip
    found: dict[str, Any] = {
        "chain": [*chain, step],
        "labels": labels,
        "examples": {"digest": digest(job.examples), **readable_facts(job.examples.facts)},
        "recipe": job.recipe.record(),
        PLAN: checkpoints.digest_of(learner.plan()),
        "seed": job.recipe.seed,
        "learnt": {
            **learner.counts,
            "steps": history.step,
            PLANNED: learner.steps,
            "kept after": kept,
            "texts": history.texts,
            "truncated_tokens": history.truncated_tokens,
            "minutes": round((history.seconds + history.checked) / 60, 2),
        },
        "versions": {name: version(name) for name in ("torch", "transformers", "numpy")}
        | {"tamis": __version__},
    }
    if job.validation:
        values = {str(check.step): round(check.value, 4) for check in history.checks}
        found["validation"] = {"measure": job.validation.measure, "after steps": values,
                               "selects": job.selects and job.recipe.keep == "best"}  # fmt: skip
    return found


def label_counts(examples: Examples) -> dict[str, dict[str, int]]:
    """How many rows of each source and role there are.

    >>> label_counts(Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold"))
    {'gold': {'positive': 1}}
    """
    found: dict[str, dict[str, int]] = {}
    pairs = np.stack([examples.source, examples.role], 1)
    for (source, role), count in zip(*_counted(pairs), strict=True):
        found.setdefault(LABEL_SOURCES[source], {})[ROLES[role]] = count
    return found


def _counted(pairs: Any) -> tuple[list[list[int]], list[int]]:
    distinct, count = np.unique(pairs, axis=0, return_counts=True)
    return distinct.tolist(), count.tolist()
