"""Negatives that say word for word what a positive of their query says."""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.durable import Progress
from tamis.labels._groups import recounted
from tamis.labels.examples import Examples
from tamis.pipeline.document_lookup import Documents, Library, library

FETCHED = 1024
"""How many documents are read at a time."""


def without_copies(examples: Examples, documents: Documents) -> Examples:
    """The same without rows that are not positive but have the text of one that is.

    Texts are compared whole, without regard to white space and titles. The counts in `facts` are
    put right and say how many were left out.

    >>> from tamis.types import Document
    >>> rows = [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "negative")]
    >>> made = Examples.of_rows(rows, source="gold")
    >>> len(without_copies(made, [Document("d1", "A sieve."), Document("d2", "A  sieve.")]))
    1
    """
    with library(documents, examples.docs) as opened:
        digest = _digests(examples, opened)
    same = is_copy(examples, digest)
    if not same.any():
        return examples
    left_out = {"left out: copies of a positive": int(same.sum())}
    return recounted(examples.select(~same), **left_out)


def _digests(examples: Examples, opened: Library) -> NDArray[np.uint64]:
    """A hash of the text of every document."""
    names = list(examples.docs)
    found = np.empty(len(names), np.uint64)
    with Progress("looking for copies", len(names), "documents") as progress:
        for begin in range(0, len(names), FETCHED):
            for place, document in enumerate(opened.fetch(names[begin : begin + FETCHED]), begin):
                text = " ".join(document.text.split()) or document.title
                found[place] = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
                progress.advance()
    return found


def is_copy(examples: Examples, digest: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows are not positive but have the digest of a positive row of their group."""
    said = np.stack([examples.group.astype(np.uint64), digest[examples.doc]], axis=1)
    keys = np.unique(said, axis=0, return_inverse=True)[1].reshape(-1)
    positive = examples.is_role("positive")
    return ~positive & np.isin(keys, keys[positive])
