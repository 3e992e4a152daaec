"""What a page of HTML shows and what it is called, in time linear in its length.

Python's own parser goes through the rest of a page at every comment or tag that is not closed.
"""

from __future__ import annotations

import html
import re

_UNSHOWN = {"script", "style", "template", "noscript", "head", "svg"}
_IN_HEAD = {"title", "meta", "link", "base", "script", "style", "template", "noscript"}
_BLOCKS = set(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li "
    "main menu nav ol option p pre search section select summary table tbody tfoot thead tr "
    "ul".split()
)
_CELLS = {"td", "th"}
_NAME = re.compile(r"</?([A-Za-z][^\t\n\r\f />\0]*)")
_TAG_END = re.compile(r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+>""")
"""From a tag's name to its end; a `>` in a quoted value does not end it."""
_RAW_ENDS = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")
}
_NUMBER = re.compile(r"&#0*+(\d*+)")
MAX_DIGITS = 8
"""More digits than any code point has: such a reference is one to no character."""


def read_page(text: str) -> tuple[str, str]:
    r"""The title of a page and its text, a line a block.

    >>> read_page("<title>Sieves</title><p>Round.<p>Square &amp; flat.")
    ('Sieves', 'Round.\nSquare & flat.')
    """
    page, markup = _Page(), _Markup(text)
    at = 0
    while (start := text.find("<", at)) >= 0:
        page.add_text(_unescape(text[at:start]))
        end = markup.end(start)
        if not end:
            page.add_text("<")
        at = end or start + 1
        name = _NAME.match(text, start) if end else None
        if name and text[start + 1] == "/":
            page.close(name[1].lower())
        elif name and text[end - 2] == "/":
            page.break_at(name[1].lower())
        elif name:
            page.open(name[1].lower())
            at = markup.raw_end(name[1].lower(), end)
    page.add_text(_unescape(text[at:]))
    return page.read()


def _unescape(text: str) -> str:
    if "&" not in text:
        return text
    return html.unescape(_NUMBER.sub(lambda number: "&#" + (number[1][:MAX_DIGITS] or "0"), text))


class _Markup:
    """Where the mark-up of a text ends; what was once looked for in vain is not looked for again.

    A comment or a tag that is never closed is text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()

    def end(self, start: int) -> int:
        """Where the mark-up ends that begins with the `<` at `start`; 0 if it is none."""
        text = self._text
        if text.startswith("<!--", start):
            return self._past("-->", start + 2)
        following = text[start + 1 : start + 2]
        is_tag = following.isascii() and following.isalpha()
        if is_tag and "quote" not in self._missing:
            if tag := _TAG_END.match(text, start + 1):
                return tag.end()
            self._missing.add("quote")
        return self._past(">", start) if is_tag or following in ("!", "?", "/") else 0

    def raw_end(self, name: str, at: int) -> int:
        """Where markup goes on behind the opening tag at `at`: scripts and styles hold none."""
        if name not in _RAW_ENDS:
            return at
        closing = _RAW_ENDS[name].search(self._text, at)
        return closing.start() if closing else len(self._text)

    def _past(self, mark: str, start: int) -> int:
        end = -1 if mark in self._missing else self._text.find(mark, start)
        if end < 0:
            self._missing.add(mark)
        return end + len(mark) if end >= 0 else 0


class _Page:
    """Gathers what a page shows, its title and its first heading."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.title: list[str] = []
        self.heading: list[str] = []
        self._has_heading = False
        self._unshown: list[str] = []
        self._within = ""
        self._preformatted = 0

    def open(self, tag: str) -> None:
        """Meet an opening tag."""
        if self._unshown == ["head"] and tag not in _IN_HEAD:
            self._unshown = []  # a page need not close its head
        if tag in _UNSHOWN and tag not in self._unshown:
            self._unshown.append(tag)
        if tag == "title" and not self.title and self._unshown in ([], ["head"]):
            self._within = tag
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "h1" and not self._has_heading:
            self._within = tag
        self.break_at(tag)

    def close(self, tag: str) -> None:
        """Meet a closing tag."""
        if tag in self._unshown:
            del self._unshown[self._unshown.index(tag) :]
        if tag == self._within:
            self._within = ""
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        self.break_at(tag)

    def add_text(self, text: str) -> None:
        """Meet text, which may be empty."""
        if self._within == "title" and text:
            self.title.append(text)
            return
        if self._unshown == ["head"] and text.strip():
            self._unshown = []
        if not self._unshown:
            self.shown.append(text if self._preformatted else text.replace("\n", " "))
            if self._within == "h1":
                self.heading.append(text)
                self._has_heading |= bool(text.strip())

    def break_at(self, tag: str) -> None:
        """Begin a line or a cell where the tag does."""
        if tag in _BLOCKS:
            self.shown.append("\n")
            if self._within == "h1":
                self.heading.append(" ")
        elif tag in _CELLS:
            self.shown.append("\t")

    def read(self) -> tuple[str, str]:
        """The title and the text, a line a block."""
        lines = (" ".join(line.split()) for line in "".join(self.shown).split("\n"))
        text = "\n".join(line for line in lines if line)
        title, heading = (
            " ".join("".join(pieces).split()) for pieces in (self.title, self.heading)
        )
        return title or heading, text
