"""Search over the embeddings of a snapshot: queries as embeddings in, the columns of a run out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.search.dense_kernels import DenseQueries, DenseRows, Floats, TopRows, prune_to_k, scan
from tamis.search.embeddings import MAX_INT8, Embeddings, Rows
from tamis.search.files import joined
from tamis.search.filters import Included
from tamis.search.snapshot import Snapshot
from tamis.search.term_counts import Ints, Longs
from tamis.types._strings import frozen
from tamis.types.conditions import Condition
from tamis.types.order import sort_keys

MAX_QUERIES_PER_SCAN = 64
MAX_ROWS_KEPT_PER_SCAN = 1 << 22
MIN_ROWS_KEPT_PER_QUERY = 1024
MIN_ROWS_PER_THREAD = 1 << 14
MIN_SHARE_TO_LIST_ROWS = 0.7
"""Of documents that may not be found; where fewer may not, reading all rows in order is faster: a
row out of order costs 70 to 80 ns, one in order 30 (benchmarks/filters.py)."""
ALL_ROWS = frozen(np.empty(0, np.int32))
Item = TypeVar("Item")
Result = TypeVar("Result")
RELATIVE_ROUNDING = 1e-6
"""Above the rounding error of any score, relative to the lengths of its embeddings."""
DENORMAL_ROUNDING = 1e-44
"""Above the rounding error of scores that float32 holds as denormal numbers."""


COLUMNS = {"doc": "i4", "score": "f4", "passage": "i4", "truncated_tokens": "i4"}


def concatenate_columns(
    records: Sequence[object], types: Mapping[str, str]
) -> dict[str, NDArray[Any]]:
    """The columns of several records one after another, by name."""
    return {
        name: joined((getattr(p, name) for p in records), dtype) for name, dtype in types.items()
    }


@dataclass(frozen=True, eq=False)
class Hits:
    """Columns of a run, and how many rows each query has."""

    counts: Longs
    doc: Ints
    score: Floats
    passage: Ints
    truncated_tokens: Ints
    truncated_query_tokens: Ints

    @classmethod
    def concatenate(cls, hits: Sequence[Hits]) -> Hits:
        """Hits of some queries, then of others."""
        return cls(
            **concatenate_columns(hits, {"counts": "i8", **COLUMNS, "truncated_query_tokens": "i4"})
        )


@dataclass(frozen=True, eq=False)
class _RowRange:
    """Some rows of a segment, and of each of its documents the number in the whole index."""

    embeddings: Embeddings
    rows: DenseRows
    number: Ints
    start: int
    end: int


def search_embeddings(
    snapshot: Snapshot,
    queries: Rows,
    truncated_query_tokens: NDArray[np.int32],
    top: int,
    threads: int,
    conditions: tuple[Condition, ...] = (),
) -> Hits:
    """The best `top` documents of queries given as embeddings."""
    k = max(1, min(top, snapshot.total("documents")))
    share = len(queries) if len(queries) <= MAX_QUERIES_PER_SCAN else -(-len(queries) // threads)
    size = max(1, min(MAX_QUERIES_PER_SCAN, MAX_ROWS_KEPT_PER_SCAN // (4 * k), share))
    batches = [slice(start, start + size) for start in range(0, len(queries), size)]
    pieces = threads if len(batches) < threads else 1
    ranges = list(_row_ranges(snapshot, snapshot.included(conditions), pieces))

    def search_batch(batch: slice) -> Hits:
        range_hits = [_search_range(row_range, queries[batch], k) for row_range in ranges]
        return _merge_hits(range_hits, truncated_query_tokens[batch], k)

    def search_range(row_range: _RowRange) -> _RangeHits:
        return _search_range(row_range, queries, k)

    if len(batches) == 1:
        return _merge_hits(_map(search_range, ranges, threads), truncated_query_tokens, k)
    return Hits.concatenate(_map(search_batch, batches, threads))


def _map(function: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """The results of a function, by several threads where that pays: starting one costs as much as
    scanning thousands of rows.
    """
    if threads == 1 or len(items) < 2:
        return list(map(function, items))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def _row_ranges(
    snapshot: Snapshot, included: Sequence[Included], pieces: int
) -> Iterator[_RowRange]:
    """The rows of all segments, each segment's in so many pieces that end with a document."""
    triples = zip(included, snapshot.segment_embeddings, snapshot.numbers, strict=True)
    for may_be_found, embeddings, number in triples:
        if embeddings is None or not len(embeddings.document):
            continue
        document, listed = embeddings.document, ALL_ROWS
        if may_be_found.excluded > MIN_SHARE_TO_LIST_ROWS * len(number):
            listed = frozen(embeddings.rows_of(may_be_found.bits))
            if not len(listed):
                continue
        columns = embeddings.codes(), embeddings.scale, embeddings.error, document
        rows = DenseRows(*columns, may_be_found.bits, listed)
        count = len(listed) or len(document)
        size = max(MIN_ROWS_PER_THREAD, -(-count // pieces))
        start = 0
        while start < count:
            last = min(start + size, count) - 1
            end = np.searchsorted(
                document, document[listed[last] if len(listed) else last], "right"
            )
            end = int(np.searchsorted(listed, end) if len(listed) else end)
            yield _RowRange(embeddings, rows, frozen(number), start, end)
            start = end


@dataclass(frozen=True, eq=False)
class _RangeHits:
    """Hits of a range: query, document, score, passage and truncated tokens of each row."""

    query: Longs
    doc: Ints
    score: Floats
    passage: Ints
    truncated_tokens: Ints


def _search_range(row_range: _RowRange, queries: Rows, k: int) -> _RangeHits:
    codes = quantise_queries(queries, row_range.embeddings)
    shape = len(queries), max(MIN_ROWS_KEPT_PER_QUERY, 4 * k)
    top_rows = TopRows(
        np.empty(shape, np.int32),
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
        np.zeros(len(queries), np.int64),
        np.full(len(queries), -np.inf),
    )
    at = row_range.start
    while at < row_range.end:
        at = scan(row_range.rows, codes, top_rows, at, row_range.end, k)
        _prune_to_k(row_range, queries, top_rows, k, shape[1] // 4 * 3 if at < row_range.end else 0)
    used = np.arange(shape[1]) < top_rows.counts[:, None]
    row, embeddings = top_rows.row[used], row_range.embeddings
    return _RangeHits(
        np.repeat(np.arange(len(queries)), top_rows.counts),
        row_range.number[embeddings.document[row]],
        top_rows.low[used],
        embeddings.passage[row],
        embeddings.truncated_tokens[row],
    )


def _prune_to_k(row_range: _RowRange, queries: Rows, top_rows: TopRows, k: int, most: int) -> None:
    """Score in float what was kept, once the rows it needs are verified."""
    used = (np.arange(top_rows.row.shape[1]) < top_rows.counts[:, None]) & (top_rows.counts > most)[
        :, None
    ]
    matrix = row_range.embeddings.rows(np.unique(top_rows.row[used]))
    prune_to_k(matrix, row_range.rows, row_range.number, queries, top_rows, k, most)


def quantise_queries(queries: Rows, embeddings: Embeddings) -> DenseQueries:
    """Queries as 16-bit numbers, small enough for no sum with a row of bytes to overflow."""
    exact = queries.astype(np.float64)
    largest = np.maximum(np.abs(exact).max(axis=1, initial=0.0), 1e-300)
    total = np.maximum(np.abs(exact).sum(axis=1), 1e-300)
    most = (2**31 - 1) // MAX_INT8 - queries.shape[1]
    steps = np.minimum(32767 / largest, most / total)
    codes = np.rint(exact * steps[:, None])
    lost = np.linalg.norm(exact - codes / steps[:, None], axis=1)
    length = np.linalg.norm(exact, axis=1)
    margin = (lost + RELATIVE_ROUNDING * length) * embeddings.longest + DENORMAL_ROUNDING
    return DenseQueries(codes.astype(np.int16), 1 / steps, length, margin)


def _merge_hits(
    range_hits: Sequence[_RangeHits], truncated_query_tokens: NDArray[np.int32], k: int
) -> Hits:
    """The best k hits of each query over all ranges."""
    columns = concatenate_columns(range_hits, {"query": "i8", **COLUMNS})
    order = np.lexsort((sort_keys(columns["doc"], columns["score"]), columns["query"]))
    query = columns["query"][order]
    firsts = np.searchsorted(query, np.arange(len(truncated_query_tokens)))
    order = order[np.arange(len(query)) - firsts[query] < k]
    query = columns["query"][order]
    return Hits(
        np.bincount(query, minlength=len(truncated_query_tokens)),
        columns["doc"][order],
        columns["score"][order],
        columns["passage"][order],
        columns["truncated_tokens"][order],
        truncated_query_tokens[query],
    )
