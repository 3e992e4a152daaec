"""What the readers of files share: the content of a file, and a file that cannot be read."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_TITLE = 120
"""Characters: a first line longer than that is no title."""
MAX_FILE_BYTES = 256 * 1024 * 1024
"""A text longer than that is no document: it is refused before it is read."""

BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]


class Unreadable(Exception):
    """What is wrong with a file, at which line, and what would be right."""

    def __init__(self, line: int, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.line, self.problem, self.hint = line, problem, hint


@dataclass(frozen=True)
class FileContent:
    """The title of a file, empty where it has none, its text, and other fields by name.

    >>> FileContent("Sieves", "They sort grain.").fields
    {}
    """

    title: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    bad_front_matter: Unreadable | None = None
    """Why the front matter gave no fields, though there is some."""
    not_utf8: Unreadable | None = None
    """Where the file is not UTF-8, for which it was read as Windows-1252."""


def read_bytes(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file that is not too long."""
    size = path.stat().st_size
    if size > most:
        raise Unreadable(
            1, f"it has {size:,} bytes, and at most {most:,} are read", "split the file"
        )
    return path.read_bytes()


def decoded(raw: bytes, encoding: str = "") -> str:
    r"""The text of a file: by its byte-order mark, else the encoding it declares, else UTF-8.

    >>> decoded(b"\xef\xbb\xbfone\r\ntwo")
    'one\ntwo'
    """
    for mark, name in BOMS:
        if raw.startswith(mark):
            raw, encoding = raw.removeprefix(mark), name
            break
    encoding = encoding or "utf-8"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "utf-8" else encoding
        raise Unreadable(
            line,
            f"byte 0x{raw[error.start]:02x} is not {name}",
            "save the file as UTF-8, such as with: iconv -f windows-1252 -t utf-8",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Unreadable(line, "a zero byte: this is not text", "give it the suffix of its kind")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decoded_or_windows(raw: bytes) -> tuple[str, Unreadable | None]:
    r"""The text of a file that declares no encoding, as Windows-1252 if it is not UTF-8, with the
    reason; a file that has other characters in UTF-8 is damaged, and Unreadable.

    >>> text, not_utf8 = decoded_or_windows(b"Caf\xe9")
    >>> text, str(not_utf8)
    ('Café', 'byte 0xe9 is not UTF-8')
    """
    try:
        return decoded(raw), None
    except Unreadable as not_utf8:
        if not raw.decode(errors="ignore").isascii():
            raise
        try:
            return decoded(raw, "cp1252"), not_utf8
        except Unreadable:
            raise not_utf8 from None
