"""TREC's topics, which are queries with a description and a narrative: classic and XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape as xml_escape
from xml.sax.saxutils import quoteattr

from tamis.collection.base import Faults
from tamis.collection.formats import Format
from tamis.collection.lines import open_bytes, writing
from tamis.collection.loss_notes import LossNotes
from tamis.collection.sgml import PLAIN_NAME, SPACE, escape, stretches, without_tags
from tamis.errors import LineError
from tamis.types import Query

LABELS = {"num": "Number:", "title": "Topic:", "desc": "Description:", "narr": "Narrative:"}
FULL_NAMES = {"desc": "description", "narr": "narrative"}
SHORT_NAMES = {full: short for short, full in FULL_NAMES.items()}
TEXTS = ("title", "query", "question", "", "summary", "description")
"""Which part of an XML topic is its text, the first that is there; "" is text without a tag."""
_OPENING = re.compile(r"<([A-Za-z][\w-]*)>")
_XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LEFT_OUT = "the field {!r} of {{}} was left out: it cannot be a tag"


def read_topics(path: Path, faults: Faults) -> Iterator[tuple[int, Query]]:
    """Classic topics, `<top> <num> Number: 301 <title> …`, with the line each begins on.

    The title is the text; description and narrative are fields, and so is any other tag.
    """
    for line, body in stretches(path, "top", faults):
        fields = _classic_parts(body)
        number = fields.pop("num", "")
        if not number:
            hint = "every topic needs a line such as: <num> Number: 301"
            faults.meet(LineError(path, line, "<top> has no <num>", hint=hint))
            continue
        text = fields.pop("title", None) or fields.get("description", "")
        yield line, Query(number, text, fields)


def _classic_parts(body: str) -> dict[str, str]:
    pieces = _OPENING.split(body)
    fields: dict[str, str] = {}
    for tag, content in zip(pieces[1::2], pieces[2::2], strict=True):
        tag = tag.lower()
        content = _without_closing(content, f"</{tag}>").strip(SPACE)
        label = LABELS.get(tag, "")
        if label and content.lower().startswith(label.lower()):
            content = content[len(label) :]
        fields[FULL_NAMES.get(tag, tag)] = without_tags(content)
    return fields


def _without_closing(content: str, closing: str) -> str:
    """Content without the closing tag at its end, if it has one."""
    body = content.rstrip()
    return body[: -len(closing)] if body[-len(closing) :].lower() == closing else content


def write_topics(
    queries: Iterable[Query], path: Path, notes: LossNotes, force: bool = False
) -> None:
    """Write classic topics; fields become tags where their names can be."""
    with writing(path, force) as file:
        for query in queries:
            file.write(_classic(query, notes).encode())


def _classic(query: Query, notes: LossNotes) -> str:
    label = f"{LABELS['title']} " if query.text.lower().startswith(LABELS["title"].lower()) else ""
    lines = [
        "<top>",
        f"<num> {LABELS['num']} {escape(query.id)}",
        f"<title> {label}{escape(query.text)}",
    ]
    for name, value in query.fields.items():
        if name in SHORT_NAMES:
            tag = SHORT_NAMES[name]
            lines.append(f"<{tag}> {LABELS[tag]}\n{escape(value)}")
        elif PLAIN_NAME.fullmatch(name) and name not in {*LABELS, "top"}:
            lines.append(f"<{name}> {escape(value)}")
        else:
            notes.add(_LEFT_OUT.format(name), "query")
    return "\n".join([*lines, "</top>", "", ""])


class _Topics:
    """What the parser meets inside `<topic>` elements."""

    def __init__(self, path: Path, faults: Faults) -> None:
        self.path, self.faults = path, faults
        self.queries: list[tuple[int, Query]] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._line = self._depth = 0
        self._parts: dict[str, list[list[str]]] = {}
        self._part, self._exact = "", set[str]()

    def read(self) -> None:
        with open_bytes(self.path) as stream:
            try:
                self._parser.Parse(stream.read(), True)  # in pieces, a long token is read often
            except expat.ExpatError as error:
                raise LineError(
                    self.path,
                    error.lineno,
                    f"broken XML: {expat.ErrorString(error.code)}",
                    hint="topics in XML are <topics><topic number=…>…</topic></topics>",
                ) from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth:
            self._depth += 1
        elif name.lower() == "topic":
            self._depth = 1
            self._line = self._parser.CurrentLineNumber
            self._parts = {"@" + key: [[value]] for key, value in attributes.items()}
            self._part, self._exact = "", set()
        if self._depth == 2:
            self._part = name
            self._parts.setdefault(name, []).append([])
            if attributes.get("xml:space") == "preserve":
                self._exact.add(name)

    def _end(self, name: str) -> None:
        if self._depth == 1:
            self._close()
        self._depth = max(self._depth - 1, 0)
        if self._depth == 1:
            self._part = ""

    def _text(self, data: str) -> None:
        if self._depth:
            self._parts.setdefault(self._part, [[]])[-1].append(data)

    def _close(self) -> None:
        fields = {
            name: "\n".join(texts if name in self._exact else map(str.strip, texts))
            for name, texts in (
                (name, ["".join(pieces) for pieces in elements])
                for name, elements in self._parts.items()
            )
        }
        if not fields.get("", "."):
            del fields[""]
        key = next((k for k in ("@number", "@id", "num", "number", "id") if fields.get(k)), None)
        if key is None:
            hint = 'every topic needs one: <topic number="1">'
            error = LineError(self.path, self._line, "<topic> has no number", hint=hint)
            self.faults.meet(error)
            return
        number = fields.pop(key)
        by_lower = {name.lower(): name for name in reversed(fields)}
        main = next((by_lower[name] for name in TEXTS if name in by_lower), None)
        text = "" if main is None else fields.pop(main)
        fields = {name.removeprefix("@") or "text": value for name, value in fields.items()}
        self.queries.append((self._line, Query(number, text, fields)))


def read_topics_xml(path: Path, faults: Faults) -> Iterator[tuple[int, Query]]:
    """Topics in XML with the line each begins on; the text is its title, query or question.

    Attributes and other elements are fields.
    """
    topics = _Topics(path, faults)
    topics.read()
    yield from topics.queries


def write_topics_xml(
    queries: Iterable[Query], path: Path, notes: LossNotes, force: bool = False
) -> None:
    """Write topics in XML; fields become elements where their names can be."""
    with writing(path, force) as file:
        file.write(b"<topics>\n")
        for query in queries:
            file.write(_xml(query, notes).encode())
        file.write(b"</topics>\n")


def _xml(query: Query, notes: LossNotes) -> str:
    lines = [f"<topic number={quoteattr(_for_xml(query.id, notes))}>"]
    lines.append(_xml_element("title", query.text, notes))
    for name, value in query.fields.items():
        if _XML_NAME.fullmatch(name) and name.lower() != "title":
            lines.append(_xml_element(name, value, notes))
        else:
            notes.add(_LEFT_OUT.format(name), "query")
    return "\n".join([*lines, "</topic>", ""])


def _xml_element(name: str, value: str, notes: LossNotes) -> str:
    value = _for_xml(value, notes)
    exact = "" if value == value.strip() else ' xml:space="preserve"'
    return f"<{name}{exact}>{xml_escape(value, {chr(13): '&#13;'})}</{name}>"


def _for_xml(value: str, notes: LossNotes) -> str:
    if _NOT_XML.search(value) is None:
        return value
    notes.add("control characters in {} were replaced by spaces: XML has none", "value")
    return _NOT_XML.sub(" ", value)


TOPICS = Format(
    name="topics",
    description="TREC topics, <top> <num> <title> <desc> <narr>",
    holds=("queries",),
    markup=re.compile(r"<top>", re.IGNORECASE),
    read_queries=read_topics,
    write_queries=write_topics,
)
TOPICS_XML = Format(
    name="topics-xml",
    description="TREC topics in XML",
    holds=("queries",),
    markup=re.compile(r"<topics?[\s>]", re.IGNORECASE),
    read_queries=read_topics_xml,
    write_queries=write_topics_xml,
)
