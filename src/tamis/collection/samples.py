"""What a format is detected by: the first lines of a file, the files of a folder."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tamis.collection._records import Columns
from tamis.collection.layout import files_in
from tamis.collection.lines import BOM, open_bytes

HEAD_BYTES = 1 << 18
HEAD_LINES = 200
SAMPLED_FILES = 20
OTHER_PACKINGS = {
    b"\x1f\x9d": "compress (.Z)",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7z",
}
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_TAG_OR_DECLARATION = re.compile(r"\s*<[A-Za-z!?]")
_MARKDOWN_HEADING = re.compile(r"\s*#{1,6} \S")


@dataclass(frozen=True)
class FileHead:
    r"""The first bytes of a file, unpacked.

    `columns` are names the user gave, which a header may have in place of the default ones.

    >>> FileHead(Path("run"), b"q1 Q0 d7 1 12.5 bm25\n").rows
    ['q1 Q0 d7 1 12.5 bm25']
    """

    path: Path
    raw: bytes
    columns: Columns = field(default_factory=Columns)

    @cached_property
    def packing(self) -> str | None:
        """How the file is packed, if in a way that tamis does not unpack."""
        names = (name for magic, name in OTHER_PACKINGS.items() if self.raw.startswith(magic))
        return next(names, None)

    @property
    def is_utf_16(self) -> bool:
        return self.raw.startswith(UTF_16_MARKS)

    @property
    def is_whole(self) -> bool:
        return len(self.raw) < HEAD_BYTES

    @cached_property
    def lines(self) -> list[str]:
        """The first lines that are not blank; none of a file that is packed or UTF-16."""
        if self.packing or self.is_utf_16:
            return []
        lines = self.raw.removeprefix(BOM).decode("utf-8", "replace").split("\n")
        if len(lines) > 1 and not self.is_whole:
            del lines[-1]
        return [line.removesuffix("\r") for line in lines if line.strip()][:HEAD_LINES]

    @property
    def first(self) -> str:
        """The first line; empty where there is none."""
        return self.lines[0] if self.lines else ""

    @property
    def is_json(self) -> bool:
        return self.first.lstrip().startswith(("{", "["))

    @property
    def is_markup(self) -> bool:
        """Whether the text begins with a tag."""
        return _TAG_OR_DECLARATION.match(self.first) is not None

    @property
    def is_markdown(self) -> bool:
        return _MARKDOWN_HEADING.match(self.first) is not None

    @cached_property
    def rows(self) -> list[str]:
        """The lines of a text that may be a table: no JSON, mark-up or Markdown."""
        return [] if self.is_json or self.is_markup or self.is_markdown else self.lines

    def cells(self, delimiter: str) -> list[str]:
        """The cells of the first row; none where they cannot be told."""
        try:
            return next(csv.reader(self.rows[:1], delimiter=delimiter, strict=True), [])
        except csv.Error:
            return []


def read_head(path: Path, columns: Columns | None = None) -> FileHead:
    """The head of a file."""
    with open_bytes(path) as stream:
        return FileHead(path, stream.read(HEAD_BYTES), columns or Columns())


@dataclass(frozen=True)
class FolderSample:
    """A folder, its files, and the formats of the first of them."""

    path: Path
    detect_file: Callable[[Path], str]
    """The name of a file's format; empty where it is unknown."""

    @cached_property
    def files(self) -> list[Path]:
        return files_in(self.path)

    @cached_property
    def formats(self) -> set[str]:
        return {self.detect_file(file) for file in self.files[:SAMPLED_FILES]}


def mostly(fits: Iterable[object]) -> bool:
    """Whether there are rows and at least half of them fit: a bad one is for the reader to report.

    >>> mostly([True, False]), mostly([True, False, False]), mostly([])
    (True, False, False)
    """
    outcomes = [bool(fit) for fit in fits]
    return bool(outcomes) and 2 * sum(outcomes) >= len(outcomes)


def is_number(cell: str) -> bool:
    """Whether a cell of a table reads as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_integer(cell: str) -> bool:
    """Whether a cell of a table is a whole number, written with digits alone."""
    return re.fullmatch(r"[+-]?\d+", cell) is not None
