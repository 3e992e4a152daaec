"""Examples without those of test queries and of queries that repeat one."""

from __future__ import annotations

import numpy as np

from tamis.labels.example_texts import query_texts
from tamis.labels.examples import Examples
from tamis.pipeline.document_lookup import DocumentLookup
from tamis.splits import HeldOut
from tamis.types import Ids, Queries


def drop_leaks(
    examples: Examples, held_out: HeldOut, lookup: DocumentLookup
) -> tuple[Examples, Ids]:
    """The rows of all other queries, and the queries that were left out.

    >>> from tamis.pipeline.document_lookup import MappingLookup
    >>> from tamis.types import Document, Query
    >>> rows = [("q1", "d1", 1.0, "positive"), ("q2", "d1", 1.0, "positive")]
    >>> texts = Queries.of([Query("q1", "Drum sieve?"), Query("q2", "sift flour")])
    >>> examples = Examples.of_rows(rows, source="gold").with_queries(texts)
    >>> test = HeldOut.of_queries(Ids.of(["t1"]), Queries.of([Query("t1", "drum sieve")]))
    >>> lookup = MappingLookup({"d1": Document("d1", "A drum.")})
    >>> others, left_out = drop_leaks(examples, test, lookup)
    >>> len(others), [*left_out]
    (1, ['q1'])
    """
    if not len(examples) or not (len(held_out.ids) or held_out.hashes):
        return examples, Ids.of([])
    numbers = np.unique(examples.query)
    texts = tuple(query_texts(examples, numbers, lookup))
    leaks = held_out.leaks(Queries(examples.queries.ids.select(numbers), texts))
    leaking = examples.queries.ids.positions_in(leaks) >= 0
    return examples.select(~leaking[examples.query]), leaks
