"""Texts as bags of numbered words: each distinct word once, with how often it occurs.

Pairs are taken in the order of their texts, a block of text at a time, so that every text is read
once and memory does not grow with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.text.analysis import Bulk
from tamis.types import Pairs

CHARACTERS_PER_BLOCK = 1 << 21
MAX_TABLE_WORDS = 1 << 17
"""A table with more distinct words than this makes room for a fresh one after its block."""

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Bags:
    """Text n has the distinct words `words[offsets[n]:offsets[n + 1]]`, in order of first sight."""

    words: Ints
    counts: Ints
    offsets: Longs

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def sizes(self) -> Longs:
        """How many distinct words each text has."""
        return np.diff(self.offsets)

    def where(self, keep: NDArray[np.bool_]) -> Bags:
        """The bags with these entries only."""
        counts_before = np.concatenate([[0], np.cumsum(keep)])
        return Bags(self.words[keep], self.counts[keep], counts_before[self.offsets])


def read_bags(bulk: Bulk, texts: Sequence[str]) -> Bags:
    """The bags of some texts in the numbers of a table, which grows with the words it meets.

    >>> from tamis.text.analysis import analyzer
    >>> bags = read_bags(analyzer("unicode").bulk(), ["to be or not to be", ""])
    >>> bags.words.tolist(), bags.counts.tolist(), bags.offsets.tolist()
    ([0, 1, 2, 3], [2, 2, 1, 1], [0, 4, 4])
    """
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    tokens = bulk.add(np.frombuffer(b"".join(encoded), np.uint8), offsets)
    words, counts = np.empty((2, len(tokens.words)), np.int32)
    last_count = np.full(len(bulk.terms), -1, np.int64)
    ends = np.zeros(len(offsets), np.int64)
    count = fill_bags(tokens.words, tokens.offsets, bulk.term_of, last_count, words, counts, ends)
    return Bags(words[:count].copy(), counts[:count].copy(), ends)


@jit
def fill_bags(
    tokens: Ints,
    offsets: Longs,
    term_of: Ints,
    last_count: Longs,
    words: Ints,
    counts: Ints,
    ends: Longs,
) -> int:
    """Count the terms of each text; `last_count` says where a term was last counted."""
    count = 0
    for text in range(len(offsets) - 1):
        first = count
        for i in range(offsets[text], offsets[text + 1]):
            term = term_of[tokens[i]]
            if term < 0:
                continue
            at = last_count[term]
            if at < first:
                at = last_count[term] = count
                words[at], counts[at] = term, 0
                count += 1
            counts[at] += 1
        ends[text + 1] = count
    return count


@dataclass(frozen=True, eq=False)
class Block:
    """Some texts and all the pairs they are in, in the order of the pairs' queries."""

    rows: Longs
    """Which pairs these are."""
    texts: Sequence[str]
    index: Ints
    """Per pair: its query's number among the distinct queries, its text's in `texts`."""


def distinct_queries(pairs: Pairs) -> tuple[list[str], Ints]:
    """The queries that occur in pairs, and of each pair its query's number among them."""
    numbers, query = np.unique(pairs.index[:, 0], return_inverse=True)
    return [pairs.queries[number] for number in numbers.tolist()], query.astype(np.int32)


def text_blocks(pairs: Pairs, query: Ints, size: int = CHARACTERS_PER_BLOCK) -> Iterator[Block]:
    """The pairs, block of text by block of text; `query` numbers each pair's query.

    >>> pairs = Pairs(["q"], ["ab", "c", "d"], np.array([[0, 2], [0, 0], [0, 2]], np.int32))
    >>> blocks = text_blocks(pairs, np.zeros(3, np.int32), size=2)
    >>> [(block.rows.tolist(), block.texts) for block in blocks]
    [([1], ['ab']), ([0, 2], ['d'])]
    """
    used, text = np.unique(pairs.index[:, 1], return_inverse=True)
    order = np.argsort(text, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(text, minlength=len(used)))])
    first = 0
    for texts in text_pieces((pairs.texts[number] for number in used.tolist()), size):
        rows = order[starts[first] : starts[first + len(texts)]]
        rows = rows[np.argsort(query[rows], kind="stable")]
        yield Block(rows, texts, np.stack([query[rows], text[rows] - first], 1).astype(np.int32))
        first += len(texts)


def text_pieces(texts: Iterable[str], size: int = CHARACTERS_PER_BLOCK) -> Iterator[list[str]]:
    """Texts, as many at a time as reach so many characters."""
    piece: list[str] = []
    room = size
    for text in texts:
        piece.append(text)
        room -= len(text)
        if room <= 0:
            yield piece
            piece, room = [], size
    if piece:
        yield piece
