"""What a file or folder is, found by looking inside; names and suffixes of files say nothing.

What tamis wrote says what it is: a folder in its manifest, a Parquet file in its metadata. Of all
else the formats are asked one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tamis import manifest
from tamis.collection._records import Columns, holds_records
from tamis.collection.arrow_files import PARQUET_MAGIC, read_metadata
from tamis.collection.base import Faults
from tamis.collection.csv_tsv import SAVE_WITH_COMMAS_OR_TABS
from tamis.collection.formats import Format, all_formats
from tamis.collection.samples import FileHead, FolderSample, read_head
from tamis.durable import folder_exists
from tamis.errors import InputError, UnknownFormatError

SHOWN_CHARACTERS = 60
OTHER_DELIMITERS = {";": "semicolons", "|": "vertical bars"}
T = TypeVar("T")
Reader = Callable[[Path, Faults], T]


def detect_format(path: Path | str, columns: Columns | None = None) -> str:
    r"""The format of a file or folder: a name in the registry, or the kind of a tamis folder.

    `columns` are names the user gave, which a header may have in place of the default ones.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "named.txt"
    ...     _ = file.write_text("q1 Q0 d7 1 12.5 bm25\n")
    ...     detect_format(file)
    'run'
    """
    path = Path(path)
    if folder_exists(path):
        return _detect_folder(path)
    if not path.exists():
        raise InputError(f"there is no file or folder {path}", hint="is the path right?")
    return _detect_file(path, columns)


def detect_if_possible(path: Path | str) -> str:
    """The format of a file or folder; empty where there is none, or where it cannot be told."""
    try:
        return detect_format(path)
    except InputError:
        return ""


def find_reader(
    path: Path, reader_of: Callable[[Format], Reader[T] | None], default: Reader[T]
) -> Reader[T]:
    """What reads a file, of all formats that read such a thing; the default reports its faults."""
    head = read_head(path)
    for format in all_formats().values():
        reader = reader_of(format)
        if reader is not None and format.detect and format.detect(head):
            return reader
    return default


def _detect_folder(path: Path) -> str:
    facts = manifest.read_manifest(path)
    if facts is not None:
        return str(facts["kind"])
    folder = FolderSample(path, detect_if_possible)
    for format in all_formats().values():
        if format.detect_folder and format.detect_folder(folder):
            return format.name
    if not any(path.iterdir()):
        raise UnknownFormatError(f"the folder {path} is empty", hint="is the path right?")
    raise UnknownFormatError(f"cannot tell what the folder {path} holds", hint=_folder_hint(folder))


def _folder_hint(folder: FolderSample) -> str:
    formats = all_formats().values()
    descriptions = [format.description for format in formats if format.detect_folder]
    looked_for = f"looked for tamis.json; {'; '.join(descriptions)}"
    for format in formats:
        if format.opens_folder_of_files and format.name in folder.formats:
            say_so = f"if every file in it holds documents, say so: --format {format.name}"
            return f"{say_so}; {looked_for}"
    return looked_for


def _detect_file(path: Path, columns: Columns | None) -> str:
    head = read_head(path, columns)
    if head.raw.startswith(PARQUET_MAGIC) and (kind := read_metadata(path).get(b"tamis")):
        return kind.decode("utf-8", "replace")
    if head.is_markup and (format_of_tag := _format_of_first_tag(head)):
        return format_of_tag.name
    for format in all_formats().values():
        if format.detect and format.detect(head):
            return format.name
    raise explain(head) or UnknownFormatError(f"{path} is of an unknown format", hint=_looked_for())


def _format_of_first_tag(head: FileHead) -> Format | None:
    text = "\n".join(head.lines)
    tags = [
        (tag.start(), format)
        for format in all_formats().values()
        if format.markup and (tag := format.markup.search(text))
    ]
    return min(tags, key=lambda tag: tag[0])[1] if tags else None


def _looked_for() -> str:
    return f"looked for {', '.join(all_formats())}"


def explain(head: FileHead) -> UnknownFormatError | None:
    """Why a file that is of no format with marks of its own is not plain text either."""
    problem_and_hint = _unreadable(head) or _of_unknown_kind(head) or _unknown_table(head)
    if problem_and_hint is None:
        return None
    problem, hint = problem_and_hint
    return UnknownFormatError(f"{head.path} {problem}", hint=hint)


def _unreadable(head: FileHead) -> tuple[str, str] | None:
    if head.packing:
        return f"is packed with {head.packing}", "unpack it, or pack it with gzip or zstd"
    if head.is_utf_16:
        return "is UTF-16", "save the file as UTF-8"
    return None if head.lines else ("is empty", "is it the right file?")


def _of_unknown_kind(head: FileHead) -> tuple[str, str] | None:
    if head.is_json:
        hint = 'write a line {"id": …, "text": …} a record, for example with: jq -c ".[]"'
        return "is JSON, but not one object a line", hint
    start = f"which begins with: {head.first[:SHOWN_CHARACTERS]!r}"
    if head.is_markup:
        return f"has markup of an unknown kind, {start}", _looked_for()
    if any("\0" in line for line in head.lines):
        return "is not text, nor anything known", _looked_for()
    return None


def _unknown_table(head: FileHead) -> tuple[str, str] | None:
    start = repr(head.first[:SHOWN_CHARACTERS])
    for delimiter, name in OTHER_DELIMITERS.items():
        if holds_records([cell.strip() for cell in head.cells(delimiter)], head.columns):
            problem = f"is a table with {name} between its columns: {start}"
            return problem, SAVE_WITH_COMMAS_OR_TABS
    if any("\t" in line for line in head.lines):
        hint = "name its columns with --id and --text, or say what it is with --format"
        return f"is a table of an unknown kind, which begins with: {start}", hint
    commas = {line.count(",") for line in head.lines}
    if len(head.lines) > 2 and len(commas) == 1 and commas.pop() > 1:
        hint = "name them with --id and --text, or say --format querylog"
        return f"looks like a table with unusual column names: {start}", hint
    return None
