"""`tamis fit`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import (
    Force,
    Json,
    OnError,
    QrelsFiles,
    QueriesFile,
    by_split,
    job_time,
    say,
    show,
    show_facts,
    show_json,
)

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.fitting.context import FitInputs
    from tamis.fitting.guard import BaselineComparison
    from tamis.fitting.plan import Plan
    from tamis.fitting.result import FitResult
    from tamis.fitting.sieve import Sieve


def fit(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help="Documents with queries and judgements, if any; or an index, or a sieve.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The sieve to write.")],
    max_time: Annotated[
        float,
        typer.Option(
            parser=job_time, metavar="TIME", help="Time limit: 20m, 2h; 20 means minutes."
        ),
    ] = "30m",  # type: ignore[assignment]
    base: Annotated[
        str,
        typer.Option(help="The base model: a folder, an installed package, a hub id, or none."),
    ] = "all-MiniLM-L6-v2",
    measure: Annotated[
        str, typer.Option("-m", "--measure", help="The measure that systems are selected by.")
    ] = "RR@10",
    candidates: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Results of your own retriever, to re-rank these."),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="A stronger model to distil into the base model."),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Word vectors (GloVe, fastText, …) to infuse."),
    ] = None,
    queries: QueriesFile = None,
    qrels: QrelsFiles = None,
    depth: Annotated[int, typer.Option(min=1, help="How many documents are re-ranked.")] = 50,
    curve: Annotated[
        bool,
        typer.Option("--curve/--no-curve", help="Measure what fewer judgements give."),
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of splits, folds and batches.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads. Default: all cores.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and its time, and stop.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a fit that was stopped.")
    ] = False,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Build the best ranker for your documents in the time you give, and test it against BM25.

    Example: tamis fit my-docs -o my.sieve --max-time 20m
    """
    from tamis.evaluation import parse_measure
    from tamis.fitting.job import run_fit
    from tamis.fitting.json_records import to_json
    from tamis.fitting.request import FitRequest

    request = FitRequest(
        collection=collection,
        out=output,
        base=None if base == "none" else base,
        measure=str(parse_measure(measure)),
        max_time=max_time,
        user_run=None if candidates is None else str(candidates),
        teacher=teacher,
        word_vectors=vectors,
        queries=queries,
        qrels=by_split(qrels) or {},
        depth=depth,
        learning_curve=curve,
        seed=seed,
        threads=threads,
        on_error=on_error,
        command=shlex.join(["tamis", *sys.argv[1:]]),
    )
    try:
        plan, sieve = run_fit(
            request, resume=resume, force=force, dry_run=dry_run, on_plan=show_plan
        )
    except KeyboardInterrupt:
        say("what was done is kept: --resume continues from there")
        raise
    if sieve is None:
        show_json(to_json(plan)) if json else say("nothing was done: --dry-run")
        return
    show_json(dict(sieve.manifest)) if json else show_sieve(sieve)


def show_plan(inputs: FitInputs, plan: Plan) -> None:
    """What there is, and what will be done with it."""
    from tamis.durable import duration
    from tamis.fitting.result import data_facts

    for key, value in data_facts(inputs).items():
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            value = ", ".join(f"{what.replace('_', ' ')} {n:,}" for what, n in value.items())
        say(f"  {name}: {value:,}" if isinstance(value, int) else f"  {name}: {value}")
    say(f"  base model: {inputs.base_name}")
    say("plan:")
    for step in plan.steps:
        took = duration(step.seconds) if step.planned else "does not fit"
        say(f"  {step.name:20} {step.what:64} {took:>12}")
    say(f"  {'together':85} {duration(plan.seconds):>12}")


def show_sieve(sieve: Sieve) -> None:
    """The table of all systems, what was selected, whether it was tested, and what comes next."""
    result = sieve.result
    show(systems_table(result))
    show_facts(_facts(result))
    path = str(sieve.path)
    if not result.verified:
        judge = shlex.join(["tamis", "judge", path, *([] if sieve.queries else ["queries.txt"])])
        write = "" if sieve.queries else "write queries into queries.txt, one per line, and "
        say(f"to find out, {write}judge about 50 queries: {judge}")
    if not sieve.pipeline.is_tested_retriever:
        if result.user_run and Path(result.user_run).exists() and sieve.pipeline.stage:
            files = result.user_run, "-c", str(sieve.path / "index"), "--model", path
            rerank = shlex.join(["tamis", "rerank", *files, "-o", f"{path}.reranked.parquet"])
            say(f"tested on your candidates: {rerank}")
        say("note: tamis search retrieves by BM25 in place of your own retriever: not tested")
    say(f"report: {sieve.path / 'report.html'}")
    say(f"next: {shlex.join(['tamis', 'search', path, 'some words'])}")


def _facts(result: FitResult) -> dict[str, str]:
    """What was selected, and how it did in its test."""
    word = "yes" if result.verified else "no"
    facts = {"selected": result.selected, "verified": f"{word}: {result.reason}"}
    decision = result.decision
    if decision is not None:
        failed = f"{decision.test.system}, which failed, " if decision.fell_back else ""
        for one in decision.test.comparisons:
            name = f"{failed}against {one.baseline}"
            facts[name] = _comparison(one, len(decision.test.comparisons))
    answers = result.threshold_test
    if answers and result.calibration and result.calibration.threshold > 0:
        values = {"precision": answers.precision, "recall": answers.recall}
        shown = [f"{name} {value:.2f}" for name, value in values.items() if value is not None]
        if shown:
            facts["threshold for an answer"] = ", ".join(shown)
    return facts


def _comparison(one: BaselineComparison, tests: int) -> str:
    """A difference on test queries, with its interval and the p-value of the paired test."""
    from tamis.pages.wording import p_value

    around = one.interval
    between = f", 95% interval {around.low:+.4f} .. {around.high:+.4f}" if around else ""
    how = "t-test" if tests == 1 else f"t-test, Holm for {tests} tests"
    p = f", p {p_value(one.p_value)} ({how})" if one.p_value is not None else ""
    return f"{one.difference:+.4f}{between}{p}"


def systems_table(result: FitResult) -> Table:
    """Every system, with its measure on held-out and on test queries."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
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
        shown = "" if cost is None else f"{cost:.{1 + (cost < 1)}f}"
        name = f"{system.name} *" if system.selected else system.name
        minutes, why = f"{system.training_minutes:g}", system.rejected_because
        style = "bold" if system.selected else ""
        table.add_row(name, *values, shown, minutes, why, style=style)
    return table
