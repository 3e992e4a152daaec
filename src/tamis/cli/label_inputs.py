"""What the verbs of `tamis label` share: opening what is named, and writing what was made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tamis.cli.common import say_faults
from tamis.cli.label_show import finish
from tamis.cli.rerank_inputs import read_run_file
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.labels.examples import Examples
    from tamis.labels.inputs import LabelInputs

RankingName = Literal["bm25", "ql"]


def choose_ranking(
    ranking: RankingName | None, run: str | None, default: RankingName
) -> RankingName:
    """What searches for candidates; a run that brings them is not searched for."""
    if ranking and run:
        raise typer.BadParameter("--ranking searches for candidates: leave it out, or --run")
    return ranking or default


def open_named(
    collection: str,
    index: Path | None,
    queries: str | None,
    qrels: list[str] | None,
    split: str | None,
    on_error: Literal["raise", "skip"],
    run: str | None = None,
    ranking: RankingName = "bm25",
) -> LabelInputs:
    """Open what the options name; a run may come from stdin."""
    from tamis.labels.inputs import open_inputs, split_of_file

    files = None
    if qrels:
        files = {}
        for named in qrels:
            part, _, file = named.partition("=")
            files[part if file else split_of_file(named, split)] = file or named
    inputs = open_inputs(collection, index, queries, files, split, on_error)
    read = None if run is None else read_run_file(run, on_error == "skip")
    return inputs.with_candidates(read, ranking, run or "")


def service_key(variable: str | None) -> str:
    """The key of a service, from the environment."""
    key = os.environ.get(variable, "") if variable else ""
    if variable and not key:
        raise InputError(
            f"the environment has no variable {variable}",
            hint=f"export {variable}=… with the key of the service",
        )
    return key


def refuse_service_options(model: str, service_model: str, key_variable: str | None) -> None:
    """Refuse options of a service where the model is none."""
    if (service_model or key_variable) and not model.startswith(("http://", "https://")):
        raise typer.BadParameter("--service-model and --key-variable are for a service")


def write(
    made: Examples,
    inputs: LabelInputs,
    output: Path,
    show: int | None,
    json: bool,
    force: bool,
) -> None:
    """Write the examples, and say what they are."""
    finish(made, inputs.documents, output, show, json, force)
    say_faults(inputs.faults)
