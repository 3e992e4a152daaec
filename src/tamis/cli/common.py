"""What verbs share: options that mean the same everywhere, `-` for stdin and stdout, tables."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from tamis.errors import InputError, TamisError
from tamis.terminal import tell, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import TextType

    from tamis.collection.base import Faults

STDIO = "-"

OnError = Annotated[
    Literal["raise", "skip"],
    typer.Option("--on-error", help="On a bad line: stop there, or skip, count and report."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QueriesFile = Annotated[
    str | None, typer.Option("--queries", metavar="FILE", help="Take the queries from this file.")
]
QrelsFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--qrels",
        metavar="[SPLIT=]FILE",
        help="Judgements: a file, or a folder that `tamis judge` wrote; repeatable.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="What the input is, if looking inside cannot tell."),
]
IdColumn = Annotated[str | None, typer.Option("--id", help="Name of the column with ids.")]
TextColumn = Annotated[str | None, typer.Option("--text", help="Name of the column with texts.")]
TitleColumn = Annotated[str | None, typer.Option("--title", help="Name of the title column.")]


def job_time(text: str | float) -> float:
    """The time that a job may take; a number alone is minutes."""
    return _time(text, "m")


def query_time(text: str | float) -> float:
    """The time that a query may take; a number alone is seconds."""
    return _time(text, "s")


def _time(text: str | float, unit: Literal["s", "m"]) -> float:
    from tamis.durable import parse_time

    try:
        return parse_time(str(text), unit)
    except InputError as error:
        raise typer.BadParameter(f"{error}; {error.hint}") from None


@contextmanager
def reading(path: str) -> Iterator[Path]:
    """A path to read; `-` is stdin, kept in a file for as long as it is needed."""
    if path != STDIO:
        yield Path(path)
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "stdin"
        with file.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        try:
            yield file
        except TamisError as error:
            error.args = (str(error).replace(str(file), "stdin"),)
            raise


@contextmanager
def writing_to(path: str) -> Iterator[Path]:
    """A path to write; what was written for `-` goes to stdout."""
    if path != STDIO:
        yield Path(path)
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "stdout"
        yield file
        if file.is_dir():
            raise InputError(
                "a folder cannot go to stdout", hint="choose a file format, such as --to jsonl"
            )
        with file.open("rb") as done:
            shutil.copyfileobj(done, sys.stdout.buffer)


def by_split(qrels: list[str] | None) -> dict[str, str] | None:
    """Judgement files by split; without a name for the split it is test, or a folder's own.

    >>> by_split(["train=a.txt", "b.txt"])
    {'train': 'a.txt', 'test': 'b.txt'}
    """
    if not qrels:
        return None
    from tamis.collection.judgements import split_of

    found: dict[str, str] = {}
    for given in qrels:
        split, _, file = given.partition("=")
        name = split if file else split_of(given)
        if name in found:
            raise InputError(
                f"there are two files of judgements for the split {name!r}",
                hint=f"name one otherwise: --qrels other={file or split}",
            )
        found[name] = file or split
    return found


def warn_of_test_split(qrels: str) -> None:
    """Warn where something is chosen on judgements that are for testing, by their name."""
    from tamis.collection.judgements import the_split
    from tamis.splits import is_test

    path = Path(qrels)
    if is_test(the_split(path)[0] if path.is_dir() else path.name):
        say(f"warning: {qrels} is a test split: what is chosen on it looks too good on it")


def say(words: str) -> None:
    """Words for the person, on stderr."""
    tell(visible(words))


PROGRESS = ("tamis.fitting", "tamis.training.loop")
"""Whose messages say what is being done."""


class _LogHandler(logging.Handler):
    """What the library logs, as words for the person."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = "warning: " if record.levelno >= logging.WARNING else "note: "
        is_progress = kind == "note: " and record.name.startswith(PROGRESS)
        say(f"{'' if is_progress else kind}{record.getMessage()}")


@contextmanager
def shown_log() -> Iterator[None]:
    """Show what the library logs meanwhile."""
    logger, handler = logging.getLogger("tamis"), _LogHandler()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def say_faults(faults: Faults) -> None:
    """Say how many bad lines were skipped, which documents are empty, which files are left out."""
    from tamis.collection.loss_notes import counted

    if faults.count:
        say(f"warning: {counted(faults.count, 'bad line')} skipped, first: {faults.first[0]}")
    for note in faults.notes():
        say(f"warning: {note}")


def console(*, stderr: bool = False, width: int = 200) -> Console:
    """Where tables go: stdout, with colours only in a terminal and without NO_COLOR.

    Strings are printed as they are, `[red]` and `:smile:` too. `width` counts outside a terminal.
    """
    from rich.console import Console

    is_live = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        width=None if is_live else width,
        soft_wrap=False,
        highlight=False,
        markup=False,
        emoji=False,
    )


def show(*things: RenderableType) -> None:
    """Print tables and sentences on stdout; a table too wide for the terminal is turned."""
    from rich.measure import Measurement
    from rich.table import Table

    out = console()
    for thing in map(visible_renderable, things):
        wide = Measurement.get(out, out.options.update(max_width=1000), thing).maximum > out.width
        out.print(_turned(thing) if isinstance(thing, Table) and wide else thing)


def visible_renderable(thing: RenderableType) -> RenderableType:
    """A string, text or table in which all control characters are visible."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if isinstance(thing, str):
        return visible(thing)
    if isinstance(thing, Text):
        text = thing.copy()
        text.plain = visible(thing.plain)
        return text
    if isinstance(thing, Padding):
        inner = visible_renderable(thing.renderable)
        around = thing.top, thing.right, thing.bottom, thing.left
        return Padding(inner, around, style=thing.style, expand=thing.expand)
    return _visible_table(thing) if isinstance(thing, Table) else thing


def _visible_table(table: Table) -> Table:
    shown = copy(table)
    shown.title = None if table.title is None else cast("TextType", visible_renderable(table.title))
    shown.columns = [
        replace(
            column,
            header=visible_renderable(column.header),
            _cells=[visible_renderable(cell) for cell in column.cells],
        )
        for column in table.columns
    ]
    return shown


def _turned(table: Table) -> Table:
    """A narrow table of a row's cells below each other, rows set apart by a line."""
    from rich.table import Table

    narrow = Table(title=table.title, show_header=False, box=None, pad_edge=False)
    heads = [column.header for column in table.columns]
    for cells in zip(*[column.cells for column in table.columns], strict=True):
        for head, cell in zip(heads, cells, strict=True):
            narrow.add_row(head, cell)
        narrow.add_section()
        narrow.add_row("", "")
    return narrow


def show_json(value: Any) -> None:
    """Print JSON on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def show_facts(facts: Mapping[str, Any]) -> None:
    """Print facts by name, sections indented; names of tamis's own with blanks for underscores."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(facts, 0):
        style = "bold" if not value else ""
        table.add_row(Text(visible(name), style=style), Text(visible(value)))
    show(table)


def _lines(facts: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    for name, value in _displayed(facts).items():
        indented = "  " * depth + name
        if isinstance(value, Mapping) and all(_is_plain(part) for part in value.values()) and depth:
            numbers = _displayed(value).items()
            yield indented, ", ".join(f"{key} {_shown(part)}" for key, part in numbers)
        elif isinstance(value, Mapping):
            yield indented, ""
            yield from _lines(value, depth + 1)
        else:
            yield indented, _shown(value)


def _displayed(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same facts with display names; names that the user owns stay as they are."""
    from tamis.collection.describe import ByName

    if isinstance(facts, ByName):
        return facts
    return {name.replace("_", " "): value for name, value in facts.items()}


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
