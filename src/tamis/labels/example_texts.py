"""What examples refer to: the texts of their queries and of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.labels.examples import TO_THE_END, Examples
from tamis.pipeline.document_lookup import DocumentLookup
from tamis.text.passages import TitleRule, text_of
from tamis.types import Document, Passage

ROWS_IN_DIGEST = 300


def row_texts(
    examples: Examples, rows: NDArray[np.integer[Any]], lookup: DocumentLookup
) -> tuple[list[str], list[str]]:
    """The query and the text of each of these rows.

    >>> from tamis.pipeline.document_lookup import MappingLookup
    >>> from tamis.types import Queries, Query
    >>> example = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> example = example.with_queries(Queries.of([Query("q1", "sieve")]))
    >>> row_texts(example, np.array([0]), MappingLookup({"d1": Document("d1", "A drum.", "Tamis")}))
    (['sieve'], ['Tamis A drum.'])
    """
    numbers = examples.query[rows].tolist()
    names = examples.docs.take(examples.doc[rows])
    doc_ids = {*names, *(examples.origins[n].doc_id for n in numbers if n in examples.origins)}
    documents = {document.id: document for document in lookup.fetch(sorted(doc_ids))}
    queries = [_query(examples, number, documents) for number in numbers]
    texts = [
        _text(examples, row, documents[name], examples.origins.get(number))
        for row, name, number in zip(rows.tolist(), names, numbers, strict=True)
    ]
    return queries, texts


def query_texts(
    examples: Examples, numbers: NDArray[np.integer[Any]], lookup: DocumentLookup
) -> list[str]:
    """The texts of these queries; of documents only those that queries were made from are read.

    >>> from tamis.pipeline.document_lookup import MappingLookup
    >>> from tamis.types import Queries, Query
    >>> example = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> example = example.with_queries(Queries.of([Query("q1", "sieve")]))
    >>> query_texts(example, np.array([0]), MappingLookup({}))
    ['sieve']
    """
    origins = {examples.origins[n].doc_id for n in numbers.tolist() if n in examples.origins}
    documents = {document.id: document for document in lookup.fetch(sorted(origins))}
    return [_query(examples, number, documents) for number in numbers.tolist()]


def texts_digest(examples: Examples, lookup: DocumentLookup) -> str:
    """What the texts of examples are known by: those of some rows, spread over all of them."""
    rows = np.unique(np.linspace(0, len(examples) - 1, ROWS_IN_DIGEST).astype(np.int64))
    encoded = [text.encode("utf-8", "replace") for texts in row_texts(examples, rows, lookup)
               for text in texts]  # fmt: skip
    return xxhash.xxh3_128_hexdigest(b"\0".join(encoded))


def _query(examples: Examples, number: int, documents: dict[str, Document]) -> str:
    origin = examples.origins.get(number)
    if origin is not None:
        document = documents[origin.doc_id]
        text = document.title if origin.field == "title" else document.text
        return text[origin.start : origin.end]
    if examples.queries.texts is None:
        raise InputError(
            "the queries of the examples have no texts", hint="add them: examples.with_queries(…)"
        )
    return examples.queries.texts[number]


def _text(examples: Examples, row: int, document: Document, origin: Passage | None) -> str:
    """The text of a row, without its query where the query was taken from it."""
    start, end = int(examples.start[row]), int(examples.end[row])
    end = len(document.text) if end == TO_THE_END else end
    title: TitleRule = "every" if examples.titled[row] else "never"
    if origin is None or origin.doc_id != document.id:
        return text_of(document, Passage(document.id, 0, start, end), title)
    if origin.field == "title":
        return document.text[start:end]
    text = document.text
    without_query = text[: origin.start] + " " * (origin.end - origin.start) + text[origin.end :]
    remaining = Document(document.id, without_query, document.title)
    return " ".join(text_of(remaining, Passage(document.id, 0, start, end), title).split())
