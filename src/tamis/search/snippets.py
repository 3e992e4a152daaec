"""The stretch of a document that shows best why it was found."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from tamis.text.analysis import Analyzer

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Snippet:
    """Some words of a text on one line, and where the matched words lie in it."""

    text: str
    matches: tuple[tuple[int, int], ...]


def snippet(text: str, terms: Collection[str], analyzer: Analyzer, words: int = 40) -> Snippet:
    """The stretch of `words` words with the most of the terms, the first of equal ones.

    >>> from tamis.text.analysis import analyzer
    >>> found = snippet("Grain is cleaned. Then sieves sort it.", ["siev"], analyzer("english"), 4)
    >>> found.text, [found.text[start:end] for start, end in found.matches]
    ('… is cleaned. Then sieves …', ['sieves'])
    """
    distinct_terms = set(terms)
    hits = [
        (term, start, end) for term, start, end in analyzer.spans(text) if term in distinct_terms
    ]
    places = [match.span() for match in _WORD.finditer(text)]
    if not places:
        return Snippet("", ())
    first = _best_start([(term, start) for term, start, _ in hits], places, words)
    last = min(first + words, len(places))
    start, end = places[first][0], places[last - 1][1]
    pieces, matches, length = [], [], 0
    if first > 0:
        pieces.append("… ")
        length = 2
    at = start
    for _, begin, finish in [hit for hit in hits if start <= hit[1] and hit[2] <= end]:
        before = _flat(text[at:begin])
        word = text[begin:finish]
        matches.append((length + len(before), length + len(before) + len(word)))
        pieces += [before, word]
        length += len(before) + len(word)
        at = finish
    pieces.append(_flat(text[at:end]))
    if last < len(places):
        pieces.append(" …")
    return Snippet("".join(pieces), tuple(matches))


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _best_start(hits: list[tuple[str, int]], places: list[tuple[int, int]], words: int) -> int:
    """The first word of the stretch with the most distinct terms, then the most matches."""
    if not hits or len(places) <= words:
        return 0
    starts = [start for start, _ in places]
    hit_starts = [start for _, start in hits]
    best, choice = (0, 0), 0
    inside: Counter[str] = Counter()
    until = 0
    for number, (term, hit) in enumerate(hits):
        first = max(0, _word_at(starts, hit) - 3)
        first = min(first, len(places) - words)
        end = bisect_left(hit_starts, places[first + words - 1][1])
        inside.update(later for later, _ in hits[until:end])
        until = max(until, end)
        value = (len(inside), until - number)
        if value > best:
            best, choice = value, first
        inside[term] -= 1
        if not inside[term]:
            del inside[term]
    return choice


def _word_at(starts: list[int], place: int) -> int:
    return max(0, bisect_right(starts, place) - 1)
