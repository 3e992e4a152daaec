"""`tamis explain`: one result of a search, and why a run is worse than another."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import say, say_faults, show_json, split_name
from tamis.cli.options import (
    OUTPUT_PANEL,
    CollectionOption,
    DeviceOptions,
    Force,
    Json,
    QueriesFile,
    ReadOptions,
    Threads,
    WhereOption,
    with_options,
)
from tamis.cli.sieves import is_searchable, is_sieve, opened_sieve, say_what_was_tested
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.explain.causes import LossInputs
    from tamis.types.conditions import Where
    from tamis.types.explanation import Explanation

app = typer.Typer(
    help="Explain one result of a search, or why a run is worse than another.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write it as a page that needs nothing else.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]


@app.command("result")
@with_options
def result(
    sieve: Annotated[
        Path,
        typer.Argument(metavar="SIEVE", help="A sieve, or an index that is searched by words."),
    ],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The words searched for.")],
    document: Annotated[
        str | None,
        typer.Argument(metavar="DOC", help="The id of the document. Default: the first hit."),
    ] = None,
    other: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="The id of a document to compare with."),
    ] = None,
    where: WhereOption = None,
    html: Html = None,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Say why a document stands where it stands for a query, part by part.

    Example: tamis explain result my.sieve "sort a list"
    """
    from tamis.cli.explain_show import show_explanation
    from tamis.explain.page import write_explanation

    found = _explained(sieve, threads, query, document, other, where or ())
    if html is not None:
        write_explanation(html, found, command=shlex.join(["tamis", *sys.argv[1:]]), force=force)
    if json:
        show_json("explanation", found.to_json())
    else:
        show_explanation(found)
    if html is not None:
        say(f"page: {html}")


@app.command("losses")
@with_options
def losses(
    run: Annotated[
        str, typer.Argument(metavar="[NAME=]RUN", help="The run whose losses are explained.")
    ],
    baseline: Annotated[
        str, typer.Argument(metavar="[NAME=]BASELINE", help="The run that it is compared with.")
    ],
    qrels: Annotated[Path, typer.Option("--qrels", metavar="FILE", help="Judgements (qrels).")],
    collection: CollectionOption,
    read: ReadOptions,
    device: DeviceOptions,
    queries: QueriesFile = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="The model that made the run, to score texts anew."
        ),
    ] = None,
    passages: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="With --model: the passages that the run was scored by (whole)."
        ),
    ] = None,
    aggregate: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="With --model: how scores of passages became a document's (max)."
        ),
    ] = None,
    deeper: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --model: how many times as many candidates an index is searched for (10).",
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            "-m",
            "--measure",
            help="The measure that got worse: a query counts as restored where its value is at "
            "least the baseline's.",
        ),
    ] = "nDCG@10",
    html: Html = None,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Say why queries of a run are below a baseline: each cause is undone and measured.

    A query counts under a cause if the measure is then at least the baseline's.

    Example: tamis explain losses new.parquet bm25.trec --qrels qrels.txt -c docs.index --model m
    """
    from tamis.cli.explain_show import show_losses
    from tamis.explain.losses import find_losses
    from tamis.explain.losses_page import write_losses

    options = {"passages": passages, "aggregate": aggregate, "deeper": deeper}
    in_vain = [f"--{name}" for name, value in options.items() if value is not None]
    if model is None and in_vain:
        raise InputError(
            f"{', '.join(in_vain)} without --model",
            hint="they say how the model scored the run: name it by --model, or leave them out",
        )
    inputs, names = _loss_inputs(run, baseline, qrels, collection, read, queries)
    if model is not None:
        from tamis.models import open_ranker

        scorer = open_ranker(
            model, threads=threads, documents=inputs.documents, **device.of(model)
        ).scorer
        inputs = replace(
            inputs, scorer=scorer, passages=passages or "whole", aggregate=aggregate or "max",
            deeper=deeper or inputs.deeper,
        )  # fmt: skip
    found = find_losses(inputs, measure=measure, names=names)
    if html is not None:
        write_losses(html, found, command=shlex.join(["tamis", *sys.argv[1:]]), force=force)
    if json:
        show_json("losses", found.to_json())
    else:
        show_losses(found)
    if html is not None:
        say(f"page: {html}")


def _loss_inputs(
    run: str, baseline: str, qrels: Path, collection: str, read: ReadOptions, file: str | None
) -> tuple[LossInputs, tuple[str, str]]:
    """Both runs, the judgements and the documents, and what the runs are called."""
    from tamis.cli.rerank_inputs import open_documents, read_run_file
    from tamis.collection.judgements import read_qrels
    from tamis.collection.readers import read_queries
    from tamis.explain.causes import LossInputs

    documents, own_queries, faults = open_documents(collection, read)
    queries = own_queries if file is None else read_queries(file)
    paths = split_name(run), split_name(baseline)
    names = paths[0][0] or Path(paths[0][1]).stem, paths[1][0] or Path(paths[1][1]).stem
    first, second = (read_run_file(path, read.skips_bad_lines) for _, path in paths)
    texts = {} if queries is None else {query.id: query.text for query in queries}
    say_faults(faults)
    return LossInputs(first, second, read_qrels(qrels), documents, texts=texts), names


def _explained(
    folder: Path,
    threads: int | None,
    query: str,
    document: str | None,
    other: str | None,
    where: Where,
) -> Explanation:
    from tamis.search import Index

    if not is_searchable(folder):
        raise InputError(
            f"{folder} is neither a sieve nor an index", hint="tamis fit writes a sieve"
        )
    if not is_sieve(folder):
        return Index.open(folder).explain(query, document, other, where)
    opened = opened_sieve(folder, threads)
    say_what_was_tested(opened)
    return opened.explain(query, document, other, where)
