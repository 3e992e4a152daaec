"""Kernels of the build: count the terms of documents, turn the counts into postings.

A posting is 32 bits: the document's place in its window of 64k documents, and a code for the pair
(how often the term occurs, the document's length byte). Few pairs occur, so a score per pair is a
small table, and no parameter of a ranking is fixed in the index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.search.lengths import length_byte

DOCUMENTS_PER_WINDOW = 1 << 16
"""The sums of a window stay in the cache."""
MAX_PAIRS_PER_SEGMENT = 1 << 16
DIRECT_FREQUENCIES = 1 << 10
"""Frequencies below this are looked up directly."""
MIN_DOCUMENTS_TO_COUNT_PAIRS = 64

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Codes = NDArray[np.uint16]


@jit
def pair_code(
    frequency: int, length: int, direct: Ints, frequencies: Ints, lengths: Ints, pairs: int
) -> int:
    """The code of a pair that is new, or whose frequency is not looked up directly."""
    code = pairs if frequency < DIRECT_FREQUENCIES else 0
    while code < pairs and (frequencies[code] != frequency or lengths[code] != length):
        code += 1
    frequencies[code], lengths[code] = frequency, length
    if frequency < DIRECT_FREQUENCIES:
        direct[frequency, length] = code
    return code


@jit
def count_terms(
    words: Ints,
    offsets: Longs,
    term_of: Ints,
    document: int,
    last_seen: Longs,
    direct: Ints,
    frequencies: Ints,
    lengths: Ints,
    pairs: int,
    terms: Ints,
    codes: Codes,
    sizes: Ints,
) -> Any:
    """Distinct terms and pair codes of documents numbered from `document` on.

    `terms` and `codes` receive one entry per distinct term, `sizes` how many a document has;
    `last_seen` holds for each term the last document that had it and its entry there. Returns how
    many entries there are, how many terms were counted, and how many pairs are known.
    """
    counts = np.empty(len(terms), np.int32)
    count, total = 0, 0
    for n in range(len(offsets) - 1):
        first, length = count, 0
        mark = np.int64(document + n + 1) << 32
        for i in range(offsets[n], offsets[n + 1]):
            term = term_of[words[i]]
            if term < 0:
                continue
            length += 1
            entry = last_seen[term] - mark
            if 0 <= entry < 1 << 32:
                counts[entry] += 1
            else:
                last_seen[term] = mark + count
                terms[count] = term
                counts[count] = 1
                count += 1
        coded = length_byte(length)
        for i in range(first, count):
            code = np.int64(direct[counts[i], coded]) if counts[i] < DIRECT_FREQUENCIES else -1
            if code < 0:
                code = pair_code(counts[i], coded, direct, frequencies, lengths, pairs)
                pairs = max(pairs, code + 1)
            codes[i] = code
        sizes[n] = count - first
        total += length
    return count, total, pairs


@jit
def renumber(terms: Ints, number_of: Ints) -> None:
    """Give every term its other number, in place."""
    for i in range(len(terms)):
        terms[i] = number_of[terms[i]]


@jit
def count_postings(
    terms: Ints,
    codes: Codes,
    sizes: Ints,
    document: int,
    frequencies: Ints,
    documents_of: Ints,
    occurrences: Longs,
    chunks: Longs,
    last_window: Ints,
) -> None:
    """Add to each term's documents, occurrences and windows what these documents hold."""
    at = 0
    for n in range(len(sizes)):
        window = (document + n) >> 16
        for i in range(at, at + sizes[n]):
            term = terms[i]
            documents_of[term] += 1
            occurrences[term] += frequencies[codes[i]]
            if last_window[term] != window:
                last_window[term] = window
                chunks[term] += 1
        at += sizes[n]


@jit
def place_postings(
    terms: Ints,
    codes: Codes,
    sizes: Ints,
    document: int,
    cursor: Longs,
    chunk_cursor: Longs,
    last_window: Ints,
    postings: NDArray[np.uint32],
    chunk_window: Ints,
    chunk_start: Longs,
) -> None:
    """Put each posting at its term's cursor, and note where each window of a term begins."""
    at = 0
    for n in range(len(sizes)):
        window = (document + n) >> 16
        low = np.uint32((document + n) & 0xFFFF) << np.uint32(16)
        for i in range(at, at + sizes[n]):
            term = terms[i]
            if last_window[term] != window:
                last_window[term] = window
                chunk_window[chunk_cursor[term]] = window
                chunk_start[chunk_cursor[term]] = cursor[term]
                chunk_cursor[term] += 1
            postings[cursor[term]] = low | np.uint32(codes[i])
            cursor[term] += 1
        at += sizes[n]


@jit
def count_pairs(postings: NDArray[np.uint32], starts: Longs, pairs: int) -> Any:
    """For each term in many documents its pairs and how often each occurs; where each term's are.

    The k-th best score of a term follows from this for any ranking: a threshold before any search.
    """
    offsets = np.zeros(len(starts), np.int64)
    room = 0
    for term in range(len(starts) - 1):
        if starts[term + 1] - starts[term] >= MIN_DOCUMENTS_TO_COUNT_PAIRS:
            room += min(pairs, starts[term + 1] - starts[term])
    codes, counts = np.empty(room, np.uint16), np.empty(room, np.int32)
    where = np.full(pairs, -1, np.int64)
    at = 0
    for term in range(len(starts) - 1):
        if starts[term + 1] - starts[term] >= MIN_DOCUMENTS_TO_COUNT_PAIRS:
            first = at
            for i in range(starts[term], starts[term + 1]):
                code = np.int64(postings[i] & np.uint32(0xFFFF))
                if where[code] < 0:
                    where[code] = at
                    codes[at], counts[at] = code, 0
                    at += 1
                counts[where[code]] += 1
            for i in range(first, at):
                where[np.int64(codes[i])] = -1
        offsets[term + 1] = at
    return codes[:at].copy(), counts[:at].copy(), offsets
