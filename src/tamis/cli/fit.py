"""`tamis fit`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

    from tamis.fit.job import Fitting
    from tamis.fit.plan import Plan
    from tamis.fit.sieve import Sieve


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
        str, typer.Option(help="The model to start from: a folder, a package, a hub id, or none.")
    ] = "all-MiniLM-L6-v2",
    measure: Annotated[
        str, typer.Option("-m", "--measure", help="What models are chosen by.")
    ] = "RR@10",
    candidates: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Your own first stage's results, in place of ours."),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A stronger model, to learn its order from.")
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Word vectors (GloVe, fastText, …) to infuse."),
    ] = None,
    queries: QueriesFile = None,
    qrels: QrelsFiles = None,
    depth: Annotated[int, typer.Option(min=1, help="How many documents are re-ranked.")] = 50,
    curve: Annotated[
        bool, typer.Option("--curve/--no-curve", help="Measure what fewer judgements give.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Draws parts, folds and batches.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="All, unless told.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and how long it takes.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a fit that was stopped.")
    ] = False,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Build the best ranking of your documents that can be had here, and say if it beats BM25.

    Example: tamis fit my-docs -o my.sieve --max-time 20m
    """
    from tamis.evaluation import parse_measure
    from tamis.fit.job import Request
    from tamis.fit.job import fit as run

    parse_measure(measure)
    start = None if base == "none" else base
    request = Request(
        collection=collection, out=output, base=start, measure=measure, max_time=max_time,
        candidates=candidates, teacher=teacher, vectors=vectors,
        queries=queries, qrels=by_split(qrels) or {}, depth=depth, curve=curve,
        seed=seed, threads=threads, on_error=on_error, command=shlex.join(["tamis", *sys.argv[1:]]),
    )  # fmt: skip
    try:
        plan, sieve = run(
            request, resume=resume, force=force, dry_run=dry_run, said=say, shown=show_plan
        )
    except KeyboardInterrupt:
        say("what was done is kept: --resume goes on from there")
        raise
    if sieve is None:
        show_json(plan.record()) if json else say("nothing was done: --dry-run")
        return
    show_json(dict(sieve.note)) if json else show_sieve(sieve)


def show_plan(fitting: Fitting, plan: Plan) -> None:
    """What there is, and what will be done with it."""
    from tamis.durable import duration
    from tamis.fit.outcome import base_name, look

    for name, value in look(fitting).items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{what} {count:,}" for what, count in value.items())
        say(f"  {name}: {value:,}" if isinstance(value, int) else f"  {name}: {value}")
    say(f"  base: {base_name(fitting)}")
    say("plan:")
    for step in plan.steps:
        took = duration(step.seconds) if step.planned else "does not fit"
        say(f"  {step.name:15} {step.what:52} {took:>12}")
    say(f"  {'together':68} {duration(plan.seconds):>12}")


def show_sieve(sieve: Sieve) -> None:
    """The table of all candidates, what was chosen, whether it was tested, and what comes next."""
    note = sieve.note
    show(candidates_table(note))
    told = {
        "handed over": note["chosen"],
        "verified": f"{note['verified']}: {note['why']}",
    }
    guard = note.get("guard") or {}
    tested = (guard.get("choice") or {}).get("chosen", note["chosen"])
    whose = "" if tested == note["chosen"] else f"{tested}, which failed, "
    family = guard.get("verdict", {}).get("against", ())
    for each in family:
        told[f"{whose}against {each['name']}"] = _against(each, len(family))
    if note.get("threshold on test queries") and note["calibration"]["threshold"] > 0:
        found = note["threshold on test queries"]
        shown = [f"{name} {found[name]:.2f}" for name in ("precision", "recall")
                 if found[name] is not None]  # fmt: skip
        if shown:
            told["threshold for an answer"] = ", ".join(shown)
    show_facts(told)
    path = str(sieve.path)
    if note["verified"] == "no":
        judge = shlex.join(["tamis", "judge", path, *([] if sieve.queries else ["queries.txt"])])
        write = "" if sieve.queries else "write queries into queries.txt, one per line, and "
        say(f"to find out, {write}judge about 50 queries: {judge}")
    if not sieve.is_own and sieve.pipeline.model:
        files = note["candidates_run"], "-c", str(sieve.path / "index"), "--model", path
        rerank = shlex.join(["tamis", "rerank", *files, "-o", f"{path}.reranked.parquet"])
        say(f"tested on your candidates: {rerank}")
    if not sieve.is_own:
        say("note: tamis search finds with BM25 in place of your own first stage: not tested")
    say(f"report: {sieve.path / 'report.html'}")
    say(f"next: {shlex.join(['tamis', 'search', path, 'some words'])}")


def _against(each: Mapping[str, Any], tests: int) -> str:
    """A difference on test queries, with its interval and the p-value of the paired test."""
    from tamis.evaluation.comparison_tables import shown_p

    around = each["interval"]
    between = f", 95% interval {around['low']:+.4f} .. {around['high']:+.4f}" if around else ""
    how = "t-test" if tests == 1 else f"t-test, Holm for {tests} tests"
    p = f", p {shown_p(each['p'])} ({how})" if each["p"] is not None else ""
    return f"{each['difference']:+.4f}{between}{p}"


def candidates_table(note: Mapping[str, Any]) -> Table:
    """Every way to rank, with its measure on held-out and on test queries."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heads = "", note["measure"] + " held out", "test", "ms a query", "min trained", "why not"
    for head in heads:
        right = head not in ("", "why not")
        table.add_column(head, justify="right" if right else "left", no_wrap=right)
    for row in note["candidates"]:
        cells = [row["held_out"], row["tested"]]
        shown = ["" if cell is None else f"{cell:.4f}" for cell in cells]
        cost = (
            ""
            if row["milliseconds"] is None
            else f"{row['milliseconds']:.{1 + (row['milliseconds'] < 1)}f}"
        )
        name = f"{row['name']} *" if row["chosen"] else row["name"]
        style = "bold" if row["chosen"] else ""
        table.add_row(name, *shown, cost, f"{row['minutes']:g}", row["refused"], style=style)
    return table
