"""Word documents and PowerPoint presentations, by python-docx and python-pptx.

The libraries open the package, its properties, styles and slides. Texts are walked for in the tree,
since `paragraph.text` leaves out content controls, tracked insertions and text boxes. Pictures,
sounds and films are not unpacked: the libraries get an archive in which they are empty.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tamis.collection.file_content import LONGEST_TITLE, FileContent, Unreadable
from tamis.collection.properties import property_fields
from tamis.collection.zip_parts import ZipParts
from tamis.errors import require

PLACEHOLDER_TITLES = {"PowerPoint Presentation", "PowerPoint-Präsentation", "Word Document"}
"""What programs write where nobody gave a title."""
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""A second form of what stands before it, for older programs."""
_BROKEN = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError),
    *(AssertionError, SyntaxError, zipfile.BadZipFile),
)
"""What a broken file makes the libraries trip over, besides their own errors."""


def read_docx(path: Path) -> FileContent:
    """The title and the text of a Word document, its notes at the end, and its properties."""
    if path.stat().st_size == 0:
        return FileContent("", "")
    docx = require("docx")
    with _faults("Word document", docx.opc.exceptions.OpcError):
        document = docx.Document(_without_media(path, "Word document"))
        roots = [document.element.body]
        for relation in document.part.rels.values():
            if relation.reltype.endswith(("/footnotes", "/endnotes")):
                roots.append(docx.oxml.parse_xml(relation.target_part.blob))
        lines = [line for root in roots for line in _lines(root, WORD)]
        title = _property_title(document) or _first_heading(document)
        fields = _property_fields(document)
    return FileContent(title, "\n".join(lines), fields)


def _first_heading(document: Any) -> str:
    """The first paragraph in the style of a title or heading; ids of styles differ by language."""
    headings = {
        style.style_id
        for style in document.styles
        if (style.name or "").startswith(("Title", "Heading"))
    }
    for style in document.element.body.iter(f"{WORD}pStyle"):
        paragraph = style.getparent().getparent()
        if style.get(f"{WORD}val") in headings and paragraph.tag == f"{WORD}p":
            heading = " ".join(_lines(paragraph, WORD))
            if heading:
                return heading
    return ""


def read_pptx(path: Path) -> FileContent:
    """The title, the text and the properties of a presentation: slide after slide, each with its
    notes.
    """
    if path.stat().st_size == 0:
        return FileContent("", "")
    pptx = require("pptx")
    with _faults("presentation", pptx.exc.PythonPptxError):
        presentation = pptx.Presentation(_without_media(path, "presentation"))
        title, slides = _property_title(presentation), []
        fields = _property_fields(presentation)
        for slide in presentation.slides:
            heading = slide.shapes.title
            if not title and heading is not None and len(heading.text) <= LONGEST_TITLE:
                title = heading.text
            lines = list(_lines(slide.element, DRAWING))
            notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
            slides.append("\n".join([*lines, *([notes.text] if notes is not None else [])]))
    return FileContent(title, "\n\n".join(slide for slide in slides if slide.strip()), fields)


def _property_title(package: Any) -> str:
    title = (package.core_properties.title or "").strip()
    return "" if title in PLACEHOLDER_TITLES else title


def _property_fields(package: Any) -> dict[str, str]:
    properties = package.core_properties
    return property_fields(properties.author, properties.created)


def _without_media(path: Path, kind: str) -> io.BytesIO:
    """The archive with its XML alone; other parts are there and empty."""
    slim = io.BytesIO()
    with ZipParts(path, kind) as parts, zipfile.ZipFile(slim, "w") as copy:
        for name in parts:
            is_xml = name.lower().endswith((".xml", ".rels"))
            copy.writestr(name, parts.read(name) if is_xml else b"")
    return slim


@contextmanager
def _faults(kind: str, own_errors: type[Exception]) -> Iterator[None]:
    etree = require("lxml.etree")
    try:
        yield
    except (own_errors, etree.LxmlError, *_BROKEN) as error:
        raise Unreadable(
            1, f"this {kind} cannot be read: {error}", "open it elsewhere and save it again"
        ) from None


def _lines(root: Any, space: str) -> Iterator[str]:
    """The paragraphs under an element, a line each; a row of a table is one line."""
    etree = require("lxml.etree")
    paragraph, row, text = f"{space}p", f"{space}tr", f"{space}t"
    breaks = {f"{space}tab": "\t", f"{space}br": "\n", f"{space}cr": "\n"}
    unread = {FALLBACK, f"{space}moveFrom", f"{space}fld", f"{space}pPr"}
    frames: list[tuple[str, list[str]]] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = element.tag
        if event == "start" and tag in unread:
            walk.skip_subtree()
        elif event == "start" and tag in (paragraph, row):
            frames.append((tag, []))
        elif event == "start" and frames and (tag == text or tag in breaks):
            frames[-1][1].append(breaks.get(tag) or element.text or "")
        elif event == "end" and frames and frames[-1][0] == tag:
            line = ("" if tag == paragraph else " ").join(frames.pop()[1]).strip()
            if line and frames and frames[-1][0] == row:
                frames[-1][1].append(" ".join(line.split()))
            elif line:
                yield line
