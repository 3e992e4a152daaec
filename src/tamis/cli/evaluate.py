"""`tamis evaluate`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from tamis.cli.common import (
    STDIO,
    reading,
    say,
    show,
    show_json,
    split_name,
    writing_to,
)
from tamis.cli.options import OUTPUT_PANEL, Force, Json, OnError, Seed, with_options
from tamis.errors import InputError, command
from tamis.terminal import visible

if TYPE_CHECKING:
    from tamis.collection.base import Faults
    from tamis.evaluation import Evaluation
    from tamis.types import Queries, Run

MEASURES = ("nDCG@10", "AP", "RR@10", "R@1000")


@with_options
def evaluate(
    qrels: Annotated[
        str,
        typer.Argument(metavar="QRELS", help="Judgements: TREC, BEIR or Parquet; - is stdin."),
    ],
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RUN...", help="Runs, TREC or Parquet, with the names to show for them."
        ),
    ],
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "-m",
            "--measure",
            help=f"Such as nDCG@10, AP(rel=2), P@30. Repeatable. Default: {', '.join(MEASURES)}.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="[NAME=]RUN", help="The run, or its name, that the others are compared with."
        ),
    ] = None,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="Add overlap and rank correlation between runs.")
    ] = False,
    fail_if_worse: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="Exit with 1 if a run is significantly below the baseline, such as 0.05.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write an HTML report.", rich_help_panel=OUTPUT_PANEL),
    ] = None,
    per_query: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the values of every query: .tsv, .csv or .jsonl; - is stdout.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    latex: Annotated[
        bool,
        typer.Option("--latex", help="Print a LaTeX table.", rich_help_panel=OUTPUT_PANEL),
    ] = False,
    markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print a Markdown table.", rich_help_panel=OUTPUT_PANEL),
    ] = False,
    json: Json = False,
    collection: Annotated[
        str | None,
        typer.Option(
            "-c",
            "--collection",
            metavar="COLLECTION",
            help="Query texts for the HTML report.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    force: Force = False,
    on_error: OnError = "raise",
    seed: Seed = 0,
) -> None:
    """Measure runs against judgements; with a baseline, test the differences.

    Example: tamis evaluate qrels.txt BM25=bm25.trec mine.trec -m nDCG@10 --baseline BM25
    """
    from tamis import evaluation as ev
    from tamis.collection.base import Faults
    from tamis.collection.judgements import read_qrels
    from tamis.collection.loss_notes import counted
    from tamis.collection.querylog import refuse_line_numbers
    from tamis.evaluation.report import write_report
    from tamis.evaluation.run_names import rename_runs

    if json + latex + markdown + (per_query == STDIO) > 1:
        raise typer.BadParameter("choose one of --json, --latex, --markdown and --per-query -")
    if fail_if_worse is not None and not 0 < fail_if_worse < 1:
        raise typer.BadParameter(f"{fail_if_worse:g} is no significance level; 0.05 is common")
    if fail_if_worse is not None and baseline is None:
        raise typer.BadParameter("--fail-if-worse needs a --baseline")
    if per_query is not None:
        _per_query_form(per_query)
    faults = Faults(skip=on_error == "skip")
    _refuse_swapped(qrels, runs)
    with reading(qrels) as path:
        judged = read_qrels(path, faults)
    files = _files_by_name(_with_baseline(runs, baseline))
    runs_by_name = _runs(files, faults)
    first = None if baseline is None else next(iter(runs_by_name))
    if first is not None and len(runs_by_name) < 2:
        raise InputError("only the baseline to evaluate", hint="name another run to compare")
    for run in runs_by_name.values():
        refuse_line_numbers(run.queries.ids, {qrels: judged}, {qrels: qrels})
    level = 0.05 if fail_if_worse is None else fail_if_worse
    evaluation = ev.evaluate(judged, runs_by_name, measure or MEASURES)
    comparisons = [] if first is None else ev.compare(evaluation, first, seed=seed)
    agreements = ev.agreements(runs_by_name) if agreement else []
    further = [ev.comparison_table(comparisons)] if comparisons else []
    further += [ev.agreement_table(agreements)] if agreements else []
    if json:
        show_json(
            "evaluate",
            {**ev.as_json(evaluation, comparisons, level), "agreement": agreements},
        )
    elif latex:
        tables = [ev.latex(evaluation, comparisons, level), *[table.latex() for table in further]]
        print(visible("\n".join(tables)))
    elif markdown:
        tables = [
            ev.markdown(evaluation, comparisons, level),
            *[table.markdown() for table in further],
        ]
        print(visible("\n".join(tables)))
    elif per_query != STDIO:  # else stdout is for the values
        show(
            ev.rich_table(evaluation, comparisons, level),
            *ev.footnotes(evaluation, comparisons, level),
            *[table.rich() for table in further],
        )
    if faults.count:
        say(f"warning: {counted(faults.count, 'bad line')} skipped, first: {faults.first[0]}")
    if per_query is not None:
        with writing_to(per_query) as out:
            _write_per_query(evaluation, per_query, out, force)
    if html is not None:
        names = _page_names(files)
        shown, shown_comparisons = rename_runs(evaluation, comparisons, names)
        write_report(
            html,
            shown,
            shown_comparisons,
            qrels=judged,
            runs=shown.rankings,
            queries=_queries(collection),
            baseline=None if first is None else names[first],
            level=level,
            command=command(*sys.argv[1:]),
            force=force,
        )
        say(f"report: {html}")
    worse = ev.fails(comparisons, level) if fail_if_worse is not None else []
    for comparison in worse:
        say(
            f"worse: {comparison.run} is below {comparison.baseline} in {comparison.measure} "
            f"by {-comparison.difference:.4f}"
        )
    if worse:
        raise typer.Exit(1)


def _refuse_swapped(qrels: str, runs: list[str]) -> None:
    """Refuse a run in place of the judgements, where the judgements are in place of a run."""
    files = [split_name(run)[1] for run in runs]
    judgements = [file for file in files if "qrels" in _contents(file)]
    if judgements and "run" in _contents(qrels):
        others = [file for file in files if file != judgements[0]]
        raise InputError(
            f"{qrels} is a run, and {judgements[0]} holds judgements",
            hint=f"the judgements come first: {command('evaluate', judgements[0], qrels, *others)}",
        )


def _contents(name: str) -> tuple[str, ...]:
    """What a file or folder holds; nothing where there is none, or where it cannot be told."""
    from tamis.collection.detection import detect_if_possible
    from tamis.collection.formats import contents_of

    return contents_of(detect_if_possible(name))


class RunFile(NamedTuple):
    """A run as it was typed; `given_name` is empty where it has none."""

    given_name: str
    path: str


def _files_by_name(values: list[str]) -> dict[str, RunFile]:
    """The runs by name; without one, by the shortest end of their paths that is unique."""
    typed = [RunFile(*pair) for pair in dict.fromkeys(map(split_name, values))]
    endings = [Path(run.path).name for run in typed]
    files: dict[str, RunFile] = {}
    for run in typed:
        ending = Path(run.path).name
        name = run.given_name or (ending if endings.count(ending) == 1 else run.path)
        if name in files:
            raise InputError(f"two runs are called {name}", hint="give each its own: NAME=RUN")
        files[name] = run
    return files


def _runs(files: Mapping[str, RunFile], faults: Faults) -> dict[str, Run]:
    from tamis.collection.runs import read_run

    runs = {}
    for name, run in files.items():
        with reading(run.path) as file:
            runs[name] = read_run(file, faults)
    return runs


def _page_names(files: Mapping[str, RunFile]) -> dict[str, str]:
    """What the HTML report calls the runs: the names that were typed, else those of the files."""
    from tamis.evaluation.run_names import names_of_files

    unnamed = {name: run.path for name, run in files.items() if not run.given_name}
    typed = [run.given_name for run in files.values() if run.given_name]
    page_names = names_of_files(list(unnamed.values()), typed)
    return {name: name for name in files} | dict(zip(unnamed, page_names, strict=True))


def _with_baseline(runs: list[str], baseline: str | None) -> list[str]:
    """All runs, the baseline first; a baseline may be the name of one of them."""
    if baseline is None:
        return runs
    for run in runs:
        if baseline in (run, *split_name(run)):
            return [run, *(other for other in runs if other != run)]
    if baseline != STDIO and not Path(split_name(baseline)[1]).exists():
        names = ", ".join(name or path for name, path in map(split_name, runs))
        raise InputError(
            f"no run is called {baseline}, and there is no such file", hint=f"runs are {names}"
        )
    return [baseline, *runs]


def _queries(collection: str | None) -> Queries | None:
    from tamis.collection.readers import read_queries

    return None if collection is None else read_queries(collection)


def _write_per_query(evaluation: Evaluation, name: str, out: Path, force: bool) -> None:
    from tamis.collection.lines import writing
    from tamis.evaluation import write_per_query

    with writing(out, force) as stream:
        write_per_query(evaluation, stream, _per_query_form(name))


def _per_query_form(name: str) -> Literal["tsv", "csv", "jsonl"]:
    forms: dict[str, Literal["tsv", "csv", "jsonl"]]
    forms = {"": "tsv", ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl"}
    ending = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    if ending not in forms:
        raise InputError(f"cannot write values as {ending}", hint="use .tsv, .csv or .jsonl")
    return forms[ending]
