"""`tamis task evidence`: sentences that a question needs, ranked and selected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tamis.cli.common import say, show, show_json
from tamis.cli.options import (
    OUTPUT_PANEL,
    DeviceOptions,
    Force,
    Json,
    Threads,
    with_options,
)
from tamis.cli.rerank_inputs import check_output
from tamis.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.tasks.evidence import Evidence


@with_options
def evidence(
    where: DeviceOptions,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A BEIR folder of sentences that name their paragraph, with questions and "
            "judgements; or MultiRC's JSON.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="What ranks: bm25, alignment:WORD_VECTORS, or a model: a folder, an installed "
            "model package or a hub id.",
        ),
    ] = "bm25",
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query",
            metavar="FORM",
            help="What is asked: question, question+answer (each in turn) or question+answers "
            "(all at once; which are correct is never used). Repeatable. Default: question.",
        ),
    ] = None,
    combine: Annotated[
        Literal["max", "mean"],
        typer.Option("--combine", help="With question+answer: how a sentence's scores become one."),
    ] = "max",
    split: Annotated[
        str | None,
        typer.Option("--split", help="Split that is measured. Default: test, dev or validation."),
    ] = None,
    tune_split: Annotated[
        str | None,
        typer.Option(
            "--tune-split",
            help="Split that the number of sentences or the threshold is tuned on. Default: "
            "validation, dev or train.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Write the ranking and the selection, two runs; goes with one --query.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    json: Json = False,
    force: Force = False,
    threads: Threads = None,
) -> None:
    """Rank the sentences of each question's paragraph, select some, and measure the selection.

    Example: tamis task evidence multirc --model bm25 --query question --query question+answers
    """
    from tamis.tasks.evidence import (
        choose_splits,
        evidence_record,
        open_selector,
        select_evidence,
        write_evidence,
    )
    from tamis.tasks.evidence_data import query_form, read_evidence

    forms = [query_form(form) for form in dict.fromkeys(query or ["question"])]
    if output is not None and len(forms) > 1:
        raise typer.BadParameter("--output is for one --query")
    if output is not None:
        check_output(str(output), force)
    read = read_evidence(data)
    tested, tuned_on = choose_splits(read, split, tune_split)
    with open_selector(model, read, threads=threads, **where.of(model)) as scorer:
        rows = [
            select_evidence(read, scorer, form, split=tested, tune_split=tuned_on, combine=combine)
            for form in forms
        ]
    record = {
        "data": read.name, "model": model, "split": tested, "tune_split": tuned_on,
        "combine": combine, "systems": [evidence_record(row) for row in rows],
    }  # fmt: skip
    if json:
        show_json("evidence", record)
    else:
        show(f"{read.name}, {tested}: {model}", _splits_line(rows[0], tuned_on))
        show(_evidence_table(rows))
    for row in rows:
        _say_truncated(row)
    if output is not None:
        write_evidence(rows[0], record, output, force=force)
        say(f"ranking and selection: {output}")


def _splits_line(row: Evidence, tuned_on: str) -> str:
    """How many questions are tested, and on which others the rules were tuned."""
    from tamis.collection.loss_notes import counted

    tested, tuned = (counted(n, "question") for n in (row.measures.questions, row.tuned.questions))
    return f"{tested} tested; rules tuned on {tuned} of {tuned_on}"


def _evidence_table(rows: list[Evidence]) -> Table:
    table = plain_table()
    table.add_column("query")
    for name in ("P", "R", "F1", "P@1", "AutoROCC F1", "selected"):
        table.add_column(name, justify="right")
    table.add_column("rule")
    table.add_column("tuned F1", justify="right")
    for row in rows:
        table.add_row(row.query, *_cells(row), str(row.tuned.rule), f"{row.tuned.f1:.4f}")
    return table


def _cells(row: Evidence) -> list[str]:
    measures = row.measures
    values: list[Any] = [measures.precision, measures.recall, measures.f1, row.first_relevant]
    shares = [f"{value:.4f}" for value in (*values, measures.autorocc_f1)]
    return [*shares, f"{measures.selected:.2f}"]


def _say_truncated(row: Evidence) -> None:
    if row.truncated:
        say(f"note: {row.query}: {row.truncated:,} pairs truncated to fit the model")
