"""Order is part of the answer: the one rule for ties, which is that of trec_eval.

Scores are compared as float32, descending; equal scores are ordered by document id, descending by
bytes. Ids tables are sorted, so comparing document numbers compares ids.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit


@jit
def unordered(
    offsets: NDArray[np.int64], doc: NDArray[np.int32], score: NDArray[np.float32]
) -> NDArray[np.int64]:
    """The queries whose documents are not yet in the order of trec_eval."""
    queries = np.empty(len(offsets) - 1, np.int64)
    count = 0
    for q in range(len(offsets) - 1):
        for i in range(offsets[q] + 1, offsets[q + 1]):
            if not (score[i - 1] > score[i] or (score[i - 1] == score[i] and doc[i - 1] > doc[i])):
                queries[count] = q
                count += 1
                break
    return queries[:count]


@jit
def repeated(
    offsets: NDArray[np.int64], doc: NDArray[np.int32], num_documents: int
) -> NDArray[np.int64]:
    """The rows whose document their query has listed before."""
    last_query = np.full(num_documents, -1, np.int32)
    repeated_rows = []
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            if last_query[doc[i]] == q:
                repeated_rows.append(i)
            last_query[doc[i]] = q
    rows = np.empty(len(repeated_rows), np.int64)
    for n in range(len(repeated_rows)):
        rows[n] = repeated_rows[n]
    return rows


def trec_eval_order(
    offsets: NDArray[np.int64], doc: NDArray[np.int32], score: NDArray[np.float32]
) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """For each query that is out of order its rows and the permutation that puts them in order.

    >>> [(_, order)] = trec_eval_order(np.array([0, 3]), np.int32([0, 1, 2]), np.float32([1, 2, 1]))
    >>> order.tolist()
    [1, 2, 0]
    """
    for q in unordered(offsets, doc, score).tolist():
        rows = slice(int(offsets[q]), int(offsets[q + 1]))
        yield rows, np.argsort(sort_keys(doc[rows], score[rows]))


def sort_keys(doc: NDArray[np.int32], score: NDArray[np.float32]) -> NDArray[np.uint64]:
    """One number a row that ascends down a ranking: score first, then document."""
    bits = (score + np.float32(0)).view(np.uint32)  # minus zero is zero
    ascending = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    keys: NDArray[np.uint64] = (~ascending).astype(np.uint64) << np.uint64(32)
    keys |= (~doc.view(np.uint32)).astype(np.uint64)
    return keys
