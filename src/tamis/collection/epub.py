"""E-books in EPUB: the chapters in the order of their spine, without the table of contents."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote
from xml.parsers import expat

from tamis.collection.file_content import FileContent, decoded
from tamis.collection.html_text import declared_encoding, read_page
from tamis.collection.properties import property_fields
from tamis.collection.zip_parts import ZipParts

CONTAINER = "META-INF/container.xml"
NAMED_TEXTS = ("title", "creator", "date")


def read_epub(path: Path) -> FileContent:
    """The title of a book, its text, its first author and its first date."""
    if path.stat().st_size == 0:
        return FileContent("", "")
    with ZipParts(path, "EPUB") as parts:
        package_name = _package_of(_read_tags(parts, CONTAINER))
        package = _read_tags(parts, package_name)
        folder = posixpath.dirname(package_name)
        pages = []
        for reference in _spine(package):
            raw = parts.read(posixpath.normpath(posixpath.join(folder, unquote(reference))))
            pages.append(read_page(decoded(raw, declared_encoding(raw)))[1])
    texts = package.texts
    fields = property_fields(texts["creator"], texts["date"])
    return FileContent(texts["title"].strip(), "\n\n".join(page for page in pages if page), fields)


@dataclass
class _Tags:
    """The opening tags of a small XML file, without their namespaces, and the first title, author
    and date.
    """

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=lambda: dict.fromkeys(NAMED_TEXTS, ""))
    _within: str = ""

    def open(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self.tags.append((name, attributes))
        self._within = name if name in self.texts and not self.texts[name].strip() else ""

    def close(self, name: str) -> None:
        self._within = ""

    def add_text(self, text: str) -> None:
        if self._within:
            self.texts[self._within] += text

    def named(self, name: str) -> Iterator[dict[str, str]]:
        return (attributes for tag, attributes in self.tags if tag == name)


def _read_tags(parts: ZipParts, name: str) -> _Tags:
    """The tags of a part; a file that declares entities is refused, for they may multiply."""
    tags, parser = _Tags(), expat.ParserCreate()

    def refuse(*declaration: object) -> None:
        raise parts.fault(f"{name} declares an entity")

    parser.StartElementHandler, parser.EndElementHandler = tags.open, tags.close
    parser.CharacterDataHandler, parser.EntityDeclHandler = tags.add_text, refuse
    try:
        parser.Parse(parts.read(name), True)
    except expat.ExpatError as error:
        raise parts.fault(f"{name}: {error}") from None
    return tags


def _package_of(container: _Tags) -> str:
    return next((file.get("full-path", "") for file in container.named("rootfile")), "")


def _spine(package: _Tags) -> Iterator[str]:
    """Where the chapters stand, in the order in which they are read."""
    items = {item.get("id", ""): item for item in package.named("item")}
    seen: set[str] = set()
    for reference in package.named("itemref"):
        item = items.get(reference.get("idref", ""), {})
        is_contents = "nav" in item.get("properties", "").split()
        is_page = "html" in item.get("media-type", "")
        place = item.get("href", "").partition("#")[0]
        if place and is_page and not is_contents and place not in seen:
            seen.add(place)
            yield place
