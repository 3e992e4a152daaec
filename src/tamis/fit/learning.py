"""Models made on the way: trained on judgements or on pseudo-labels, and points between two."""

from __future__ import annotations

import shutil
from pathlib import Path

from tamis.durable import new_folder
from tamis.errors import OutputError, require
from tamis.fit.work import Work
from tamis.labels.examples import Examples
from tamis.labels.gold import gold
from tamis.labels.pseudo import pseudo
from tamis.models.adopting import adopt, kind_of
from tamis.models.bases import find_base
from tamis.pipeline.library import library
from tamis.scorers.note import ModelNote, note_if_any, read_note, write_note
from tamis.scorers.remembering import Remembering
from tamis.scorers.weights import read_config
from tamis.search import Index
from tamis.training import checkpoints
from tamis.training.learner import Job
from tamis.training.loop import train
from tamis.training.recipe import Recipe
from tamis.training.recipes import RECIPES
from tamis.training.samplers import counts
from tamis.types import Qrels, Queries, Run

WEIGHTS = "model.safetensors"
LENGTH = "256"
"""At how many tokens texts are cut where models are trained."""
TEXTS_A_STEP = {"bi-encoder": 16}
"""How many texts a step runs, where it is not 32: of a bi-encoder only queries."""
WORDS = ("true", "false")
"""What a language model that names no words is asked to write."""
NEGATIVES = 50
"""From how many of the first documents negatives are drawn."""
CONTINUED = {
    "bi-encoder": "query-encoder",
    "cross-encoder": "monobert-pairwise-small",
    "target-words": "few-t5-small",
    "aligned": "infuse-scores-small",
    "infused": "infuse-gold-small",
}
"""The recipe by which a model of each kind goes on learning."""


def adopted(base: str | Path, work: Work) -> tuple[Path, ModelNote | None]:
    """The base as a model folder of tamis, and what it is; None where it cannot rank as it is."""
    folder = work.path("models/start")
    found = find_base(base)
    if not folder.exists():
        if note_if_any(found) is not None:
            with new_folder(folder) as part:
                shutil.copytree(found, part, dirs_exist_ok=True)
        else:
            kind = kind_of(found, read_config(found))
            adopt(found, folder, words=WORDS if kind == "target-words" else None)
    return folder, note_if_any(folder)


def recipe_for(kind: str, texts: int, labels: Examples, seed: int) -> Recipe:
    """How a model of a kind goes on learning here: as the recipe says, but from so many texts at
    most, and the last state kept, since it is the guard that decides what is used.
    """
    known = RECIPES[CONTINUED[kind]]
    found = counts(labels, known)
    steps = known.total_steps(found["steps"], found["queries"])
    many = str(max(1, min(steps, texts // TEXTS_A_STEP.get(kind, 32))))
    asked = {"steps": many, "validate_every": many}
    length = {"max_length": LENGTH} if known.max_length > int(LENGTH) else {}
    return known.changed(asked | length | {"seed": str(seed), "keep": "last"})


def judged_examples(qrels: Qrels, queries: Queries, run: Run, seed: int) -> Examples:
    """Judgements against what the first stage finds beside them."""
    return gold(qrels, queries, run, depth=NEGATIVES, seed=seed, missing="skip")


def pseudo_examples(run: Run, seed: int) -> Examples:
    """The first document of every query against others of its list."""
    return pseudo(run, seed=seed, negatives_per_query=None, depth=NEGATIVES)


def trained(
    name: str,
    examples: Examples,
    base: Path,
    recipe: Recipe,
    index: Index,
    work: Work,
    threads: int | None,
    texts: Remembering | None = None,
) -> Path:
    """The model that a recipe makes of a base with some examples; one that was begun goes on.

    `texts` knows the vectors of texts, where the base only learns to read queries.
    """
    out = work.path(f"models/{name}")
    going_on = checkpoints.work_folder(out).exists()
    work.said(f"training {name} on {examples.groups:,} queries")
    with work.timed(f"train {name}"), library(index, examples.docs) as books:
        job = Job(examples, books, recipe, base, out, None, threads, texts=texts)
        train(job, resume=going_on, said=work.said)
    return out


def is_trained(folder: Path) -> bool:
    """Whether a model is there, and its training over."""
    return folder.exists() and not checkpoints.work_folder(folder).exists()


def between(start: Path, tuned: Path, share: float, out: Path) -> Path:
    """The model on the straight line from one to another, `share` of the way.

    Both have the same weights by name; what only the second has is taken from it.
    """
    if out.exists():
        return out
    files = require("safetensors.torch")
    first, second = (files.load_file(folder / WEIGHTS) for folder in (start, tuned))
    mixed = {
        name: first[name].lerp(value, share)
        if name in first and value.is_floating_point()
        else value
        for name, value in second.items()
    }
    broken = require("safetensors").SafetensorError
    with new_folder(out) as part:
        shutil.copytree(tuned, part, dirs_exist_ok=True)
        try:
            files.save_file(mixed, part / WEIGHTS, metadata={"format": "pt"})
            write_note(part, read_note(part))
        except (OSError, broken) as error:
            raise OutputError(
                f"cannot write {out}: {error}", hint="is the disk full? make room, then --resume"
            ) from error
    return out
