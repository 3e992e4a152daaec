"""Queries made from documents, where nobody has asked any yet.

A title, or the heading that a text without a title begins with, asks for the text below it; a
sentence asks for the rest of its passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xxhash

from tamis.collection.base import Collection
from tamis.durable import Progress
from tamis.labels._groups import generator
from tamis.labels.examples import TO_THE_END
from tamis.pipeline.document_lookup import DocumentLookup, Documents
from tamis.text.passages import PassageSpec, split
from tamis.text.sentences import Span, split_sentences
from tamis.types import Document, Passage

QueryForm = Literal["title", "sentence"]
QUERY_FORMS: tuple[QueryForm, ...] = ("title", "sentence")
"""What queries are made of."""
MIN_TITLE_WORDS, MIN_SENTENCE_WORDS, MAX_QUERY_WORDS = 2, 5, 40
MAX_HEADING_WORDS = 12
MIN_REMAINING_WORDS = 10
"""A query is made only if the rest of the text has this many words."""
DOCUMENTS_PER_FETCH = 256
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class GeneratedQuery:
    """A query made from a document: where its words lie and which characters answer it."""

    form: QueryForm
    text: str
    origin: Passage
    answer: Span

    @property
    def id(self) -> str:
        """A name that no other query has, wherever and however often queries are made."""
        start, end = self.origin.start, self.origin.end
        return f"{self.origin.doc_id}#{self.origin.field}:{start}-{end}"


@dataclass(frozen=True)
class HeadingIndex:
    """The ids of all documents, and the hashes of headings that more than one has."""

    names: Sequence[str]
    shared: frozenset[int]


def read_headings(documents: Documents) -> HeadingIndex:
    """Go through all documents once."""
    names: list[str] = []
    headings: list[int] = []
    with Progress("reading documents", unit="documents") as progress:
        for document in _iterate(documents):
            names.append(document.id)
            heading = _heading(document)
            if heading is not None:
                headings.append(_hash(_text(document, heading)))
            progress.advance()
    different, times = np.unique(np.array(headings, np.uint64), return_counts=True)
    return HeadingIndex(names, frozenset(different[times > 1].tolist()))


def _iterate(documents: Documents) -> Iterable[Document]:
    if isinstance(documents, Collection):
        return documents.documents
    return documents.values() if isinstance(documents, Mapping) else documents


def _hash(text: str) -> int:
    plain = " ".join(text.lower().split())
    return xxhash.xxh3_64_intdigest(plain.encode("utf-8", "surrogatepass"))


def make_queries(
    lookup: DocumentLookup,
    headings: HeadingIndex,
    count: int,
    made_of: Sequence[QueryForm],
    spec: PassageSpec,
    seed: int,
) -> list[GeneratedQuery]:
    """The first `count` queries in a random order of documents and of what is made of them."""
    sources = [(form, name) for form in made_of for name in headings.names]
    keys = [xxhash.xxh3_64_intdigest(f"{form}\0{name}".encode(), seed) for form, name in sources]
    order = np.argsort(np.array(keys, np.uint64), kind="stable").tolist()
    queries: list[GeneratedQuery] = []
    with Progress("making queries", count, "queries") as progress:
        for begin in range(0, len(order), DOCUMENTS_PER_FETCH):
            batch = [sources[place] for place in order[begin : begin + DOCUMENTS_PER_FETCH]]
            documents = lookup.fetch([name for _, name in batch])
            for (form, name), document in zip(batch, documents, strict=True):
                query = (
                    title_query(document, headings.shared)
                    if form == "title"
                    else sentence_query(document, spec, generator(seed, name))
                )
                if query is not None:
                    queries.append(query)
                    progress.advance()
                if len(queries) == count:
                    return queries
    return queries


def title_query(document: Document, shared: frozenset[int] = frozenset()) -> GeneratedQuery | None:
    """The title of a document, or the heading of its text, against what stands below it.

    >>> text = "A drum with a mesh, through which flour is rubbed by hand."
    >>> query = title_query(Document("d1", text, "Drum sieve"))
    >>> query.text, query.answer
    ('Drum sieve', (0, -1))
    """
    origin = _heading(document)
    if origin is None:
        return None
    text = _text(document, origin)
    if not _is_sensible(text, MIN_TITLE_WORDS) or _hash(text) in shared:
        return None
    begin = body_start(document)
    if len(document.text[begin:].split()) < MIN_REMAINING_WORDS:
        return None
    return GeneratedQuery("title", text, origin, (begin, TO_THE_END))


def body_start(document: Document) -> int:
    """Where the text below a title or heading begins: a text may begin with its title."""
    heading = _heading(document)
    if heading is None or heading.field == "text":
        return 0 if heading is None else heading.end
    title = _text(document, heading)
    begin = len(document.text) - len(document.text.lstrip())
    return begin + len(title) if document.text.startswith(title, begin) else 0


def _heading(document: Document) -> Passage | None:
    """Where the title of a document lies, or the short line that its text begins with."""
    if document.title.strip():
        begin = len(document.title) - len(document.title.lstrip())
        return Passage(document.id, 0, begin, len(document.title.rstrip()), "title")
    begin = len(document.text) - len(document.text.lstrip())
    end = document.text.find("\n", begin)
    line = document.text[begin:end].rstrip() if end >= 0 else ""
    if not line or len(line.split()) > MAX_HEADING_WORDS or line.endswith((".", ",", ";", "…")):
        return None
    return Passage(document.id, 0, begin, begin + len(line))


def _text(document: Document, origin: Passage) -> str:
    text = document.title if origin.field == "title" else document.text
    return text[origin.start : origin.end]


def _is_sensible(text: str, min_words: int) -> bool:
    return min_words <= len(text.split()) <= MAX_QUERY_WORDS and _LETTER.search(text) is not None


def sentence_query(
    document: Document, spec: PassageSpec, random: np.random.Generator
) -> GeneratedQuery | None:
    """A sentence of a document against the rest of the passage it stands in.

    >>> from tamis.text.passages import parse_spec
    >>> text = "It sorts flour. " * 4 + "Drums are beaten with two sticks."
    >>> query = sentence_query(Document("d1", text), parse_spec("whole"), generator(0, "d1"))
    >>> query.text, query.answer
    ('Drums are beaten with two sticks.', (0, 97))
    """
    text = document.text
    windows = [passage for passage in split(document, spec).passages if passage.field == "text"]
    fit: list[tuple[Span, Span]] = []
    for start, end in split_sentences(text):
        sentence = text[start:end]
        if not _is_sensible(sentence, MIN_SENTENCE_WORDS):
            continue
        for window in windows:
            if window.start <= start and end <= window.end:
                remainder = text[window.start : start], text[end : window.end]
                again = any(sentence in side for side in remainder)  # it would stay in the answer
                if (
                    sum(len(side.split()) for side in remainder) >= MIN_REMAINING_WORDS
                    and not again
                ):
                    fit.append(((start, end), (window.start, window.end)))
                break
    if not fit:
        return None
    (start, end), answer = fit[int(random.integers(len(fit)))]
    return GeneratedQuery("sentence", text[start:end], Passage(document.id, 0, start, end), answer)
