"""The markup of TREC's files: stretches between tags, entities, text that keeps its ends."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from tamis.collection.base import Faults
from tamis.collection.lines import numbered_lines
from tamis.errors import LineError

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")
_TAG = re.compile(r"<(?:/?[A-Za-z]|[!?])[^<>]*+>")
SPACE = " \t\r\n"
PLAIN_NAME = re.compile(r"[a-z][a-z0-9_-]*")
"""A name that can be a tag here and is read back as itself."""


def unescape(text: str) -> str:
    """Entities as characters; an ampersand that begins none stays.

    >>> unescape("AT&T &lt;R&amp;D&gt; &copy")
    'AT&T <R&D> &copy'
    """
    if "&" not in text:
        return text
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def without_tags(text: str) -> str:
    """Text without its markup, entities as characters, no space around it."""
    if "<" in text:
        text = " ".join(_TAG.sub(" ", piece) for piece in _between_comments(text))
    return unescape(text.strip(SPACE))


def _between_comments(text: str) -> Iterator[str]:
    """What stands between comments; one that is never closed is none."""
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        yield text[at:start]
        at = end + 3
    yield text[at:]


def escape(text: str) -> str:
    """Text that `without_tags` reads back exactly, white space at its ends included.

    >>> escape("a < b ")
    'a &lt; b&#32;'
    """
    text = html.escape(text, quote=False).replace("\r", "&#13;")
    body = text.strip(SPACE)
    if len(body) == len(text):
        return text
    start = len(text) - len(text.lstrip(SPACE))
    return _as_references(text[:start]) + body + _as_references(text[start + len(body) :])


def _as_references(space: str) -> str:
    return "".join(f"&#{ord(character)};" for character in space)


def stretches(path: Path, tag: str, faults: Faults) -> Iterator[tuple[int, str]]:
    """What stands between `<tag>` and `</tag>`, with the line of the first; tags may nest no more.

    Words outside and a tag that is never closed are faults.
    """
    opening = re.compile(rf"<{tag}(?:\s[^<>]*)?>", re.IGNORECASE)
    closing = re.compile(rf"</{tag}\s*>", re.IGNORECASE)
    begin, pieces = 0, [""]
    for number, line in numbered_lines(path, faults):
        if begin and "<" not in line:
            pieces.append(line)
            continue
        at = 0
        while True:
            start = opening.search(line, at)
            if begin == 0:
                _refuse_words(path, number, line[at : start and start.start()], tag, faults)
            else:
                end = closing.search(line, at, start.start() if start else len(line))
                if end:
                    pieces.append(line[at : end.start()])
                    yield begin, "\n".join(pieces)
                    begin, at = 0, end.end()
                    continue
                if start:
                    faults.meet(_unclosed(path, begin, tag))
            if start is None:
                if begin:
                    pieces.append(line[at:])
                break
            begin, pieces, at = number, [], start.end()
    if begin:
        faults.meet(_unclosed(path, begin, tag))


def _refuse_words(path: Path, number: int, outside: str, tag: str, faults: Faults) -> None:
    if outside and not outside.isspace() and without_tags(outside):
        problem = f"words outside <{tag}>: {without_tags(outside)[:40]!r}"
        hint = f"put them between <{tag}> and </{tag}>, or remove them"
        faults.meet(LineError(path, number, problem, hint=hint))


def _unclosed(path: Path, line: int, tag: str) -> LineError:
    return LineError(
        path, line, f"<{tag}> has no </{tag}>", hint="is the file cut short, or a tag missing?"
    )
