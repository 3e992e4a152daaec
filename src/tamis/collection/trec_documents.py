"""TREC's document files: `<DOC>` elements one after another, each with a `<DOCNO>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tamis.collection.base import Faults
from tamis.collection.lines import writing
from tamis.collection.notes import Notes
from tamis.collection.sgml import PLAIN_NAME, escape, stretches, without_tags
from tamis.errors import LineError
from tamis.types import Document

TITLES = ("title", "headline", "hl", "head", "ttl")
TEXTS = ("text", "leadpara", "lp", "body")
HEADERS = ("docid", "dochdr")
_RESERVED = {*TITLES, *TEXTS, "doc", "docno"}
_OPENING = re.compile(r"<([A-Za-z][\w-]*)(?:\s[^<>]*)?>")


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
    at, unclosed = 0, set()
    search_from = 0
    while opening := _OPENING.search(body, search_from):
        name = opening[1].lower()
        search_from = opening.end()
        end = None if name in unclosed else _closing(name).search(body, opening.end())
        if end is None:
            unclosed.add(name)
            continue
        yield "", body[at : opening.start()]
        yield name, body[opening.end() : end.start()]
        at = search_from = end.end()
    yield "", body[at:]


@cache
def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}\s*>", re.IGNORECASE)


def write_documents(
    documents: Iterable[Document], path: Path, notes: Notes, force: bool = False
) -> None:
    """Write a file of `<DOC>` elements; fields become elements where their names can be tags."""
    with writing(path, force) as file:
        for document in documents:
            file.write(_element(document, notes).encode())


def _element(document: Document, notes: Notes) -> str:
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
