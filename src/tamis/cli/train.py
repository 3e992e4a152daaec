"""`tamis train`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
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
from tamis.cli.label_inputs import open_named

if TYPE_CHECKING:
    from tamis.training.loop import Trained


def _show_recipes(wanted: bool) -> None:
    if not wanted:
        return
    from rich.table import Table

    from tamis.training.recipes import CHAINS, RECIPES

    table = Table(
        "recipe", "trains", "loss", "batch", "length", "learning rate", "as long as", box=None
    )
    for recipe in RECIPES.values():
        long = f"{recipe.steps:,} steps" if recipe.steps else f"{recipe.epochs:g} epochs"
        if recipe.epoch_rule == "falling":
            long += " at 32 queries, fewer at more"
        head = recipe.head_learning_rate
        rate = f"{recipe.learning_rate:g}" + (f", head {head:g}" if head else "")
        batch, length = str(recipe.effective_batch_size), str(recipe.max_length)
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
        typer.Option("--set", metavar="NAME=VALUE", help="Change the recipe: learning_rate=1e-5."),
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
    from tamis.training.api import train_stages
    from tamis.training.training_data import as_examples

    if validate and no_validation:
        raise typer.BadParameter("--validate goes without --no-validation")
    settings = dict(_pair(text) for text in setting or [])
    settings |= {} if seed is None else {"seed": str(seed)}
    with _first_speaks():
        inputs = open_named(collection, None, queries, None, None, on_error)
        try:
            done = train_stages(
                as_examples(examples), inputs, base=base, recipe=recipe, out=output,
                settings=settings, validate=False if no_validation else validate,
                max_time=max_time, threads=threads, resume=resume, force=force,
                random_weights=random_weights,
            )  # fmt: skip
        except KeyboardInterrupt:
            say("what was learnt up to the last checkpoint is kept: --resume goes on from there")
            raise
        _show(done, json)
        say_faults(inputs.faults)


@contextmanager
def _first_speaks() -> Iterator[None]:
    """Of several processes under torchrun only the first prints; errors are told by all."""
    if int(os.environ.get("RANK", "0")) == 0:
        yield
        return
    with Path(os.devnull).open("w") as quiet, redirect_stdout(quiet), redirect_stderr(quiet):
        yield


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, as in learning_rate=1e-5")
    return name.strip(), value.strip()


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
        "steps": {"taken": done.history.step, "kept after": done.selected_step},
        "texts": {"learnt from": learnt["texts"], "truncated_tokens": learnt["truncated_tokens"]},
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
            "kept": round(next(c.value for c in checks if c.step == done.selected_step), 4),
            "last": round(checks[-1].value, 4),
        }
    return told
