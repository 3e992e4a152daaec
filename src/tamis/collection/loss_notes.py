"""What a format could not hold as it was, counted while a collection is written."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from tamis.errors import InputError
from tamis.types import Ids

_BREAKS = re.compile(r"[\t\r\n]")
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

    def add(self, sentence: str, what: str, count: int = 1) -> None:
        """Count something; `{}` in the sentence becomes the number and its noun."""
        if count:
            self._counts[sentence, what] += count

    def sentences(self) -> list[str]:
        """One sentence a kind of change, in the order they were first met."""
        return [
            sentence.replace("{}", counted(count, what))
            for (sentence, what), count in self._counts.items()
        ]

    def flat(self, text: str, what: str) -> str:
        """A text on one line and without tabs; where it had any, that is noted."""
        if _BREAKS.search(text) is None:
            return text
        self.add(_FLATTENED, what)
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
    breaks = np.isin(ids.data, [9, 10, 13])
    if breaks.any():
        number = int(np.searchsorted(ids.offsets, int(np.argmax(breaks)), side="right")) - 1
        refuse_break(ids[number])


def refuse_break(string: str) -> None:
    """Raise where an id has a tab or a line break."""
    if _BREAKS.search(string):
        raise InputError(
            f"id {string!r} has a tab or a line break, which this format cannot hold",
            hint="write jsonl or parquet instead",
        )
