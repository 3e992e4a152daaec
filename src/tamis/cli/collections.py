"""`tamis info` and `tamis convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import (
    STDIO,
    Force,
    Format,
    IdColumn,
    Json,
    OnError,
    TextColumn,
    TitleColumn,
    reading,
    say,
    show_facts,
    show_json,
    writing_to,
)
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.collection._records import Columns
    from tamis.collection.describe import Facts

Thing = Annotated[
    str,
    typer.Argument(
        metavar="ANYTHING",
        help="A collection (file, folder, tamis:pydocs, ir_datasets:ID), a run, qrels or queries.",
    ),
]


def info(
    thing: Thing,
    format: Format = None,
    id: IdColumn = None,
    text: TextColumn = None,
    title: TitleColumn = None,
    on_error: OnError = "raise",
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte of a tamis folder and check it.")
    ] = False,
    json: Json = False,
) -> None:
    """Say what something is, what is in it, and what looks wrong.

    Example: tamis info tamis:pydocs
    """
    with reading(thing) as path:
        columns = _columns(id, text, title)
        facts = _describe(thing, path, format, columns, on_error, verify)
    if json:
        show_json({**facts.facts, "warnings": list(facts.warnings)})
        return
    show_facts(facts.facts)
    for warning in facts.warnings:
        say(f"warning: {warning}")


def _describe(
    thing: str,
    path: Path,
    format: str | None,
    columns: Columns,
    on_error: Literal["raise", "skip"],
    verify: bool,
) -> Facts:
    from tamis.collection import describe
    from tamis.collection.base import Faults
    from tamis.collection.judgements import read_qrels
    from tamis.collection.opening import is_id, open_collection, read_queries
    from tamis.collection.runs import read_run

    faults = Faults(skip=on_error == "skip")
    source = thing if is_id(thing) else path
    kind = "collection" if is_id(thing) else _kind(path, format, columns)
    if verify:
        _verify(path, kind)
    if kind == "run":
        return describe.describe_run(read_run(path, faults))
    if kind in ("qrels", "beir-qrels"):
        return describe.describe_qrels(read_qrels(path, faults))
    if kind in ("topics", "topics-xml", "querylog"):
        return describe.describe_queries(read_queries(path, format, faults=faults))
    collection = open_collection(source, format=format, columns=columns, on_error=on_error)
    return describe.describe_collection(collection)


def _kind(path: Path, format: str | None, columns: Columns) -> str:
    from tamis.collection.look import look

    return format or look(path, columns)


def _verify(path: Path, kind: str) -> None:
    from tamis.collection.store import verify_store

    if kind != "collection":
        raise InputError(
            f"{path} has no checksums to verify", hint="only folders that tamis wrote have them"
        )
    verify_store(path)
    say(f"{path}: every byte is as it was written")


def _columns(id: str | None, text: str | None, title: str | None) -> Columns:
    from tamis.collection._records import Columns

    return Columns(id=id, text=text, title=title)


def convert(
    source: Annotated[str, typer.Argument(metavar="FROM", help="What to read; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="What to write; - is stdout.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Format to write. Collections: collection (default), beir, msmarco, trectext, "
            "jsonl, csv, tsv, parquet; a re-ranking table also indexed. "
            "Runs and qrels: trec, parquet, beir. "
            "Queries: jsonl, csv, tsv, parquet, topics, topics-xml, querylog.",
        ),
    ] = None,
    queries: Annotated[
        bool, typer.Option("--queries", help="Write the queries of a collection only.")
    ] = False,
    format: Format = None,
    id: IdColumn = None,
    text: TextColumn = None,
    title: TitleColumn = None,
    on_error: OnError = "raise",
    force: Force = False,
) -> None:
    """Turn a collection, run, qrels or queries from any format into another.

    Example: tamis convert docs.jsonl my-collection --text body
    """
    from tamis.collection.converting import Request, convert_any

    with reading(source) as path, writing_to(target) as out:
        request = Request(
            source if source != STDIO else path,
            out,
            to=to,
            format=format,
            columns=_columns(id, text, title),
            only_queries=queries,
            skip=on_error == "skip",
            force=force,
        )
        for note in convert_any(request):
            say(f"note: {note}")
