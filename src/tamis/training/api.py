"""`tamis.train`: examples and documents in, a model folder out; what `tamis train` calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tamis.collection.objects import AnyDocuments, AnyQueries
from tamis.durable import parse_time
from tamis.errors import InputError, OutputError
from tamis.labels.examples import Examples, join_examples
from tamis.labels.inputs import LabelInputs, OnError, open_inputs
from tamis.labels.selection import log_held_out
from tamis.pipeline.document_lookup import Library, library
from tamis.search import Index
from tamis.splits import HeldOut
from tamis.training import loop
from tamis.training.model_writer import Trained
from tamis.training.recipe import Recipe
from tamis.training.settings import as_texts
from tamis.training.stages import TrainingStage, recipes_of, stages_of, with_held_out
from tamis.training.trainer import Job
from tamis.training.training_data import (
    AnyExamples,
    as_examples,
    documents_read,
    joinable,
    known_test_queries,
    refuse_absent,
    warn_of_teacher,
    with_query_texts,
    without_test_queries,
)

_log = logging.getLogger(__name__)


def train(
    examples: AnyExamples,
    documents: AnyDocuments | Index,
    *,
    base: str | Path,
    recipe: str,
    out: str | Path,
    queries: AnyQueries | None = None,
    validate: AnyExamples | Literal[False] | None = None,
    max_time: str | float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    resume: bool = False,
    force: bool = False,
    random_weights: bool = False,
    on_error: OnError = "raise",
    **settings: Any,
) -> Trained:
    """Train a model on examples and write its folder, `out`.

    `examples` are what `tamis.label` makes, or files of them; `documents` an index, a collection,
    its path, or documents of any form. Test queries, and what repeats one, are never learnt from.
    A tenth of the queries is held out and validated on, 100 at most, unless `validate` are other
    examples, or False. `max_time` is a time such as "20m", or seconds. `settings` change the
    recipe, by its own names or those of transformers: `learning_rate`, `weight_decay`,
    `warmup_ratio`, `max_grad_norm`, `batch_size`.

    >>> from tamis.errors import InputError
    >>> one = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> try:
    ...     train(one, ["a"], base="m", recipe="monobert-pairwise", out="m2", learning_rat=1e-5)
    ... except InputError as error:
    ...     print(error)
    there is no setting 'learning_rat'
    """
    changed = as_texts(settings if seed is None else {**settings, "seed": seed})
    recipes_of(recipe, changed)  # an error in a setting comes before documents are read
    return train_stages(
        as_examples(examples),
        open_inputs(documents, queries=queries, on_error=on_error),
        base=base, recipe=recipe, out=Path(out), settings=changed, validate=validate,
        max_time=_seconds(max_time), threads=threads, resume=resume, force=force,
        random_weights=random_weights,
    )  # fmt: skip


def train_stages(
    parts: Sequence[Examples],
    inputs: LabelInputs,
    *,
    base: str | Path,
    recipe: str,
    out: Path,
    settings: Mapping[str, str],
    validate: AnyExamples | Literal[False] | None = None,
    max_time: float | None = None,
    threads: int | None = None,
    resume: bool = False,
    force: bool = False,
    random_weights: bool = False,
) -> Trained:
    """One training after the other, as many as the recipe's name stands for; `max_time` is in
    seconds and shared among them. A model is the base of the next.
    """
    began, recipes = time.monotonic(), recipes_of(recipe, settings)
    log_held_out(inputs)
    warn_of_teacher(base, parts)
    test = known_test_queries(inputs, parts)
    stages = stages_of(recipe, recipes, joinable([with_query_texts(p, inputs) for p in parts]))
    outs = _outs(out, recipes, may_exist=force or resume)
    with _prepared(stages, test, inputs, validate) as (stages, opened):
        for number, (stage, folder) in enumerate(zip(stages, outs, strict=True)):
            spent, left = time.monotonic() - began, len(stages) - number
            seconds = None if max_time is None else (max_time - spent) / left
            if len(stages) > 1:
                _log.info("%s, %d of %d: %s", stage.recipe.name, number + 1, len(stages), folder)
            job = Job(
                stage.examples, opened, stage.recipe, base, folder, stage.validation, threads,
                random_weights and not number,
            )  # fmt: skip
            done = loop.train(job, max_time=seconds, resume=resume, force=force, said=_log_words)
            base = str(folder)
    return done


@contextmanager
def _prepared(
    stages: list[TrainingStage],
    test: HeldOut,
    inputs: LabelInputs,
    validate: AnyExamples | Literal[False] | None,
) -> Iterator[tuple[list[TrainingStage], Library]]:
    """What each training learns from and is validated on, and where its texts are read."""
    others = None
    if validate is not None and validate is not False:
        others = join_examples(
            joinable([with_query_texts(part, inputs) for part in as_examples(validate)])
        )
    every = [*(stage.examples for stage in stages), *([] if others is None else [others])]
    with library(inputs.documents, documents_read(every)) as opened:
        refuse_absent(every, opened)
        stages = [_without_test_queries(stage, test, opened) for stage in stages]
        if others is not None:
            others = without_test_queries(others, test, opened, "validated on")
        yield with_held_out(stages, others, no_validation=validate is False), opened


def _seconds(max_time: str | float | None) -> float | None:
    """A time limit in seconds; of a string, a number alone is in minutes, as everywhere."""
    if max_time is None or isinstance(max_time, str):
        return None if max_time is None else parse_time(max_time, "m")
    if not max_time > 0:
        raise InputError(f"a time of {max_time} s is over", hint='allow more, such as "20m"')
    return float(max_time)


def _outs(out: Path, recipes: Sequence[Recipe], *, may_exist: bool) -> list[Path]:
    """The folder of each training: the last has the name, others the recipe's behind it."""
    outs = [out.with_name(f"{out.name}.{recipe.name}") for recipe in recipes[:-1]] + [out]
    there = [folder for folder in outs if folder.exists()]
    if there and not may_exist:
        raise OutputError(
            f"{there[0]} exists already", hint="choose another name, give --resume or --force"
        )
    return outs


def _without_test_queries(stage: TrainingStage, test: HeldOut, opened: Library) -> TrainingStage:
    left = without_test_queries(stage.examples, test, opened, "learnt from")
    return replace(stage, examples=left)


def _log_words(words: str) -> None:
    _log.info("%s", words.removeprefix("note: "))
