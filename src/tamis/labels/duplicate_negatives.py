"""Negatives that say word for word what a positive of their query says."""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.durable import Progress
from tamis.labels._groups import update_counts
from tamis.labels.examples import Examples
from tamis.pipeline.document_lookup import DocumentLookup, Documents, open_lookup

DOCUMENTS_PER_FETCH = 1024


def drop_copies(examples: Examples, documents: Documents) -> Examples:
    """The same without rows that are not positive but have the text of one that is.

    Texts are compared whole, without regard to white space and titles. The counts in `facts` are
    put right and say how many were left out.

    >>> from tamis.types import Document
    >>> rows = [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "negative")]
    >>> gold_examples = Examples.of_rows(rows, source="gold")
    >>> len(drop_copies(gold_examples, [Document("d1", "A sieve."), Document("d2", "A  sieve.")]))
    1
    """
    with open_lookup(documents, examples.docs) as lookup:
        digest = _digests(examples, lookup)
    same = is_copy(examples, digest)
    if not same.any():
        return examples
    left_out = {"excluded_copies_of_a_positive": int(same.sum())}
    return update_counts(examples.select(~same), **left_out)


def _digests(examples: Examples, lookup: DocumentLookup) -> NDArray[np.uint64]:
    """A hash of the text of every document."""
    names = list(examples.docs)
    digests = np.empty(len(names), np.uint64)
    with Progress("looking for copies", len(names), "documents") as progress:
        for begin in range(0, len(names), DOCUMENTS_PER_FETCH):
            for place, document in enumerate(
                lookup.fetch(names[begin : begin + DOCUMENTS_PER_FETCH]), begin
            ):
                text = " ".join(document.text.split()) or document.title
                digests[place] = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
                progress.advance()
    return digests


def is_copy(examples: Examples, digest: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows are not positive but have the digest of a positive row of their group."""
    texts = np.stack([examples.group.astype(np.uint64), digest[examples.doc]], axis=1)
    keys = np.unique(texts, axis=0, return_inverse=True)[1].reshape(-1)
    positive = examples.is_role("positive")
    return ~positive & np.isin(keys, keys[positive])
