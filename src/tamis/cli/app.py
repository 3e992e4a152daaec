"""All verbs, and how errors end them: two lines on stderr, and an exit code.

0 success, 1 failure, 2 wrong usage. Data goes to files or stdout, messages to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tamis import __version__
from tamis.cli import (
    demo,
    evaluate,
    explain,
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
    update,
    warm_up,
)
from tamis.cli.common import print_log, say
from tamis.errors import TamisError


class EndedFromOutside(Exception):
    """Ctrl-C, or nobody reads what is printed; typer would end both in silence."""


@contextmanager
def _reraised() -> Iterator[None]:
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
        with _reraised():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        with _reraised():
            return super().invoke(ctx)


app = typer.Typer(
    name="tamis",
    cls=Verbs,
    help="Build, judge and serve document re-rankers from your own documents.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

START, SEARCH, RERANK = "Start here", "Index and search", "Re-rank"
TRAIN, INSPECT = "Train", "Evaluate and inspect"
app.command("fit", rich_help_panel=START)(fit.fit)
app.command("judge", rich_help_panel=START)(judge.judge)
app.command("demo", rich_help_panel=START)(demo.demo)
app.command("index", rich_help_panel=SEARCH)(index_search.index)
app.command("update", rich_help_panel=SEARCH)(update.update)
app.command("search", rich_help_panel=SEARCH)(index_search.search)
app.command("tune", rich_help_panel=SEARCH)(tune.tune)
app.command("rerank", rich_help_panel=RERANK)(rerank.rerank)
app.command("fuse", rich_help_panel=RERANK)(fuse.fuse)
app.add_typer(label.app, name="label", rich_help_panel=TRAIN)
app.command("train", rich_help_panel=TRAIN)(train.train)
app.command("import-model", rich_help_panel=TRAIN)(models.import_model)
app.command("export", rich_help_panel=TRAIN)(export.export)
app.command("evaluate", rich_help_panel=INSPECT)(evaluate.evaluate)
app.add_typer(explain.app, name="explain", rich_help_panel=INSPECT)
app.command("info", rich_help_panel=INSPECT)(info_convert.info)
app.command("convert", rich_help_panel=INSPECT)(info_convert.convert)
app.command("warm-up", rich_help_panel=INSPECT)(warm_up.warm_up)


def _show_version(is_set: bool) -> None:
    if is_set:
        print(f"tamis {__version__}")
        raise typer.Exit


@app.callback()
def tamis(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Build, judge and serve document re-rankers from your own documents."""


def run(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    try:
        with print_log():
            code = app(arguments or ["--help"], prog_name="tamis", standalone_mode=False)
            if kernels := sys.modules.get("tamis._jit"):
                kernels.COMPILATION.log_total()
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
