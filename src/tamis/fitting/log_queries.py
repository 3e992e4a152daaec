"""Queries that nobody has judged, as BM25 and as the selected system answer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tamis.pages.text_format import shorten
from tamis.types import Document, Queries, Run

SHOWN_QUERIES = 5
SHOWN_DOCUMENTS = 3
SEARCHED_QUERIES = 50
"""How many queries of a log are searched at most."""
SHOWN_CHARACTERS = 220
Excerpt = Callable[[Document, str], str]
"""What is shown of a document for a query."""


@dataclass(frozen=True)
class ShownDocument:
    """A document, with what is shown of it; `is_new` where only one of the two shows it."""

    id: str
    title: str
    excerpt: str
    is_new: bool


@dataclass(frozen=True)
class AnsweredQuery:
    """A query, and the first documents of BM25 and of the selected system."""

    text: str
    bm25: list[ShownDocument]
    selected: list[ShownDocument]


@dataclass(frozen=True)
class LogComparison:
    """Some queries of a log side by side, and how often the two systems agree."""

    queries: int
    """How many were searched."""
    other_first: int
    """For how many the first document is another."""
    other_documents: int
    """How many documents are among the first of the selected system and not of BM25."""
    shown: list[AnsweredQuery]
    """Those that differ most, the first of the log where several differ as much."""


def compare_on_log(
    bm25: Run, selected: Run, document: Callable[[str], Document], excerpt: Excerpt
) -> LogComparison:
    """Compare two rankings of the same queries by their first documents."""
    first = [(bm25[query].ids[:SHOWN_DOCUMENTS], selected[query].ids[:SHOWN_DOCUMENTS])
             for query in bm25.queries.ids]  # fmt: skip
    texts = bm25.queries.texts or ()
    differences = np.array([len(set(new) - set(old)) for old, new in first])
    others = np.array([old[:1] != new[:1] for old, new in first])
    order = np.lexsort((np.arange(len(first)), ~others, -differences))[:SHOWN_QUERIES]
    shown = [
        AnsweredQuery(
            texts[number],
            _shown(first[number][0], first[number][1], texts[number], document, excerpt),
            _shown(first[number][1], first[number][0], texts[number], document, excerpt),
        )
        for number in order.tolist()
    ]
    return LogComparison(len(first), int(others.sum()), int(differences.sum()), shown)


def _shown(
    names: Sequence[str],
    others: Sequence[str],
    query: str,
    lookup: Callable[[str], Document],
    excerpt: Excerpt,
) -> list[ShownDocument]:
    return [
        ShownDocument(
            name,
            document.title or name,
            shorten(excerpt(document, query), SHOWN_CHARACTERS),
            name not in others,
        )
        for name in names
        for document in [lookup(name)]
    ]


def sample_of_log(queries: Queries) -> Queries:
    """So many queries as are searched at most, evenly spread over the log."""
    count = len(queries)
    places = np.linspace(0, count - 1, min(count, SEARCHED_QUERIES)).astype(np.int64)
    return queries.select(np.unique(places))
