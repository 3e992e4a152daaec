"""`tamis label`: examples to train on, from judgements, from a first stage, from scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import Force, Json, OnError, QueriesFile, say
from tamis.cli.label_queries import (
    choose_ranking,
    document_ids,
    end,
    first_stage,
    judgements,
    open_to_label,
    queries_to_label,
    searchable,
    source_of,
)
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

if TYPE_CHECKING:
    from tamis.cli.label_inputs import Given
    from tamis.labels.examples import Examples

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
    from tamis.labels.gold import gold as label

    count = how_many(negatives)
    ranking = choose_ranking(ranking, run, "bm25")
    check_output(str(output), force)
    given = open_to_label(collection, index, queries, qrels, split, on_error, ranking)
    judged = judgements(given)
    asked = queries_to_label(given, run, judged.queries)
    found = first_stage(given, asked, run, depth, threads) if _needs_run(negatives_from) else None
    made = label(
        judged, asked, found, document_ids(given), grade=grade, negatives=negatives_from,
        negatives_per_query=count, depth=depth, seed=seed, missing=on_error,
    )  # fmt: skip
    if made.is_role("positive").all():
        say("warning: there are no negatives: try others, --negatives-from run, random or mixed")
    end(made, given, output, run, sample, seed, show, json, force, searched=found is not None)


def _needs_run(negatives_from: str) -> bool:
    return negatives_from in ("run", "mixed")


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
    from tamis.labels.pseudo import pseudo as label

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
    given = open_to_label(collection, index, queries, None, split, on_error, ranking)
    if from_documents:
        made = _from_documents(
            given, count or 1000, made_of or "both", passages or "words:150", drawn, depth, seed,
            threads,
        )  # fmt: skip
    else:
        asked = queries_to_label(given, run, log=True)
        found = first_stage(given, asked, run, depth, threads)
        made = label(
            found, negatives_per_query=drawn, positives=positives, first=first, depth=depth,
            margin=margin, seed=seed,
        )  # fmt: skip
    end(made, given, output, run, sample, seed, show, json, force)


def _from_documents(
    given: Given,
    count: int,
    made_of: Literal["title", "sentence", "both"],
    passages: str,
    negatives: int | None,
    depth: int,
    seed: int,
    threads: int | None,
) -> Examples:
    from tamis.collection.notes import counted
    from tamis.labels.held_out import without_leaks
    from tamis.labels.made_queries import MADE
    from tamis.labels.synthetic import synthetic
    from tamis.pipeline.library import library
    from tamis.types import Ids

    opened = searchable(given)
    made = synthetic(
        opened,
        source_of(given, threads),
        count=count,
        made_of=MADE if made_of == "both" else (made_of,),
        passages=passages,
        negatives_per_query=negatives,
        depth=depth,
        seed=seed,
    )
    origins = Ids.of({origin.doc_id for origin in made.origins.values()})
    with library(opened, made.docs.union(origins)) as books:
        made, leaks = without_leaks(made, given.held_out, books)
    if len(leaks):
        say(f"left out because of the test queries they repeat: {counted(len(leaks), 'query')}")
    if made.groups < count:
        found = counted(made.groups, "query")
        say(f"note: {found} instead of {count:,}: no more, or none with a negative")
    return made


app.command("weak")(weak)
app.command("transfer")(transfer)
app.command("teacher")(teacher)
