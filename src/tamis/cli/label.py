"""`tamis label`: examples to train on, from judgements, from a first stage, from scores."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tamis.cli.common import Force, Json, OnError, QueriesFile
from tamis.cli.label_inputs import choose_ranking, open_named, write
from tamis.cli.label_scores import (
    CollectionName,
    Depth,
    IndexFolder,
    Output,
    QrelsBySplit,
    RankingOption,
    RunFile,
    Sample,
    Seed,
    Split,
    Threads,
    teacher,
    transfer,
    weak,
)
from tamis.cli.label_show import Show
from tamis.cli.rerank_inputs import check_output

app = typer.Typer(
    help="Make examples to train on: from judgements, from a first stage, from scores.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

POOL = "pool"


def how_many(text: str) -> int | None:
    """How many negatives: a number, or nothing for a pool.

    >>> how_many("10"), how_many("pool")
    (10, None)
    """
    if text == POOL:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is no number of negatives; write 10 or {POOL}")
    return int(text)


NegativesCount = Annotated[
    str,
    typer.Option(
        "--negatives",
        metavar="N|pool",
        help="Draw so many a query now; or keep all, and training draws afresh every epoch.",
    ),
]


@app.command("gold")
def gold(
    collection: CollectionName,
    output: Output,
    grade: Annotated[int, typer.Option(min=1, help="Positive from this grade on.")] = 1,
    negatives_from: Annotated[
        Literal["run", "random", "judged", "mixed"],
        typer.Option(help="The first stage's list, any documents, those judged 0, or all three."),
    ] = "run",
    negatives: NegativesCount = POOL,
    depth: Depth = 100,
    run: RunFile = None,
    ranking: RankingOption = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    qrels: QrelsBySplit = None,
    split: Split = None,
    sample: Sample = None,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Judged relevant is positive; what the first stage finds beside it, or others, negative.

    Example: tamis label gold -c my-docs --index my-index --split train -o gold.parquet
    """
    from tamis import label

    count = how_many(negatives)
    ranking = choose_ranking(ranking, run, "bm25")
    check_output(str(output), force)
    inputs = open_named(collection, index, queries, qrels, split, on_error, run, ranking)
    made = label.gold(
        inputs, grade=grade, negatives=negatives_from, negatives_per_query=count, depth=depth,
        sample=sample, seed=seed, threads=threads,
    )  # fmt: skip
    write(made, inputs, output, show, json, force)


@app.command("pseudo")
def pseudo(
    collection: CollectionName,
    output: Output,
    negatives: NegativesCount = "10",
    positives: Annotated[
        int, typer.Option(min=1, help="How many first documents are positive.")
    ] = 1,
    first: Annotated[
        int | None,
        typer.Option(min=2, help="Negatives come from this rank on; the one after the positives."),
    ] = None,
    depth: Depth = 100,
    margin: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="A negative scores this share below the first: 0.2."),
    ] = None,
    from_documents: Annotated[
        bool, typer.Option("--from-documents", help="No queries: make them from the documents.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="--from-documents: how many queries; 1000 if unset.")
    ] = None,
    made_of: Annotated[
        Literal["title", "sentence", "both"] | None,
        typer.Option(help="--from-documents: titles, sentences, or both (if unset)."),
    ] = None,
    passages: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="--from-documents: what a sentence is taken out of; words:150 if unset.",
        ),
    ] = None,
    run: RunFile = None,
    ranking: RankingOption = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    split: Split = None,
    sample: Sample = None,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """The first stage's first document is positive, others of its list negative: no judgements.

    Example: tamis label pseudo -c my-index --queries log.txt -o pseudo.parquet
    """
    from tamis import label

    drawn = how_many(negatives)
    ranking = choose_ranking(ranking, run, "bm25")
    check_output(str(output), force)
    margins = margin is not None
    if from_documents and (run or queries or split or sample or margins or first or positives > 1):
        raise typer.BadParameter(
            "--from-documents goes without --run, --queries, --split, --sample, --positives, "
            "--first and --margin"
        )
    if not from_documents and (count or made_of or passages):
        raise typer.BadParameter("--count, --made-of and --passages are for --from-documents")
    inputs = open_named(collection, index, queries, None, split, on_error, run, ranking)
    if from_documents:
        made = label.synthetic(
            inputs, count=count or 1000, made_of=made_of or "both",
            passages=passages or "words:150", negatives_per_query=drawn, depth=depth, seed=seed,
            threads=threads,
        )  # fmt: skip
    else:
        made = label.pseudo(
            inputs, negatives_per_query=drawn, positives=positives, first=first, depth=depth,
            margin=margin, sample=sample, seed=seed, threads=threads,
        )  # fmt: skip
    write(made, inputs, output, show, json, force)


app.command("weak")(weak)
app.command("transfer")(transfer)
app.command("teacher")(teacher)
