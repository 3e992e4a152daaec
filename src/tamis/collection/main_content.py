"""The main content of an HTML page: its text without navigation, banners and footers.

resiliparse extracts it (benchmarks/boilerplate.py compares it with others). Where the extra is not
installed, where nothing is left, and where a page is built so that the extractor would take the
square of its length, all text of the page is taken.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

from tamis.collection.html_text import Page, parse_page
from tamis.errors import require

PACKAGE = "resiliparse"
MAX_CHARACTERS = 2_000_000
MAX_NESTING, MAX_FORMATTING, MAX_TAG = 250, 16, 16_384
"""Beyond these the extractor takes the square of a page's length."""


_CELL = re.compile(r"<(?=t[dh][\s>])", re.IGNORECASE)
_LIST_WITHOUT_LINKS = re.compile(
    r"<ul(?=[\s>])[^<>]*+>((?:[^<]++|<(?!a[\s>]|/?ul[\s>]))*+)</ul\s*+>", re.IGNORECASE
)
_SITE_NAME = re.compile(
    r"<header(?=[\s>])[^<>]*+>\s*+<a(?=[\s>])[^<>]*+>[^<>]*+</a\s*+>\s*+</header\s*+>",
    re.IGNORECASE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ITEM = re.compile(r"<(/?)li(?=[\s>])", re.IGNORECASE)


def has_extractor() -> bool:
    """Whether the package that extracts main content is installed."""
    return find_spec(PACKAGE) is not None


def read_main_content(text: str) -> tuple[str, str]:
    r"""The title of a page and its main content, a line a block.

    >>> read_main_content("<title>Sieves</title><p>Round.<p>Square &amp; flat.")
    ('Sieves', 'Round.\nSquare & flat.')
    """
    page = parse_page(text)
    title, all_text = page.read()
    if not has_extractor() or not _is_simple(text, page):
        return title, all_text
    html2text = require("resiliparse.extract.html2text")
    content = html2text.extract_plain_text(
        _prepared(text), main_content=True, list_bullets=False, alt_texts=False
    )
    lines = (" ".join(line.split()) for line in content.split("\n"))
    return title, "\n".join(line for line in lines if line) or all_text


def _prepared(text: str) -> str:
    """A page of which the extractor loses less.

    It joins the words of two cells of a table, and takes a list of short items for navigation;
    a list without links is none. A header of nothing but one link is the name of the site, which
    it keeps.
    """
    text = _SITE_NAME.sub(" ", _CELL.sub(" <", text))
    return _LIST_WITHOUT_LINKS.sub(_as_blocks, text)


def _as_blocks(items: re.Match[str]) -> str:
    return "<div>" + _ITEM.sub(r"<\1div", items[1]) + "</div>"


def _is_simple(text: str, page: Page) -> bool:
    return (
        len(text) <= MAX_CHARACTERS
        and page.deepest <= MAX_NESTING
        and page.most_formatting <= MAX_FORMATTING
        and page.longest_tag <= MAX_TAG
        and _SURROGATE.search(text) is None
        and "--!>" not in text  # ends a comment for the extractor, and not for us
    )
