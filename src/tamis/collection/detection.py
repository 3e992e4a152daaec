"""What a file or folder is, found by looking inside; names and suffixes of files say nothing.

The layouts of known folders (BEIR, MS MARCO, tamis's own) are known by the files in them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import orjson

from tamis import manifest
from tamis.collection._records import Columns, holds_documents, holds_queries
from tamis.collection.arrow_files import read_metadata
from tamis.collection.beir import is_beir, is_judged
from tamis.collection.layout import files_in
from tamis.collection.lines import BOM, open_bytes
from tamis.collection.msmarco import is_msmarco
from tamis.durable import folder_exists
from tamis.errors import InputError, UnknownFormatError

HEAD = 1 << 18
LINES = 200
FILES = 20
"""How many bytes of a file, how many lines of those, and how many files of a folder are seen."""
OTHER_PACKINGS = {
    b"\x1f\x9d": "compress (.Z)",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7z",
}
LOOKED_FOR = (
    "looked for Parquet, Arrow, JSONL, TREC documents, topics, runs and qrels, CSV and TSV with "
    "a header, a table of id and text, and plain text"
)
QUERY_IDS, PASSAGE_IDS = {"qid", "query_id", "query-id"}, {"pid", "docid", "doc_id", "passage_id"}


def detect_format(path: Path | str, columns: Columns | None = None) -> str:
    r"""The format of a file or folder: a name in `FORMATS`, or the kind of a tamis folder.

    `columns` are names the user gave, which a header may have in place of the usual ones.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "named.txt"
    ...     _ = file.write_text("q1 Q0 d7 1 12.5 bm25\n")
    ...     detect_format(file)
    'run'
    """
    path = Path(path)
    if folder_exists(path):
        return _look_at_folder(path)
    if not path.exists():
        raise InputError(f"there is no file or folder {path}", hint="is the path right?")
    return _look_at_file(path, columns or Columns())


def _look_at_folder(folder: Path) -> str:
    note = manifest.read_manifest(folder)
    if note is not None:
        return str(note["kind"])
    if is_beir(folder):
        return "beir"
    if is_judged(folder):
        return "judged"
    if is_msmarco(folder):
        return "msmarco"
    files = files_in(folder)
    formats = {_format_or_unknown(path) for path in files[:FILES]}
    if "trectext" in formats:
        return "trectext"
    if any(is_file_kind(path) for path in files):
        return "files"
    raise UnknownFormatError(
        f"cannot tell what the folder {folder} holds",
        hint=_hint_for(formats),
    )


def is_file_kind(path: Path) -> bool:
    """Whether `files` reads a file of this kind: text, Markdown, HTML and so on."""
    from tamis.collection.filetexts import KINDS

    return path.suffix.lower() in KINDS


def _hint_for(formats: set[str]) -> str:
    for name in ("jsonl", "parquet", "arrow", "csv", "tsv"):
        if name in formats:
            return (
                f"if every file in it holds documents, say so: --format {name}; looked for "
                "tamis.json, BEIR, MS MARCO and TREC files, and text, Markdown, HTML or PDF"
            )
    return (
        "looked for tamis.json, corpus.jsonl (BEIR), collection.tsv or msmarco-docs.tsv "
        "(MS MARCO), TREC documents, and text, Markdown, HTML or PDF files"
    )


def _format_or_unknown(path: Path) -> str:
    try:
        return _look_at_file(path, Columns())
    except InputError:
        return "unknown"


@dataclass(frozen=True)
class _Head:
    """The first lines of a file; whether they are all of it."""

    path: Path
    lines: list[str]
    whole: bool

    @property
    def first(self) -> str:
        return self.lines[0]


def _look_at_file(path: Path, columns: Columns) -> str:
    with open_bytes(path) as stream:
        raw = stream.read(HEAD)
    if raw[:4] == b"PAR1":
        return read_metadata(path).get(b"tamis", b"parquet").decode("utf-8", "replace")
    if raw[:6] == b"ARROW1" or raw[:4] == b"\xff\xff\xff\xff":
        return "arrow"
    if raw[:5] == b"%PDF-":
        return "files"
    _refuse_unreadable(path, raw)
    text = raw.removeprefix(BOM).decode("utf-8", "replace")
    lines = text.split("\n")
    whole = len(raw) < HEAD
    if len(lines) > 1 and not whole:
        del lines[-1]
    lines = [line.removesuffix("\r") for line in lines if line.strip()]
    if not lines:
        raise UnknownFormatError(f"{path} is empty", hint="is it the right file?")
    return _look_at_text(_Head(path, lines[:LINES], whole and len(lines) <= LINES), columns)


def _refuse_unreadable(path: Path, raw: bytes) -> None:
    for magic, name in OTHER_PACKINGS.items():
        if raw.startswith(magic):
            raise UnknownFormatError(
                f"{path} is packed with {name}", hint="unpack it, or pack it with gzip or zstd"
            )
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UnknownFormatError(f"{path} is UTF-16", hint="save the file as UTF-8")


def _look_at_text(head: _Head, columns: Columns) -> str:
    start = head.first.lstrip()
    if start[0] in "{[":
        return _look_at_json(head)
    if re.match(r"<[A-Za-z!?]", start):
        return _look_at_markup(head)
    if re.match(r"#{1,6} \S", start):  # a Markdown heading
        return "files"
    format = _look_at_header(head.first, columns)
    if format is None:
        _refuse_other_delimiters(head, columns)
    return format or _look_at_rows(head) or _plain_text(head)


def _look_at_json(head: _Head) -> str:
    cut_off = len(head.lines) == 1 and not head.whole
    followed = len(head.lines) > 1 and head.lines[1].lstrip()[0] == "{"
    if head.first.lstrip()[0] == "{" and (_is_object(head.first) or followed or cut_off):
        return "jsonl"
    raise UnknownFormatError(
        f"{head.path} is JSON, but not one object a line",
        hint='write a line {"id": …, "text": …} a record, for example with: jq -c ".[]"',
    )


def _is_object(line: str) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


MARKUP = {
    "trectext": re.compile(r"<DOC(\s[^<>]*)?>", re.IGNORECASE),
    "topics": re.compile(r"<top>", re.IGNORECASE),
    "topics-xml": re.compile(r"<topics?[\s>]", re.IGNORECASE),
    "files": re.compile(r"<(!doctype\s+html|html)[\s>]", re.IGNORECASE),
}


def _look_at_markup(head: _Head) -> str:
    """The format whose tag comes first."""
    text = "\n".join(head.lines)
    tags = [(tag.search(text), name) for name, tag in MARKUP.items()]
    found = [(tag.start(), name) for tag, name in tags if tag]
    if found:
        return min(found)[1]
    raise UnknownFormatError(
        f"{head.path} has markup of an unknown kind, which begins with: {head.first[:60]!r}",
        hint="looked for <DOC>, <top>, <topic> and <html>",
    )


def _look_at_header(line: str, columns: Columns) -> str | None:
    names = line.split("\t")
    if names[:3] == ["query-id", "corpus-id", "score"]:
        return "beir-qrels"
    lower = [name.strip().lower() for name in names]
    if len(names) == 5 and lower[0] in QUERY_IDS and lower[1] in PASSAGE_IDS:
        return "reranking"
    for format, cells in [("tsv", _cells(line, "\t")), ("csv", _cells(line, ","))]:
        if holds_documents(cells, columns) or holds_queries(cells, columns):
            return format
    return None


def _refuse_other_delimiters(head: _Head, columns: Columns) -> None:
    """Refuse a table with a good header whose columns are separated by something else."""
    for delimiter, name in ((";", "semicolons"), ("|", "vertical bars")):
        cells = [cell.strip() for cell in _cells(head.first, delimiter)]
        if holds_documents(cells, columns) or holds_queries(cells, columns):
            raise UnknownFormatError(
                f"{head.path} is a table with {name} between its columns: {head.first[:60]!r}",
                hint="save it with commas (CSV) or tabs (TSV) between the columns",
            )


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _look_at_rows(head: _Head) -> str | None:
    rows = [line.split() for line in head.lines]
    if _mostly(map(_is_run_row, rows)):
        return "run"
    if _mostly(map(_is_qrels_row, rows)):
        return "qrels"
    cells = [line.split("\t") for line in head.lines]
    if _mostly(len(row) == 2 and row[0] and " " not in row[0] for row in cells):
        return "id-text"
    if _mostly(len(row) == 4 and row[0] and row[1].startswith("http") for row in cells):
        return "msmarco-docs"
    if _mostly(len(row) == 5 and row[0] and row[1] and _is_number(row[4]) for row in cells):
        return "reranking"
    return None


def _mostly(fits: Iterable[object]) -> bool:
    """Whether at least half of the lines fit: a bad line is for the reader to report."""
    each = [bool(fit) for fit in fits]
    return 2 * sum(each) >= len(each)


def _is_run_row(row: list[str]) -> bool:
    return len(row) == 6 and row[1] == "Q0" and _is_whole(row[3]) and _is_number(row[4])


def _is_qrels_row(row: list[str]) -> bool:
    return len(row) == 4 and (row[1] == "Q0" or _is_whole(row[1])) and _is_whole(row[3])


def _is_whole(string: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", string) is not None


def _is_number(string: str) -> bool:
    try:
        float(string)
    except ValueError:
        return False
    return True


def _plain_text(head: _Head) -> str:
    """Lines without tabs are plain text; a table that is none of ours is not."""
    if any("\0" in line for line in head.lines):
        raise UnknownFormatError(f"{head.path} is not text, nor anything known", hint=LOOKED_FOR)
    if any("\t" in line for line in head.lines):
        raise UnknownFormatError(
            f"{head.path} is a table of an unknown kind, which begins with: {head.first[:60]!r}",
            hint="name its columns with --id and --text, or say what it is with --format",
        )
    commas = {line.count(",") for line in head.lines}
    if len(head.lines) > 2 and len(commas) == 1 and commas.pop() > 1:
        raise UnknownFormatError(
            f"{head.path} looks like a table with unusual column names: {head.first[:60]!r}",
            hint="name them with --id and --text, or say --format querylog",
        )
    return "querylog"
