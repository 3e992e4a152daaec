"""`tamis fit`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import by_split, say, show, show_facts, show_json
from tamis.cli.dense import EmbeddingCacheOptions
from tamis.cli.options import (
    ADVANCED_PANEL,
    Force,
    GradientCheckpointing,
    Json,
    QrelsFiles,
    QueriesFile,
    ReadOptions,
    Seed,
    Threads,
    TimeLimit,
    TrainingDevice,
    Verbose,
    with_options,
)
from tamis.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.fitting.context import FitInputs
    from tamis.fitting.guard import BaselineComparison
    from tamis.fitting.plan import Plan
    from tamis.fitting.result import FitResult
    from tamis.fitting.sieve import Sieve


@with_options
def fit(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help="Documents, with queries and judgements if there are any; an index or a sieve "
            "works too.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="SIEVE", help="The sieve to write.")
    ],
    read: ReadOptions,
    cache: EmbeddingCacheOptions,
    device: TrainingDevice,
    max_time: TimeLimit = "30m",  # type: ignore[assignment]
    queries: QueriesFile = None,
    qrels: QrelsFiles = None,
    base: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="The base model: a folder, an installed package or a hub id; none for BM25 only.",
        ),
    ] = "all-MiniLM-L6-v2",
    measure: Annotated[
        str, typer.Option("-m", "--measure", help="The measure that systems are selected by.")
    ] = "RR@10",
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Results of your own retriever, to re-rank instead of ours."
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="A stronger model to distil into the base model."),
    ] = None,
    word_vectors: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="GloVe or fastText vectors, for alignment scores."),
    ] = None,
    depth: Annotated[
        int, typer.Option(metavar="N", min=1, help="Candidates to re-rank per query.")
    ] = 50,
    passages: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Score and encode documents in passages, such as words:150:75. Default: if they "
            "are long.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan with its time estimate, and stop.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a fit that was interrupted.")
    ] = False,
    verbose: Verbose = False,
    learning_curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve/--no-learning-curve",
            help="Also train on fewer judgements, to show what more would give.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = True,
    gradient_checkpointing: GradientCheckpointing = False,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Build the best ranker for your documents in the time you give, and test it against BM25.

    Example: tamis fit my-docs -o my.sieve --max-time 20m
    """
    from tamis.evaluation import parse_measure
    from tamis.fitting.job import run_fit
    from tamis.fitting.json_records import to_json
    from tamis.fitting.request import FitRequest, fit_split_of
    from tamis.text.passages import parse_spec

    request = FitRequest(
        collection=collection,
        out=output,
        base=None if base == "none" else base,
        measure=str(parse_measure(measure)),
        max_time=max_time or 0.0,
        user_run=None if candidates is None else str(candidates),
        teacher=teacher,
        word_vectors=word_vectors,
        queries=queries,
        qrels=by_split(qrels, fit_split_of) or {},
        depth=depth,
        passages=None if passages is None else str(parse_spec(passages)),
        learning_curve=learning_curve,
        seed=seed,
        threads=threads,
        device=device.device,
        dtype=device.dtype,
        gradient_checkpointing=gradient_checkpointing,
        on_error=read.on_error,
        format=read.format,
        columns=read.columns,
        command=shlex.join(["tamis", *sys.argv[1:]]),
        embedding_cache=cache.embedding_cache,
        embedding_cache_size=cache.max_bytes,
    )
    try:
        plan, sieve = run_fit(
            request, resume=resume, force=force, dry_run=dry_run, on_plan=show_plan
        )
    except KeyboardInterrupt:
        say("finished steps are kept: continue with --resume")
        raise
    if sieve is None:
        show_json("plan", to_json(plan)) if json else say("--dry-run: nothing was built")
        return
    show_json("fit", sieve.manifest) if json else show_sieve(sieve, verbose=verbose)


def show_plan(inputs: FitInputs, plan: Plan) -> None:
    """Print the data, and the plan with its time estimate."""
    from tamis.durable import duration
    from tamis.fitting.result import data_facts

    for key, value in data_facts(inputs).items():
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            value = ", ".join(f"{key.replace('_', ' ')} {n:,}" for key, n in value.items())
        say(f"  {name}: {value:,}" if isinstance(value, int) else f"  {name}: {value}")
    say(f"  base model: {inputs.base_name}")
    say("plan:")
    for step in plan.steps:
        time = duration(step.seconds) if step.planned else "no time"
        say(f"  {step.name:20} {step.what:64} {time:>12}")
    say(f"  {'total':85} {duration(plan.seconds):>12}")


def show_sieve(sieve: Sieve, *, verbose: bool = False) -> None:
    """What was found and selected, whether it was tested, what a query costs, and what comes next:
    at most twelve lines of 80 columns; with `verbose` the table of all systems first, and details.
    """
    from rich.text import Text

    from tamis.collection.describe import ByName
    from tamis.fitting.report import headline

    result = sieve.result
    if verbose:
        show(systems_table(result))
    show(Text(headline(result), "bold"))
    show_facts(ByName(_facts(sieve, verbose)))
    path = str(sieve.path)
    if not result.verified:
        judge = shlex.join(["tamis", "judge", path, *([] if sieve.queries else ["queries.txt"])])
        write = "" if sieve.queries else "write queries into queries.txt, one per line, and "
        more = " more" * bool(result.queries.train)
        count = f"{result.more_judged_queries_needed}{more}"
        say(f"for a test, {write}judge {count} queries: {judge}")
    if not sieve.pipeline.is_tested_retriever:
        if result.user_run and Path(result.user_run).exists() and sieve.pipeline.stage:
            files = result.user_run, "-c", str(sieve.path / "index"), "--model", path
            rerank = shlex.join(["tamis", "rerank", *files, "-o", f"{path}.reranked.parquet"])
            say(f"to re-rank your candidates, as tested: {rerank}")
        say("note: tamis search retrieves with BM25, not with your own retriever: not tested")
    more = " (all systems; also with --verbose)" if len(result.systems) > 1 and not verbose else ""
    say(f"report: {sieve.path / 'report.html'}{more}")
    say(f"next: {shlex.join(['tamis', 'search', path, 'some words'])}")


def _facts(sieve: Sieve, verbose: bool) -> dict[str, str]:
    """What was selected, and how it did in its test."""
    from tamis.pages.text_format import size_text

    result = sieve.result
    verified = "yes" if result.verified else "not yet" if result.provisional else "no"
    compared = len(result.systems)
    of = f", of {compared} systems" if compared > 1 else ""
    facts = {
        "selected": f"{result.selected}{of}",
        "pipeline": result.pipeline_in_words,
        "verified": f"{verified}: {result.reason}",
    }
    decision = result.decision
    if decision is not None:
        failed = f"{decision.test.system}, which failed, " if decision.fell_back else ""
        for comparison in decision.test.comparisons:
            if verbose or comparison.baseline in (result.baseline, result.base_system):
                name = f"{failed}against {comparison.baseline}"
                tests = len(decision.test.comparisons)
                facts[name] = _comparison(comparison, tests, verbose=verbose)
    answers = result.threshold_test
    if verbose and answers and result.calibration and result.calibration.threshold > 0:
        values = {"precision": answers.precision, "recall": answers.recall}
        texts = [f"{name} {value:.2f}" for name, value in values.items() if value is not None]
        if texts:
            facts["answer threshold"] = ", ".join(texts)
    cost = result.cost.milliseconds if result.cost else result.selected_system.milliseconds
    size = sum(file.stat().st_size for file in sieve.path.rglob("*") if file.is_file())
    per_query = "" if cost is None else f"{cost:.{1 + (cost < 1)}f} ms per query, "
    facts["cost"] = f"{per_query}{size_text(size)} on disk"
    return facts


def _comparison(comparison: BaselineComparison, num_tests: int, *, verbose: bool) -> str:
    """A difference on test queries, with its interval and the p-value of the paired test."""
    from tamis.pages.text_format import p_value as p_text

    interval, p_value = comparison.interval, comparison.p_value
    around = f", 95% interval {interval.low:+.4f} .. {interval.high:+.4f}" if interval else ""
    if verbose:
        around += " (not corrected)" if interval and num_tests > 1 else ""
        test = " (t-test)" if num_tests == 1 else f" (t-test, Holm for {num_tests} tests)"
    else:
        test = "" if num_tests == 1 else " (Holm)"
    p = f", p = {p_text(p_value)}{test}" if p_value is not None else ""
    return f"{comparison.difference:+.4f}{around}{p}"


def systems_table(result: FitResult) -> Table:
    """Every system, with its measure on held-out and on test queries."""

    table = plain_table()
    reason = "rejected because"
    heads = ("", f"{result.measure} held out", "test", "ms per query", "min of training", reason)
    for head in heads:
        right = head not in ("", reason)
        table.add_column(head, justify="right" if right else "left", no_wrap=right)
    for system in result.systems:
        values = [
            "" if value is None else f"{value:.4f}" for value in (system.held_out, system.test)
        ]
        cost = system.milliseconds
        cost_text = "" if cost is None else f"{cost:.{1 + (cost < 1)}f}"
        name = f"{system.name} *" if system.selected else system.name
        minutes, why = f"{system.training_minutes:g}", system.rejected_because
        style = "bold" if system.selected else ""
        table.add_row(name, *values, cost_text, minutes, why, style=style)
    return table
