"""How much of a query a document holds: shares of its words, of its bigrams, of its idf."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit, jit_helper

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
ABSENT = -2
"""Of two words that do not stand side by side in the query; -1 of those that were not yet seen."""


@jit
def add_overlaps(
    query_words: Ints, query_offsets: Longs, document_words: Ints, document_offsets: Longs,
    idf: Floats, row_offsets: Longs, document: Longs, shares: Floats,
) -> None:  # fmt: skip
    """Write of each row the shares of its query's distinct words, of its distinct bigrams and of
    the idf of its distinct words that its document holds; 0 where the query has none.

    Query n has the rows from `row_offsets[n]` on.
    """
    place = np.zeros(len(idf), np.int32)  # of a word of the query: its number there, from 1
    for query in range(len(query_offsets) - 1):
        words = query_words[query_offsets[query] : query_offsets[query + 1]]
        num_words = number_distinct(words, place)
        seen = np.full(num_words + 1, -1, np.int64)
        seen_two = np.full((num_words + 1, num_words + 1), ABSENT, np.int64)
        for i in range(len(words) - 1):
            seen_two[place[words[i]], place[words[i + 1]]] = -1
        num_bigrams = (seen_two == -1).sum()
        total = 0.0
        for word in words:
            if seen[place[word]] == -1:
                seen[place[word]] = -2
                total += idf[word]
        for row in range(row_offsets[query], row_offsets[query + 1]):
            number = document[row]
            text = document_words[document_offsets[number] : document_offsets[number + 1]]
            count, bigrams, held = count_held(text, place, idf, row, seen, seen_two)
            if num_words > 0:
                shares[row, 0], shares[row, 2] = count / num_words, held / total
            if num_bigrams > 0:
                shares[row, 1] = bigrams / num_bigrams
        for word in words:
            place[word] = 0


@jit_helper
def number_distinct(words: Ints, place: Ints) -> int:
    """Number words from 1 in the order of their first sight; how many there are.

    >>> place = np.zeros(4, np.int32)
    >>> number_distinct(np.int32([3, 1, 3]), place), place.tolist()
    (2, [0, 2, 0, 1])
    """
    count = 0
    for word in words:
        if place[word] == 0:
            count += 1
            place[word] = count
    return count


@jit_helper
def count_held(
    text: Ints, place: Ints, idf: Floats, row: int, seen: Longs, seen_two: Longs
) -> tuple[int, int, float]:
    """How many words and bigrams of the query a text holds, and the idf of these words.

    `seen` has of a word, `seen_two` of two words, the row in which it was last seen.
    """
    count, bigrams, held, last = 0, 0, 0.0, 0
    for word in text:
        here = place[word]
        if here > 0 and seen[here] != row:
            seen[here] = row
            count += 1
            held += idf[word]
        if here > 0 and last > 0 and seen_two[last, here] not in (ABSENT, row):
            seen_two[last, here] = row
            bigrams += 1
        last = here
    return count, bigrams, held
