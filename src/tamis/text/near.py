"""Texts that say the same or nearly the same, found without comparing every pair."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import xxhash

_WORD = re.compile(r"\w+")


def normalise_query(text: str) -> str:
    """A query without what people vary: case, white space, the mark at its end.

    >>> normalise_query("How do I  sift flour ?")
    'how do i sift flour'
    """
    plain = unicodedata.normalize("NFC", text).casefold()
    return " ".join(plain.split()).rstrip("?!.,;: ") or text.strip()


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
    parent = list(range(len(texts)))
    for first, second in _pairs(words, threshold):
        parent[_root(parent, first)] = _root(parent, second)
    groups: dict[int, list[int]] = defaultdict(list)
    for number in range(len(texts)):
        groups[_root(parent, number)].append(number)
    return sorted(group for group in groups.values() if len(group) > 1)


def _root(parent: list[int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number


def _pairs(words: Sequence[frozenset[str]], threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs that overlap enough. Such a pair shares one of the rarest words of both: n words need
    only their n - ceil(threshold n) + 1 rarest looked up, and lengths must be alike too.
    """
    frequency = Counter(word for text in words for word in text)
    found: dict[str, list[int]] = defaultdict(list)
    same: dict[frozenset[str], int] = {}
    for number, text in enumerate(words):
        if not text:
            continue
        if text in same:
            yield number, same[text]
            continue
        same[text] = number
        rarest = sorted(text, key=lambda word: (frequency[word], word))
        rarest = rarest[: len(text) - math.ceil(threshold * len(text)) + 1]
        for other in {other for word in rarest for other in found[word]}:
            shared = len(text & words[other])
            if shared >= threshold * (len(text) + len(words[other]) - shared):
                yield number, other
        for word in rarest:
            found[word].append(number)
