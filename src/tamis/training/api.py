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
from tamis.models.model_lookup import is_trusted
from tamis.pipeline.document_lookup import DocumentLookup, open_lookup
from tamis.search import Index
from tamis.splits import HeldOut
from tamis.training import loop
from tamis.training.model_writer import Trained
from tamis.training.precision import DEFAULT_PLACEMENT, Placement
from tamis.training.recipe import Recipe
from tamis.training.settings import as_texts
from tamis.training.stages import TrainingStage, recipes_of, stages_of, with_held_out
from tamis.training.trainer import Job
from tamis.training.training_data import (
    AnyExamples,
    as_examples,
    collect_test_queries,
    drop_test_queries,
    referenced_documents,
    refuse_absent,
    warn_of_teacher,
    with_all_texts,
    with_query_texts,
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
    device: str = "auto",
    dtype: str = "auto",
    gradient_checkpointing: bool = False,
    trust_remote_code: str | Path | bool = False,
    on_error: OnError = "raise",
    **settings: Any,
) -> Trained:
    """Train a model on examples and write its folder, `out`.

    `examples` are what `tamis.label` makes, or files of them; `documents` an index, a collection,
    its path, or documents of any form. Test queries, and what repeats one, are never learnt from.
    A tenth of the queries is held out and validated on, 100 at most, unless `validate` are other
    examples, or False. `max_time` is a time such as "20m", or seconds. It trains on a GPU if there
    is one, there with products in bfloat16, else on the CPU in float32; `device` and `dtype` say
    otherwise, and `gradient_checkpointing` needs less memory and more time. `settings` change the
    recipe, by its own names or those of transformers: `learning_rate`, `weight_decay`,
    `warmup_ratio`, `max_grad_norm`, `batch_size`.

    >>> from tamis.errors import InputError
    >>> example = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> try:
    ...     train(example, ["a"], base="m", recipe="monobert-pairwise", out="m2", learning_rat=1e-5)
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
        placement=Placement(
            device, dtype, gradient_checkpointing, is_trusted(str(base), trust_remote_code)
        ),
    )  # fmt: skip


def train_stages(
    example_sets: Sequence[Examples],
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
    placement: Placement = DEFAULT_PLACEMENT,
) -> Trained:
    """One training after the other, as many as the recipe's name stands for; `max_time` is in
    seconds and shared among them. A model is the base of the next.
    """
    began, recipes = time.monotonic(), recipes_of(recipe, settings)
    placement.resolved()  # a device that is not there is said before documents are read
    log_held_out(inputs)
    warn_of_teacher(base, example_sets)
    test = collect_test_queries(inputs, example_sets)
    stages = stages_of(
        recipe,
        recipes,
        with_all_texts([with_query_texts(examples, inputs) for examples in example_sets]),
    )
    outs = _outs(out, recipes, may_exist=force or resume)
    with _prepare(stages, test, inputs, validate) as (stages, lookup):
        for number, (stage, folder) in enumerate(zip(stages, outs, strict=True)):
            seconds_spent, stages_left = time.monotonic() - began, len(stages) - number
            seconds = None if max_time is None else (max_time - seconds_spent) / stages_left
            if len(stages) > 1:
                _log.info("%s, %d of %d: %s", stage.recipe.name, number + 1, len(stages), folder)
            job = Job(
                stage.examples, lookup, stage.recipe, base, folder, stage.validation, threads,
                random_weights and not number, placement=placement,
            )  # fmt: skip
            trained = loop.train(
                job, max_time=seconds, resume=resume, force=force, log=_log_message
            )
            base = str(folder)
    return trained


@contextmanager
def _prepare(
    stages: list[TrainingStage],
    test: HeldOut,
    inputs: LabelInputs,
    validate: AnyExamples | Literal[False] | None,
) -> Iterator[tuple[list[TrainingStage], DocumentLookup]]:
    """What each training learns from and is validated on, and where its texts are read."""
    validation = None
    if validate is not None and validate is not False:
        validation = join_examples(
            with_all_texts(
                [with_query_texts(examples, inputs) for examples in as_examples(validate)]
            )
        )
    example_sets = [
        *(stage.examples for stage in stages),
        *([] if validation is None else [validation]),
    ]
    with open_lookup(inputs.documents, referenced_documents(example_sets)) as lookup:
        refuse_absent(example_sets, lookup)
        stages = [_drop_test_queries(stage, test, lookup) for stage in stages]
        if validation is not None:
            validation = drop_test_queries(validation, test, lookup, "validated on")
        yield with_held_out(stages, validation, no_validation=validate is False), lookup


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
    existing = [folder for folder in outs if folder.exists()]
    if existing and not may_exist:
        raise OutputError(
            f"{existing[0]} exists already", hint="choose another name, give --resume or --force"
        )
    return outs


def _drop_test_queries(
    stage: TrainingStage, test: HeldOut, lookup: DocumentLookup
) -> TrainingStage:
    examples = drop_test_queries(stage.examples, test, lookup, "learnt from")
    return replace(stage, examples=examples)


def _log_message(message: str) -> None:
    _log.info("%s", message.removeprefix("note: "))
