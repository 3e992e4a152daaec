"""JSONL: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from tamis.collection._records import JsonText, Record
from tamis.collection.base import Faults
from tamis.collection.lines import not_utf8, numbered_bytes, writing
from tamis.collection.samples import FileHead
from tamis.collection.tables import table_format
from tamis.errors import LineError


def is_jsonl(head: FileHead) -> bool:
    """Whether the first line is an object, or at least begins as one before another line does."""
    if not head.first.lstrip().startswith("{"):
        return False
    is_cut_off = len(head.lines) == 1 and not head.is_whole
    is_followed = len(head.lines) > 1 and head.lines[1].lstrip().startswith("{")
    return is_cut_off or is_followed or _is_object(head.first)


def _is_object(line: str) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def read_jsonl(path: Path, faults: Faults) -> Iterator[tuple[int, Record]]:
    """One JSON object a line; blank lines hold nothing and are passed over."""
    loads = orjson.loads
    for number, raw in numbered_bytes(path):
        try:
            record = loads(raw)
        except orjson.JSONDecodeError as error:
            if not raw.isspace():
                faults.meet(_broken(path, number, raw, error))
            continue
        if type(record) is dict:
            yield number, record
        else:
            faults.meet(
                LineError(path, number, "not a JSON object", hint='a line is {"id": …, "text": …}')
            )


def _broken(path: Path, number: int, raw: bytes, error: orjson.JSONDecodeError) -> LineError:
    try:
        raw.decode()
    except UnicodeDecodeError as undecodable:
        return not_utf8(path, number, undecodable)
    return LineError(
        path,
        number,
        f"broken JSON: {error.msg}, at character {error.pos + 1}",
        hint="a line is one whole JSON object",
    )


def write_jsonl(records: Iterable[Record], path: Path, force: bool = False) -> None:
    """One JSON object a line."""
    with writing(path, force) as file:
        for record in records:
            values = {
                name: orjson.Fragment(value.encode()) if isinstance(value, JsonText) else value
                for name, value in record.items()
            }
            file.write(orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE))


JSONL = table_format(
    "jsonl",
    "one JSON object a line",
    is_jsonl,
    read=lambda path, columns, faults: read_jsonl(path, faults),
    write=lambda records, path, notes, force: write_jsonl(records.read(notes), path, force),
)
