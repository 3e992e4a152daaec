"""`tamis train`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.common import say, say_faults, show, show_facts, show_json
from tamis.cli.label_options import open_named
from tamis.cli.options import (
    ADVANCED_PANEL,
    CollectionOption,
    Force,
    GradientCheckpointing,
    Json,
    QueriesFile,
    ReadOptions,
    Threads,
    TimeLimit,
    TrainingDevice,
    with_options,
)
from tamis.terminal import plain_table

if TYPE_CHECKING:
    from tamis.training.loop import Trained


def _show_recipes(is_set: bool) -> None:
    if not is_set:
        return

    from tamis.training.recipes import CHAINS, RECIPES

    table = plain_table()
    heads = ("recipe", "trains", "loss", "batch size", "max length", "learning rate", "duration")
    for head in heads:
        table.add_column(head)
    for recipe in RECIPES.values():
        duration = f"{recipe.steps:,} steps" if recipe.steps else f"{recipe.epochs:g} epochs"
        if recipe.epoch_rule == "falling":
            duration += " for 32 queries, fewer for more"
        head_rate = recipe.head_learning_rate
        rate = f"{recipe.learning_rate:g}" + (f", head {head_rate:g}" if head_rate else "")
        batch, length = str(recipe.effective_batch_size), str(recipe.max_length)
        table.add_row(recipe.name, recipe.scorer, recipe.loss, batch, length, rate, duration)
    show(table)
    for name, (first, second) in CHAINS.items():
        say(f"{name}: {first} on scores, then {second} on judgements")
    raise typer.Exit


@with_options
def train(
    examples: Annotated[
        list[str],
        typer.Argument(metavar="EXAMPLES", help="Files that tamis label wrote. Repeatable."),
    ],
    collection: CollectionOption,
    base: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="The base model: a folder, an installed package or a hub id.",
        ),
    ],
    recipe: Annotated[
        str, typer.Option(metavar="NAME", help="The training recipe; see --recipes.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The model folder to write.")
    ],
    read: ReadOptions,
    device: TrainingDevice,
    max_time: TimeLimit = None,
    recipes: Annotated[
        bool,
        typer.Option(
            "--recipes", callback=_show_recipes, is_eager=True, help="List the recipes and exit."
        ),
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting of the recipe, such as learning_rate=1e-5. Repeatable.",
        ),
    ] = None,
    validate: Annotated[
        str | None,
        typer.Option(
            metavar="EXAMPLES",
            help="Validation examples. Default: hold out a tenth of the queries, at most 100.",
        ),
    ] = None,
    no_validation: Annotated[
        bool,
        typer.Option("--no-validation", help="Hold out nothing, and keep the last checkpoint."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue training from the last checkpoint.")
    ] = False,
    queries: QueriesFile = None,
    random_weights: Annotated[
        bool,
        typer.Option(
            "--random-weights",
            help="Use only the architecture of the base model, with random weights.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Default: the recipe's.", rich_help_panel=ADVANCED_PANEL
        ),
    ] = None,
    gradient_checkpointing: GradientCheckpointing = False,
    trust_remote_code: Annotated[
        str | None,
        typer.Option(
            "--trust-remote-code",
            metavar="MODEL",
            help="Run code that the base model brings; name the same folder or hub id again.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Train a ranker on examples, and write a model folder.

    Example: tamis train pseudo.parquet -c docs.jsonl --base all-MiniLM-L6-v2
    --recipe monobert-pairwise-small -o my-model --max-time 20m
    """
    from tamis.models.model_lookup import is_trusted
    from tamis.training.api import train_stages
    from tamis.training.precision import Placement
    from tamis.training.training_data import as_examples

    if validate and no_validation:
        raise typer.BadParameter("--validate goes without --no-validation")
    settings = settings_of(setting or [])
    settings |= {} if seed is None else {"seed": str(seed)}
    with _only_first_prints():
        inputs = open_named(collection, read, queries=queries)
        try:
            trained = train_stages(
                as_examples(examples), inputs, base=base, recipe=recipe, out=output,
                settings=settings, validate=False if no_validation else validate,
                max_time=max_time, threads=threads, resume=resume, force=force,
                random_weights=random_weights,
                placement=Placement(
                    device.device, device.dtype, gradient_checkpointing,
                    is_trusted(base, trust_remote_code or False),
                ),
            )  # fmt: skip
        except KeyboardInterrupt:
            say("the last checkpoint is kept: continue with --resume")
            raise
        facts = training_facts(trained)
        show_json("train", facts) if json else show_facts(facts)
        say_faults(inputs.faults)


@contextmanager
def _only_first_prints() -> Iterator[None]:
    """Of several processes under torchrun only the first prints; errors are raised by all."""
    if int(os.environ.get("RANK", "0")) == 0:
        yield
        return
    with Path(os.devnull).open("w") as quiet, redirect_stdout(quiet), redirect_stderr(quiet):
        yield


def settings_of(texts: Sequence[str]) -> dict[str, str]:
    """Settings of a recipe, each written as NAME=VALUE."""
    return dict(map(_pair, texts))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, as in learning_rate=1e-5")
    return name.strip(), value.strip()


def training_facts(trained: Trained) -> Mapping[str, Any]:
    """What there is to say of a training."""
    data, losses = trained.facts["training"], trained.history.losses
    facts: dict[str, Any] = {
        "model": str(trained.folder),
        "recipe": trained.facts["recipe"]["name"],
        "steps": {"run": trained.history.step, "selected": trained.selected_step},
        "texts": {"trained_on": data["texts"], "truncated_tokens": data["truncated_tokens"]},
        "minutes": data["minutes"],
        "loss": {
            "first": round(losses[0], 4) if losses else None,
            "last": round(losses[-1], 4) if losses else None,
        },
    }
    if "validation" in trained.facts:
        checks = trained.history.checks
        selected = next(check for check in checks if check.step == trained.selected_step)
        facts["validation"] = {
            "measure": trained.facts["validation"]["measure"],
            "before": round(checks[0].value, 4),
            "selected": round(selected.value, 4),
            "last": round(checks[-1].value, 4),
        }
    return facts
