"""Splits text into sentences by a few rules: no model, nothing to download, always the same.

A sentence ends at a full stop, question mark or exclamation mark (and whatever closes a quotation
or bracket behind it) before white space, unless what follows starts with a small letter or what
stands before the full stop is an abbreviation, an initial or the number of a list item. It ends
at a blank line, before a list item, and at the end of a line, unless the line was only wrapped.
Pieces too long for a sentence are cut where they bear it best. The abbreviations are English;
the stops are those of most scripts.
"""

from __future__ import annotations

import re

NAME = "tamis-rules"
VERSION = "1"
"""Changes whenever a text may be split differently; recorded with the name."""

MAX_SENTENCE_CHARACTERS = 1500
"""Unless a sentence has no place to cut."""
LEAST_CUT = 400
"""Nothing shorter is cut off a piece that is too long, if it can be helped."""
NARROWEST, WIDEST = 50, 120
"""Text whose lines are so many characters wide may have been wrapped by hand."""
FULL, NEARLY_FULL = 0.85, 0.75
"""How much of the width a line fills, with the next word and without, if it was wrapped."""
WIDE_SHARE = 0.1
"""In wrapped text at most this share lies in lines that are wider."""

Span = tuple[int, int]

_STOPS = ".!?…‽"
_OPENERS = "\"'“‘„«([{¿¡*_-"
_STOP = re.compile(
    rf"[{_STOPS}](?<![{_STOPS}][{_STOPS}])([{_STOPS}]*+)"
    r"(?:[ \xa0\u202f]»)?+[\"'”’»)\]}]*+(?:\[\d{1,3}\])*+"
    rf"(\s++)(?=[{re.escape(_OPENERS)}]*+([^\sa-z]))"
)
"""A run of stops and what closes with it; groups: further stops, the gap, what stands next."""
MORE, GAP, NEXT = 1, 2, 3
_WIDE_OPENERS = "「『（【《〈“‘"
_WIDE_STOP = re.compile(
    r"[。！？｡।॥۔؟։።။។][。！？｡।॥۔؟։።။។]*+(?P<closers>[」』）】》〉”’\"')\]]*+)"
)
_LINE_END = re.compile(r"\n\s*+")
_ANY_LINE_END = re.compile(r"[\n\r\f\v\x85\u2028\u2029]\s*+")
_RARE_LINE_ENDS = "\r\f\v\x85\u2028\u2029"
_NOT_BLANK = re.compile(r"\S")
_TO_NEXT_BLANK = re.compile(r"\S+")
_WORD = re.compile(r"[^\W\d_]+\.?")
_ITEM = re.compile(r"(?:[-*+•◦▪‣·–—]|\d{1,3}[.)]|\((?:\d{1,3}|[a-zA-Z]|[ivx]{2,5})\)|[a-z]\))\s")
_ITEM_NUMBER = re.compile(r"\d{1,3}|[a-zA-Z]|[ivxIVX]{2,5}")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}")
_CUTS = (
    re.compile(r"\S(?P<gap>[^\S\n\r]*+[\n\r]\s*+)(?=\S)"),
    re.compile(r"[.!?…][\"'”’)\]]*+(?P<gap>\s++)(?=\S)"),
    re.compile(r"[;:；：](?P<gap>\s++|(?<=[；：]))(?=\S)"),
    re.compile(r"[,，、](?P<gap>\s++|(?<=[，、]))(?=\S)"),
    re.compile(r"\S(?P<gap>\s++)(?=\S)"),
)
"""Where a piece that is too long is cut, best first."""

_NEVER_LAST = frozenset("mr mrs ms mx dr drs prof messrs mme mlle eg ie cf viz vs v".split())
"""Abbreviations that something always follows."""
_BEFORE_A_NUMBER = frozenset(
    "no nos nr art arts chap chaps vols p pp par para paras eq eqs eqn ex tab app cl l ll n nn ver "
    "c s ss r rs reg regs rule version".split()
)
"""Abbreviations that a number follows; before anything else they end a sentence."""
_SELDOM_LAST = frozenset(
    "inc corp ltd co bros jr sr dept univ assn ave blvd rd hwy bldg est al ed eds trans ft mt st "
    "rev fr hon pres gov gen col lt sgt capt cmdr cpl maj adm sen rep reps sens supt insp approx "
    "resp esp incl brig asst assoc msgr ph "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri "
    "fig figs sec secs sect vol ch "
    "ala ariz ark calif colo conn del fla ga ill ind kan ky mass md mich minn miss mo mont neb nev "
    "okla ore pa tenn tex va vt wash wis wyo dist cir ct crl cri supp".split()
)
"""Abbreviations that end a sentence only where the next word is one that often starts one."""
_STARTERS = frozenset(
    "A After Although An And Another As At Because Before But By Each Even For From He Her Here "
    "His How However I If In It Its Many Most My No Not Now On One Or Other Our She Since So Some "
    "Such That The Their Then There These They This Those Though Thus To Under Until We What When "
    "Where Which While Who Why With Yes You Your Additionally Also Both During Despite Later Like "
    "Meanwhile Moreover Instead Every First Finally Therefore Today Two Three Several".split()
)


def split_sentences(text: str) -> list[Span]:
    """The sentences of a text as spans in order; every character outside them is white space.

    >>> text = "Dr. Gray sifts flour. It takes 2.5 hours!"
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['Dr. Gray sifts flour.', 'It takes 2.5 hours!']
    """
    start, length = len(text) - len(text.lstrip()), len(text.rstrip())
    spans: list[Span] = []
    for end, following in _gaps(text):
        if start < end < length:
            _add(spans, text, start, end)
            start = following
    if start < length:
        _add(spans, text, start, length)
    return spans


def _gaps(text: str) -> list[Span]:
    """The stretches between sentences, in order: where one ends and where the next starts."""
    stops = _stops(text)
    gaps = _line_ends(text)
    if not text.isascii():
        gaps += _wide_stops(text)
    return sorted({*stops, *gaps}) if gaps else stops


def _stops(text: str) -> list[Span]:
    """The white space behind stops that end a sentence."""
    gaps: list[Span] = []
    start = 0
    plain = text.isascii()
    for match in _STOP.finditer(text):
        at = match.start()
        if not plain and match[NEXT].islower():
            continue
        # after a word longer than any abbreviation, as most are, nothing more need be asked
        if (
            text[at] == "."
            and not (at - start > 8 and text[at - 8 : at].isalpha())
            and not match[MORE]
            and _goes_on(text, start, at, match)
        ):
            continue
        gap = match.span(GAP)
        start = gap[1]
        gaps.append(gap)
    return gaps


def _goes_on(text: str, start: int, at: int, match: re.Match[str]) -> bool:
    """Whether the full stop at a place belongs to the word before it."""
    before = text[max(start, at - 16) : at]
    words = before.rsplit(None, 1)
    if not words or before[-1].isspace():
        return False
    word = words[-1].lstrip(_OPENERS).rpartition("-")[2]
    lower = word.lower()
    if lower in _NEVER_LAST:
        return True
    seldom = (
        lower in _SELDOM_LAST
        or (len(word) == 1 and word.isupper() and word != "I")
        or ("." in word and _DOTTED.fullmatch(word) is not None)
    )
    if match[NEXT].isdigit():
        return seldom or lower in _BEFORE_A_NUMBER
    if seldom:
        following = _WORD.match(text, match.start(NEXT))
        return following is None or following[0] not in _STARTERS
    may_open = len(words) == 1 or "\n" in before
    return may_open and _ITEM_NUMBER.fullmatch(word) is not None and _opens(text, start, at)


def _opens(text: str, start: int, at: int) -> bool:
    """Whether the word that ends at a place is the first of its sentence or line."""
    line = max(start, text.rfind("\n", start, at) + 1)
    return len(text[line:at].split(None, 1)) == 1


def _wide_stops(text: str) -> list[Span]:
    """The places behind stops that need no white space after them, as in Chinese."""
    gaps: list[Span] = []
    for match in _WIDE_STOP.finditer(text):
        end = match.end()
        following = text[end : end + 1]
        if match["closers"] and not (following.isspace() or following in _WIDE_OPENERS):
            continue
        gaps.append((end, _past_blanks(text, end)))
    return gaps


def _past_blanks(text: str, at: int) -> int:
    match = _NOT_BLANK.search(text, at)
    return match.start() if match else len(text)


def _line_ends(text: str) -> list[Span]:
    """The ends of lines that end a sentence."""
    ends: list[Span] = []
    width, line_start = -1, 0
    rare = any(character in text for character in _RARE_LINE_ENDS)
    for match in (_ANY_LINE_END if rare else _LINE_END).finditer(text):
        end, following = match.span()
        gap = match[0]
        if len(gap) == 1 or len(gap.splitlines()) < 2:
            width = _wrapped_width(text) if width < 0 else width
            goes_on = _goes_on_below(text, end - line_start, following, width)
        else:
            goes_on = False
        line_start = following - len(gap) + len(gap.rstrip(" \t"))
        if not goes_on:
            while end and text[end - 1].isspace():
                end -= 1
            ends.append((end, following))
    return ends


def _goes_on_below(text: str, line: int, following: int, width: int) -> bool:
    """Whether the sentence of a line of this length goes on in the next, which starts there."""
    word = _TO_NEXT_BLANK.match(text, following)
    if word is None or _ITEM.match(text, following):
        return False
    return word[0][0].islower() or (width > 0 and line + 1 + len(word[0]) >= FULL * width)


def _wrapped_width(text: str) -> int:
    """How wide the lines of a wrapped text are; 0 for text that is not wrapped."""
    lengths = [len(line) for line in text.splitlines()]
    narrow = [length for length in lengths if length <= WIDEST]
    width = max(narrow, default=0)
    full = sum(length >= NEARLY_FULL * width for length in narrow)
    wrapped = sum(narrow) >= (1 - WIDE_SHARE) * sum(lengths)
    return width if wrapped and width >= NARROWEST and full > 1 else 0


def _add(spans: list[Span], text: str, start: int, end: int) -> None:
    """Add a sentence, or the pieces of one that is too long."""
    while end - start > MAX_SENTENCE_CHARACTERS:
        cut = _cut(text, start, end)
        if cut is None:
            break
        spans.append((start, cut[0]))
        start = cut[1]
    spans.append((start, end))


def _cut(text: str, start: int, end: int) -> Span | None:
    """The best place to cut a long piece: the last in reach, else the first beyond."""
    for low in (start + LEAST_CUT, start):
        for pattern in _CUTS:
            places = [
                m.span("gap")
                for m in pattern.finditer(text, low, start + MAX_SENTENCE_CHARACTERS + 1)
            ]
            if places:
                return places[-1]
    match = _CUTS[-1].search(text, start + MAX_SENTENCE_CHARACTERS, end)
    return match.span("gap") if match else None
