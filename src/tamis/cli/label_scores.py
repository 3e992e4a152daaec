"""`tamis label weak`, `tamis label transfer` and `tamis label teacher`: labels that are scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tamis.cli.common import Force, Json, OnError, QueriesFile
from tamis.cli.label_inputs import (
    RankingName,
    choose_ranking,
    open_named,
    refuse_service_options,
    service_key,
    write,
)
from tamis.cli.label_show import Show
from tamis.cli.rerank_inputs import check_output

CollectionName = Annotated[
    str,
    typer.Option(
        "-c", "--collection", help="Where documents, queries and judgements are; or an index."
    ),
]
Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="EXAMPLES", help="The examples, a Parquet file.")
]
RunFile = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="The candidates; searched for if unset."),
]
RankingOption = Annotated[
    RankingName | None,
    typer.Option(help="Search for candidates by BM25 (default) or by query likelihood."),
]
IndexFolder = Annotated[
    Path | None,
    typer.Option("--index", metavar="INDEX", help="Where to search; not if -c is an index."),
]
QrelsBySplit = Annotated[
    list[str] | None,
    typer.Option(
        "--qrels", metavar="[SPLIT=]FILE", help="Judgements in place of the collection's."
    ),
]
Split = Annotated[
    str | None, typer.Option("--split", help="Label the queries that this split has judged.")
]
Depth = Annotated[int, typer.Option("--depth", min=1, help="How many candidates a query.")]
Passages = Annotated[
    str | None,
    typer.Option("--passages", metavar="SPEC", help="Label passages: words:100, words:150:75, …"),
]
Sample = Annotated[
    int | None, typer.Option("--sample", min=1, help="Label so many queries only, seeded.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of whatever is drawn.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="All cores if unset; of a service, requests at once."),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FILE", help="Where scores are kept; OUTPUT.scores if unset."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep no scores.")]
ServiceModel = Annotated[
    str, typer.Option("--service-model", metavar="NAME", help="The model a service is asked for.")
]
KeyVariable = Annotated[
    str | None,
    typer.Option(
        "--key-variable", metavar="NAME", help="The environment variable with a service's key."
    ),
]


def weak(
    collection: CollectionName,
    output: Output,
    model: Annotated[
        str,
        typer.Option(
            "--model", help="What scores: lexical (BM25 over an index), alignment:VECTORS, a model."
        ),
    ] = "lexical",
    k1: Annotated[float, typer.Option(help="k1 of lexical; Lucene's own is 1.2.")] = 1.2,
    b: Annotated[float, typer.Option(help="b of lexical; Lucene's own is 0.75.")] = 0.75,
    run: RunFile = None,
    ranking: RankingOption = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    qrels: QrelsBySplit = None,
    split: Split = None,
    depth: Depth = 100,
    passages: Passages = None,
    sample: Sample = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Label candidates with an unsupervised score, put on 0 to 5 within each query.

    Example: tamis label weak -c my-index --queries log.txt --model lexical -o weak.parquet
    """
    from tamis import label

    ranking = choose_ranking(ranking, run, "bm25")
    check_output(str(output), force)
    file = _cache_file(output, cache, no_cache)
    inputs = open_named(collection, index, queries, qrels, split, on_error, run, ranking)
    made = label.weak(
        inputs, model=model, k1=k1, b=b, depth=depth, passages=passages or "whole",
        sample=sample, cache=file, seed=seed, threads=threads,
    )  # fmt: skip
    write(made, inputs, output, show, json, force)


def teacher(
    collection: CollectionName,
    output: Output,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "--teacher",
            help="A model folder, a hub id, or the address of a service: https://HOST/v2/rerank.",
        ),
    ],
    service_model: ServiceModel = "",
    key_variable: KeyVariable = None,
    run: RunFile = None,
    ranking: RankingOption = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    qrels: QrelsBySplit = None,
    split: Split = None,
    depth: Depth = 100,
    passages: Passages = None,
    sample: Sample = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Label candidates with the scores of a strong model, for a small one to learn.

    Example: tamis label teacher -c my-index --run bm25.parquet --model strong -o teacher.parquet
    """
    from tamis import label

    ranking = choose_ranking(ranking, run, "bm25")
    check_output(str(output), force)
    refuse_service_options(model, service_model, key_variable)
    file, key = _cache_file(output, cache, no_cache), service_key(key_variable)
    inputs = open_named(collection, index, queries, qrels, split, on_error, run, ranking)
    made = label.teacher(
        inputs, model=model, service_model=service_model, key=key, depth=depth,
        passages=passages or "whole", sample=sample, cache=file, seed=seed, threads=threads,
    )  # fmt: skip
    write(made, inputs, output, show, json, force)


def transfer(
    collection: CollectionName,
    output: Output,
    method: Annotated[
        Literal["qa-docrank", "doc-labelled"],
        typer.Option(help="Ask a teacher which passages are relevant, or take all."),
    ] = "qa-docrank",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "--teacher", help="The teacher of qa-docrank: a model or a service."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Relevant is what scores above; 0.5 for a teacher of classes."),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="EXAMPLES", help="Choose the threshold on gold examples of its own domain."
        ),
    ] = None,
    calibrate_on: Annotated[
        str | None,
        typer.Option(metavar="COLLECTION", help="What those examples are of; -c if unset."),
    ] = None,
    keep_best: Annotated[
        bool,
        typer.Option("--keep-best", help="Keep the best passage where none is called relevant."),
    ] = False,
    negatives_from: Annotated[
        Literal["nonrelevant", "refused", "both"],
        typer.Option(help="Other documents' passages, passages the teacher refused, or both."),
    ] = "both",
    grade: Annotated[int, typer.Option(min=1, help="Relevant from this grade on.")] = 1,
    service_model: ServiceModel = "",
    key_variable: KeyVariable = None,
    run: RunFile = None,
    ranking: Annotated[
        RankingName | None,
        typer.Option(help="Search for candidates by query likelihood (default) or by BM25."),
    ] = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    qrels: QrelsBySplit = None,
    split: Split = None,
    depth: Depth = 100,
    passages: Passages = None,
    sample: Sample = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Carry documents' judgements to their passages; test queries are refused.

    Example: tamis label transfer -c docs --index my-index --teacher strong -o passages.parquet
    """
    from tamis import label

    _check_transfer(method, model, threshold, calibrate, calibrate_on)
    ranking = choose_ranking(ranking, run, "ql")
    check_output(str(output), force)
    refuse_service_options(model or "", service_model, key_variable)
    file, key = _cache_file(output, cache, no_cache), service_key(key_variable)
    inputs = open_named(collection, index, queries, qrels, split, on_error, run, ranking)
    made = label.transfer(
        inputs, model=model, service_model=service_model, key=key, threshold=threshold,
        calibrate_with=calibrate, calibrate_on=calibrate_on, keep_best=keep_best,
        negatives_from=negatives_from, grade=grade, depth=depth, passages=passages,
        sample=sample, cache=file, seed=seed, threads=threads,
    )  # fmt: skip
    write(made, inputs, output, show, json, force)


def _check_transfer(
    method: str,
    model: str | None,
    threshold: float | None,
    calibrate: Path | None,
    calibrate_on: str | None,
) -> None:
    if method == "doc-labelled" and (model or calibrate or threshold is not None):
        raise typer.BadParameter("doc-labelled has no teacher: leave --teacher and threshold out")
    if method == "qa-docrank" and not model:
        raise typer.BadParameter("qa-docrank needs a --teacher; --method doc-labelled has none")
    if calibrate and threshold is not None:
        raise typer.BadParameter("--threshold and --calibrate are two ways to say the same")
    if calibrate_on and not calibrate:
        raise typer.BadParameter("--calibrate-on goes with --calibrate")


def _cache_file(output: Path, cache: Path | None, no_cache: bool) -> Path | None:
    if cache and no_cache:
        raise typer.BadParameter("--cache and --no-cache contradict each other")
    return None if no_cache else cache or Path(f"{output}.scores")
