"""How models of a fit are trained: examples of a fold, the recipe, the loop; and weights between.

A model that is there is not trained again, one that was begun is resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tamis.backends.weights import Weights, read_weights
from tamis.durable import new_folder
from tamis.errors import OutputError, require
from tamis.fitting.workspace import Timing, Workspace
from tamis.labels.examples import Examples
from tamis.labels.gold import gold
from tamis.labels.transfer import qa_docrank
from tamis.models.base_models import find_base
from tamis.models.model_import import import_model
from tamis.models.model_kinds import kind_of, model_config
from tamis.models.model_lookup import open_ranker
from tamis.pipeline.document_lookup import open_lookup
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import (
    copy_without_exports,
    find_model_manifest,
    read_model_manifest,
    write_model_manifest,
)
from tamis.scorers.sbert_layout import encoder_layout, transformer_folder
from tamis.search.defaults import default_source
from tamis.training import checkpoints
from tamis.training.loop import train
from tamis.training.recipe import Recipe
from tamis.training.recipes import RECIPES
from tamis.training.samplers import counts
from tamis.training.trainer import Job
from tamis.types import Run

if TYPE_CHECKING:
    from tamis.fitting.context import BaseModel, FitContext
    from tamis.fitting.folds import Fold

WEIGHTS = "model.safetensors"
MAX_LENGTH = 256
"""The longest text, in tokens, that models are trained on."""
TEXTS_PER_STEP = {"query-encoder": 16}
"""How many texts a step takes, where it is not 32: of a query encoder only queries."""
TARGET_WORDS = ("true", "false")
"""What a language model that names no target words is asked to write."""
NEGATIVES_DEPTH = 50
"""From how many of the first documents negatives are drawn."""
TEACHER_DEPTH = 10
"""How many candidates of a query a teacher or word vectors score."""
LEARNING_CURVE = "learning_curve"
"""The key of the step of the plan that trains on fewer queries."""
FINE_TUNING = {
    "bi-encoder": "query-encoder",
    "cross-encoder": "monobert-pairwise-small",
    "target-words": "few-t5-small",
}
"""The recipe by which a base model of each kind is fine-tuned."""
_log = logging.getLogger(__name__)


def import_base(base: str | Path, work: Workspace) -> BaseModel:
    """The base as a model folder of tamis."""
    from tamis.fitting.context import BaseModel

    folder = work.path("models/base")
    place = find_base(base)
    if not folder.exists():
        if find_model_manifest(place) is not None:
            with new_folder(folder) as unfinished:
                copy_without_exports(place, unfinished)
        else:
            kind = kind_of(place, model_config(place))
            import_model(place, folder, words=TARGET_WORDS if kind == "target-words" else None)
    return BaseModel(folder, read_model_manifest(folder))


def model_folder(fit: FitContext, training: str, fold: Fold | None = None) -> Path:
    """Where the model of a training lies; `fold` is None where it takes no judged queries."""
    return fit.work.path(f"models/{training}{f' {fold.key}' if fold else ''}")


def is_trained(folder: Path) -> bool:
    """Whether a model is there, and its training over."""
    return folder.exists() and not checkpoints.work_folder(folder).exists()


def train_model(
    fit: FitContext,
    training: str,
    examples: Callable[[], Examples],
    base: Path,
    recipe: str,
    step: str,
    fold: Fold | None = None,
) -> Path:
    """Train a model by a recipe, on as many texts as the step of the plan says."""
    out, threads = model_folder(fit, training, fold), fit.request.threads
    if is_trained(out):
        return out
    timed_as = LEARNING_CURVE if fold and fold.share < 1 else step
    where = fold.key if fold else ""
    with fit.work.timed(Timing(timed_as, "label", training, where)):
        labelled = examples()
    assert fit.base is not None
    longest = min(MAX_LENGTH, fit.base.manifest.max_length)
    settings = recipe_for(recipe, fit.plan.size_of(step), labelled, fit.request.seed, longest)
    resume = checkpoints.work_folder(out).exists()
    name = training.replace("_", " ")
    fold_name = f" ({fold.key})" if fold else ""
    _log.info("training %s%s on %s queries", name, fold_name, f"{labelled.groups:,}")
    cache = document_embeddings(fit) if settings.fixed_documents else None
    with (
        fit.work.timed(Timing(timed_as, "train", training, where)),
        open_lookup(fit.index, labelled.docs) as documents,
    ):
        job = Job(
            labelled, documents, settings, base, out, None, threads, embedding_cache=cache,
            placement=fit.request.placement,
        )  # fmt: skip
        train(job, resume=resume, log=lambda message: _log.info("%s", message))
    return out


def recipe_for(
    name: str, texts: int, examples: Examples, seed: int, longest: int = MAX_LENGTH
) -> Recipe:
    """A recipe as a fit uses it: on so many texts at most, none of more than `longest` tokens, and
    the last checkpoint kept, since it is the guard that decides what is used.
    """
    recipe = RECIPES[name]
    available = counts(examples, recipe)
    steps = recipe.total_steps(available["steps"], available["queries"])
    many = str(max(1, min(steps, texts // TEXTS_PER_STEP.get(name, 32))))
    changes = {"steps": many, "validate_every": many, "seed": str(seed), "keep": "last"}
    if recipe.max_length > longest:
        changes["max_length"] = str(longest)
    return recipe.changed(changes)


def document_embeddings(fit: FitContext) -> EmbeddingCache | None:
    """The cache of the embeddings that the base makes of documents, where it makes some."""
    base = fit.base_scorer
    return base.documents or base if isinstance(base, EmbeddingCache) else None


def judged_examples(fold: Fold, fit: FitContext) -> Examples:
    """The judgements of a fold as examples, against what the retriever found beside them; of long
    documents their best passages.
    """
    splits, seed = fit.splits, fit.request.seed
    qrels = splits.train.select(fold.train)
    run = fit.retrieved.candidates.train.select(fold.train)
    if fit.passages == "whole":
        queries = splits.queries_of(qrels)
        return gold(qrels, queries, run, depth=NEGATIVES_DEPTH, seed=seed, missing="skip")
    return qa_docrank(
        run, qrels, fit.index, fit.base_scorer, test=splits.test.queries, threshold=np.inf,
        keep_best=True, least_negatives=NEGATIVES_DEPTH, passages=fit.passages, missing="skip",
        seed=seed,
    )  # fmt: skip


def scored_examples(
    fit: FitContext, ranker: str, label: Callable[..., Examples], step: str
) -> Examples:
    """What another ranker scores for the first candidates of some queries."""
    request = fit.request
    teacher = open_ranker(
        ranker, threads=request.threads, documents=fit.index, device=request.device,
        dtype=request.dtype,
    )  # fmt: skip
    run = log_run(fit, max(1, fit.plan.size_of(step) // TEACHER_DEPTH))
    return label(
        run, teacher.scorer, fit.index, depth=TEACHER_DEPTH, missing="skip", model=ranker,
        seed=fit.request.seed,
    )  # fmt: skip


def log_run(fit: FitContext, most: int | None = None) -> Run:
    """What BM25 finds for queries whose judgements are not looked at."""
    log = fit.splits.log
    if most is not None and len(log) > most:
        numbers = np.random.default_rng(fit.request.seed).permutation(len(log))[:most]
        log = log.select(np.sort(numbers))
    bm25 = default_source(fit.index, "bm25", rm3=False, threads=fit.request.threads)
    return bm25.search(log, NEGATIVES_DEPTH)


def interpolate_weights(base: Path, tuned: Path, share: float, out: Path) -> Path:
    """The model on the straight line from one to another, `share` of the way.

    What only the second has is taken from it.
    """
    if out.exists():
        return out
    save, broken = require("safetensors.torch").save_file, require("safetensors").SafetensorError
    parts = [path.name for path in encoder_layout(tuned, "query").module_folders]
    with new_folder(out) as unfinished:
        copy_without_exports(tuned, unfinished)
        try:
            for part in ("", *parts):
                start = base / part if part else transformer_folder(base)
                first = read_weights(start) if start.is_dir() else {}
                mixed = between(first, read_weights(tuned / part), share)
                save(mixed, unfinished / part / WEIGHTS, metadata={"format": "pt"})
            manifest = read_model_manifest(unfinished)
            facts = {**manifest.facts, "interpolated": share}
            write_model_manifest(unfinished, replace(manifest, facts=facts))
        except (OSError, broken) as error:
            raise OutputError(
                f"cannot write {out}: {error}", hint="is the disk full? make room, then --resume"
            ) from error
    return out


def between(first: Weights, second: Weights, share: float) -> Weights:
    """The weights `share` of the way from the first to the second, under the names of the second.

    A model with a head has another name before each weight of its body than one without.

    >>> import torch
    >>> first, second = {"a.weight": torch.zeros(1)}, {"bert.a.weight": torch.ones(1)}
    >>> between(first, second, 0.25)["bert.a.weight"].tolist()
    [0.25]
    """
    mixed = {}
    for name, value in second.items():
        start = first.get(name if name in first else _same_weight(first, name))
        if start is None or start.shape != value.shape or not value.is_floating_point():
            mixed[name] = value
        else:
            mixed[name] = start.lerp(value, share)
    return mixed


def _same_weight(weights: Weights, name: str) -> str:
    """The weight that has the end of this name, or of which this name has the end; else nothing."""
    ends = [own for own in weights if name.endswith(f".{own}") or own.endswith(f".{name}")]
    return ends[0] if len(ends) == 1 else ""
