"""Scanning rows of bytes for the documents that may be among a query's best, and scoring them.

A query is a row of 16-bit numbers, so that its product with a row of bytes is a sum of integers:
the same in whatever order it is added up. What the bytes lost of a row is bounded by the length of
the difference, so each row has a lowest and a highest score it can have. A row is kept while its
highest reaches the k-th best lowest of all documents, and what is kept is scored in float: the
ranking is that of all rows scored in float.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.search.term_counts import Ints, Longs

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


class DenseQueries(NamedTuple):
    """Some queries as they are multiplied with bytes."""

    codes: NDArray[np.int16]
    step: Doubles
    """What one step of a code is."""
    length: Doubles
    margin: Doubles
    """How far a score may be off for what the codes lost of the query, and for rounding."""


class DenseRows(NamedTuple):
    """Rows of bytes, what is known of each, and which documents may be found."""

    codes: NDArray[np.int8]
    scale: Floats
    error: Floats
    document: Ints
    included: NDArray[np.uint64]
    """A bit per document, or none where all may be found: see `filters.Included`."""
    listed: Ints
    """The rows of documents that may be found, where many may not; else none."""


class TopRows(NamedTuple):
    """The rows that may be among the best of each query: of array row n, `counts[n]` are used."""

    row: Ints
    low: Floats
    high: Floats
    counts: Longs
    least: Doubles
    """A row whose highest score is below this is not among the best."""


@jit
def is_included(rows: DenseRows, row: Any) -> Any:
    """Whether the document of a row may be found."""
    if len(rows.included) == 0:
        return True
    document = np.int64(rows.document[row])
    bit = rows.included[document >> 6] >> np.uint64(document & 63)
    return (bit & np.uint64(1)) != np.uint64(0)


@jit
def scan(
    rows: DenseRows, queries: DenseQueries, top_rows: TopRows, start: int, end: int, k: int
) -> int:
    """Keep what may be among the best k documents of each query; the row at which it stopped.

    Where rows are listed, `start` and `end` are places in the list. It stops at `end`, or earlier
    where a query has more rows to keep than there is room for: they must be scored before it goes
    on.
    """
    size = rows.codes.shape[1]
    wide = np.empty(size, np.int16)
    room = top_rows.row.shape[1]
    all_rows = len(rows.listed) == 0
    for place in range(start, end):
        r = place if all_rows else np.int64(rows.listed[place])
        for i in range(size):
            wide[i] = rows.codes[r, i]
        scale, error = np.float64(rows.scale[r]), np.float64(rows.error[r])
        full = False
        for q in range(len(top_rows.counts)):
            total = np.int32(0)
            for i in range(size):
                total = np.int32(total + np.int32(queries.codes[q, i]) * np.int32(wide[i]))
            score = np.float64(total) * scale * queries.step[q]
            reach = queries.length[q] * error + queries.margin[q]
            if score + reach < top_rows.least[q]:
                continue
            if all_rows and not is_included(rows, r):
                continue
            at = top_rows.counts[q]
            top_rows.row[q, at] = r
            top_rows.low[q, at], top_rows.high[q, at] = score - reach, score + reach
            top_rows.counts[q] = at + 1
            if at + 1 == room:
                full |= drop(rows.document, top_rows, q, k)
        if full:
            return place + 1
    for q in range(len(top_rows.counts)):
        drop(rows.document, top_rows, q, k)
    return end


@jit
def drop(document: Ints, top_rows: TopRows, q: int, k: int) -> bool:
    """Drop the rows that cannot be among the best any more; whether too many are left."""
    row, low, high = top_rows.row[q], top_rows.low[q], top_rows.high[q]
    count = top_rows.counts[q]
    lows = np.empty(count, np.float32)
    documents = 0
    for i in range(count):
        if i > 0 and document[row[i]] == document[row[i - 1]]:
            lows[documents - 1] = max(lows[documents - 1], low[i])
        else:
            lows[documents] = low[i]
            documents += 1
    if documents >= k:
        top_rows.least[q] = np.partition(lows[:documents], documents - k)[documents - k]
    count_left = 0
    for i in range(count):
        if high[i] >= top_rows.least[q]:
            row[count_left], low[count_left], high[count_left] = row[i], low[i], high[i]
            count_left += 1
    top_rows.counts[q] = count_left
    return count_left > len(row) // 4 * 3


@jit
def prune_to_k(
    matrix: Floats,
    rows: DenseRows,
    number: Ints,
    queries: Floats,
    top_rows: TopRows,
    k: int,
    most: int,
) -> None:
    """Score in float what queries with more than `most` rows have kept, and keep the best k.

    Of a document the best row is left, the first of equal ones; rows stay in their order.
    """
    for q in range(len(top_rows.counts)):
        if top_rows.counts[q] <= most:
            continue
        row, low, high = top_rows.row[q], top_rows.low[q], top_rows.high[q]
        size = 0
        for i in range(top_rows.counts[q]):
            score = product(matrix[row[i]], queries[q])
            again = size > 0 and rows.document[row[size - 1]] == rows.document[row[i]]
            if not again:
                size += 1
            if not again or score > low[size - 1]:
                row[size - 1], low[size - 1], high[size - 1] = row[i], score, score
        if size > k:
            size = _keep_best(rows.document, number, row, low, high, size, k)
        if size == k:
            top_rows.least[q] = low[:size].min()
        top_rows.counts[q] = size


@jit
def _keep_best(
    document: Ints, number: Ints, row: Ints, low: Floats, high: Floats, count: int, k: int
) -> int:
    """Keep the first k in the order of trec_eval; how many that is."""
    keys = np.empty(count, np.uint64)
    for i in range(count):
        keys[i] = sort_key(low[i], number[document[row[i]]])
    last = np.partition(keys, k - 1)[k - 1]
    size = 0
    for i in range(count):
        if keys[i] <= last:
            row[size], low[size], high[size] = row[i], low[i], high[i]
            size += 1
    return size


@jit
def sort_key(score: Any, number: Any) -> Any:
    """The key of one row, as `types.order.sort_keys` makes it."""
    bits = np.uint64(np.float32(score + np.float32(0)).view(np.uint32))
    ascending = ~bits if bits >> np.uint64(31) else bits | np.uint64(1 << 31)
    first = ~ascending & np.uint64(0xFFFFFFFF)
    return (first << np.uint64(32)) | (~np.uint64(number) & np.uint64(0xFFFFFFFF))


@jit
def product(row: Floats, query: Floats) -> float:
    """The product of two rows, added up in double precision in one fixed order.

    >>> product(np.float32([1, 2, 3, 4, 5]), np.float32([1, 1, 1, 1, 2]))
    20.0
    """
    unrolled = len(row) // 4 * 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(0, unrolled, 4):
        a += np.float64(row[i]) * np.float64(query[i])
        b += np.float64(row[i + 1]) * np.float64(query[i + 1])
        c += np.float64(row[i + 2]) * np.float64(query[i + 2])
        d += np.float64(row[i + 3]) * np.float64(query[i + 3])
    for i in range(unrolled, len(row)):
        a += np.float64(row[i]) * np.float64(query[i])
    return (a + b) + (c + d)
