"""The options that every verb of `tamis label` has, and the steps that all of them take."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tamis.cli.common import say_faults, split_name
from tamis.cli.label_show import Show, write_and_show
from tamis.cli.options import (
    ADVANCED_PANEL,
    Candidates,
    CollectionOption,
    Force,
    Json,
    QrelsFiles,
    QueriesFile,
    ReadOptions,
    Seed,
    Threads,
)
from tamis.cli.rerank_inputs import check_output, read_run_file
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.labels.examples import Examples
    from tamis.labels.inputs import LabelInputs

Ranking = Literal["bm25", "ql"]


@dataclass(frozen=True)
class LabelOptions:
    """What is labelled, and where the examples go."""

    collection: CollectionOption
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="EXAMPLES", help="The Parquet file to write."),
    ]
    index: Annotated[
        Path | None,
        typer.Option(
            "--index",
            metavar="INDEX",
            help="Index to search for candidates; not needed if -c is an index.",
        ),
    ] = None
    queries: QueriesFile = None
    qrels: QrelsFiles = None
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="NAME", help="Label only queries judged in this split."),
    ] = None
    candidates: Candidates = None
    ranking: Annotated[
        Ranking | None,
        typer.Option(
            "--ranking",
            help="Ranking that searches for candidates: BM25 or query likelihood. "
            "Default: bm25 (label transfer: ql).",
        ),
    ] = None
    depth: Annotated[
        int, typer.Option("--depth", metavar="N", min=1, help="Candidates per query.")
    ] = 100
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", metavar="N", min=1, help="Label a random sample of so many queries."
        ),
    ] = None
    show: Show = None
    seed: Seed = 0
    threads: Threads = None
    json: Json = False
    force: Force = False

    def settings(self) -> dict[str, Any]:
        """The settings that every function of `tamis.label` takes."""
        return {
            "depth": self.depth,
            "sample": self.sample,
            "seed": self.seed,
            "threads": self.threads,
        }


@dataclass(frozen=True)
class ScoreOptions:
    """What is scored, and where scores are cached."""

    passages: Annotated[
        str | None,
        typer.Option(
            "--passages",
            metavar="SPEC",
            help="Label passages instead of documents: words:100, words:150:75, …",
        ),
    ] = None
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="FILE",
            help="File to cache scores in. Default: OUTPUT.scores.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Do not cache scores.", rich_help_panel=ADVANCED_PANEL),
    ] = False

    def cache_file(self, output: Path) -> Path | None:
        """Where scores are cached, if at all."""
        if self.cache and self.no_cache:
            raise typer.BadParameter("--cache and --no-cache contradict each other")
        return None if self.no_cache else self.cache or Path(f"{output}.scores")


@dataclass(frozen=True)
class ServiceOptions:
    """How a re-ranking service is asked."""

    service_model: Annotated[
        str,
        typer.Option(
            "--service-model",
            metavar="NAME",
            help="Model that a service is asked for.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = ""
    key_variable: Annotated[
        str | None,
        typer.Option(
            "--key-variable",
            metavar="NAME",
            help="Environment variable with the API key of a service.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None

    def settings(self, model: str) -> dict[str, Any]:
        """The model of the service and its key; refused where the teacher is no service."""
        is_service = model.startswith(("http://", "https://"))
        if (self.service_model or self.key_variable) and not is_service:
            raise typer.BadParameter("--service-model and --key-variable are for a service")
        key = os.environ.get(self.key_variable, "") if self.key_variable else ""
        if self.key_variable and not key:
            raise InputError(
                f"the environment has no variable {self.key_variable}",
                hint=f"export {self.key_variable}=… with the key of the service",
            )
        return {"service_model": self.service_model, "key": key}


def run_label(
    options: LabelOptions,
    read: ReadOptions,
    label: Callable[[LabelInputs], Examples],
    default_ranking: Ranking = "bm25",
) -> None:
    """Open what the options name, label it, write the examples and say what they are."""
    if options.ranking and options.candidates:
        raise typer.BadParameter("--ranking searches for candidates: leave it or --candidates out")
    check_output(str(options.output), options.force)
    inputs = open_named(
        options.collection, read, index=options.index, queries=options.queries,
        qrels=options.qrels, split=options.split,
    )  # fmt: skip
    run = options.candidates and read_run_file(options.candidates, read.skips_bad_lines)
    inputs = inputs.with_candidates(
        run or None, options.ranking or default_ranking, options.candidates or ""
    )
    examples = label(inputs)
    write_and_show(
        examples, inputs.documents, options.output, options.show, options.json, options.force
    )
    say_faults(inputs.faults)


def open_named(
    collection: str,
    read: ReadOptions,
    *,
    index: Path | None = None,
    queries: str | None = None,
    qrels: list[str] | None = None,
    split: str | None = None,
) -> LabelInputs:
    """Open what options name."""
    from tamis.labels.inputs import open_inputs, split_of_file

    files = None
    if qrels:
        pairs = [split_name(value) for value in qrels]
        files = {name or split_of_file(path, split): path for name, path in pairs}
    is_described = any((read.format, read.id, read.text, read.title))
    documents = read.open(collection) if is_described else collection
    return open_inputs(documents, index, queries, files, split, read.on_error)
