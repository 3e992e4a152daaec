"""Texts that say the same or nearly the same, found without comparing every pair."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import xxhash

_WORD = re.compile(r"\w++[+#]*+")
"""Words, those of C++ and C# with their signs."""


def normalise_query(text: str) -> str:
    """A query without what people vary: case, white space, the mark at its end.

    >>> normalise_query("How do I  sift flour ?")
    'how do i sift flour'
    """
    plain = unicodedata.normalize("NFC", text).casefold()
    return " ".join(plain.split()).rstrip("?!.,;: ") or text.strip()


def is_same_query(first: str, other: str) -> bool:
    """Whether two texts are one query.

    >>> is_same_query("sift flour", "SIFT  flour?"), is_same_query("C", "C++")
    (True, False)
    """
    return normalise_query(first) == normalise_query(other)


def query_hash(text: str) -> str:
    """The hash of a normalised query, in 16 hexadecimal digits: the same on every machine.

    >>> query_hash("Drum sieve?") == query_hash(" drum  sieve"), len(query_hash("drum sieve"))
    (True, 16)
    """
    return xxhash.xxh3_64_hexdigest(normalise_query(text).encode("utf-8", "surrogatepass"))


def near_duplicates(texts: Sequence[str], threshold: float = 0.8) -> list[list[int]]:
    """Groups of texts whose sets of words overlap by `threshold` or more (Jaccard).

    Case, order and punctuation do not count. Texts alike are grouped through each other: if a is
    like b and b like c, the three are one group. Texts without a word are like nothing.

    >>> near_duplicates(["How do I sift flour?", "drum sieve", "how do i sift  flour"])
    [[0, 2]]
    """
    words = [frozenset(_WORD.findall(text.casefold())) for text in texts]
    return connected_groups(_pairs(words, threshold), len(texts))


def connected_groups(pairs: Iterable[tuple[int, int]], count: int) -> list[list[int]]:
    """The numbers below `count` that pairs connect, directly or through others, group by group.

    Sorted; a number that no pair connects with another is in no group. In Python as fast as
    scipy's connected components where pairs are Python's.

    >>> connected_groups([(0, 2), (3, 2), (1, 4)], 6)
    [[0, 2, 3], [1, 4]]
    """
    parent = list(range(count))
    for first, second in pairs:
        parent[_root(parent, first)] = _root(parent, second)
    groups: dict[int, list[int]] = defaultdict(list)
    for number in range(count):
        groups[_root(parent, number)].append(number)
    return sorted(group for group in groups.values() if len(group) > 1)


def _root(parent: list[int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number


def near_any(texts: Sequence[str], references: Sequence[str], threshold: float = 0.8) -> list[int]:
    """The numbers of the texts that are nearly the same as one of the others, by the same measure.

    Texts are compared with the others only, not with each other.

    >>> near_any(["how do i sift  flour", "drum sieve"], ["How do I sift flour?"])
    [0]
    """
    mine, theirs = (
        [frozenset(_WORD.findall(text.casefold())) for text in some] for some in (texts, references)
    )
    frequency = Counter(word for text in (*mine, *theirs) for word in text)
    having: dict[str, list[frozenset[str]]] = defaultdict(list)
    for text in set(theirs):
        for word in _rarest(text, frequency, threshold):
            having[word].append(text)
    return [
        number
        for number, text in enumerate(mine)
        if any(
            _overlap(text, other, threshold)
            for word in _rarest(text, frequency, threshold)
            for other in having.get(word, ())
        )
    ]


def _rarest(text: frozenset[str], frequency: Counter[str], threshold: float) -> list[str]:
    """The words of a text of which one is shared with every text that overlaps enough: n words
    need only their n - ceil(threshold n) + 1 rarest looked up.
    """
    rarest = sorted(text, key=lambda word: (frequency[word], word))
    return rarest[: len(text) - math.ceil(threshold * len(text)) + 1]


def _overlap(text: frozenset[str], other: frozenset[str], threshold: float) -> bool:
    shared = len(text & other)
    return shared >= threshold * (len(text) + len(other) - shared)


def _pairs(words: Sequence[frozenset[str]], threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs that overlap enough. Such a pair shares one of the rarest words of both."""
    frequency = Counter(word for text in words for word in text)
    having: dict[str, list[int]] = defaultdict(list)
    same: dict[frozenset[str], int] = {}
    for number, text in enumerate(words):
        if not text:
            continue
        if text in same:
            yield number, same[text]
            continue
        same[text] = number
        rarest = _rarest(text, frequency, threshold)
        for other in {other for word in rarest for other in having[word]}:
            if _overlap(text, words[other], threshold):
                yield number, other
        for word in rarest:
            having[word].append(number)
