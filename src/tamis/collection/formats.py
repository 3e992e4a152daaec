"""What a format is: how it is detected, read and written, in one object.

A format is a `Format` in the file that reads it and a line in `format_registry`. Whatever detects,
opens, converts, describes or writes asks these objects and knows no format by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from tamis.collection._records import Columns
from tamis.collection.base import Collection, Faults
from tamis.collection.layout import plain_name
from tamis.collection.loss_notes import LossNotes
from tamis.collection.samples import FileHead, FolderSample
from tamis.errors import InputError
from tamis.types import Qrels, Queries, Query, Run, Spec

Content = Literal["collection", "documents", "queries", "qrels", "run"]
QueryRows = Iterator[tuple[int, Query]]
"""Queries with the lines they stand on."""
Writer = TypeVar("Writer")


class RunWriter(Protocol):
    """Writes a run; `tag` and `spec` say what made it, where the format has a place for them."""

    def __call__(
        self, run: Run, path: Path, notes: LossNotes, force: bool, *, tag: str, spec: Spec | None
    ) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format and all that is known of it; what it cannot do is None."""

    name: str
    description: str
    holds: tuple[Content, ...]
    """What a file or folder of this format is taken for, unless another use is asked for."""
    aliases: tuple[str, ...] = ()
    """Other names by which it is asked for as a target."""
    suffix: str = ""
    """What the name of a target ends in that asks for it, such as `.jsonl`."""

    detect: Callable[[FileHead], bool] | None = None
    """Whether a file is of this format; of several, the first in the registry counts."""
    markup: re.Pattern[str] | None = None
    """The tag that a file of mark-up has; of several formats, that of the first tag counts."""
    detect_folder: Callable[[FolderSample], bool] | None = None
    """Whether a folder is of this format; the first in the registry counts."""

    open_collection: Callable[[Path, Faults], Collection] | None = None
    read_queries: Callable[[Path, Faults], QueryRows] | None = None
    read_qrels: Callable[[Path, Faults], Qrels] | None = None
    read_run: Callable[[Path, Faults], Run] | None = None
    with_columns: Callable[[Columns], Format] | None = None
    """The same format with columns that the user named; None where there are none to name."""
    opens_folder_of_files: bool = False
    """Whether a folder of such files is a collection, if the user says so."""

    write_collection: Callable[[Collection, Path, LossNotes, bool], None] | None = None
    write_queries: Callable[[Queries, Path, LossNotes, bool], None] | None = None
    write_qrels: Callable[[Qrels, Path, bool], None] | None = None
    write_run: RunWriter | None = None
    conversions: Mapping[str, Callable[[Path, Path, bool], list[str]]] = field(default_factory=dict)
    """Targets that only this format can be turned into, file by file; each returns its notes."""


def all_formats() -> Mapping[str, Format]:
    """The registry, by name. It imports every format, and formats import this module."""
    from tamis.collection.format_registry import FORMATS

    return FORMATS


def contents_of(name: str) -> tuple[Content, ...]:
    """What a format holds; nothing for a kind of tamis folder that is no collection."""
    format = all_formats().get(name)
    return format.holds if format else ()


def formats_of(*contents: Content) -> list[str]:
    """The names of the formats that hold any of these.

    >>> formats_of("qrels")
    ['judged', 'beir-qrels', 'qrels']
    """
    return [name for name, format in all_formats().items() if {*contents} & {*format.holds}]


def find_writer(name: str, writer_of: Callable[[Format], Writer | None], content: str) -> Writer:
    """What the format of this name writes with; an error that names the others if it does not."""
    writers = {
        target: writer
        for format in all_formats().values()
        if (writer := writer_of(format)) is not None
        for target in (format.name, *format.aliases)
    }
    if name not in writers:
        raise InputError(
            f"cannot write {content} as {name!r}", hint=f"formats: {', '.join(writers)}"
        )
    return writers[name]


def target_format(path: Path, writer_of: Callable[[Format], Writer | None], default: Format) -> str:
    """The format that the name of a target asks for, if it writes such a thing."""
    suffix = Path(plain_name(path)).suffix
    names = (
        format.name
        for format in all_formats().values()
        if format.suffix and format.suffix == suffix and writer_of(format) is not None
    )
    return next(names, default.name)
