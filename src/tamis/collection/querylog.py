"""A log of queries: plain text, one query per line; its id is a hash of its normalised text.

So the id of a query stays the same when lines are added, removed or put in another order.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tamis.collection.base import Faults, is_blank
from tamis.collection.detection import explain
from tamis.collection.formats import Format
from tamis.collection.lines import numbered_lines, writing
from tamis.collection.loss_notes import LossNotes, counted
from tamis.collection.samples import FileHead
from tamis.errors import InputError, LineError, command
from tamis.text.near import query_hash
from tamis.types import Ids, Qrels, Query

_LINE_ID = re.compile(r"q([0-9]{6,12})")
_LOG_ID = re.compile(r"q[0-9a-f]{16}")


def query_id(text: str) -> str:
    """The id of a query of a log.

    >>> query_id("drum sieve"), query_id("Drum  sieve?") == query_id("drum sieve")
    ('qfea3c5fd0c6e914b', True)
    """
    return f"q{query_hash(text)}"


def read_querylog(path: Path, faults: Faults) -> Iterator[tuple[int, Query]]:
    """The queries of a log with their lines, each once; a blank line is a fault."""
    ids: set[str] = set()
    repeated = 0
    for number, line in numbered_lines(path, faults):
        if is_blank(line):
            faults.meet(LineError(path, number, "a blank line", hint="one query per line"))
            continue
        name = query_id(line)
        if name in ids:
            repeated += 1
        else:
            ids.add(name)
            yield number, Query(name, line)
    if repeated:
        logging.getLogger(__name__).info(
            "%s: repeated queries count once: %s", path, counted(repeated, "line")
        )


def write_querylog(
    queries: Iterable[Query], path: Path, notes: LossNotes, force: bool = False
) -> None:
    """Write the texts of queries, one per line; ids that are not the text's hash are lost."""
    with writing(path, force) as file:
        for query in queries:
            text = notes.flat(query.text, "query")
            file.write(f"{text}\n".encode())
            if query.id != query_id(text):
                notes.add("the ids of {} were dropped: a query log cannot hold them", "query")
            if any(query.fields.values()):
                notes.add("the fields of {} were dropped: a query log cannot hold them", "query")


def refuse_line_numbers(
    queries: Ids,
    splits: Mapping[str, Qrels],
    files: Mapping[str, str | Path],
    log: str | Path | None = None,
) -> None:
    """Refuse judgements that name queries of a log by their lines, as older ones do.

    A line that was added or removed since would give every judgement to another query.
    """
    for name, qrels in splits.items():
        judged = qrels.queries
        strange = judged.select((judged.positions_in(queries) < 0).nonzero()[0])
        if len(strange) < len(judged) or not len(judged) or not len(queries):
            continue
        if all(map(_LINE_ID.fullmatch, judged)) and all(map(_LOG_ID.fullmatch, queries)):
            new = f"{Path(files[name]).stem}-judged"
            raise InputError(
                f"{files[name]} names queries by line number, such as {judged[0]}",
                hint="if the log is as it was when they were judged, convert them: "
                + command("convert", files[name], new, "--queries", log or "log.txt"),
            )


def name_by_text(qrels: Qrels, path: Path) -> tuple[Qrels, list[Query]]:
    """Judgements of a log's line numbers with the queries of those lines."""
    lines = {number: Query(query_id(line), line) for number, line in numbered_lines(path, Faults())}
    judged: dict[str, dict[str, int]] = {}
    queries: dict[str, Query] = {}
    for name in qrels.queries:
        match = _LINE_ID.fullmatch(name)
        query = lines.get(int(match[1])) if match else None
        if query is None or is_blank(query.text):
            raise InputError(
                f"{path} has no query {name}", hint="give the log that was judged, unchanged"
            )
        judged[query.id] = {**qrels[name], **judged.get(query.id, {})}
        queries[query.id] = query
    return Qrels.from_dict(judged), list(queries.values())


def _is_plain_text(head: FileHead) -> bool:
    return explain(head) is None


QUERYLOG = Format(
    name="querylog",
    description="plain text, one query per line",
    holds=("queries",),
    detect=_is_plain_text,
    read_queries=read_querylog,
    write_queries=write_querylog,
)
