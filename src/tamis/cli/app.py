"""The verbs put together, and what happens to errors: two lines, and an exit code.

0 done, 1 failed, 2 misused. Data goes to files or stdout, words and progress to stderr.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tamis import __version__
from tamis.cli import (
    demo,
    evaluate,
    export,
    fit,
    fuse,
    index_search,
    info_convert,
    judge,
    label,
    models,
    rerank,
    train,
    tune,
)
from tamis.cli.common import say, shown_log
from tamis.errors import TamisError


class EndedFromOutside(Exception):
    """Ctrl-C, or nobody reads what is printed; typer would end both in silence."""


@contextmanager
def _passed_on() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError) as cause:
        raise EndedFromOutside from cause
    except SystemExit as ended:  # rich's way to end where nobody reads
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        raise EndedFromOutside from ended.__context__


class Verbs(TyperGroup):
    """The verbs; what ends one from outside is left to `run`."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the command line."""
        with _passed_on():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        with _passed_on():
            return super().invoke(ctx)


app = typer.Typer(
    name="tamis",
    cls=Verbs,
    help="Build, judge and serve document re-rankers from your own documents.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JOB, FIRST, RERANKING = "The job", "First stage", "Re-ranking"
LEARNING, KNOWING = "Learning", "Knowing"
app.command("demo", rich_help_panel=JOB)(demo.demo)
app.command("fit", rich_help_panel=JOB)(fit.fit)
app.command("judge", rich_help_panel=JOB)(judge.judge)
app.command("index", rich_help_panel=FIRST)(index_search.index)
app.command("search", rich_help_panel=FIRST)(index_search.search)
app.command("tune", rich_help_panel=FIRST)(tune.tune)
app.command("rerank", rich_help_panel=RERANKING)(rerank.rerank)
app.command("fuse", rich_help_panel=RERANKING)(fuse.fuse)
app.add_typer(label.app, name="label", rich_help_panel=LEARNING)
app.command("train", rich_help_panel=LEARNING)(train.train)
app.command("import-model", rich_help_panel=LEARNING)(models.import_model)
app.command("export", rich_help_panel=LEARNING)(export.export)
app.command("evaluate", rich_help_panel=KNOWING)(evaluate.evaluate)
app.command("info", rich_help_panel=KNOWING)(info_convert.info)
app.command("convert", rich_help_panel=KNOWING)(info_convert.convert)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tamis {__version__}")
        raise typer.Exit


@app.callback()
def tamis(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Build, judge and serve document re-rankers from your own documents."""


def run(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    try:
        with shown_log():
            code = app(arguments or ["--help"], prog_name="tamis", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        verb = context.command_path if context else "tamis"
        return _say(error.format_message(), f"see {verb} --help", error.exit_code)
    except TamisError as error:
        return _say(str(error), error.hint, 1)
    except EndedFromOutside as ended:
        if isinstance(ended.__cause__, BrokenPipeError):  # whoever read our output has seen enough
            return 0
        return _say("interrupted", INTERRUPTED, 130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", _HINTS.get(error.errno or 0, ""), 1)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", INTERRUPTED, 130)
    return code if isinstance(code, int) else 0


INTERRUPTED = "nothing half-written was left"
_HINTS = {
    2: "is the path right?",
    13: "you may not read or write there",
    28: "the disk is full; nothing half-written was left",
}
"""What to say of a system error, by its number."""


def _say(problem: str, hint: str, code: int) -> int:
    say(f"error: {_one_line(problem)}")
    if hint:
        say(f"hint: {_one_line(hint)}")
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())
