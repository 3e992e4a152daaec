"""`tamis tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import say, show, show_json, warn_of_test_split
from tamis.cli.index_search import IndexFolder, QueryField, listed, queries_to_search
from tamis.cli.options import ADVANCED_PANEL, Force, Json, Seed, with_options
from tamis.errors import InputError, OutputError
from tamis.terminal import plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tamis.search.tune import Tuning


@with_options
def tune(
    folder: IndexFolder,
    queries: Annotated[
        str, typer.Argument(metavar="QUERIES", help="A file or collection with queries.")
    ],
    qrels: Annotated[str, typer.Argument(metavar="QRELS", help="Judgements of those queries.")],
    measure: Annotated[
        str, typer.Option("-m", "--measure", help="The measure to maximise.")
    ] = "RR@10",
    ranking: Annotated[
        Literal["bm25", "ql", "rm3"],
        typer.Option(help="Tune BM25 (k1, b), query likelihood (mu), or RM3 on top of either."),
    ] = "bm25",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the measure over the parameters, as .svg."),
    ] = None,
    save: Annotated[
        bool,
        typer.Option("--save/--no-save", help="Make the selected values the index's default."),
    ] = True,
    folds: Annotated[
        int,
        typer.Option(
            metavar="N", help="Folds of the cross-validation.", rich_help_panel=ADVANCED_PANEL
        ),
    ] = 5,
    sample: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Tune on a random sample of so many judged queries, if there are more.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = 1000,
    query_field: QueryField = None,
    seed: Seed = 0,
    json: Json = False,
    force: Force = False,
) -> None:
    """Tune BM25 (or query likelihood, or RM3) on judged queries, with cross-validation.

    Example: tamis tune my-index queries.jsonl train-qrels.txt -m RR@10 --plot surface.svg
    """
    from tamis.collection.judgements import read_qrels
    from tamis.collection.querylog import refuse_line_numbers
    from tamis.search import Index, default_source
    from tamis.search.tune import tune as tune_index

    if plot is not None:
        _check_plot(plot, force)
    warn_of_test_split(qrels)
    index = Index.open(folder)
    start = default_source(index, None, False, {}, None)
    searched, judged = queries_to_search(queries, query_field), read_qrels(qrels)
    refuse_line_numbers(searched.ids, {qrels: judged}, {qrels: qrels}, queries)
    tuning = tune_index(
        index,
        searched,
        judged,
        measure,
        ranking,
        start=start,
        k=folds,
        sample=sample,
        seed=seed,
    )
    if json:
        rows, columns, means = tuning.surface()
        surface = {"rows": rows, "columns": columns, "means": means.tolist()}
        show_json("tune", {**tuning.record(), "surface": surface})
    else:
        show(_surface(tuning))
    if plot is not None:
        _plot(tuning, plot, force)
    _say_result(tuning)
    if save and tuning.gain < 0:
        say("not saved: worse than the default on held-out folds")
    elif save:
        index.record_tuned(tuning.record(), str(start.ranking.spec()["ranking"]))
        say(f"saved in {folder}: search uses it by default")


def _surface(tuning: Tuning) -> RenderableType:
    from rich.text import Text

    rows, columns, means = tuning.surface()
    across = list(tuning.grid)[-1]
    title = f"{tuning.measure}, mean over {tuning.values.shape[1]:,} queries"
    table = plain_table(title=title, title_justify="left")
    table.add_column(f"{across} →")
    for column in columns:
        table.add_column(column, justify="right")
    for y, row in enumerate(rows):
        numbers = range(y * len(columns), (y + 1) * len(columns))
        cells = [f"{means[y, x]:.4f}" for x in range(len(columns))]
        cells_marked = [
            Text(f"{cell}*", style="bold")
            if number == tuning.best
            else f"{cell}d"
            if number == tuning.default
            else cell
            for number, cell in zip(numbers, cells, strict=True)
        ]
        table.add_row(row, *cells_marked)
    return table


def _say_result(tuning: Tuning) -> None:
    """Say what was selected, and whether it helps on held-out folds."""
    parameters = listed(dict(tuning.parameters))
    say(f"selected (*): {parameters}, {tuning.measure} {tuning.mean(tuning.best):.4f}; "
        f"default (d): {tuning.mean(tuning.default):.4f}")  # fmt: skip
    interval, p = tuning.interval, tuning.p_value
    around = f", 95% interval {interval.low:+.4f} .. {interval.high:+.4f}" if interval else ""
    test = f", paired t-test p = {p:.4f}" if p is not None else ""
    say(f"difference on held-out folds: {tuning.gain:+.4f}{around}{test}")
    if tuning.within_noise():
        say("warning: not significant; the defaults may be as good")


def _check_plot(path: Path, force: bool) -> None:
    """Refuse before the work what could not be drawn after it."""
    if path.suffix != ".svg":
        raise InputError(f"cannot draw {path.name}", hint="the picture is an .svg file")
    if path.exists() and not force:
        raise OutputError(f"{path} exists already", hint="choose another name, or give --force")
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent}", hint="make it first")


def _plot(tuning: Tuning, path: Path, force: bool) -> None:
    from tamis.durable import new_file
    from tamis.pages.charts import heat_map

    rows, columns, means = tuning.surface()
    title = f"{tuning.measure}, mean over {tuning.values.shape[1]:,} judged queries"
    across = list(tuning.grid)[-1]
    picture = heat_map(
        rows,
        columns,
        means,
        title=title,
        x_name=across,
        selected=tuning.best,
        default=tuning.default,
    )
    with new_file(path, force=force) as part:
        part.write_text(picture, "utf-8")
    say(f"picture: {path}")
