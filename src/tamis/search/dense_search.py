"""Searching the embeddings of a snapshot: queries as embeddings in, the columns of a run out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.search.dense_kernels import DenseQueries, DenseRows, Floats, Kept, scan, settle
from tamis.search.embeddings import MAX_INT8, Embeddings, Rows
from tamis.search.files import frozen, joined
from tamis.search.snapshot import Snapshot
from tamis.search.term_counts import Ints, Longs
from tamis.types.order import sort_keys

BATCH = 64
"""At most so many queries are scanned for by one call of a kernel."""
BATCH_KEPT = 1 << 22
"""At most so many rows are kept by one call of a kernel."""
ROOM = 1024
"""For so many rows there is room at least while a query is scanned for."""
PART_ROWS = 1 << 14
"""A part that a thread scans has no fewer rows than this."""
ROUNDING = 1e-6
"""More than any score is off for rounding, relative to the lengths of its embeddings."""
SMALLEST = 1e-44
"""More than that of scores so small that float32 holds them with fewer digits."""


COLUMNS = {"doc": "i4", "score": "f4", "passage": "i4", "truncated_tokens": "i4"}


def joined_columns(parts: Sequence[object], types: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """The columns of several parts one after another, by name."""
    return {name: joined((getattr(p, name) for p in parts), dtype) for name, dtype in types.items()}


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
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Hits of some queries, then of others."""
        return cls(
            **joined_columns(parts, {"counts": "i8", **COLUMNS, "truncated_query_tokens": "i4"})
        )


@dataclass(frozen=True, eq=False)
class _Part:
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
) -> Hits:
    """The best `top` documents of queries given as embeddings."""
    k = max(1, min(top, snapshot.total("documents")))
    share = len(queries) if len(queries) <= BATCH else -(-len(queries) // threads)
    size = max(1, min(BATCH, BATCH_KEPT // (4 * k), share))
    batches = [slice(start, start + size) for start in range(0, len(queries), size)]
    parts = list(_parts(snapshot, threads if len(batches) < threads else 1))

    def search(batch: slice) -> Hits:
        found = [_search_part(part, queries[batch], k) for part in parts]
        return _merged(found, truncated_query_tokens[batch], k)

    def search_one(part: _Part) -> _Found:
        return _search_part(part, queries, k)

    with ThreadPoolExecutor(threads) as pool:
        if len(batches) == 1:
            return _merged(list(pool.map(search_one, parts)), truncated_query_tokens, k)
        return Hits.joined(list(pool.map(search, batches)))


def _parts(snapshot: Snapshot, pieces: int) -> Iterator[_Part]:
    """The rows of all segments, each segment's in so many pieces that end with a document."""
    triples = zip(snapshot.segments, snapshot.segment_embeddings, snapshot.numbers, strict=True)
    for segment, embeddings, number in triples:
        if embeddings is None or not len(embeddings.document):
            continue
        gone = np.empty(0, np.uint8) if segment.deleted is None else segment.deleted.flags
        codes, document = embeddings.codes(), embeddings.document
        rows = DenseRows(codes, embeddings.scale, embeddings.error, document, frozen(gone))
        size = max(PART_ROWS, -(-len(document) // pieces))
        start = 0
        while start < len(document):
            last = document[min(start + size, len(document)) - 1]
            end = int(np.searchsorted(document, last, side="right"))
            yield _Part(embeddings, rows, frozen(number), start, end)
            start = end


@dataclass(frozen=True, eq=False)
class _Found:
    """What a part has for some queries: the query, document, score, passage and cut of each row."""

    query: Longs
    doc: Ints
    score: Floats
    passage: Ints
    truncated_tokens: Ints


def _search_part(part: _Part, queries: Rows, k: int) -> _Found:
    codes = quantise_queries(queries, part.embeddings)
    shape = len(queries), max(ROOM, 4 * k)
    kept = Kept(
        np.empty(shape, np.int32),
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
        np.zeros(len(queries), np.int64),
        np.full(len(queries), -np.inf),
    )
    at = part.start
    while at < part.end:
        at = scan(part.rows, codes, kept, at, part.end, k)
        _settle(part, queries, kept, k, shape[1] // 4 * 3 if at < part.end else 0)
    used = np.arange(shape[1]) < kept.counts[:, None]
    row, embeddings = kept.row[used], part.embeddings
    return _Found(
        np.repeat(np.arange(len(queries)), kept.counts),
        part.number[embeddings.document[row]],
        kept.low[used],
        embeddings.passage[row],
        embeddings.truncated_tokens[row],
    )


def _settle(part: _Part, queries: Rows, kept: Kept, k: int, most: int) -> None:
    """Score in float what was kept, once the rows it needs are verified."""
    used = (np.arange(kept.row.shape[1]) < kept.counts[:, None]) & (kept.counts > most)[:, None]
    matrix = part.embeddings.rows(np.unique(kept.row[used]))
    settle(matrix, part.rows, part.number, queries, kept, k, most)


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
    margin = (lost + ROUNDING * length) * embeddings.longest + SMALLEST
    return DenseQueries(codes.astype(np.int16), 1 / steps, length, margin)


def _merged(found: Sequence[_Found], truncated_query_tokens: NDArray[np.int32], k: int) -> Hits:
    """The best k of each query of what all parts have."""
    whole = joined_columns(found, {"query": "i8", **COLUMNS})
    order = np.lexsort((sort_keys(whole["doc"], whole["score"]), whole["query"]))
    query = whole["query"][order]
    firsts = np.searchsorted(query, np.arange(len(truncated_query_tokens)))
    order = order[np.arange(len(query)) - firsts[query] < k]
    query = whole["query"][order]
    return Hits(
        np.bincount(query, minlength=len(truncated_query_tokens)),
        whole["doc"][order],
        whole["score"][order],
        whole["passage"][order],
        whole["truncated_tokens"][order],
        truncated_query_tokens[query],
    )
