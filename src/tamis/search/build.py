"""From documents to a segment: one thread reads and stores them, another counts their terms.

A segment is immutable: the postings of some documents, their vectors, and the documents themselves.

    terms terms-offsets    the sorted terms
    documents-of occurrences    of each term: how many documents, how often in all
    postings               see `counting`; a term's lie together, in the order of documents
    term-chunks            where each term's chunks begin; a chunk is a term's postings in a window
    chunk-window chunk-start
    pair-frequency pair-length    what a pair code stands for
    pairs-offsets pairs-code pairs-count    of each frequent term: its pairs, and how often each is
    vector-offsets vector-term vector-code    the documents as terms: the forward index
    number                 of each document: its number in the documents' sorted ids
    field-*                the values of the documents' fields, see `field_values`
    documents/             the documents as a collection
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from tamis.collection.base import Collection, Streamed
from tamis.collection.store import DocumentStore, write_store
from tamis.search.field_values import write_fields
from tamis.search.files import ArraysWriter, joined
from tamis.search.term_counts import (
    DIRECT_FREQUENCIES,
    MAX_PAIRS_PER_SEGMENT,
    Codes,
    Ints,
    count_pairs,
    count_postings,
    count_terms,
    place_postings,
    renumber,
)
from tamis.text.analysis import Analyzer
from tamis.types import Document, Ids

BATCH_TEXT = 1 << 20
BATCH_DOCUMENTS = 8192
MAX_WAITING_BATCHES = 4
POSTING_MEMORY = 14
"""Bytes of memory that a posting needs at most while a segment is made."""
BASE_MEMORY = 300 << 20
"""What a build needs however few documents there are."""

SWITCH_INTERVAL = 0.0002
"""Seconds after which the reading thread lets the counting one go on: kernels are short."""

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def searched_text(document: Document) -> str:
    """Title and body as one text, which is what is searched.

    >>> searched_text(Document("d1", "sort grain", title="Sieves"))
    'Sieves sort grain'
    """
    return f"{document.title} {document.text}" if document.title else document.text


class Counter:
    """Counts the terms of batches of documents and at last writes their postings."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._bulk = analyzer.bulk()
        self.num_documents = self.with_terms = self.total = self.postings = self.pairs = 0
        self._seen = np.zeros(1 << 12, np.int64)
        self._direct = np.full((DIRECT_FREQUENCIES, 256), -1, np.int32)
        self._frequencies, self._lengths = np.zeros((2, MAX_PAIRS_PER_SEGMENT), np.int32)
        self._batches: list[tuple[Ints, Codes, Ints]] = []

    def add(self, batch: Batch) -> None:
        """Count the terms of some documents."""
        words = self._bulk.add(*batch)
        self._make_room(len(self._bulk.terms))
        terms, codes = np.empty(len(words.words), np.int32), np.empty(len(words.words), np.uint16)
        sizes = np.empty(len(words.offsets) - 1, np.int32)
        pair_table = (self._direct, self._frequencies, self._lengths, self.pairs)
        count, total, self.pairs = count_terms(
            words.words, words.offsets, self._bulk.term_of, self.num_documents,
            self._seen, *pair_table, terms, codes, sizes,
        )  # fmt: skip
        self._batches.append((terms[:count].copy(), codes[:count].copy(), sizes))
        self.num_documents += len(sizes)
        self.with_terms += int((sizes > 0).sum())
        self.total += total
        self.postings += count

    def full(self, memory: int) -> bool:
        """Whether the segment should end here: for its memory, or for its pairs."""
        needed = self.postings * POSTING_MEMORY + len(self._bulk.terms) * 400
        return needed > memory - BASE_MEMORY or self.pairs > MAX_PAIRS_PER_SEGMENT // 2

    def write(self, files: ArraysWriter) -> None:
        """Write everything but the documents' numbers."""
        terms, number_of = Ids.numbering(self._bulk.terms)
        files.write("terms", terms.data)
        files.write("terms-offsets", terms.offsets)
        for batch_terms, _, _ in self._batches:
            renumber(batch_terms, number_of)
        starts = self._write_terms(files, len(terms))
        self._write_postings(files, starts)
        sizes = joined((sizes for _, _, sizes in self._batches), "<i4")
        files.write("vector-offsets", np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]))
        files.write("vector-term", np.empty(0, np.int32), *(batch[0] for batch in self._batches))
        files.write("vector-code", np.empty(0, np.uint16), *(batch[1] for batch in self._batches))
        files.write("pair-frequency", self._frequencies[: self.pairs])
        files.write("pair-length", self._lengths[: self.pairs])

    def _make_room(self, terms: int) -> None:
        while terms > len(self._seen):
            self._seen = np.concatenate([self._seen, np.zeros(len(self._seen), np.int64)])

    def _numbered_batches(self) -> Iterator[tuple[Ints, Codes, Ints, int]]:
        document = 0
        for terms, codes, sizes in self._batches:
            yield terms, codes, sizes, document
            document += len(sizes)

    def _write_terms(self, files: ArraysWriter, terms: int) -> tuple[NDArray[np.int64], ...]:
        """Write what is known of each term; where its postings and its chunks begin."""
        documents_of = np.zeros(terms, np.int32)
        occurrences, chunks = np.zeros((2, terms), np.int64)
        last_window = np.full(terms, -1, np.int32)
        for batch in self._numbered_batches():
            count_postings(
                *batch, self._frequencies, documents_of, occurrences, chunks, last_window
            )
        files.write("documents-of", documents_of)
        files.write("occurrences", occurrences)
        return tuple(
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            for counts in (documents_of, chunks)
        )

    def _write_postings(self, files: ArraysWriter, starts: tuple[NDArray[np.int64], ...]) -> None:
        posting_starts, chunk_starts = starts
        postings = np.empty(self.postings, np.uint32)
        chunk_window = np.empty(chunk_starts[-1], np.int32)
        chunk_start = np.full(chunk_starts[-1] + 1, self.postings, np.int64)
        cursor, chunk_cursor = posting_starts[:-1].copy(), chunk_starts[:-1].copy()
        last_window = np.full(len(cursor), -1, np.int32)
        for batch in self._numbered_batches():
            place_postings(
                *batch, cursor, chunk_cursor, last_window, postings, chunk_window, chunk_start
            )
        files.write("postings", postings)
        files.write("term-chunks", chunk_starts)
        files.write("chunk-window", chunk_window)
        files.write("chunk-start", chunk_start)
        codes, counts, offsets = count_pairs(postings, posting_starts, self.pairs)
        files.write("pairs-code", codes)
        files.write("pairs-count", counts)
        files.write("pairs-offsets", offsets)


class Feed:
    """Hands documents on as they are read, and their texts to a counter in another thread."""

    def __init__(self, documents: Iterator[Document], counter: Counter, memory: int) -> None:
        self._documents, self._counter, self._memory = documents, counter, memory
        self._queue: Queue[Batch | None] = Queue(MAX_WAITING_BATCHES)
        self._fault: BaseException | None = None

    def __iter__(self) -> Iterator[Document]:
        batch: list[Document] = []
        size = 0
        for document in self._documents:
            yield document
            batch.append(document)
            size += len(document.text)
            if size >= BATCH_TEXT or len(batch) >= BATCH_DOCUMENTS:
                self._enqueue(batch)
                batch, size = [], 0
                if self._counter.full(self._memory):
                    break
        self._enqueue(batch)
        self._queue.put(None)

    def _enqueue(self, batch: list[Document]) -> None:
        self.check()
        self._queue.put(encode_texts([searched_text(document) for document in batch]))

    def count(self, files: ArraysWriter) -> None:
        """Count batches until the end, then write the postings: the other thread."""
        ended = False
        try:
            while (batch := self._queue.get()) is not None:
                self._counter.add(batch)
            ended = True
            self.check()
            self._counter.write(files)
        except BaseException as fault:  # for the reading thread, which raises it
            self._fault = self._fault or fault
            while not ended:
                ended = self._queue.get() is None

    def stop(self, fault: BaseException) -> None:
        """Let the other thread end without writing anything."""
        self._fault = self._fault or fault
        self._queue.put(None)

    def check(self) -> None:
        """Raise what went wrong in either thread."""
        if self._fault is not None:
            raise self._fault


def encode_texts(texts: list[str]) -> Batch:
    """Texts as UTF-8, one after another, and where each begins.

    >>> [array.tolist() for array in encode_texts(["a", "bc"])]
    [[97, 98, 99], [0, 1, 3]]
    """
    joined_text, offsets = "".join(texts), np.zeros(len(texts) + 1, np.int64)
    if joined_text.isascii():
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
        return np.frombuffer(joined_text.encode(), np.uint8), offsets
    encoded_texts = [text.encode(errors="replace") for text in texts]
    np.cumsum(np.fromiter(map(len, encoded_texts), np.int64, len(encoded_texts)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded_texts), np.uint8), offsets


def write_segment(
    documents: Iterator[Document], folder: Path, analyzer: Analyzer, memory: int
) -> None:
    """Fill an empty folder with a segment of as many documents as fit the memory."""
    counter, files = Counter(analyzer), ArraysWriter(folder)
    feed = Feed(documents, counter, memory)
    thread = Thread(target=feed.count, args=(files,), daemon=True)
    thread.start()
    try:
        with short_turns():
            segment = Collection("segment", "index", Streamed(lambda: iter(feed)))
            write_store(segment, folder / "documents")
    except BaseException as fault:
        feed.stop(fault)
        raise
    finally:
        thread.join()
    feed.check()
    store = DocumentStore(folder / "documents")
    number = np.empty(len(store), np.int32)
    number[store._rows_of(np.arange(len(store)))] = np.arange(len(store), dtype=np.int32)
    files.write("number", number)
    files.finish(
        documents=counter.num_documents,
        with_terms=counter.with_terms,
        total_terms=counter.total,
        fields=write_fields(store, files),
    )


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads that run Python take turns more often than by default, for a while."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_INTERVAL))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def take_first(documents: Iterable[Document]) -> tuple[Document | None, Iterator[Document]]:
    """The first document, and all of them."""
    remaining = iter(documents)
    first = next(remaining, None)
    return first, iter(()) if first is None else _chain(first, remaining)


def _chain(first: Document, remaining: Iterator[Document]) -> Iterator[Document]:
    yield first
    yield from remaining
