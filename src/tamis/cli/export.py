"""`tamis export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import Force, Json, QueriesFile, say, show, show_json

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.models import Export, Sample


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The model folder to write.")
    ],
    collection: Annotated[
        str | None,
        typer.Option("-c", "--collection", help="Compare on documents of this collection."),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="The candidates of its queries.")
    ] = None,
    queries: QueriesFile = None,
    qrels: Annotated[
        str | None,
        typer.Option("--qrels", metavar="FILE", help="Judgements to measure the rankings with."),
    ] = None,
    measure: Annotated[str, typer.Option("-m", "--measure", help="With which measure.")] = (
        "nDCG@10"
    ),
    depth: Annotated[int, typer.Option(min=2, help="How many candidates a query.")] = 100,
    int8: Annotated[
        bool | None,
        typer.Option(
            "--int8/--no-int8",
            help="Insist on 8-bit integers, or leave them out; tried and reported if unset.",
        ),
    ] = None,
    min_overlap: Annotated[
        float,
        typer.Option(min=0, max=1, help="8 bits: the least mean overlap of the top 10 with float."),
    ] = 0.9,
    max_drop: Annotated[
        float, typer.Option(min=0, max=1, help="8 bits: by how much the measure may fall.")
    ] = 0.005,
    threads: Annotated[int | None, typer.Option(min=1, help="All cores if unset.")] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Write a model in ONNX, in float and 8-bit integers, and compare their rankings.

    A float file with other scores and an 8-bit file with another top 10 are refused. Without a
    collection and a run, what is compared are rankings of Python's own documentation.

    Example: tamis export my-model -o fast-model -c docs.jsonl --run bm25.trec --qrels qrels.txt
    """
    if (collection is None) != (run is None):
        raise typer.BadParameter("--collection and --run go together")
    if collection is None and (queries or qrels):
        raise typer.BadParameter("--queries and --qrels are for a --collection and a --run")
    from tamis.models import Tolerance
    from tamis.models import export as write

    sample = None
    if collection is not None and run is not None:
        sample = _sample(collection, run, queries, qrels, measure, depth)
    found = write(
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

        show_json([asdict(each) for each in found])
    else:
        show(_table(found, measure))
        say(f"measured on {found[0].queries} queries; {found[0].processor}")
    if int8 is None and found[-1].refused:
        say(f"warning: the 8-bit export {found[-1].refused}: it was not kept")


def _sample(
    collection: str, run: str, queries: str | None, qrels: str | None, measure: str, depth: int
) -> Sample:
    from tamis.collection.judgements import read_qrels
    from tamis.collection.readers import open_collection, read_queries
    from tamis.collection.runs import read_run
    from tamis.models import Sample

    opened = open_collection(collection)
    found = read_run(run).top(depth)
    if queries is not None:
        found = found.with_queries(read_queries(queries))
    elif found.queries.texts is None:
        found = found.with_queries(opened.queries)
    judged = None if qrels is None else read_qrels(qrels)
    return Sample(found, opened.documents, judged, measure, run)


def _table(found: list[Export], measure: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heads = ("export", "MB", "scores differ by", "top 10 overlap", measure, "speed", "")
    for head in heads:
        table.add_column(head, justify="left" if head in ("export", "") else "right")
    for each in found:
        value = "–"
        if each.before is not None and each.after is not None:
            value = f"{each.after:.4f} ({each.after - each.before:+.4f})"
        table.add_row(
            each.backend,
            f"{each.megabytes:.0f}",
            f"{each.difference:.2g}",
            "–" if each.overlap is None else f"{each.overlap:.3f}",
            value,
            f"{each.speed:.2f} x torch",
            f"refused: {each.refused}" if each.refused else "kept",
        )
    return table
