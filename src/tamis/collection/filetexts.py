"""Title and readable text of one file: plain text, Markdown, reStructuredText, HTML, PDF.

A heading that gives the title stays in the text, so that nothing of the file is lost; only what
a browser or a reader would not show (mark-up, scripts, front matter) is left out.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from tamis.collection.html_text import read_page
from tamis.errors import require

LONGEST_TITLE = 120
"""Characters: a first line longer than that is no title."""
LONGEST_MARKED_UP = 1000
"""Characters: a longer heading keeps its mark-up, which may take the square of its length."""
BLANKS = " \t"

BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]
TitleAndText = tuple[str, str]


class Unreadable(Exception):
    """What is wrong with a file, at which line, and what would be right."""

    def __init__(self, line: int, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.line, self.problem, self.hint = line, problem, hint


def read_text(path: Path) -> TitleAndText:
    """The title of a file, empty where it has none, and its text."""
    title, text = KINDS[path.suffix.lower()](path)
    return " ".join(title.split()), text


# Encodings


def decoded(raw: bytes, encoding: str = "") -> str:
    """The text of a file: by its byte-order mark, else the encoding it declares, else UTF-8."""
    for mark, name in BOMS:
        if raw.startswith(mark):
            raw, encoding = raw.removeprefix(mark), name
            break
    encoding = encoding or "utf-8"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "utf-8" else encoding
        raise Unreadable(
            line,
            f"byte 0x{raw[error.start]:02x} is not {name}",
            "save the file as UTF-8, such as with: iconv -f windows-1252 -t utf-8",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Unreadable(line, "a zero byte: this is not text", "give it the suffix of its kind")
    return text.replace("\r\n", "\n").replace("\r", "\n")


_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]*?(?:charset|encoding)\s*+=\s*+["']?+\s*+([\w:.-]+)""", re.I
)
_AS_BROWSERS_DO = {"iso8859-1": "cp1252", "ascii": "cp1252", "utf-16": "utf-8"}
"""Pages say Latin-1 and mean Windows; a declaration that can be read is not UTF-16."""


def declared_encoding(raw: bytes) -> str:
    """The encoding an HTML page declares in its first bytes, as Python calls it, or nothing.

    >>> declared_encoding(b'<meta charset="Latin-1">')
    'cp1252'
    """
    declaration = _DECLARED.search(raw[:2048])
    if declaration is None:
        return ""
    name = declaration[1].decode()
    try:
        encoding = codecs.lookup(name).name
    except LookupError:
        line = raw.count(b"\n", 0, declaration.start()) + 1
        raise Unreadable(
            line, f"the page declares the unknown encoding {name!r}", "declare utf-8"
        ) from None
    return _AS_BROWSERS_DO.get(encoding, encoding)


# Plain text, Markdown, reStructuredText


def _plain(path: Path) -> TitleAndText:
    text = decoded(path.read_bytes())
    first, _, after_first = text.lstrip("\n").partition("\n")
    next_line, _, more = after_first.partition("\n")
    is_title = len(first) <= LONGEST_TITLE and not next_line.strip() and more.strip()
    return first if is_title else "", text


_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?=[\w\"'-]+[ \t]*:|#)(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M
)
_FRONT_TITLE = re.compile(r"^title:[ \t]*+([^>|\s].*)", re.M)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]++(.*)")
_SETEXT = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_NOT_A_PARAGRAPH = re.compile(r"[ \t]*$| {4}|\t| {0,3}(?:[-*+>|]|\d+[.)])(?:\s|$)")
_MARKUP = [
    (re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"`+([^`]*)`+"), r"\1"),
    (re.compile(r"(\*\*|__|\*)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
]


def _markdown(path: Path) -> TitleAndText:
    text = decoded(path.read_bytes())
    title = ""
    front = _FRONT_MATTER.match(text)
    if front:
        text = text[front.end() :]
        front_title = _FRONT_TITLE.search(front[1])
        title = _unquoted(front_title[1].rstrip(BLANKS)) if front_title else ""
    return title or _without_markup(_markdown_heading(text)), text


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _markdown_heading(text: str) -> str:
    """The first heading that does not stand in a block of code."""
    fence, before = "", ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
        elif mark:
            fence = mark[1]
        elif (heading := _HEADING.match(line)) and heading[1]:
            return _without_closing_marks(heading[1])
        elif _SETEXT.match(line) and not _NOT_A_PARAGRAPH.match(before):
            return before
        before = "" if mark or fence else line
    return ""


def _without_closing_marks(heading: str) -> str:
    """A heading without the number signs that may close it, as in `## Drums ##`."""
    heading = heading.rstrip(BLANKS)
    words = heading.rstrip("#")
    return words.rstrip(BLANKS) if words.endswith(tuple(BLANKS)) else heading


def _without_markup(heading: str) -> str:
    if len(heading) > LONGEST_MARKED_UP:
        return heading
    for pattern, replacement in _MARKUP:
        heading = pattern.sub(replacement, heading)
    return heading


_ADORNMENT = re.compile(r"([!-/:-@[-`{-~])\1*\s*$")


def _restructured(path: Path) -> TitleAndText:
    text = decoded(path.read_bytes())
    for line, under in pairwise(text.split("\n")):
        title, under = line.strip(), under.rstrip()
        if (
            title
            and _ADORNMENT.match(under)
            and not _ADORNMENT.match(title)
            and len(under) >= min(len(title), 4)
        ):
            return title, text
    return "", text


# HTML


def _html(path: Path) -> TitleAndText:
    raw = path.read_bytes()
    return read_page(decoded(raw, declared_encoding(raw)))


# PDF


def _pdf(path: Path) -> TitleAndText:
    if path.stat().st_size == 0:
        return "", ""
    pypdf = require("pypdf")
    # What a broken file makes the library trip over, besides its own errors.
    broken = (
        pypdf.errors.PyPdfError,
        *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError),
    )
    logger = logging.getLogger("pypdf")
    was_disabled = logger.disabled
    logger.disabled = True  # what it would say on stderr is in the error below
    try:
        reader = pypdf.PdfReader(path)
        pages = [page.extract_text() for page in reader.pages]
        title = _pdf_title(reader.metadata)
    except broken as error:
        raise Unreadable(
            1, f"this PDF cannot be read: {error}", "open it elsewhere and save it again"
        ) from None
    finally:
        logger.disabled = was_disabled
    text = "\n\n".join(page for page in pages if page.strip())
    text = text.encode(errors="replace").decode()
    first = text.strip().partition("\n")[0]
    return title or (first if len(first) <= LONGEST_TITLE else ""), text


def _pdf_title(metadata: Any) -> str:
    title = metadata.title if metadata is not None else None
    return title.encode(errors="replace").decode() if isinstance(title, str) else ""


KINDS: dict[str, Callable[[Path], TitleAndText]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".rst": _restructured,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
"""How a file is read, by its suffix."""
