"""`tamis tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import Force, Json, say, show, show_json, warn_of_test_split
from tamis.cli.index_search import IndexFolder, SearchField, listed, queries_to_search
from tamis.errors import InputError, OutputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tamis.search.tune import Tuning


def tune(
    folder: IndexFolder,
    queries: Annotated[str, typer.Argument(help="A file or collection of queries.")],
    qrels: Annotated[str, typer.Argument(help="Judgements of those queries.")],
    measure: Annotated[str, typer.Option("-m", "--measure", help="What to tune for.")] = "RR@10",
    what: Annotated[
        Literal["bm25", "ql", "rm3"], typer.Option(help="What to tune: rm3 on top of what is set.")
    ] = "bm25",
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    sample: Annotated[int, typer.Option(help="At most so many judged queries, seeded.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of sample and folds.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the surface as a picture (.svg).")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Keep the choice in the index.")
    ] = True,
    search_field: SearchField = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Choose k1 and b (or mu, or RM3) on judged queries, with cross-validation.

    Example: tamis tune my-index queries.jsonl train-qrels.txt -m RR@10 --plot surface.svg
    """
    from tamis.collection.judgements import read_qrels
    from tamis.collection.querylog import refuse_line_numbers
    from tamis.search import Index, default_source
    from tamis.search.tune import tune as tune_index

    if plot is not None:
        _check_plot(plot, force)
    warn_of_test_split(qrels)
    opened = Index.open(folder)
    start = default_source(opened, None, False, {}, None)
    asked, judged = queries_to_search(queries, search_field), read_qrels(qrels)
    refuse_line_numbers(asked.ids, {qrels: judged}, {qrels: qrels}, queries)
    done = tune_index(
        opened,
        asked,
        judged,
        measure,
        what,
        start=start,
        k=folds,
        sample=sample,
        seed=seed,
    )
    if json:
        rows, columns, means = done.surface()
        surface = {"rows": rows, "columns": columns, "means": means.tolist()}
        show_json({**done.record(), "surface": surface})
    else:
        show(_surface(done))
    if plot is not None:
        _plot(done, plot, force)
    _judge(done)
    if record and done.gain < 0:
        say("not recorded, since it loses on held-out folds")
    elif record:
        opened.record_tuned(done.record(), str(start.ranking.spec()["ranking"]))
        say(f"recorded in {folder}: `tamis search` uses it unless told otherwise")


def _surface(done: Tuning) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    rows, columns, means = done.surface()
    across = list(done.grid)[-1]
    table = Table(title=f"{done.measure}, mean over {done.values.shape[1]:,} queries")
    table.add_column(f"{across} →")
    for column in columns:
        table.add_column(column, justify="right")
    for y, row in enumerate(rows):
        numbers = range(y * len(columns), (y + 1) * len(columns))
        cells = [f"{means[y, x]:.4f}" for x in range(len(columns))]
        marked = [
            Text(f"{cell}*", style="bold")
            if number == done.chosen
            else f"{cell}d"
            if number == done.default
            else cell
            for number, cell in zip(numbers, cells, strict=True)
        ]
        table.add_row(row, *marked)
    return table


def _judge(done: Tuning) -> None:
    """Say what was chosen and whether it is worth anything."""
    parameters = listed(dict(done.parameters))
    say(f"chosen (*): {parameters}, {done.measure} {done.mean(done.chosen):.4f}; "
        f"default (d): {done.mean(done.default):.4f}")  # fmt: skip
    interval, p = done.interval, done.p_value
    around = f", 95% interval {interval.low:+.4f} .. {interval.high:+.4f}" if interval else ""
    tested = f", paired t-test p = {p:.4f}" if p is not None else ""
    say(f"on held-out folds the choice gains {done.gain:+.4f}{around}{tested}")
    if done.within_noise():
        say("warning: that is within noise; the defaults may do as well")


def _check_plot(path: Path, force: bool) -> None:
    """Refuse before the work what could not be drawn after it."""
    if path.suffix != ".svg":
        raise InputError(f"cannot draw {path.name}", hint="the picture is an .svg file")
    if path.exists() and not force:
        raise OutputError(f"{path} exists already", hint="choose another name, or give --force")
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent}", hint="make it first")


def _plot(done: Tuning, path: Path, force: bool) -> None:
    from tamis.durable import new_file
    from tamis.pages.charts import heat_map

    rows, columns, means = done.surface()
    title = f"{done.measure}, mean over {done.values.shape[1]:,} judged queries"
    across = list(done.grid)[-1]
    picture = heat_map(
        rows, columns, means, title=title, x_name=across, selected=done.chosen, default=done.default
    )
    with new_file(path, force=force) as part:
        part.write_text(picture, "utf-8")
    say(f"picture: {path}")
