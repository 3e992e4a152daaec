"""`tamis info` and `tamis convert`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import STDIO, by_split, reading, say, show_facts, show_json, writing_to
from tamis.cli.label_info import describe_examples, is_examples
from tamis.cli.label_show import Show
from tamis.cli.options import (
    Force,
    Json,
    QrelsFiles,
    QueriesFile,
    ReadOptions,
    Seed,
    with_options,
)
from tamis.cli.sieves import described as described_sieve
from tamis.cli.sieves import is_sieve
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.collection.candidate_selection import Selection
    from tamis.collection.conversion import Request
    from tamis.collection.describe import Facts

EXAMPLES_PANEL = "Training examples"
TABLE_PANEL = "Re-ranking table (--to reranking-tsv)"


@dataclass(frozen=True)
class TableOptions:
    """Which candidates a re-ranking table has."""

    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates",
            metavar="RUN",
            help="A run with the candidates of each query.",
            rich_help_panel=TABLE_PANEL,
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="NAME",
            help="Split of the judgements. Default: the only one.",
            rich_help_panel=TABLE_PANEL,
        ),
    ] = None
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            metavar="N",
            min=1,
            help="Candidates per query. Default: all of the run.",
            rich_help_panel=TABLE_PANEL,
        ),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            help="Write a random sample of so many queries. Default: all.",
            rich_help_panel=TABLE_PANEL,
        ),
    ] = None
    short_queries: Annotated[
        int,
        typer.Option(
            "--short-queries",
            metavar="N",
            min=0,
            help="So many queries, drawn at random, keep only --short-depth candidates.",
            rich_help_panel=TABLE_PANEL,
        ),
    ] = 0
    short_depth: Annotated[
        int,
        typer.Option(
            "--short-depth",
            metavar="N",
            min=1,
            help="Candidates of such a query: the relevant, then the first.",
            rich_help_panel=TABLE_PANEL,
        ),
    ] = 50
    seed: Seed = 0

    def check(self, to: str | None) -> None:
        """Refuse options that another target would ignore."""
        from tamis.collection.conversion import RERANKING_TSV

        if to != RERANKING_TSV and self != TableOptions():
            raise typer.BadParameter(
                "--candidates, --split, --depth, --sample, --short-queries, --short-depth and "
                f"--seed are for --to {RERANKING_TSV}"
            )

    def selection(self) -> Selection:
        """The same for the library."""
        from tamis.collection.candidate_selection import Selection

        return Selection(self.depth, self.sample, self.short_queries, self.short_depth, self.seed)


@with_options
def info(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A collection (file, folder, tamis:pydocs, ir_datasets:ID), run, qrels, queries, "
            "training examples, index, model or sieve; - is stdin.",
        ),
    ],
    read: ReadOptions,
    queries: QueriesFile = None,
    qrels: QrelsFiles = None,
    passages: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Also count passages, such as words:150:75."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the checksums of a folder that tamis wrote.")
    ] = False,
    collection: Annotated[
        str | None,
        typer.Option(
            "-c",
            "--collection",
            metavar="COLLECTION",
            help="Documents of the examples: a collection or an index.",
            rich_help_panel=EXAMPLES_PANEL,
        ),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Scores that show which negatives may be relevant.",
            rich_help_panel=EXAMPLES_PANEL,
        ),
    ] = None,
    show: Show = None,
    json: Json = False,
) -> None:
    """Show what a file or folder is, what it holds, and what looks wrong.

    Example: tamis info tamis:pydocs
    """
    from tamis.collection.conversion import Request

    if is_examples(path) and read.format is None:
        describe_examples(path, collection, candidates, queries, qrels, show, read, json)
        return
    if collection or candidates or show:
        raise typer.BadParameter("--collection, --candidates and --show are for examples")
    with reading(path) as file:
        request = Request(
            path if path != STDIO else file,
            file,
            format=read.format,
            columns=read.columns,
            queries=queries,
            qrels=by_split(qrels),
            skip=read.skips_bad_lines,
        )
        facts = _describe(request, verify)
        if passages is not None:
            facts = _with_passages(facts, request, passages)
    if json:
        values = {"kind": facts.kind, **facts.facts, "warnings": list(facts.warnings)}
        show_json("info", values)
        return
    show_facts(facts.facts)
    for warning in facts.warnings:
        say(f"warning: {warning}")


def _describe(request: Request, verify: bool) -> Facts:
    from tamis.collection.describe import Facts, describe_any
    from tamis.collection.detection import detect_format
    from tamis.collection.readers import is_id
    from tamis.durable import folder_exists

    path = request.target
    if request.format is None and not path.exists():
        path = _named_model(str(request.source)) or path
    if request.format is None and is_sieve(path):
        if verify:
            _verify(path, "sieve")
        return Facts(described_sieve(path))
    if request.format is None and folder_exists(path) and (model := _described_model(path)):
        if verify:
            _verify(path, "model")
        return Facts(model, kind="model")
    kind = "collection"
    if not is_id(request.source):
        kind = request.format or detect_format(path, request.columns)
    if verify:
        _verify(path, kind)
    if kind == "index":
        from tamis.search.describe import describe_index

        return describe_index(path)
    return describe_any(request, kind)


def _named_model(name: str) -> Path | None:
    """The folder of a model that is named by what is no path, if there is one."""
    from tamis.models.base_models import find_named

    return find_named(name)


def _described_model(folder: Path) -> dict[str, str]:
    """A model folder in words; nothing for another folder."""
    from tamis.models.model_description import describe_folder, is_model

    return describe_folder(folder) if is_model(folder) else {}


def _with_passages(facts: Facts, request: Request, spec: str) -> Facts:
    from tamis.collection.conversion import open_requested
    from tamis.collection.describe import passage_statistics
    from tamis.text.passages import parse_spec

    passages = passage_statistics(open_requested(request), parse_spec(spec))
    return replace(facts, facts={**facts.facts, "passages": passages})


def _verify(path: Path, kind: str) -> None:
    if kind == "collection":
        from tamis.collection.store import verify_store

        verify_store(path)
    elif kind == "index":
        from tamis.search.index import verify

        verify(path)
    elif kind == "model":
        from tamis.models.folder import verify_model

        verify_model(path)
    elif kind == "sieve":
        from tamis.fitting.sieve import verify_sieve

        verify_sieve(path)
    else:
        raise InputError(
            f"{path} has no checksums to verify", hint="only folders that tamis wrote have them"
        )
    checked = "the weights" if kind == "model" else "all files"
    say(f"{path}: {checked} match their checksums")


@with_options
def convert(
    source: Annotated[str, typer.Argument(metavar="FROM", help="What to read; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="What to write; - is stdout.")],
    read: ReadOptions,
    table: TableOptions,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="NAME",
            help="Format to write, such as collection, beir or jsonl, for runs trec or parquet, "
            "run or reranking-tsv for candidates. "
            "Default: by the ending of TO, for a folder collection. An unknown name lists all.",
        ),
    ] = None,
    only_queries: Annotated[
        bool, typer.Option("--only-queries", help="Write only the queries of a collection.")
    ] = False,
    queries: QueriesFile = None,
    qrels: QrelsFiles = None,
    force: Force = False,
) -> None:
    """Convert a collection, run, qrels or queries to another format.

    Example: tamis convert docs.jsonl my-collection --text body
    """
    from tamis.collection.conversion import Request, convert_any

    table.check(to)
    with reading(source) as path, writing_to(target) as out:
        request = Request(
            source if source != STDIO else path,
            out,
            to=to,
            format=read.format,
            columns=read.columns,
            queries=queries,
            qrels=by_split(qrels),
            only_queries=only_queries,
            skip=read.skips_bad_lines,
            force=force,
            candidates=table.candidates,
            split=table.split,
            selection=table.selection(),
        )
        for note in convert_any(request):
            say(f"note: {note}")
