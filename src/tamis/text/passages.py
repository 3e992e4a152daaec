"""Splits a document into passages: what a scorer reads at a time.

A spec says how, and prints as itself:

    sentences:10:5     ten sentences, a stride of five
    words:100          a hundred words, then on to the end of the sentence; no overlap. The title
                       stands before the document once, and its words count
    words:150:75       windows of 150 words, a stride of 75; with a third number, such as
    words:150:75:30    at most thirty: first, last, and a seeded sample of 28 between
    tokens:384:192     windows of 384 tokens of the scorer's own tokenizer
    whole              the document

A word is a stretch without white space; an ideograph or kana is a word by itself. Every word or
token of the text is in at least one passage, unless the spec samples, and then those left out are
counted. A document without a text has one passage, its title; one without either has none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.text import sentences
from tamis.text.sentences import Span, split_sentences
from tamis.types import Document, Passage

Unit = Literal["sentences", "words", "tokens", "whole"]
TitleRule = Literal["every", "once", "never"]
"""Before which passages the title is put when they are scored."""
Tokens = Callable[[str], Iterable[Span]]
"""The character spans of a text's tokens, in order; those of no character are passed over."""
Positions = NDArray[np.int32]

FORMS = "sentences:10:5, words:100, words:150:75, words:150:75:30, tokens:384:192 or whole"
_FORM = re.compile(
    r"(?P<unit>sentences|words|tokens)"
    r":(?P<size>[1-9]\d{0,6})(?::(?P<stride>[1-9]\d{0,6})(?::(?P<most>[1-9]\d{0,6}))?)?"
)


@dataclass(frozen=True, slots=True)
class PassageSpec:
    """How documents are split; a stride of 0 is none, and so is a `most` of 0.

    >>> parse_spec("words:150:75:30")
    PassageSpec(unit='words', size=150, stride=75, most=30)
    >>> str(parse_spec("words:150:75:30")), parse_spec("words:100").title
    ('words:150:75:30', 'once')
    """

    unit: Unit
    size: int = 0
    stride: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise InputError(
                f"{str(self)!r} is not a way to split into passages: {problem}",
                hint=f"for example {FORMS}",
            )

    def __str__(self) -> str:
        numbers = [str(number) for number in (self.size, self.stride, self.most) if number]
        return ":".join([self.unit, *numbers])

    @property
    def title(self) -> TitleRule:
        """Where the title goes: before the document once, or before every window of it."""
        return "once" if self.unit == "words" and not self.stride else "every"

    def record(self) -> dict[str, str]:
        """What a run notes down: the spec and, where sentences matter, what split them.

        >>> parse_spec("words:100").record()
        {'passages': 'words:100', 'sentences': 'tamis-rules 1'}
        """
        note = {"passages": str(self)}
        if self.unit == "sentences" or self.title == "once":
            note["sentences"] = f"{sentences.NAME} {sentences.VERSION}"
        return note


def _problem(spec: PassageSpec) -> str:
    """What is wrong with a spec; nothing for one that is right."""
    if spec.unit == "whole":
        return "whole takes no numbers" if spec.size or spec.stride or spec.most else ""
    if spec.size < 1:
        return f"it does not say how many {spec.unit} a passage has"
    if spec.stride < 0 or spec.most < 0:
        return "a number is negative"
    if not spec.stride and spec.unit != "words":
        return f"{spec.unit} need a stride"
    if spec.stride > spec.size:
        return f"a stride of {spec.stride} leaves {spec.unit} out between passages"
    if spec.most and (spec.unit != "words" or not spec.stride):
        return "only windows of words are sampled"
    if spec.most == 1:
        return "at least two are kept, the first and the last"
    return ""


def parse_spec(text: str) -> PassageSpec:
    """The spec that prints as this text.

    >>> parse_spec("sentences:10:5").stride
    5
    """
    if text == "whole":
        return PassageSpec("whole")
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(
            f"{text!r} is not a way to split into passages", hint=f"for example {FORMS}"
        )
    size, stride, most = (int(form[name] or 0) for name in ("size", "stride", "most"))
    unit: Unit = "words"
    if form["unit"] != "words":
        unit = "sentences" if form["unit"] == "sentences" else "tokens"
    return PassageSpec(unit, size, stride, most)


@dataclass(frozen=True, slots=True)
class Split:
    """The passages of a document in order; how many windows there were to choose from (as many,
    unless the spec samples) and how many words are in none of the passages.

    A passage keeps the number of its window, so that it is the same whatever else was drawn.
    """

    passages: tuple[Passage, ...]
    windows: int
    left_out: int = 0


def split(
    document: Document, spec: PassageSpec, *, tokens: Tokens | None = None, seed: int = 0
) -> Split:
    """Split a document; `tokens` measures a text for specs in tokens.

    A sample is drawn by the document's id and the seed, so the same document always gives the
    same passages, alone or among others.

    >>> document = Document("d1", "Sieves sort grain. Drums beat. Nets catch fish.", "Tools")
    >>> found = split(document, parse_spec("sentences:2:1"))
    >>> [text_of(document, passage) for passage in found.passages]
    ['Tools Sieves sort grain. Drums beat.', 'Tools Drums beat. Nets catch fish.']
    """
    if not document.text.strip():
        return _of_title(document)
    if spec.unit == "whole":
        return _numbered(document, [0], _stripped_span(document.text))
    if spec.unit == "words" and not spec.stride:
        spans = _to_sentence_ends(document, spec.size)
        return _numbered(document, range(len(spans)), spans)
    if spec.unit == "words":
        return _word_windows(document, spec, seed)
    units = _units(document.text, spec, tokens)
    if not units:
        return _numbered(document, [0], _stripped_span(document.text))
    windows, _ = _windows(document.id, len(units), spec, seed)
    spans = [_span(document.text, units, first, last) for _, first, last in windows]
    return _numbered(document, range(len(spans)), spans)


def _span(text: str, units: Sequence[Span], first: int, last: int) -> Span:
    """Where a window lies, with characters at its ends that a tokenizer gave to no token."""
    start, end = units[first][0], units[last][1]
    if first == 0 and text[:start].strip():
        start = len(text) - len(text.lstrip())
    after = units[last + 1][0] if last + 1 < len(units) else len(text)
    if text[end:after].strip():
        end += len(text[end:after].rstrip())
    return start, end


def _word_windows(document: Document, spec: PassageSpec, seed: int) -> Split:
    starts, ends = word_spans(document.text)
    sampled, windows = _windows(document.id, len(starts), spec, seed)
    numbers, firsts, lasts = (list(column) for column in zip(*sampled, strict=True))
    spans = list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True))
    return _numbered(document, numbers, spans, windows, len(starts) - _covered(sampled))


def _numbered(
    document: Document,
    numbers: Iterable[int],
    spans: Sequence[Span],
    windows: int | None = None,
    left_out: int = 0,
) -> Split:
    passages = tuple(
        Passage(document.id, number, start, end)
        for number, (start, end) in zip(numbers, spans, strict=True)
    )
    return Split(passages, len(passages) if windows is None else windows, left_out)


def _stripped_span(text: str) -> list[Span]:
    return [(len(text) - len(text.lstrip()), len(text.rstrip()))]


def _of_title(document: Document) -> Split:
    if not document.title.strip():
        return Split((), 0)
    [(start, end)] = _stripped_span(document.title)
    return Split((Passage(document.id, 0, start, end, "title"),), 1)


def _units(text: str, spec: PassageSpec, tokens: Tokens | None) -> list[Span]:
    """What windows of sentences or tokens are made of."""
    if spec.unit == "sentences":
        return split_sentences(text)
    if tokens is None:
        raise InputError(
            f"{str(spec)!r} needs a tokenizer",
            hint="use a scorer that has one, or windows of words: words:150:75",
        )
    return [span for span in tokens(text) if span[0] < span[1]]


def _windows(
    doc_id: str, units: int, spec: PassageSpec, seed: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Number, first and last unit of each window that is kept; and how many windows there are."""
    count = 1 + max(0, -(-(units - spec.size) // spec.stride))
    numbers: Iterable[int] = range(count)
    if spec.most and count > spec.most:
        numbers = [0, *_sample(doc_id, count, spec.most - 2, seed), count - 1]
    starts = ((number, number * spec.stride) for number in numbers)
    return [(n, first, min(first + spec.size, units) - 1) for n, first in starts], count


def _sample(doc_id: str, count: int, size: int, seed: int) -> list[int]:
    """Some of the windows between first and last, in order: those whose hash is smallest."""
    name = doc_id.encode("utf-8", "surrogatepass")

    def draw(number: int) -> int:
        return int(xxhash.xxh3_64_intdigest(b"%b\0%d" % (name, number), seed))

    return sorted(sorted(range(1, count - 1), key=draw)[:size])


def _covered(windows: Sequence[tuple[int, int, int]]) -> int:
    """How many units are in at least one window."""
    total, reached = 0, -1
    for _, first, last in windows:
        total += last - max(first, reached + 1) + 1
        reached = last
    return total


def _to_sentence_ends(document: Document, size: int) -> list[Span]:
    """Passages of so many words, each going on to the end of its last word's sentence."""
    starts, ends = word_spans(document.text)
    title_words = len(word_spans(document.title)[0]) if document.title else 0
    words_left = max(1, size - title_words)
    if len(starts) <= words_left:
        return [(int(starts[0]), int(ends[-1]))]
    sentence_ends = [end for _, end in split_sentences(document.text)]
    last_words: list[int] = (ends.searchsorted(sentence_ends, side="right") - 1).tolist()
    firsts, lasts = [0], []
    while firsts[-1] + words_left < len(starts):
        last = last_words[bisect_left(last_words, firsts[-1] + words_left - 1)]
        if last + 1 == len(starts):
            break
        lasts.append(last)
        firsts.append(last + 1)
        words_left = size
    lasts.append(len(starts) - 1)
    return list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True))


def word_spans(text: str) -> tuple[Positions, Positions]:
    """Where the words of a text start and end.

    >>> [part.tolist() for part in word_spans("a drum  sieve")]
    [[0, 2, 8], [1, 6, 13]]
    >>> [part.tolist() for part in word_spans("円い箱。 sieve")]
    [[0, 1, 2, 5], [1, 2, 4, 10]]
    """
    if text.isascii():
        codes: NDArray[Any] = np.frombuffer(text.encode("ascii"), np.uint8)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    starts, ends = _word_bounds(codes, _blanks())
    return starts, ends


@cache
def _blanks() -> NDArray[np.bool_]:
    """Which characters are white space; there are none from U+3001 on."""
    return np.array([chr(code).isspace() for code in range(0x3001)])


@jit
def _word_bounds(codes: NDArray[Any], blanks: NDArray[np.bool_]) -> Any:
    """Where the words start and end. An ideograph or kana starts a word wherever it stands."""
    starts = np.empty(len(codes), np.int32)
    ends = np.empty(len(codes), np.int32)
    count = 0
    inside = False
    for at in range(len(codes)):
        code = np.int64(codes[at])
        if code < len(blanks) and blanks[code]:
            if inside:
                ends[count - 1] = at
            inside = False
        elif not inside or _is_ideograph(code):
            if inside:
                ends[count - 1] = at
            starts[count] = at
            count += 1
            inside = True
    if inside:
        ends[count - 1] = len(codes)
    return starts[:count].copy(), ends[:count].copy()


@jit
def _is_ideograph(code: Any) -> Any:
    """Whether a character is kana or a Chinese character, which are written without blanks."""
    return (
        0x3040 <= code <= 0x30FF
        or 0x3400 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
    )


def text_of(document: Document, passage: Passage, title: TitleRule = "every") -> str:
    """What is scored: the passage's text, with the document's title and a blank before it.

    `spec.title` is the rule that goes with a spec.

    >>> document = Document("d1", "Sieves sort grain.", "Tools")
    >>> text_of(document, Passage("d1", 1, 0, 6)), text_of(document, Passage("d1", 1, 0, 6), "once")
    ('Tools Sieves', 'Sieves')
    """
    if passage.doc_id != document.id:
        raise InputError(f"a passage of {passage.doc_id!r} is not of document {document.id!r}")
    if passage.field == "title":
        return document.title[passage.start : passage.end]
    field_text = document.text if passage.field == "text" else document.fields[passage.field]
    text = field_text[passage.start : passage.end]
    heading = document.title.strip()
    if not heading or title == "never" or (title == "once" and passage.number > 0):
        return text
    return f"{heading} {text}"
