"""All verbs, and how errors end them: two lines on stderr, and an exit code.

0 success, 1 failure, 2 wrong usage. Data goes to files or stdout, messages to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tamis import __version__
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


START, SEARCH, RERANK = "Start here", "Index and search", "Re-rank"
TRAIN, INSPECT, RESEARCH = "Train", "Evaluate and inspect", "Research"
VERBS = {
    "fit": (START, "fit"),
    "judge": (START, "judge"),
    "serve": (START, "serve"),
    "demo": (START, "demo"),
    "index": (SEARCH, "index_search"),
    "update": (SEARCH, "update"),
    "search": (SEARCH, "index_search"),
    "tune": (SEARCH, "tune"),
    "rerank": (RERANK, "rerank"),
    "fuse": (RERANK, "fuse"),
    "label": (TRAIN, "label"),
    "train": (TRAIN, "train"),
    "import-model": (TRAIN, "models"),
    "export": (TRAIN, "export"),
    "evaluate": (INSPECT, "evaluate"),
    "explain": (INSPECT, "explain"),
    "info": (INSPECT, "info_convert"),
    "convert": (INSPECT, "info_convert"),
    "warm-up": (INSPECT, "warm_up"),
    "task": (RESEARCH, "task"),
}
"""The panel of each verb, and the module that has it; some have verbs of their own."""


def _show_version(is_set: bool) -> None:
    if is_set:
        print(f"tamis {__version__}")
        raise typer.Exit


def tamis(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Build, judge and serve document re-rankers from your own documents."""


def verbs_app(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """The command line with these verbs alone."""
    app = typer.Typer(
        name="tamis",
        cls=Verbs,
        help="Build, judge and serve document re-rankers from your own documents.",
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(tamis)
    for verb in verbs:
        panel, name = VERBS[verb]
        module = import_module(f"tamis.cli.{name}")
        if isinstance(inner := getattr(module, "app", None), typer.Typer):
            app.add_typer(inner, name=verb, rich_help_panel=panel)
        else:
            function = getattr(module, verb.replace("-", "_"))
            app.command(verb, rich_help_panel=panel)(function)
    return app


def run(arguments: list[str]) -> int:
    """Run the command line; the exit code. Of the verbs only the one that is called is imported."""
    app = verbs_app(arguments[:1] if arguments and arguments[0] in VERBS else VERBS)
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
