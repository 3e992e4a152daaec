"""From any format to any other: collections, runs, judgements and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tamis.collection._records import Columns
from tamis.collection.base import Collection, Faults
from tamis.collection.beir import write_judged
from tamis.collection.detection import detect_format
from tamis.collection.formats import formats_of
from tamis.collection.judgements import read_qrels, the_split, write_qrels
from tamis.collection.layout import plain_name
from tamis.collection.loss_notes import counted
from tamis.collection.querylog import name_by_text
from tamis.collection.readers import is_id, open_collection, read_queries
from tamis.collection.runs import read_run, read_spec, write_run
from tamis.collection.writers import write_collection, write_queries
from tamis.errors import InputError


@dataclass(frozen=True)
class Request:
    """What to read and how, what to write and how."""

    source: str | Path
    target: Path
    to: str | None = None
    format: str | None = None
    columns: Columns = field(default_factory=Columns)
    queries: str | None = None
    qrels: Mapping[str, str] | None = None
    only_queries: bool = False
    skip: bool = False
    force: bool = False


def convert_any(request: Request) -> list[str]:
    """Convert what the request names; sentences on what was skipped, changed or left out.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log.txt"
    ...     _ = log.write_text("drum sieve")
    ...     notes = convert_any(Request(log, Path(folder) / "topics", to="topics"))
    ...     read_queries(Path(folder) / "topics").texts
    ('drum sieve',)
    """
    faults = Faults(skip=request.skip)
    if is_id(request.source):
        return _collection(request)
    source = Path(request.source)
    format = request.format or detect_format(source, request.columns)
    if format == "run":
        notes = _run(source, request, faults)
    elif format in formats_of("qrels"):
        notes = _qrels(source, request, faults)
    elif request.only_queries or format in ("topics", "topics-xml", "querylog"):
        queries = read_queries(source, request.format, columns=request.columns, faults=faults)
        to = request.to or _ending(request.target) or "jsonl"
        notes = write_queries(queries, request.target, to, request.force)
    elif request.to in ("indexed",):
        notes = _reranking(source, format, request)
    else:
        return _collection(request)
    return [*notes, *_skipped(faults)]


def _run(source: Path, request: Request, faults: Faults) -> list[str]:
    to = request.to or ("parquet" if request.target.suffix == ".parquet" else "trec")
    _require(to, ("trec", "parquet"), "a run")
    read, spec = read_run(source, faults), read_spec(source)
    return write_run(read, request.target, format=to, force=request.force, spec=spec)


def _qrels(source: Path, request: Request, faults: Faults) -> list[str]:
    if request.queries is not None:
        return _judged(source, request, request.queries, faults)
    to = request.to or ("parquet" if request.target.suffix == ".parquet" else "trec")
    _require(to, ("trec", "beir", "parquet"), "judgements")
    write_qrels(read_qrels(source, faults), request.target, format=to, force=request.force)
    return []


def _judged(source: Path, request: Request, name: str, faults: Faults) -> list[str]:
    """Judgements with their queries, as a folder; those of a log's lines are named anew."""
    _require(request.to or "beir", ("beir",), "judgements with their queries")
    qrels, known = read_qrels(source, faults), read_queries(name, faults=faults)
    judged = [query for query in known if query.id in qrels.queries]
    if not judged and not is_id(name) and detect_format(name) == "querylog":
        qrels, judged = name_by_text(qrels, Path(name))
    missing = [query for query in qrels.queries if query not in known]
    if missing:
        raise InputError(
            f"{name} has no query {missing[0]!r}, which {source} judges ({len(missing):,} such)",
            hint="give the queries that were judged",
        )
    split = the_split(source)[0] if source.is_dir() else Path(plain_name(source)).stem
    write_judged(judged, qrels, request.target, split, request.force)
    return []


def _reranking(source: Path, format: str, request: Request) -> list[str]:
    """The re-ranking table as sorted Parquet with continuous query and passage numbers."""
    from tamis.collection.reranking import reranking_to_parquet

    if format != "reranking":
        raise InputError(
            f"{source} is {format}, not a table of qid, pid, query, passage and relevancy",
            hint="only such a table can be written as 'indexed'",
        )
    return reranking_to_parquet(source, request.target, request.force)


ENDINGS = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
"""What the name of an output asks for, unless a format is given."""


def open_requested(request: Request) -> Collection:
    """The collection that a request is about."""
    return open_collection(
        request.source,
        format=request.format,
        columns=request.columns,
        queries=request.queries,
        qrels=request.qrels,
        on_error="skip" if request.skip else "raise",
    )


def _ending(target: Path) -> str | None:
    return ENDINGS.get(Path(target.name.removesuffix(".gz").removesuffix(".zst")).suffix)


def _collection(request: Request) -> list[str]:
    collection = open_requested(request)
    if request.only_queries:
        to = request.to or _ending(request.target) or "jsonl"
        notes = write_queries(collection.queries, request.target, to, request.force)
    else:
        to = request.to or _ending(request.target) or "collection"
        notes = write_collection(collection, request.target, to, request.force)
    return [*notes, *_skipped(collection.faults)]


def _require(to: str, known: tuple[str, ...], what: str) -> None:
    if to not in known:
        raise InputError(f"cannot write {what} as {to!r}", hint=f"formats: {', '.join(known)}")


def _skipped(faults: Faults) -> list[str]:
    skipped = [f"{counted(faults.count, 'bad line')} skipped"] if faults.count else []
    return [*skipped, *[f"skipped: {fault}" for fault in faults.first], *faults.notes()]
