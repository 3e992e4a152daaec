"""`tamis rerank`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import (
    STDIO,
    say,
    say_faults,
    show_facts,
    show_json,
    warn_of_test_split,
    writing_to,
)
from tamis.cli.options import (
    ADVANCED_PANEL,
    DeviceOptions,
    Force,
    Json,
    QueriesFile,
    ReadOptions,
    Seed,
    Threads,
    query_time,
    with_options,
)
from tamis.cli.rerank_inputs import (
    check_cache,
    check_output,
    open_inputs,
    score_cache,
)
from tamis.cli.sieves import is_sieve, settings_of_sieve

if TYPE_CHECKING:
    from tamis.pipeline.rerank import Rerank
    from tamis.types import Run

BERT_3S = "bert-3s"


@with_options
def rerank(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The run to re-rank, or a re-ranking table; - is stdin."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="A model folder, a sieve, an installed model package or a hub id; also "
            "alignment:WORD_VECTORS, or lexical over an index.",
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="RUN", help="The run to write; - is stdout.")
    ],
    read: ReadOptions,
    where: DeviceOptions,
    collection: Annotated[
        str | None,
        typer.Option(
            "-c",
            "--collection",
            metavar="COLLECTION",
            help="The documents: a collection or an index. Default: those of a re-ranking table.",
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Documents to re-rank per query. Default: 100, or the sieve's depth; all of a "
            "re-ranking table.",
        ),
    ] = None,
    queries: QueriesFile = None,
    passages: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Score passages: sentences:10:5, words:150:75, … Default: whole documents.",
        ),
    ] = None,
    aggregate: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="Document score from passage scores: first, max, sum, mean, top:3, "
            "bert-3s:α:w2:w3, or bert-3s with --tune.",
        ),
    ] = "max",
    fusion_weight: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            min=0,
            max=1,
            help="Fuse: W times the model's score plus 1 - W times the run's, both min-max "
            "normalised per query.",
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
    backend: Annotated[
        Literal["fast", "transformers", "onnx", "onnx-int8"] | None,
        typer.Option(
            help="What runs the model. Default: fast where it has the architecture, else "
            "transformers, or the ONNX file of tamis export.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="QRELS",
            help="Choose the weights of bert-3s on these judgements.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            "-m",
            "--measure",
            help="The measure that --tune maximises.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = "AP",
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to cache scores in. Default: OUTPUT.scores.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Do not cache scores.", rich_help_panel=ADVANCED_PANEL),
    ] = False,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Re-rank the top documents of every query with a model.

    Example: tamis rerank bm25.parquet -c docs.jsonl --model all-MiniLM-L6-v2 -o reranked.parquet
    """
    from tamis.collection.runs import write_run
    from tamis.models import open_ranker
    from tamis.pipeline.rerank import rerank as stage_of

    _check_use(aggregate, tune, cache, no_cache, latency, json and output == STDIO)
    check_cache(cache, output, run)
    check_output(output, force)
    documents, candidates, is_table, faults = open_inputs(run, collection, queries, read)
    if is_table and depth is None:  # the order of a table says nothing: all are re-ranked
        depth = max(int(candidates.sizes().max(initial=1)), 1)
    column = None
    if is_sieve(model):
        sieve = settings_of_sieve(model, candidates, fusion_weight)
        model, passages, depth = str(sieve.model), passages or sieve.passages, depth or sieve.depth
        fusion_weight, column = sieve.weight, sieve.column
    ranker = open_ranker(
        model, threads=threads, documents=documents, backend=backend, **where.of(model)
    )
    cache_file = None if no_cache or latency else cache or _default_cache(output)
    with score_cache(cache_file, ranker, always=tune is not None) as scores:
        stage = stage_of(
            ranker.scorer,
            documents,
            passages=passages,
            aggregate=f"{BERT_3S}:0:0:0" if aggregate == BERT_3S else aggregate,
            depth=depth or 100,
            interpolate=fusion_weight,
            cache=scores,
            latency=latency,
            missing=read.on_error,
            model=ranker.name,
            seed=seed,
            fuse_with_column=column,
        )
        if tune:
            stage = _tuned(stage, candidates, tune, measure)
        result = stage.rerank(candidates)
    say_faults(faults)
    with writing_to(output) as out:
        for note in write_run(result.run, out, force=force, spec=result.spec):
            say(f"note: {note}")
    if json:
        show_json("rerank", result.facts())
        return
    with redirect_stdout(sys.stderr if output == STDIO else sys.stdout):
        show_facts(result.facts())


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
            "without judgements give the weights: bert-3s:0.4:0.8:0.3"
        )
    if tune and latency:
        raise typer.BadParameter("--tune goes without --latency: give the weights it selected")
    if cache and (no_cache or latency):
        raise typer.BadParameter("--cache goes neither with --no-cache nor with --latency")
    if two_on_stdout:
        raise typer.BadParameter("--json prints on stdout: write the run to a file")


def _default_cache(output: str) -> Path | None:
    return None if output == STDIO else Path(f"{output}.scores")


def _tuned(stage: Rerank, run: Run, qrels: str, measure: str) -> Rerank:
    from tamis.collection.judgements import read_qrels
    from tamis.pipeline.bert3s_grid import tune_three_sentences

    warn_of_test_split(qrels)
    tuned = tune_three_sentences(stage, run, read_qrels(qrels), measure)
    say(f"selected: {tuned.best_point}, {measure} {tuned.values[tuned.best_point]:.4f}")
    say("note: measured on the queries it was tuned on; test it on others")
    return tuned.stage
