"""What a format cannot hold as it is: counted while something is written, or refused."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from tamis.errors import InputError
from tamis.types import Ids

_BREAKS = re.compile(r"[\t\r\n]")
_BREAK_BYTES, _WHITE_SPACE_BYTES = b"\t\n\r", b"\t\n\v\f\r "
_FLATTENED = "tabs or line breaks in {} were replaced by spaces: a line here is one record"


class LossNotes:
    """Sentences about what was changed or left out, each with its count.

    >>> notes = LossNotes()
    >>> notes.add("titles were put before the text of {}", "document")
    >>> notes.add("titles were put before the text of {}", "document")
    >>> notes.sentences()
    ['titles were put before the text of 2 documents']
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, sentence: str, noun: str, count: int = 1) -> None:
        """Count something; `{}` in the sentence becomes the number and its noun."""
        if count:
            self._counts[sentence, noun] += count

    def sentences(self) -> list[str]:
        """One sentence a kind of change, in the order they were first met."""
        return [
            sentence.replace("{}", counted(count, noun))
            for (sentence, noun), count in self._counts.items()
        ]

    def flat(self, text: str, noun: str) -> str:
        """A text on one line and without tabs; where it had any, that is noted."""
        if _BREAKS.search(text) is None:
            return text
        self.add(_FLATTENED, noun)
        return _BREAKS.sub(" ", text)


def counted(count: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "title"), counted(1200, "query")
    ('1 title', '1,200 queries')
    """
    if count != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun}"


def refuse_breaks(ids: Ids) -> None:
    """Raise where an id would break a file whose columns are separated by tabs."""
    number = _first_with(ids, _BREAK_BYTES)
    if number is not None:
        refuse_break(ids[number])


def refuse_break(string: str) -> None:
    """Raise where an id has a tab or a line break."""
    if _BREAKS.search(string):
        raise InputError(
            f"id {string!r} has a tab or a line break, which this format cannot hold",
            hint="write jsonl or parquet instead",
        )


def refuse_white_space(ids: Ids, where: str) -> None:
    """Raise where an id would break a file whose columns are separated by white space."""
    empty = np.flatnonzero(np.diff(ids.offsets) == 0)
    number = int(empty[0]) if len(empty) else _first_with(ids, _WHITE_SPACE_BYTES)
    if number is not None:
        raise InputError(
            f"id {ids[number]!r} is empty or has white space, which {where} cannot hold",
            hint="write .parquet instead",
        )


def _first_with(ids: Ids, characters: bytes) -> int | None:
    """The number of the first id that has one of these characters."""
    hits = np.isin(ids.data, np.frombuffer(characters, np.uint8))
    if not hits.any():
        return None
    return int(np.searchsorted(ids.offsets, int(np.argmax(hits)), side="right")) - 1
