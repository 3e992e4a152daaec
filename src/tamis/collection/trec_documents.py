"""TREC's document files: `<DOC>` elements one after another, each with a `<DOCNO>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tamis.collection.base import Faults
from tamis.collection.lines import writing
from tamis.collection.loss_notes import LossNotes
from tamis.collection.sgml import PLAIN_NAME, escape, stretches, without_tags
from tamis.errors import LineError
from tamis.types import Document

TITLES = ("title", "headline", "hl", "head", "ttl")
TEXTS = ("text", "leadpara", "lp", "body")
HEADERS = ("docid", "dochdr")
_RESERVED = {*TITLES, *TEXTS, "doc", "docno"}
_OPENING = re.compile(r"<([A-Za-z][\w-]*+)(?:\s[^<>]*+)?+>")
_CLOSING = re.compile(r"</([A-Za-z][\w-]*+)\s*+>")


def read_documents(path: Path, faults: Faults) -> Iterator[tuple[int, Document]]:
    """The documents of a file with the line each begins on.

    Text is what stands in `<TEXT>` and lead paragraphs, or, where there is none, all but number,
    title and header. Any other element is a field, its name in lower case; those of the same name
    are put together.
    """
    for line, body in stretches(path, "DOC", faults):
        document = _document(body)
        if document is None:
            hint = "every <DOC> needs a <DOCNO>…</DOCNO>"
            faults.meet(LineError(path, line, "<DOC> has no <DOCNO>", hint=hint))
        else:
            yield line, document


def _document(body: str) -> Document | None:
    number: str | None = None
    titles: list[str] = []
    texts: list[str] = []
    rest: list[str] = []
    fields: dict[str, list[str]] = {}
    for name, content in _elements(body):
        if name == "docno" and number is None:
            number = without_tags(content)
        elif name in TITLES:
            titles.append(without_tags(content))
        elif name in TEXTS:
            texts.append(without_tags(content))
        else:
            if name not in HEADERS:
                rest.append(content)
            if name:
                fields.setdefault(name, []).append(without_tags(content))
    if number is None:
        return None
    if not texts:
        texts = [without_tags(" ".join(rest))]
        fields = {name: parts for name, parts in fields.items() if name in HEADERS}
    joined = {name: "\n".join(parts) for name, parts in fields.items()}
    return Document(number, "\n".join(texts), "\n".join(titles), joined)


def _elements(body: str) -> Iterator[tuple[str, str]]:
    """The outermost elements in order, by name; loose text between them has no name."""
    at = 0
    closing_tags = _closing_tags(body)
    for opening in _OPENING.finditer(body):
        name = opening[1].lower()
        closing = closing_tags.get(name)
        while closing and closing[-1][0] < opening.end():
            closing.pop()
        if opening.start() < at or not closing:
            continue
        start, end = closing[-1]
        yield "", body[at : opening.start()]
        yield name, body[opening.end() : start]
        at = end
    yield "", body[at:]


def _closing_tags(body: str) -> dict[str, list[tuple[int, int]]]:
    """Where the closing tags of each name start and end, the last first."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for tag in _CLOSING.finditer(body):
        spans.setdefault(tag[1].lower(), []).append(tag.span())
    for places in spans.values():
        places.reverse()
    return spans


def write_documents(
    documents: Iterable[Document], path: Path, notes: LossNotes, force: bool = False
) -> None:
    """Write a file of `<DOC>` elements; fields become elements where their names can be tags."""
    with writing(path, force) as file:
        for document in documents:
            file.write(_element(document, notes).encode())


def _element(document: Document, notes: LossNotes) -> str:
    lines = ["<DOC>", f"<DOCNO>{escape(document.id)}</DOCNO>"]
    if document.title:
        lines.append(f"<TITLE>{escape(document.title)}</TITLE>")
    for name, value in document.fields.items():
        if PLAIN_NAME.fullmatch(name) and name not in _RESERVED:
            lines.append(f"<{name.upper()}>{escape(value)}</{name.upper()}>")
        else:
            notes.add(f"the field {name!r} of {{}} was left out: it cannot be a tag", "document")
    lines += ["<TEXT>", escape(document.text), "</TEXT>", "</DOC>", ""]
    return "\n".join(lines)
