"""A log of queries: plain text, one query a line; its id is the number of the line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tamis.collection.base import Faults, is_blank
from tamis.collection.lines import numbered_lines, writing
from tamis.collection.notes import Notes
from tamis.errors import LineError
from tamis.types import Query


def query_id(line: int) -> str:
    """The id of the query on a line.

    >>> query_id(7)
    'q000007'
    """
    return f"q{line:06d}"


def read_querylog(path: Path, faults: Faults) -> Iterator[tuple[int, Query]]:
    """The queries of a log with their lines; a blank line is a fault."""
    for number, line in numbered_lines(path, faults):
        if is_blank(line):
            faults.meet(LineError(path, number, "a blank line", hint="one query a line"))
        else:
            yield number, Query(query_id(number), line)


def write_querylog(queries: Iterable[Query], path: Path, notes: Notes, force: bool = False) -> None:
    """Write the texts of queries, one a line; ids that are not the line's number are lost."""
    with writing(path, force) as file:
        for number, query in enumerate(queries, 1):
            file.write(f"{notes.flat(query.text, 'query')}\n".encode())
            if query.id != query_id(number):
                notes.add("the ids of {} were left out: a log has no place for them", "query")
            if any(query.fields.values()):
                notes.add("the fields of {} were left out: a log has no place for them", "query")
