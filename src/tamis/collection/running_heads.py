"""Running heads of a PDF: lines at the top or the bottom of most of its pages, numbers aside."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

MIN_PAGES = 3
"""On which a line must stand: two may begin alike by chance."""
MAX_LINES = 3
"""Lines at each edge of a page that may be running heads."""
_NUMBER = re.compile(r"[0-9]+")
_PAGE_NUMBER = re.compile(r"[\W_]*[0-9]+[\W_]*")


def without_running_heads(pages: Sequence[str]) -> list[str]:
    r"""The pages without lines that more than half of them have at the same edge; a page of
    nothing else stays as it is.

    >>> pages = [f"The handbook\n{text}\nPage {n} of 3" for n, text in enumerate("abc", 1)]
    >>> without_running_heads(pages)
    ['a', 'b', 'c']
    """
    lines = [[line for line in page.split("\n") if line.strip()] for page in pages]
    heads = _common([page[:MAX_LINES] for page in lines])
    feet = _common([page[-MAX_LINES:] for page in lines])
    if not heads | feet:
        return list(pages)
    return [_cut(page, heads, feet) for page in pages]


def _common(edges: Sequence[Sequence[str]]) -> set[str]:
    """Lines that stand in more than half of the edges that have any, without their numbers."""
    counts = Counter(line for edge in edges for line in {_without_numbers(line) for line in edge})
    enough = max(MIN_PAGES, sum(map(bool, edges)) // 2 + 1)
    return {line for line, count in counts.items() if line and count >= enough}


def _without_numbers(line: str) -> str:
    """A line as it is compared: nothing of one with several numbers and no word, as in a table."""
    line = " ".join(line.split())
    is_text = any(character.isalpha() for character in line)
    return _NUMBER.sub("0", line) if is_text or _PAGE_NUMBER.fullmatch(line) else ""


def _cut(page: str, heads: set[str], feet: set[str]) -> str:
    lines = page.split("\n")
    shown = [number for number, line in enumerate(lines) if line.strip()]
    cut = {n for n in shown[:MAX_LINES] if _without_numbers(lines[n]) in heads}
    cut |= {n for n in shown[-MAX_LINES:] if _without_numbers(lines[n]) in feet}
    if len(cut) == len(shown):
        return page
    return "\n".join(line for number, line in enumerate(lines) if number not in cut)
