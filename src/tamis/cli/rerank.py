"""`tamis rerank`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
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
    QueriesFile,
    TextColumn,
    TitleColumn,
    query_time,
    say,
    say_faults,
    show_facts,
    show_json,
    warn_of_test_split,
    writing_to,
)
from tamis.cli.rerank_inputs import (
    check_cache,
    check_output,
    open_documents,
    read_run_file,
    score_cache,
    with_texts,
)
from tamis.cli.sieves import is_sieve, settings_of_sieve

if TYPE_CHECKING:
    from tamis.pipeline.rerank import Rerank
    from tamis.types import Run

BERT_3S = "bert-3s"


def rerank(
    run: Annotated[str, typer.Argument(metavar="RUN", help="What to re-rank; - is stdin.")],
    collection: Annotated[
        str, typer.Option("-c", "--collection", help="Where the documents are; an index will do.")
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="A model folder, a sieve, an installed model package or a hub id; "
            "alignment:VECTORS, or lexical over an index.",
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="RUN", help="The new run; - is stdout.")
    ],
    passages: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="What is scored at a time: whole (default), sentences:10:5, words:150:75, …",
        ),
    ] = None,
    aggregate: Annotated[
        str,
        typer.Option(
            help="How passages' scores become the document's: first, max, sum, mean, top:3, "
            "bert-3s:α:w2:w3, or bert-3s with --tune."
        ),
    ] = "max",
    depth: Annotated[
        int | None,
        typer.Option(min=1, help="How many of each query to re-rank; 100, or what a sieve says."),
    ] = None,
    interpolate: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            min=0,
            max=1,
            help="W times this score and 1 - W times the first, each put on 0 to 1 in a query.",
        ),
    ] = None,
    latency: Annotated[
        float | None,
        typer.Option(
            parser=query_time,
            metavar="TIME",
            help="Re-rank as deep as this time per query allows: 200ms; 2 means seconds.",
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="All cores if unset.")] = None,
    backend: Annotated[
        Literal["torch", "onnx", "onnx-int8"] | None,
        typer.Option(help="What runs the model: torch if unset, or what tamis export wrote."),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(metavar="QRELS", help="Choose the numbers of bert-3s on these judgements."),
    ] = None,
    measure: Annotated[str, typer.Option("-m", "--measure", help="What --tune tunes for.")] = "AP",
    queries: QueriesFile = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where scores are kept; OUTPUT.scores if unset."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no scores.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of passages that are sampled.")] = 0,
    format: Format = None,
    id: IdColumn = None,
    text: TextColumn = None,
    title: TitleColumn = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Score the first documents of every query anew with a model, and re-rank them.

    Example: tamis rerank bm25.parquet -c docs.jsonl --model all-MiniLM-L6-v2 -o reranked.parquet
    """
    from tamis.collection._records import Columns
    from tamis.collection.runs import write_run
    from tamis.models import open_ranker
    from tamis.pipeline.rerank import rerank as stage_of

    _check_use(aggregate, tune, cache, no_cache, latency, json and output == STDIO)
    check_cache(cache, output, run)
    check_output(output, force)
    skip = on_error == "skip"
    columns = Columns(id=id, text=text, title=title)
    found, texts, faults = open_documents(collection, format, columns, skip)
    read = with_texts(read_run_file(run, skip), queries, texts, skip)
    column = None
    if is_sieve(model):
        how = settings_of_sieve(model, read, interpolate)
        model, passages, depth = str(how.model), passages or how.passages, depth or how.depth
        interpolate, column = how.weight, how.column
    ranker = open_ranker(model, threads=threads, documents=found, backend=backend)
    kept = None if no_cache or latency else cache or _beside(output)
    with score_cache(kept, ranker, always=tune is not None) as scores:
        stage = stage_of(
            ranker.scorer,
            found,
            passages=passages,
            aggregate=f"{BERT_3S}:0:0:0" if aggregate == BERT_3S else aggregate,
            depth=depth or 100,
            interpolate=interpolate,
            cache=scores,
            latency=latency,
            missing=on_error,
            model=ranker.name,
            seed=seed,
            fuse_with_column=column,
        )
        if tune:
            stage = _tuned(stage, read, tune, measure)
        done = stage.rerank(read)
    say_faults(faults)
    with writing_to(output) as out:
        for note in write_run(done.run, out, force=force, spec=done.spec):
            say(f"note: {note}")
    if json:
        show_json(done.facts())
        return
    with redirect_stdout(sys.stderr if output == STDIO else sys.stdout):
        show_facts(done.facts())


def _check_use(
    aggregate: str,
    tune: str | None,
    cache: Path | None,
    no_cache: bool,
    latency: float | None,
    two_on_stdout: bool,
) -> None:
    if (aggregate == BERT_3S) != (tune is not None):
        raise typer.BadParameter(
            "--tune QRELS and --aggregate bert-3s go together; "
            "without judgements give the numbers: bert-3s:0.4:0.8:0.3"
        )
    if tune and latency:
        raise typer.BadParameter("--tune goes without --latency: give the numbers it chose")
    if cache and (no_cache or latency):
        raise typer.BadParameter("--cache goes neither with --no-cache nor with --latency")
    if two_on_stdout:
        raise typer.BadParameter("--json prints on stdout: write the run to a file")


def _beside(output: str) -> Path | None:
    return None if output == STDIO else Path(f"{output}.scores")


def _tuned(stage: Rerank, run: Run, qrels: str, measure: str) -> Rerank:
    from tamis.collection.judgements import read_qrels
    from tamis.pipeline.bert3s_grid import tune_three_sentences

    warn_of_test_split(qrels)
    tuned = tune_three_sentences(stage, run, read_qrels(qrels), measure)
    say(f"chosen: {tuned.best_point}, {measure} {tuned.values[tuned.best_point]:.4f}")
    say("note: that is measured on the judgements it was chosen on; test on others")
    return tuned.stage
