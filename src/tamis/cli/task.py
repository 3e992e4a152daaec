"""`tamis task`: evidence selection and multiple choice."""

from __future__ import annotations

import typer

from tamis.cli.task_choice import choice, choice_train
from tamis.cli.task_evidence import evidence

app = typer.Typer(
    help="Rank sentences and facts for questions: evidence selection, multiple choice.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def task() -> None:
    """Rank sentences and facts for questions: evidence selection, multiple choice."""


app.command("evidence")(evidence)
app.command("choice")(choice)
app.command("choice-train")(choice_train)
