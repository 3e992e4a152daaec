"""What a page of HTML shows and what it is called, in time linear in its length.

Python's own parser goes through the rest of a page at every comment or tag that is not closed.
"""

from __future__ import annotations

import codecs
import html
import re

from tamis.collection.file_content import Unreadable
from tamis.collection.properties import property_fields

_UNSHOWN = {"script", "style", "template", "noscript", "head", "svg"}
_IN_HEAD = {"title", "meta", "link", "base", "script", "style", "template", "noscript"}
_BLOCKS = set(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li "
    "main menu nav ol option p pre search section select summary table tbody tfoot thead tr "
    "ul".split()
)
_CELLS = {"td", "th"}
_UNNESTED = set(
    "area base br col embed hr img input link meta param source track wbr "  # have no end
    "a body dd dt head html li nobr optgroup option p rp rt tbody td tfoot th thead tr".split()
)
"""Elements that need no end, or that another of their kind ends."""
_FORMATTING = set("b big code em font i s small strike strong tt u".split())
"""Elements that a browser opens again in each paragraph until they are closed."""
_NAME = re.compile(r"</?([A-Za-z][^\t\n\r\f />\0]*)")
_TAG_END = re.compile(r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+>""")
"""From a tag's name to its end; a `>` in a quoted value does not end it."""
_QUOTED = re.compile(r""""[^"]*+"|'[^']*+'""")
_RAW_ENDS = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")
}
_NUMBER = re.compile(r"&#(?=\d)0*+(\d*+)")
"""A decimal reference; hexadecimal ones are read in linear time however long."""
MAX_DIGITS = 8
"""More digits than any code point has: such a reference is one to no character."""


_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]*?(?:charset|encoding)\s*+=\s*+["']?+\s*+([\w:.-]+)""", re.I
)
MAX_HEAD = 65_536
"""Characters of a page in which its author and its date are looked for."""
_META = re.compile(r"<meta(?=\s)([^<>]*+)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(?<![^\s"'])([\w:.-]++)\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]++)""")
_QUOTES = re.compile(r"""^["']|["']$""")
_AS_BROWSERS_DO = {"iso8859-1": "cp1252", "ascii": "cp1252", "utf-16": "utf-8"}
"""Pages say Latin-1 and mean Windows; a declaration that can be read is not UTF-16."""


def declared_encoding(raw: bytes) -> str:
    """The encoding an HTML page declares in its first bytes, as Python calls it, or nothing.

    >>> declared_encoding(b'<meta charset="Latin-1">')
    'cp1252'
    """
    declaration = _DECLARED.search(raw[:2048])
    if declaration is None:
        return ""
    name = declaration[1].decode()
    try:
        encoding = codecs.lookup(name).name
    except LookupError:
        line = raw.count(b"\n", 0, declaration.start()) + 1
        raise Unreadable(
            line, f"the page declares the unknown encoding {name!r}", "declare utf-8"
        ) from None
    return _AS_BROWSERS_DO.get(encoding, encoding)


def page_fields(text: str) -> dict[str, str]:
    """The author and the date that the head of a page names.

    >>> page_fields('<meta name="author" content="Ada"><meta name=date content=2024-05-17>')
    {'author': 'Ada', 'date': '2024-05-17'}
    """
    contents: dict[str, str] = {}
    for tag in _META.finditer(text[:MAX_HEAD]):
        values = {
            name.lower(): _QUOTES.sub("", value) for name, value in _ATTRIBUTE.findall(tag[1])
        }
        name = (values.get("property") or values.get("name") or "").lower()
        contents.setdefault(name, html.unescape(values.get("content", "")))
    dates = (contents.get(name) for name in ("article:published_time", "date"))
    return property_fields(contents.get("author"), next(filter(None, dates), None))


def read_page(text: str) -> tuple[str, str]:
    r"""The title of a page and its text, a line a block.

    >>> read_page("<title>Sieves</title><p>Round.<p>Square &amp; flat.")
    ('Sieves', 'Round.\nSquare & flat.')
    """
    return parse_page(text).read()


def parse_page(text: str) -> Page:
    """What a page shows, and how deep it is nested."""
    page, markup = Page(), _Markup(text)
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
            if end - start > page.longest_tag:
                bare = _QUOTED.sub("", text[start:end])
                page.longest_tag = max(page.longest_tag, len(bare))
            at = markup.raw_end(name[1].lower(), end)
    page.add_text(_unescape(text[at:]))
    return page


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


class Page:
    """Gathers what a page shows, its title and its first heading."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.title: list[str] = []
        self.heading: list[str] = []
        self._has_heading = False
        self._unshown: list[str] = []
        self._within = ""
        self._preformatted = 0
        self._open: list[str] = []
        self._formatting = 0
        self.deepest = self.most_formatting = self.longest_tag = 0
        """How deep elements are nested, how many of them are inline, and the longest tag, without
        quoted values, which may be pictures."""

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
        if tag not in _UNNESTED:
            self._open.append(tag)
            self.deepest = max(self.deepest, len(self._open))
            self._formatting += tag in _FORMATTING
            self.most_formatting = max(self.most_formatting, self._formatting)
        self.break_at(tag)

    def close(self, tag: str) -> None:
        """Meet a closing tag."""
        if tag in self._unshown:
            del self._unshown[self._unshown.index(tag) :]
        if tag == self._within:
            self._within = ""
        if self._open and self._open[-1] == tag:  # others stay open, as in a browser they may
            self._open.pop()
            self._formatting -= tag in _FORMATTING
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
