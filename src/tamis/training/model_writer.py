"""The end of a training: the selected model, its manifest, and a plot of how it went."""

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
from tamis.models.licences import licence_of
from tamis.models.model import Model, load_model
from tamis.models.model_card import write_model_card
from tamis.models.model_import import write_sbert_config
from tamis.scorers.model_manifest import (
    find_model_manifest,
    read_model_manifest,
    write_model_manifest,
)
from tamis.training import checkpoints
from tamis.training.checkpoints import History
from tamis.training.plots import training_curves
from tamis.training.trainer import Job, Trainer

HISTORY_FILE, PLOT_FILE = "training.json", "training.svg"
PLAN_KEY = "plan"
"""The manifest's key for the digest of a training plan."""
PLANNED_STEPS_KEY = "planned_steps"


@dataclass(frozen=True)
class Trained:
    """A finished training: the folder, its history, and the step whose model was selected."""

    folder: Path
    history: History
    selected_step: int
    facts: Mapping[str, Any]

    def load(self, *, device: str = "auto", threads: int | None = None) -> Model:
        """The model, ready to rank."""
        return load_model(self.folder, device=device, threads=threads)


def finish(trainer: Trainer, history: History, work: Path, *, force: bool) -> Trained:
    """Write the model folder and remove what was kept on the way."""
    job = trainer.job
    best = history.best() if job.selects and job.recipe.keep == "best" else None
    selected_step = best.step if best else history.step
    facts = _facts(trainer, history, selected_step)
    if trainer.processes.is_main_process:
        with new_folder(job.out, force=force) as temporary_folder:
            shutil.copytree(
                checkpoints.model_at(work, selected_step), temporary_folder, dirs_exist_ok=True
            )
            saved = read_model_manifest(temporary_folder)
            manifest = replace(saved, facts=facts, scale=_scale(trainer, saved.scale))
            write_sbert_config(temporary_folder, manifest)  # which says what the scale is
            write_model_manifest(temporary_folder, manifest)
            licence = licence_of(find_base(job.base))
            write_model_card(temporary_folder, name=job.out.name, licence=licence)
            (temporary_folder / HISTORY_FILE).write_text(json.dumps(asdict(history)), "utf-8")
            measure = job.validation.measure if job.validation else ""
            (temporary_folder / PLOT_FILE).write_text(
                training_curves(history, measure, selected_step), "utf-8"
            )
        checkpoints.remove(work)
    trainer.processes.wait_for_everyone()
    return Trained(job.out, history, selected_step, facts)


def find_finished(job: Job, work: Path) -> Trained | None:
    """The training of a job whose model is written, with what was kept on the way removed; None
    where there is no model, or one of another training.
    """
    has_model = folder_exists(job.out) and (job.out / HISTORY_FILE).is_file()
    manifest = find_model_manifest(job.out) if has_model else None
    training_facts = manifest.facts.get("training", {}) if manifest else {}
    steps = checkpoints.read_plan(work).get("steps") or training_facts.get(PLANNED_STEPS_KEY)
    if manifest is None or steps is None:
        return None
    trainer = Trainer.of(job, steps)
    if manifest.facts.get(PLAN_KEY) != checkpoints.digest_of(trainer.plan()):
        return None
    if trainer.processes.is_main_process and work.exists():
        checkpoints.remove(work)
    trainer.processes.wait_for_everyone()
    history = checkpoints.history_in(job.out / HISTORY_FILE)
    return Trained(job.out, history, int(training_facts["selected_step"]), manifest.facts)


def _scale(trainer: Trainer, default: Any) -> Any:
    recipe = trainer.job.recipe
    return recipe.scale or default


def _facts(trainer: Trainer, history: History, selected_step: int) -> dict[str, Any]:
    """What `tamis.json` says of the training."""
    job = trainer.job
    base_manifest = find_model_manifest(find_base(job.base))
    chain = list(base_manifest.facts.get("chain", [])) if base_manifest else []
    labels = label_counts(job.examples)
    base_name = trainer.model.manifest.base.name if trainer.model.manifest.base else None
    step = {"base": str(job.base), "base_name": base_name, "recipe": job.recipe.name,
            "examples": digest(job.examples), "labels": labels}  # fmt: skip
    facts: dict[str, Any] = {
        "chain": [*chain, step],
        "labels": labels,
        "examples": {"digest": digest(job.examples), **readable_facts(job.examples.facts)},
        "recipe": job.recipe.record(),
        PLAN_KEY: checkpoints.digest_of(trainer.plan()),
        "seed": job.recipe.seed,
        "training": {
            **trainer.counts,
            "steps": history.step,
            PLANNED_STEPS_KEY: trainer.steps,
            "selected_step": selected_step,
            "texts": history.texts,
            "truncated_tokens": history.truncated_tokens,
            "minutes": round((history.seconds + history.checked) / 60, 2),
            "runtime": trainer.runtime,
        },
        "versions": {name: version(name) for name in ("torch", "transformers", "numpy")}
        | {"tamis": __version__},
    }
    if job.validation:
        values = {str(check.step): round(check.value, 4) for check in history.checks}
        kept = [check for check in history.checks if check.step == selected_step]
        interval = kept[0].interval if kept else None
        facts["validation"] = {
            "measure": job.validation.measure,
            "by_step": values,
            "selects": job.selects and job.recipe.keep == "best",
            "queries": job.validation.examples.groups,
            "texts_per_query": int(np.diff(job.validation.examples.offsets).max()),
            **({"interval": [round(bound, 4) for bound in interval]} if interval else {}),
        }
    return facts


def label_counts(examples: Examples) -> dict[str, dict[str, int]]:
    """How many rows of each source and role there are.

    >>> label_counts(Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold"))
    {'gold': {'positive': 1}}
    """
    counts: dict[str, dict[str, int]] = {}
    pairs = np.stack([examples.source, examples.role], 1)
    for (source, role), count in zip(*_count_pairs(pairs), strict=True):
        counts.setdefault(LABEL_SOURCES[source], {})[ROLES[role]] = count
    return counts


def _count_pairs(pairs: Any) -> tuple[list[list[int]], list[int]]:
    distinct, count = np.unique(pairs, axis=0, return_counts=True)
    return distinct.tolist(), count.tolist()
