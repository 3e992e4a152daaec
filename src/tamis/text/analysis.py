"""From text to terms: the analyzers, by name, and the fast way through many documents.

`english` does what Lucene's EnglishAnalyzer does, as Anserini configures it: words by UAX #29, no
possessive 's, lower case, 33 stop words, Porter's stemmer. An index records an analyzer's name and
version, so a query is analysed as the documents were.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.text._distinct import Words
from tamis.text._grammar import Automaton, blank_separated_words, standard_words
from tamis.text._porter import fast_porter
from tamis.text._scan import MAX_WORD_UNITS, Bytes, Positions, Scanner, padded

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with".split()
)
"""Lucene's 33 English stop words."""
POSSESSIVES = ("'s", "'S", "’s", "’S", "＇s", "＇S")
MAX_CACHED_STRETCHES = 1 << 17
"""An analyzer that has cached the terms of so many stretches of text starts afresh."""
ASCII_WORD = re.compile(r"_*[a-z0-9](?:_*[a-z0-9]|(?<=[a-z])[.:'][a-z]|(?<=[0-9])[.,;'][0-9])*_*")
"""The words of short lower-case ASCII text: what the full rules come to there."""
ASCII_BLANK_SEPARATED = re.compile(r"[^\t-\r\x1c-\x20]+")
Span = tuple[str, int, int]


@dataclass(frozen=True)
class Numbered:
    """The words of some documents: document n has `words[offsets[n]:offsets[n + 1]]`."""

    words: NDArray[np.int32]
    offsets: Positions


class Bulk(Protocol):
    """Numbers the words of many documents, and the terms those words come to.

    `term_of[word]` is the number of a word's term, -1 for a stop word; `terms[number]` is the term.
    Both grow with each `add`; numbers once given stay.
    """

    terms: list[str]

    def add(self, buffer: Bytes, offsets: Positions) -> Numbered:
        """Number the words of the documents `buffer[offsets[n]:offsets[n + 1]]`, in UTF-8."""
        ...

    @property
    def term_of(self) -> NDArray[np.int32]:
        """For each word number its term number, or -1."""
        ...


class Analyzer(Protocol):
    """Text to terms, under a name and a version that an index can record."""

    @property
    def name(self) -> str:
        """What an index records and `analyzer` looks up."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever some text would give other terms than before."""
        ...

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order, repeated as they occur."""
        ...

    def spans(self, text: str) -> list[Span]:
        """The terms of a text, each with where its word starts and ends in the text."""
        ...

    def bulk(self) -> Bulk:
        """A fresh table for numbering the words of many documents; one a thread."""
        ...


class _TermCache(dict[str, tuple[str, ...]]):
    """The terms of stretches of text without blanks, worked out at first sight."""

    def __init__(self, terms: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, stretch: str) -> tuple[str, ...]:
        terms = tuple(self._terms(stretch))
        if len(self) >= MAX_CACHED_STRETCHES:
            self.clear()
        if len(stretch) <= MAX_WORD_UNITS:
            self[stretch] = terms
        return terms


class WordAnalyzer:
    """Finds words by an automaton and turns each by itself into a term, or into nothing.

    `term` gives "" for no term. With `fold`, words that differ in ASCII case only must come to the
    same term. `ascii_word` finds the same words in (folded) ASCII text as the automaton does.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        automaton: Callable[[], Automaton],
        ascii_word: re.Pattern[str],
        term: Callable[[str], str],
        fold: bool = True,
    ) -> None:
        self.name, self.version = name, version
        self._automaton, self._fold, self._ascii_word = automaton, fold, ascii_word
        self._term, self._known = term, _TermCache(self._terms_of)

    def __repr__(self) -> str:
        return f"analyzer({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return analyzer, (self.name,)

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order, repeated as they occur."""
        if text.isascii():
            stretches = (text.lower() if self._fold else text).split()
        elif len(text) <= MAX_WORD_UNITS:
            stretches = text.split(" ")
        else:
            return self._terms_of(text)
        return list(chain.from_iterable(map(self._known.__getitem__, stretches)))

    def spans(self, text: str) -> list[Span]:
        """The terms of a text, each with where its word starts and ends in the text."""
        spans = ((self._term(text[start:end]), start, end) for start, end in self._places(text))
        return [span for span in spans if span[0]]

    def bulk(self) -> WordBulk:
        """A fresh table for numbering the words of many documents; one a thread."""
        return WordBulk(Words(self._scanner, fold=self._fold), self._term)

    @cached_property
    def _scanner(self) -> Scanner:
        return Scanner(self._automaton())

    def _terms_of(self, text: str) -> list[str]:
        terms = (self._term(text[start:end]) for start, end in self._places(text))
        return [term for term in terms if term]

    def _places(self, text: str) -> list[tuple[int, int]]:
        """Where the words start and end, in characters."""
        if len(text) <= MAX_WORD_UNITS and text.isascii():
            folded = text.lower() if self._fold else text
            return [match.span() for match in self._ascii_word.finditer(folded)]
        data = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
        places = self._scanner.find(padded(data), np.array([0, len(data)]))[0]
        if len(data) > len(text):
            places = np.concatenate([[0], np.cumsum(data & 0xC0 != 0x80)])[places]
        return [(start, end) for start, end in places.tolist()]


class WordBulk:
    """The `Bulk` of a `WordAnalyzer`: compiled code a word, Python once for each distinct one."""

    def __init__(self, words: Words, term: Callable[[str], str]) -> None:
        self.terms: list[str] = []
        self._words, self._term = words, term
        self._numbers: dict[str, int] = {"": -1}
        self._term_of = np.empty(0, np.int32)

    def add(self, buffer: Bytes, offsets: Positions) -> Numbered:
        """Number the words of the documents `buffer[offsets[n]:offsets[n + 1]]`, in UTF-8."""
        before = self._words.count
        numbered = Numbered(*self._words.add(buffer, offsets))
        new = [self._number(self._term(word)) for word in self._words.since(before)]
        self._term_of = np.append(self._term_of, np.array(new, np.int32))
        return numbered

    @property
    def term_of(self) -> NDArray[np.int32]:
        """For each word number its term number, or -1."""
        return self._term_of

    def _number(self, term: str) -> int:
        number = self._numbers.setdefault(term, len(self.terms))
        if number == len(self.terms):
            self.terms.append(term)
        return number


@dataclass(frozen=True)
class FunctionAnalyzer:
    """An analyzer from a Python function: text in, terms out.

    Change the version whenever the function gives other terms. Such an analyzer is as slow as the
    function; `spans` marks the Unicode words that the function, given that word alone, turns into
    exactly one term.

    >>> FunctionAnalyzer("letters", "1", lambda text: text.split("-")).terms("a-b")
    ['a', 'b']
    """

    name: str
    version: str
    function: Callable[[str], Iterable[str]]

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order, repeated as they occur."""
        return list(self.function(text))

    def spans(self, text: str) -> list[Span]:
        """The words of a text that are one term by themselves, with where they start and end."""
        spans = []
        for _, start, end in analyzer("unicode").spans(text):
            terms = self.terms(text[start:end])
            if len(terms) == 1:
                spans.append((terms[0], start, end))
        return spans

    def bulk(self) -> FunctionBulk:
        """A fresh table for numbering the terms of many documents; one a thread."""
        return FunctionBulk(self)


class FunctionBulk:
    """The `Bulk` of a `FunctionAnalyzer`: the function a document; words are terms already."""

    def __init__(self, analyzer: FunctionAnalyzer) -> None:
        self.terms: list[str] = []
        self._analyzer = analyzer
        self._numbers: dict[str, int] = {}

    def add(self, buffer: Bytes, offsets: Positions) -> Numbered:
        """Number the terms of the documents `buffer[offsets[n]:offsets[n + 1]]`, in UTF-8."""
        words: list[int] = []
        counts = [0]
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            text = buffer[start:end].tobytes().decode(errors="replace")
            for term in self._analyzer.terms(text):
                words.append(self._numbers.setdefault(term, len(self._numbers)))
            counts.append(len(words))
        self.terms.extend(list(self._numbers)[len(self.terms) :])
        return Numbered(np.array(words, np.int32), np.array(counts, np.int64))

    @property
    def term_of(self) -> NDArray[np.int32]:
        """For each word number its term number: the same."""
        return np.arange(len(self.terms), dtype=np.int32)


def lower(word: str) -> str:
    """Lower case, each code point by itself: neither a final sigma nor a dotted I is special.

    >>> lower("ΣΑΣ"), lower("İ")
    ('σασ', 'i')
    """
    if word.isascii():
        return word.lower()
    return word.replace("Σ", "σ").replace("İ", "i").lower()


def _english_term() -> Callable[[str], str]:
    stem = fast_porter()

    def term(word: str) -> str:
        word = lower(word[:-2] if word.endswith(POSSESSIVES) else word)
        return "" if word in STOP_WORDS else stem(word)

    return term


def _snowball_term(language: str) -> tuple[Callable[[str], str], str]:
    """What makes a term, and the version of the stemmers."""
    package = importlib.import_module("Stemmer")
    if language not in package.algorithms():
        raise InputError(
            f"there is no Snowball stemmer for {language!r}",
            hint="one of " + ", ".join(package.algorithms()),
        )
    stem: Callable[[str], str] = package.Stemmer(language, 0).stemWord
    return lambda word: stem(lower(word)), package.version()


@lru_cache(maxsize=64)
def analyzer(name: str) -> Analyzer:
    """The analyzer of this name: english, unicode, whitespace or snowball:LANGUAGE.

    `unicode` has words by UAX #29 in lower case; `snowball:german` and the like stem those as well,
    and leave stop words in; `whitespace` takes what stands between blanks as it is.

    >>> analyzer("english").terms("The cat's nine lives")
    ['cat', 'nine', 'live']
    >>> analyzer("unicode").spans("Grüße, 世界")
    [('grüße', 0, 5), ('世', 7, 8), ('界', 8, 9)]
    >>> analyzer("snowball:german").terms("die Häuser"), analyzer("whitespace").terms("A, b.")
    (['die', 'haus'], ['A,', 'b.'])
    """
    words: dict[str, Any] = {"automaton": standard_words, "ascii_word": ASCII_WORD}
    kind, _, language = name.partition(":")
    if name == "english":
        return WordAnalyzer(name, "1", term=_english_term(), **words)
    if name == "unicode":
        return WordAnalyzer(name, "1", term=lower, **words)
    if name == "whitespace":
        words = {"automaton": blank_separated_words, "ascii_word": ASCII_BLANK_SEPARATED}
        return WordAnalyzer(name, "1", term=str, fold=False, **words)
    if kind == "snowball":
        term, version = _snowball_term(language)
        return WordAnalyzer(name, f"1, Snowball {version}", term=term, **words)
    raise InputError(
        f"there is no analyzer {name!r}",
        hint="english, unicode, whitespace, snowball:LANGUAGE such as snowball:german, or a "
        "FunctionAnalyzer of your own",
    )
