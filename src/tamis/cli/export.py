"""`tamis export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import say, show, show_json
from tamis.cli.options import (
    ADVANCED_PANEL,
    Force,
    Json,
    QueriesFile,
    ReadOptions,
    Threads,
    with_options,
)
from tamis.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.collection.base import Collection
    from tamis.models import Export, Sample


@with_options
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The model folder to write.")
    ],
    read: ReadOptions,
    int8: Annotated[
        bool | None,
        typer.Option(
            "--int8/--no-int8",
            help="Require the 8-bit export, or leave it out. Default: kept if close enough.",
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            "-c",
            "--collection",
            metavar="COLLECTION",
            help="Compare rankings on these documents. Default: Python's documentation.",
        ),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option("--candidates", metavar="RUN", help="A run with candidates for each query."),
    ] = None,
    queries: QueriesFile = None,
    qrels: Annotated[
        str | None,
        typer.Option("--qrels", metavar="FILE", help="Judgements, to compare the measure too."),
    ] = None,
    measure: Annotated[
        str, typer.Option("-m", "--measure", help="The measure to compare.")
    ] = "nDCG@10",
    depth: Annotated[int, typer.Option(metavar="N", min=2, help="Candidates per query.")] = 100,
    min_overlap: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="8 bits: minimum mean overlap with float's top 10.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = 0.9,
    max_drop: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=0,
            max=1,
            help="8 bits: maximum drop of the measure.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = 0.005,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Write a model in ONNX, in float and 8-bit integers, and compare their rankings.

    A float export with other scores is refused, an 8-bit export with another top 10 too.

    Example: tamis export my-model -o fast-model -c docs.jsonl --candidates bm25.trec
    """
    if (collection is None) != (candidates is None):
        raise typer.BadParameter("--collection and --candidates go together")
    if collection is None and (queries or qrels):
        raise typer.BadParameter("--queries and --qrels need --collection and --candidates")
    from tamis.models import Tolerance
    from tamis.models import export as write

    sample = None
    if collection is not None and candidates is not None:
        sample = _sample(read.open(collection), candidates, queries, qrels, measure, depth)
    exports = write(
        model,
        output,
        sample,
        int8=int8,
        tolerance=Tolerance(overlap=min_overlap, drop=max_drop),
        threads=threads,
        force=force,
        log=say,
    )
    if json:
        from dataclasses import asdict

        show_json("export", {"exports": [asdict(row) for row in exports]})
    else:
        show(_table(exports, measure))
        say(f"measured on {exports[0].queries} queries; {exports[0].processor}")
    if int8 is None and exports[-1].refused:
        say(f"warning: the 8-bit export was not kept: it {exports[-1].refused}")


def _sample(
    collection: Collection,
    file: str,
    queries: str | None,
    qrels: str | None,
    measure: str,
    depth: int,
) -> Sample:
    from tamis.collection.judgements import read_qrels
    from tamis.collection.readers import read_queries
    from tamis.collection.runs import read_run
    from tamis.models import Sample

    run = read_run(file).top(depth)
    if queries is not None:
        run = run.with_queries(read_queries(queries))
    elif run.queries.texts is None:
        run = run.with_queries(collection.queries)
    judged = None if qrels is None else read_qrels(qrels)
    return Sample(run, collection.documents, judged, measure, file)


def _table(exports: list[Export], measure: str) -> Table:

    table = plain_table()
    heads = ("export", "MB", "scores differ by", "top 10 overlap", measure, "speed", "")
    for head in heads:
        table.add_column(head, justify="left" if head in ("export", "") else "right")
    for row in exports:
        value = "–"
        if row.before is not None and row.after is not None:
            value = f"{row.after:.4f} ({row.after - row.before:+.4f})"
        table.add_row(
            row.backend,
            f"{row.megabytes:.0f}",
            f"{row.difference:.2g}",
            "–" if row.overlap is None else f"{row.overlap:.3f}",
            value,
            f"{row.speed:.2f} x torch",
            f"refused: {row.refused}" if row.refused else "kept",
        )
    return table
