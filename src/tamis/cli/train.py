"""`tamis train`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.common import (
    Force,
    Json,
    OnError,
    QueriesFile,
    job_time,
    say,
    say_faults,
    show,
    show_facts,
    show_json,
)
from tamis.errors import InputError, OutputError

if TYPE_CHECKING:
    from tamis.cli.label_inputs import Given
    from tamis.labels import Examples
    from tamis.pipeline.library import Library
    from tamis.splits import HeldOut
    from tamis.training.loop import Trained
    from tamis.training.recipe import Recipe
    from tamis.training.validation import Validation
    from tamis.types import Ids, Queries


def _show_recipes(wanted: bool) -> None:
    if not wanted:
        return
    from rich.table import Table

    from tamis.training.recipes import CHAINS, RECIPES

    table = Table("recipe", "trains", "loss", "batch", "length", "rate", "as long as", box=None)
    for recipe in RECIPES.values():
        long = f"{recipe.steps:,} steps" if recipe.steps else f"{recipe.epochs:g} epochs"
        if recipe.epoch_rule == "falling":
            long += " at 32 queries, fewer at more"
        rate = f"{recipe.rate:g}" + (f", head {recipe.head_rate:g}" if recipe.head_rate else "")
        batch, length = str(recipe.units_a_step), str(recipe.max_length)
        table.add_row(recipe.name, recipe.scorer, recipe.loss, batch, length, rate, long)
    show(table)
    for name, (first, second) in CHAINS.items():
        say(f"{name}: {first} on scores, then {second} on judgements")
    raise typer.Exit


def train(
    examples: Annotated[
        list[str], typer.Argument(metavar="EXAMPLES", help="What tamis label made; repeatable.")
    ],
    collection: Annotated[
        str, typer.Option("-c", "--collection", help="Where the documents are; an index will do.")
    ],
    base: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="What to start from: a model folder, a package or a hub id."
        ),
    ],
    recipe: Annotated[
        str, typer.Option(metavar="NAME", help="How to train; --recipes lists them.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The model folder to write.")
    ],
    validate: Annotated[
        str | None,
        typer.Option(
            metavar="EXAMPLES",
            help="Validate on these; else a tenth of the queries is held out, 100 at most.",
        ),
    ] = None,
    no_validation: Annotated[
        bool, typer.Option("--no-validation", help="Hold nothing out; the last state is kept.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change the recipe: rate=1e-5."),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(
            parser=job_time, metavar="TIME", help="Time limit: 20m, 1h30m; 20 means minutes."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a training that was stopped.")
    ] = False,
    random_weights: Annotated[
        bool,
        typer.Option("--random-weights", help="Take only the shape of the base: learn all anew."),
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="The recipe's if unset.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="All cores if unset.")] = None,
    queries: QueriesFile = None,
    recipes: Annotated[
        bool,
        typer.Option("--recipes", callback=_show_recipes, is_eager=True, help="List the recipes."),
    ] = False,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Train a ranker on examples, and write a model folder.

    Example: tamis train pseudo.parquet -c docs.jsonl --base all-MiniLM-L6-v2
    --recipe monobert-pairwise-small -o my-model --max-time 20m
    """
    from tamis.cli.label_queries import open_to_label
    from tamis.labels import read_examples
    from tamis.pipeline.library import library
    from tamis.training.loop import Job
    from tamis.training.loop import train as run_training

    if validate and no_validation:
        raise typer.BadParameter("--validate goes without --no-validation")
    began = time.monotonic()
    parts = [read_examples(each) for each in examples]
    stages = _stages(recipe, parts)
    chosen = [_recipe(name, setting or [], seed) for name, _ in stages]
    given = open_to_label(collection, None, queries, None, None, on_error)
    known = given.known_queries
    held_out = _held_out_queries(given, parts)
    if any(_is_same_model(base, part.facts.get("teacher")) for part in parts):
        say(
            f"warning: {base} is the teacher that made these labels: the paper trains the plain "
            "base, since a teacher that goes on from its own labels learns little"
        )
    outs = [output.with_name(f"{output.name}.{name}") for name, _ in stages[:-1]] + [output]
    there = [out for out in outs if out.exists()]
    if there and not (force or resume):
        raise OutputError(
            f"{there[0]} exists already", hint="choose another name, give --resume or --force"
        )
    told = _with_texts(read_examples(validate), known) if validate else None
    parts = [_with_texts(learn, known) for _, learn in stages]
    with library(given.documents, _wanted([*parts, told])) as books:
        _refuse_absent([*parts, told], books)
        parts = [_without_leaks(part, held_out, books, "learnt from") for part in parts]
        told = _without_leaks(told, held_out, books, "validated on") if told else None
        both = _held_out(parts, chosen, told, no_validation)
        for number, (each, out, (learn, held)) in enumerate(zip(chosen, outs, both, strict=True)):
            left = None
            if max_time is not None:
                left = (max_time - (time.monotonic() - began)) / (len(outs) - number)
            validation = _validation(each, held)
            new = random_weights and not number
            job = Job(learn, books, each, base, out, validation, threads, new)
            try:
                with _first_speaks():
                    if len(outs) > 1:
                        say(f"{each.name}, {number + 1} of {len(outs)}: {out}")
                    done = run_training(job, max_time=left, resume=resume, force=force, said=say)
            except KeyboardInterrupt:
                say(
                    "what was learnt up to the last checkpoint is kept: --resume goes on from there"
                )
                raise
            base = str(out)
    with _first_speaks():
        _show(done, json)
        say_faults(given.faults)


def _stages(recipe: str, parts: list[Examples]) -> list[tuple[str, Examples]]:
    """The recipes that a name stands for, each with what is learnt by it: scores come before
    judgements.
    """
    from tamis.labels import join_examples
    from tamis.training.recipes import CHAINS

    if recipe not in CHAINS:
        return [(recipe, join_examples(parts))]
    both = join_examples(parts)
    found = []
    for name, rows, missing in zip(
        CHAINS[recipe], (~_of_class(both), _of_class(both)), ("weak", "gold"), strict=True
    ):
        if not rows.any():
            raise InputError(
                f"{recipe} learns from scores and then from judgements: there are no {missing} "
                "examples",
                hint="name a file of scores and a file of judgements",
            )
        found.append((name, both.select(rows)))
    return found


def _held_out(
    parts: list[Examples], recipes: list[Recipe], told: Examples | None, no_validation: bool
) -> list[tuple[Examples, Examples | None]]:
    """What each training learns from and is validated on; none learns from queries that a later
    one is validated on.
    """
    from tamis.training.validation import Validation, hold_out

    found: list[tuple[Examples, Examples | None]] = []
    for learn, recipe in zip(reversed(parts), reversed(recipes), strict=True):
        held = told
        if held:
            _refuse_shared(learn, held)
        elif not no_validation:
            for _, later in found:
                learn = _without(learn, later) if later else learn
            learn, held = hold_out(learn, recipe.seed)
        _refuse_nothing(learn)
        if held is None:
            say("note: nothing is held out, so nothing is validated and the last state is kept")
        elif recipe.keep == "best" and not Validation.of(held).selects:
            say("note: the held-out labels are pseudo-labels: the last state is kept, not the best")
        found.append((learn, held))
    return found[::-1]


def _without(learn: Examples, held: Examples) -> Examples:
    """Examples of queries that are not held out."""
    import numpy as np

    used = held.queries.ids.select(np.unique(held.query))
    return learn.select((learn.queries.ids.positions_in(used) < 0)[learn.query])


def _validation(recipe: Recipe, held: Examples | None) -> Validation | None:
    from tamis.training.recipe import BY_HAND
    from tamis.training.validation import Validation

    if held is None:
        return None
    by_hand = recipe.source_of("measure") == BY_HAND
    return Validation.of(held, recipe.measure if by_hand or _of_class(held).all() else "")


@contextmanager
def _first_speaks() -> Iterator[None]:
    """Of several processes under torchrun only the first prints; errors are told by all."""
    if int(os.environ.get("RANK", "0")) == 0:
        yield
        return
    with Path(os.devnull).open("w") as quiet, redirect_stdout(quiet), redirect_stderr(quiet):
        yield


def _recipe(name: str, settings: list[str], seed: int | None) -> Recipe:
    from tamis.training.recipes import resolve

    read = dict(_pair(each) for each in settings)
    return resolve(name, read if seed is None else {**read, "seed": str(seed)})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, as in rate=1e-5")
    return name.strip(), value.strip()


def _with_texts(examples: Examples, queries: Queries | None) -> Examples:
    if queries is not None and queries.texts is not None:
        return examples.with_queries(queries)
    if len(examples.origins) < len(set(examples.query.tolist())):
        raise InputError(
            "the queries of the examples have no texts here",
            hint="name a file of queries: --queries FILE",
        )
    return examples


def _refuse_nothing(examples: Examples) -> None:
    if not len(examples):
        raise InputError("there are no examples to learn from", hint="label some first")
    if (examples.value == examples.value[0]).all():
        say(f"warning: all values are {examples.value[0]:g}: there is nothing to tell apart")


def _is_same_model(base: str, teacher: str | None) -> bool:
    """Whether both name the same model, by its name or by its weights."""
    from tamis.models.bases import sha256

    if teacher is None or base == teacher:
        return base == teacher
    both = Path(base).expanduser(), Path(teacher).expanduser()
    return all(each.is_dir() for each in both) and sha256(both[0]) == sha256(both[1])


def _of_class(examples: Examples) -> Any:
    """Which rows hold a class, and no score."""
    from tamis.labels.examples import KINDS

    return examples.kind == KINDS.index("class")


def _refuse_shared(learn: Examples, held: Examples) -> None:
    """Queries that are learnt from say nothing about others."""
    used = {learn.queries.ids[n] for n in set(learn.query.tolist())}
    shared = sorted(used & {held.queries.ids[n] for n in set(held.query.tolist())})
    if shared:
        raise InputError(
            f"query {shared[0]!r} is both learnt from and validated on ({len(shared):,} such)",
            hint="label other queries for validation, or leave --validate out",
        )


def _held_out_queries(given: Given, parts: list[Examples]) -> HeldOut:
    """The test queries: those of the collection, and those that the examples' makers knew."""
    from tamis.cli.label_queries import say_held_out
    from tamis.labels.examples import TEST_HASHES

    test = given.held_out
    hashes = {each for part in parts for each in part.facts.get(TEST_HASHES, ())}
    say_held_out(given)
    return replace(test, hashes=test.hashes | hashes)


def _without_leaks(examples: Examples, test: HeldOut, books: Library, what: str) -> Examples:
    from tamis.collection.notes import counted
    from tamis.labels.held_out import without_leaks

    left, leaks = without_leaks(examples, test, books)
    if len(leaks):
        say(
            f"warning: {counted(len(leaks), 'query')} not {what}: a test query, or the same or "
            f"nearly the same as one, such as {leaks[0]}"
        )
    return left


def _wanted(parts: list[Examples | None]) -> Ids:
    """The documents that are read."""
    from tamis.types import Ids

    wanted = Ids.of([])
    for part in (part for part in parts if part):
        origins = sorted({passage.doc_id for passage in part.origins.values()})
        wanted = wanted.union(part.docs).union(Ids.of(origins))
    return wanted


def _refuse_absent(parts: list[Examples | None], books: Library) -> None:
    import numpy as np

    for part in (part for part in parts if part):
        used = np.unique(part.doc)
        absent = np.flatnonzero(~books.has(part.docs.select(used)))
        if len(absent):
            raise InputError(
                f"document {part.docs[int(used[absent[0]])]!r} of the examples is not in the "
                f"collection ({len(absent):,} such)",
                hint="give the collection that the examples were made from",
            )


def _show(done: Trained, json: bool) -> None:
    facts = _told(done)
    if json:
        show_json(facts)
    else:
        show_facts(facts)


def _told(done: Trained) -> Mapping[str, Any]:
    learnt = done.facts["learnt"]
    told: dict[str, Any] = {
        "model": str(done.folder),
        "recipe": done.facts["recipe"]["name"],
        "steps": {"taken": done.history.step, "kept after": done.kept},
        "texts": {"learnt from": learnt["texts"], "cut": learnt["cut"]},
        "minutes": learnt["minutes"],
        "loss": {
            "first": round(done.history.losses[0], 4) if done.history.losses else None,
            "last": round(done.history.losses[-1], 4) if done.history.losses else None,
        },
    }
    if "validation" in done.facts:
        checks = done.history.checks
        told[f"{done.facts['validation']['measure']} on queries held out"] = {
            "before": round(checks[0].value, 4),
            "kept": round(next(c.value for c in checks if c.step == done.kept), 4),
            "last": round(checks[-1].value, 4),
        }
    return told
