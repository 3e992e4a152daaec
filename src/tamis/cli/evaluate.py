"""`tamis evaluate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import STDIO, Force, Json, OnError, reading, say, show, show_json, writing_to
from tamis.errors import InputError, command
from tamis.terminal import visible

if TYPE_CHECKING:
    from tamis.collection.base import Faults
    from tamis.evaluation import Evaluation
    from tamis.types import Queries, Run

MEASURES = ("nDCG@10", "AP", "RR@10", "R@1000")


def evaluate(
    qrels: Annotated[str, typer.Argument(help="Judgements: TREC, BEIR or Parquet; - is stdin.")],
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs: TREC or Parquet.")],
    measure: Annotated[
        list[str] | None,
        typer.Option("-m", "--measure", help="Such as nDCG@10, AP(rel=2), P@30; repeatable."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="RUN", help="Compare every other run with this one.")
    ] = None,
    per_query: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Every query's values: .tsv, .csv or .jsonl; - is stdout."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="REPORT", help="Write a report to look at in a browser.")
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option("-c", "--collection", help="Where the report takes the queries' texts from."),
    ] = None,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="Add overlap and rank correlation of the runs.")
    ] = False,
    fail_if_worse: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL", help="Exit 1 if a run is significantly below the baseline at LEVEL."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the randomisation test and bootstrap.")] = 0,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    json: Json = False,
    on_error: OnError = "raise",
    force: Force = False,
) -> None:
    """Measure runs against judgements; with a baseline, test the differences.

    Example: tamis evaluate qrels.txt bm25.trec mine.trec -m nDCG@10 -m AP --baseline bm25.trec
    """
    from tamis import evaluation as ev
    from tamis.collection.base import Faults
    from tamis.collection.judgements import read_qrels
    from tamis.collection.loss_notes import counted
    from tamis.collection.querylog import refuse_line_numbers
    from tamis.evaluation.report import write_report

    if json + latex + markdown + (per_query == STDIO) > 1:
        raise typer.BadParameter("choose one of --json, --latex, --markdown and --per-query -")
    if fail_if_worse is not None and not 0 < fail_if_worse < 1:
        raise typer.BadParameter(f"{fail_if_worse:g} is no level; 0.05 is usual")
    if fail_if_worse is not None and baseline is None:
        raise typer.BadParameter("--fail-if-worse needs a --baseline")
    faults = Faults(skip=on_error == "skip")
    _refuse_swapped(qrels, runs)
    with reading(qrels) as path:
        judged = read_qrels(path, faults)
    read = _runs([*runs] if baseline is None else [baseline, *runs], faults)
    first = None if baseline is None else next(iter(read))
    if first is not None and len(read) < 2:
        raise InputError("only the baseline to evaluate", hint="name another run to compare")
    for run in read.values():
        refuse_line_numbers(run.queries.ids, {qrels: judged}, {qrels: qrels})
    level = 0.05 if fail_if_worse is None else fail_if_worse
    done = ev.evaluate(judged, read, measure or MEASURES)
    compared = [] if first is None else ev.compare(done, first, seed=seed)
    agreed = ev.agreements(read) if agreement else []
    further = [ev.comparison_table(compared)] if compared else []
    further += [ev.agreement_table(agreed)] if agreed else []
    if json:
        show_json({**ev.as_json(done, compared, level), "agreement": agreed})
    elif latex:
        tables = [ev.latex(done, compared, level), *[one.latex() for one in further]]
        print(visible("\n".join(tables)))
    elif markdown:
        tables = [ev.markdown(done, compared, level), *[one.markdown() for one in further]]
        print(visible("\n".join(tables)))
    elif per_query != STDIO:  # else stdout is for the values
        show(ev.rich_table(done, compared, level), *ev.footnotes(done, compared, level))
        show(*[one.rich() for one in further])
    if faults.count:
        say(f"warning: {counted(faults.count, 'bad line')} skipped, first: {faults.first[0]}")
    if per_query is not None:
        with writing_to(per_query) as out:
            _write_per_query(done, per_query, out, force)
    if html is not None:
        called = command(*sys.argv[1:])
        write_report(
            html,
            done,
            compared,
            qrels=judged,
            runs=read,
            queries=_queries(collection),
            baseline=first,
            level=level,
            command=called,
            force=force,
        )
        say(f"report: {html}")
    worse = ev.fails(compared, level) if fail_if_worse is not None else []
    for one in worse:
        say(f"worse: {one.run} is below {one.baseline} in {one.measure} by {-one.difference:.4f}")
    if worse:
        raise typer.Exit(1)


def _refuse_swapped(qrels: str, runs: list[str]) -> None:
    """Refuse a run in place of the judgements, where the judgements are in place of a run."""
    judgements = [name for name in runs if "qrels" in _contents(name)]
    if judgements and "run" in _contents(qrels):
        others = [name for name in runs if name != judgements[0]]
        raise InputError(
            f"{qrels} is a run, and {judgements[0]} holds judgements",
            hint=f"the judgements come first: {command('evaluate', judgements[0], qrels, *others)}",
        )


def _contents(name: str) -> tuple[str, ...]:
    """What a file or folder holds; nothing where there is none, or where it cannot be told."""
    from tamis.collection.detection import detect_if_possible
    from tamis.collection.formats import contents_of

    return contents_of(detect_if_possible(name))


def _runs(paths: list[str], faults: Faults) -> dict[str, Run]:
    """The runs by the shortest end of their path that tells them apart."""
    from tamis.collection.runs import read_run

    distinct = list(dict.fromkeys(paths))
    names = {path: Path(path).name for path in distinct}
    if len(set(names.values())) < len(names):
        names = {path: path for path in distinct}
    found = {}
    for path in distinct:
        with reading(path) as file:
            found[names[path]] = read_run(file, faults)
    return found


def _queries(collection: str | None) -> Queries | None:
    from tamis.collection.readers import read_queries

    return None if collection is None else read_queries(collection)


def _write_per_query(done: Evaluation, name: str, out: Path, force: bool) -> None:
    from tamis.collection.lines import writing
    from tamis.evaluation import write_per_query

    forms: dict[str, Literal["tsv", "csv", "jsonl"]]
    forms = {"": "tsv", ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl"}
    ending = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    if ending not in forms:
        raise InputError(f"cannot write values as {ending}", hint="use .tsv, .csv or .jsonl")
    with writing(out, force) as stream:
        write_per_query(done, stream, forms[ending])
