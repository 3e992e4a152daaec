"""What verbs share: `-` for stdin and stdout, messages on stderr, tables and JSON on stdout."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from tamis.errors import InputError, TamisError
from tamis.terminal import plain_table, tell, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import TextType

    from tamis.collection.base import Faults

STDIO = "-"


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


def by_split(
    qrels: list[str] | None, split_of_path: Callable[[str], str] | None = None
) -> dict[str, str] | None:
    """Judgement files by split; without a name it is test, or a folder's own.

    >>> by_split(["train=a.txt", "b.txt"])
    {'train': 'a.txt', 'test': 'b.txt'}
    """
    if not qrels:
        return None
    from tamis.collection.judgements import split_of

    files: dict[str, str] = {}
    for value in qrels:
        name, path = split_name(value)
        split = name or (split_of_path or split_of)(path)
        if split in files:
            raise InputError(
                f"there are two files of judgements for the split {split!r}",
                hint=f"name one otherwise: --qrels other={path}",
            )
        files[split] = path
    return files


def split_name(value: str) -> tuple[str, str]:
    """Name and path of `NAME=FILE`; without a name, or where such a file exists, the path alone.

    >>> split_name("BM25=runs/bm25.parquet"), split_name("bm25.trec")
    (('BM25', 'runs/bm25.parquet'), ('', 'bm25.trec'))
    """
    name, equals, path = value.partition("=")
    if not equals or not name.strip() or not path or "/" in name or Path(value).exists():
        return "", value
    return name.strip(), path


def warn_of_test_split(qrels: str) -> None:
    """Warn where something is chosen on judgements that are for testing, by their name."""
    from tamis.collection.judgements import the_split
    from tamis.splits import is_test

    path = Path(qrels)
    if is_test(the_split(path)[0] if path.is_dir() else path.name):
        say(f"warning: {qrels} is a test split: do not report results on queries you tuned on")


def say(message: str) -> None:
    """Print a message on stderr."""
    tell(visible(message))


PROGRESS_LOGGERS = ("tamis.fitting", "tamis.training.loop", "tamis.kernels")


class _LogHandler(logging.Handler):
    """Prints what the library logs; messages other than progress begin with their kind."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = "warning: " if record.levelno >= logging.WARNING else "note: "
        is_progress = kind == "note: " and record.name.startswith(PROGRESS_LOGGERS)
        say(f"{'' if is_progress else kind}{record.getMessage()}")


@contextmanager
def print_log() -> Iterator[None]:
    """Print what the library logs inside the block."""
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
    for note in faults.all_notes():
        say(f"warning: {note}")


PIPE_WIDTH = 10_000


def console(*, stderr: bool = False, width: int = PIPE_WIDTH) -> Console:
    """Where tables go: stdout, with colours only in a terminal and without NO_COLOR.

    Strings are printed as they are, `[red]` and `:smile:` too. `width` is for output that goes to
    no terminal.
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


def show(*renderables: RenderableType) -> None:
    """Print tables and sentences on stdout.

    In a terminal a table that is too wide is printed as a list. In a pipe nothing is wrapped, and
    no line ends in blanks.
    """
    from rich.measure import Measurement
    from rich.table import Table

    out = console()
    for renderable in map(visible_renderable, renderables):
        needed = Measurement.get(out, out.options.update(max_width=PIPE_WIDTH), renderable).maximum
        is_too_wide = isinstance(renderable, Table) and needed > out.width
        _print(out, _as_list(cast("Table", renderable)) if is_too_wide else renderable)


def _print(out: Console, renderable: RenderableType) -> None:
    if out.is_terminal:
        out.print(renderable)
        return
    with out.capture() as capture:
        out.print(renderable)
    for line in capture.get().removesuffix("\n").split("\n"):
        print(line.rstrip(" "))


def visible_renderable(renderable: RenderableType) -> RenderableType:
    """A string, text or table in which all control characters are visible."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if isinstance(renderable, str):
        return visible(renderable)
    if isinstance(renderable, Text):
        text = renderable.copy()
        text.plain = visible(renderable.plain)
        return text
    if isinstance(renderable, Padding):
        inner = visible_renderable(renderable.renderable)
        around = renderable.top, renderable.right, renderable.bottom, renderable.left
        return Padding(inner, around, style=renderable.style, expand=renderable.expand)
    return _visible_table(renderable) if isinstance(renderable, Table) else renderable


def _visible_table(table: Table) -> Table:
    copied = copy(table)
    copied.title = (
        None if table.title is None else cast("TextType", visible_renderable(table.title))
    )
    copied.columns = [
        replace(
            column,
            header=visible_renderable(column.header),
            _cells=[visible_renderable(cell) for cell in column.cells],
        )
        for column in table.columns
    ]
    return copied


def _as_list(table: Table) -> Table:
    """A table of two columns, header and cell, with a blank line after each row."""

    narrow = plain_table(title=table.title, show_header=False)
    heads = [column.header for column in table.columns]
    for cells in zip(*[column.cells for column in table.columns], strict=True):
        for head, cell in zip(heads, cells, strict=True):
            narrow.add_row(head, cell)
        narrow.add_section()
        narrow.add_row("", "")
    return narrow


JSON_VERSION = 1


def show_json(schema: str, values: Mapping[str, Any]) -> None:
    """Print JSON on stdout, with the name and version of its schema."""
    head = {"schema": f"tamis.{schema}", "schema_version": JSON_VERSION}
    text = json.dumps(_without_nan({**head, **values}), indent=2, ensure_ascii=False, default=str)
    print(text)


def _without_nan(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    is_number = not isinstance(value, float) or math.isfinite(value)
    return value if is_number else None


def show_facts(facts: Mapping[str, Any]) -> None:
    """Print facts by name, sections indented; names of tamis's own with blanks for underscores."""
    from rich.text import Text

    table = plain_table(show_header=False)
    out = console()
    table.add_column(max_width=out.width * 2 // 5)
    table.add_column(overflow="fold")
    for name, value in _lines(facts, 0):
        style = "bold" if not value else ""
        table.add_row(Text(visible(name), style=style), Text(visible(value)))
    _print(out, table)


def _lines(facts: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    for name, value in _displayed(facts).items():
        indented = "  " * depth + name
        if isinstance(value, Mapping) and all(map(_is_number, value.values())) and depth:
            numbers = _displayed(value).items()
            yield indented, ", ".join(f"{key} {_as_text(number)}" for key, number in numbers)
        elif isinstance(value, Mapping):
            yield indented, ""
            yield from _lines(value, depth + 1)
        else:
            yield indented, _as_text(value)


def _displayed(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same facts with display names; names that the user owns stay as they are."""
    from tamis.collection.describe import ByName

    if isinstance(facts, ByName):
        return facts
    return {name.replace("_", " "): value for name, value in facts.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        value = round(value, 4)
    return f"{value:,}" if isinstance(value, int | float) else str(value)
