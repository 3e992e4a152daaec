"""Title, text and fields of one file, by its suffix.

A heading that gives the title stays in the text, so that nothing of the file is lost; only what
a browser or a reader would not show (mark-up, scripts, front matter) is left out, and what repeats
on every page: the boilerplate of HTML, running heads of a PDF.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tamis.collection.epub import read_epub
from tamis.collection.file_content import (
    LONGEST_TITLE,
    FileContent,
    Unreadable,
    decoded,
    decoded_or_windows,
    read_bytes,
)
from tamis.collection.front_matter import read_front_matter
from tamis.collection.html_text import declared_encoding, page_fields
from tamis.collection.main_content import read_main_content
from tamis.collection.notebook import read_notebook
from tamis.collection.office_files import read_docx, read_pptx
from tamis.collection.properties import property_fields
from tamis.collection.running_heads import without_running_heads
from tamis.errors import require

LONGEST_MARKED_UP = 1000
"""Characters: a longer heading keeps its mark-up, which may take the square of its length."""
BLANKS = " \t"

TitleAndText = tuple[str, str]


def read_text(path: Path) -> FileContent:
    r"""What a file says; a suffix that is not among `KINDS` is a KeyError.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "sieves.md"
    ...     _ = path.write_text("---\nauthor: Ada\n---\n# Sieves\n")
    ...     read_text(path).fields
    {'author': 'Ada'}
    """
    content = KINDS[path.suffix.lower()](path)
    if not isinstance(content, FileContent):
        content = FileContent(*content)
    title = " ".join(content.title.split())
    return replace(content, title=title)


# Plain text, Markdown, reStructuredText


def _plain(path: Path) -> FileContent:
    text, not_utf8 = decoded_or_windows(read_bytes(path))
    first, _, after_first = text.lstrip("\n").partition("\n")
    next_line, _, more = after_first.partition("\n")
    is_title = len(first) <= LONGEST_TITLE and not next_line.strip() and more.strip()
    return FileContent(first if is_title else "", text, not_utf8=not_utf8)


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]++(.*)")
_SETEXT = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_NOT_A_PARAGRAPH = re.compile(r"[ \t]*$| {4}|\t| {0,3}(?:[-*+>|]|\d+[.)])(?:\s|$)")
_INDENTED = re.compile(r" {4}|\t")
_LINK = re.compile(r"`[^`\n]*+`|!?\[([^\[\]\n]*+)\]\((?:[^()\n]++|\([^()\n]*+\))*+\)")
_MARKUP = [
    (re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"`+([^`]*)`+"), r"\1"),
    (re.compile(r"(\*\*|__|\*)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
]


def _markdown(path: Path) -> FileContent:
    text, not_utf8 = decoded_or_windows(read_bytes(path))
    matter = read_front_matter(text)
    text = text[matter.end :]
    title = matter.title or _markdown_title(text)
    return FileContent(title, _without_signs(text), matter.fields or {}, matter.problem, not_utf8)


def _without_signs(text: str) -> str:
    """Markdown as it is read: headings, links and images by their words, code as it is."""
    lines, fence = text.split("\n"), ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
        elif mark:
            fence = mark[1]
        elif not _INDENTED.match(line):
            heading = _HEADING.match(line)
            words = _without_closing_marks(heading[1]) if heading else line
            for _ in range(2):  # an image may stand in a link
                words = _LINK.sub(_link_words, words)
            lines[number] = words
    return "\n".join(lines)


def _link_words(link: re.Match[str]) -> str:
    """The words of a link or an image; code between backticks stays."""
    return link[0] if link[1] is None else link[1]


def _markdown_title(text: str) -> str:
    return _without_markup(_markdown_heading(text))


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


def _restructured(path: Path) -> FileContent:
    text, not_utf8 = decoded_or_windows(read_bytes(path))
    return FileContent(_restructured_title(text), text, not_utf8=not_utf8)


def _restructured_title(text: str) -> str:
    for line, under in pairwise(text.split("\n")):
        title, under = line.strip(), under.rstrip()
        if (
            title
            and _ADORNMENT.match(under)
            and not _ADORNMENT.match(title)
            and len(under) >= min(len(title), 4)
        ):
            return title
    return ""


# HTML, notebooks


def _html(path: Path) -> FileContent:
    raw = read_bytes(path)
    encoding, not_utf8 = declared_encoding(raw), None
    if encoding:
        page = decoded(raw, encoding)
    else:
        page, not_utf8 = decoded_or_windows(raw)
    return FileContent(*read_main_content(page), page_fields(page), not_utf8=not_utf8)


def _notebook(path: Path) -> TitleAndText:
    title, text, prose = read_notebook(path)
    return title or _markdown_title(prose), text


# PDF


def _pdf(path: Path) -> FileContent:
    if path.stat().st_size == 0:
        return FileContent("", "")
    pypdf = require("pypdf")
    # What a broken file makes the library trip over, besides its own errors.
    broken = (
        pypdf.errors.PyPdfError,
        *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError),
    )
    try:
        with _silent("pypdf"):  # what it would say on stderr is in the error below
            reader = pypdf.PdfReader(path)
            pages = [page.extract_text() for page in reader.pages]
            title, fields = _pdf_title(reader.metadata), _pdf_fields(reader.metadata)
    except broken as error:
        raise Unreadable(
            1, f"this PDF cannot be read: {error}", "open it elsewhere and save it again"
        ) from None
    pages = without_running_heads(pages)
    text = "\n\n".join(page for page in pages if page.strip())
    text = text.encode(errors="replace").decode()
    first = text.strip().partition("\n")[0]
    return FileContent(title or (first if len(first) <= LONGEST_TITLE else ""), text, fields)


@contextmanager
def _silent(library: str) -> Iterator[None]:
    """Keep what the loggers of a library say from the handlers of others, and from stderr."""
    logger, nowhere = logging.getLogger(library), logging.NullHandler()
    propagated = logger.propagate
    logger.propagate = False
    logger.addHandler(nowhere)
    try:
        yield
    finally:
        logger.propagate = propagated
        logger.removeHandler(nowhere)


def _pdf_title(metadata: Any) -> str:
    title = metadata.title if metadata is not None else None
    return title.encode(errors="replace").decode() if isinstance(title, str) else ""


def _pdf_fields(metadata: Any) -> dict[str, str]:
    if metadata is None:
        return {}
    return property_fields(metadata.author, metadata.creation_date_raw)


KINDS: dict[str, Callable[[Path], FileContent | TitleAndText]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".rst": _restructured,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
    ".docx": read_docx,
    ".pptx": read_pptx,
    ".ipynb": _notebook,
    ".epub": read_epub,
}
"""How a file is read, by its suffix."""
