"""The formats there are, for help texts and messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Holds = Literal["collection", "documents", "queries", "qrels", "run"]


@dataclass(frozen=True, slots=True)
class Format:
    """What a format is, what it can hold, and whether tamis writes it."""

    description: str
    holds: tuple[Holds, ...]
    writable: bool = False
    """Whether `write_collection` writes it."""


TABLE: tuple[Holds, ...] = ("documents", "queries")
FORMATS: dict[str, Format] = {
    "beir": Format(
        "folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv", ("collection",), True
    ),
    "judged": Format("folder with queries.jsonl and qrels/SPLIT.tsv", ("queries", "qrels")),
    "msmarco": Format(
        "folder with collection.tsv or msmarco-docs.tsv, queries.NAME.tsv and qrels.NAME.tsv",
        ("collection",),
        True,
    ),
    "trectext": Format(
        "file or folder of <DOC> elements, with topics and qrels beside them",
        ("collection", "documents"),
        True,
    ),
    "collection": Format("folder that tamis wrote, which opens at once", ("collection",), True),
    "files": Format("folder of text, Markdown, reStructuredText, HTML or PDF", ("documents",)),
    "reranking": Format("table with the header qid pid query passage relevancy", ("collection",)),
    "jsonl": Format("one JSON object a line", TABLE, True),
    "csv": Format("comma-separated, with a header", TABLE, True),
    "tsv": Format("tab-separated, with a header", TABLE, True),
    "parquet": Format("Parquet with named columns", TABLE, True),
    "arrow": Format("Arrow file or stream with named columns", TABLE),
    "id-text": Format("two columns, id and text, tab between, no header", TABLE),
    "msmarco-docs": Format(
        "four columns, id, url, title and text, tabs between, no header", ("documents",)
    ),
    "topics": Format("TREC topics, <top> <num> <title> <desc> <narr>", ("queries",)),
    "topics-xml": Format("TREC topics in XML", ("queries",)),
    "querylog": Format("plain text, one query a line", ("queries",)),
    "qrels": Format("TREC qrels, or judgements that tamis wrote as Parquet", ("qrels",)),
    "beir-qrels": Format("table with the header query-id corpus-id score", ("qrels",)),
    "run": Format("TREC run, or a run that tamis wrote as Parquet", ("run",)),
}
"""Every format that is detected, but for tamis's own folders that are no collections."""


def formats_of(*holds: Holds) -> list[str]:
    """The names of the formats that hold any of these.

    >>> formats_of("qrels")
    ['judged', 'qrels', 'beir-qrels']
    """
    return [name for name, format in FORMATS.items() if {*holds} & {*format.holds}]


def writable_formats() -> list[str]:
    """The names of the formats that a collection can be written as."""
    return [name for name, format in FORMATS.items() if format.writable]
