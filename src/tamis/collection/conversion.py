"""From any format to any other: collections, runs, judgements and queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tamis.collection._records import Columns
from tamis.collection.base import Collection, Faults
from tamis.collection.beir import BEIR, write_judged
from tamis.collection.candidate_selection import Selection, select_candidates
from tamis.collection.candidate_table import CandidateTable
from tamis.collection.candidate_table_writer import write_candidate_table
from tamis.collection.detection import detect_format
from tamis.collection.formats import all_formats, contents_of, find_writer, target_format
from tamis.collection.jsonl import JSONL
from tamis.collection.judgements import read_qrels, the_split, write_qrels
from tamis.collection.layout import plain_name
from tamis.collection.loss_notes import counted
from tamis.collection.querylog import QUERYLOG, name_by_text
from tamis.collection.readers import is_id, open_collection, read_queries
from tamis.collection.runs import RUN, read_run, read_spec, write_run
from tamis.collection.store import COLLECTION
from tamis.collection.writers import write_collection, write_queries
from tamis.errors import InputError
from tamis.types import Qrels, Queries

RERANKING_TSV = "reranking-tsv"
"""The target that needs candidates beside a collection."""


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
    candidates: str | None = None
    split: str | None = None
    selection: Selection = field(default_factory=Selection)
    """Of a re-ranking table: the run, the judgements, and which candidates are written."""


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
    if request.to == RERANKING_TSV:
        return _candidate_table(request)
    if is_id(request.source):
        return _collection(request)
    source, faults = Path(request.source), Faults(skip=request.skip)
    format = request.format or detect_format(source, request.columns)
    contents = contents_of(format)
    if "run" in contents or (request.to == RUN.name and all_formats()[format].read_run):
        notes = _run(source, request, faults)
    elif "qrels" in contents:
        notes = _qrels(source, request, faults)
    elif request.only_queries or contents == ("queries",):
        queries = read_queries(source, request.format, columns=request.columns, faults=faults)
        notes = _write_queries(queries, request)
    elif convert := _conversion_of_one_format(source, format, request.to):
        notes = convert(source, request.target, request.force)
    else:
        return _collection(request)
    return [*notes, *_skipped(faults)]


def _run(source: Path, request: Request, faults: Faults) -> list[str]:
    if request.to:  # refused before all of the run is read
        find_writer(request.to, lambda format: format.write_run, "a run")
    run, spec = read_run(source, faults), read_spec(source)
    to = "" if request.to in (None, RUN.name) else request.to
    return write_run(run, request.target, format=to, force=request.force, spec=spec)


def _candidate_table(request: Request) -> list[str]:
    """The candidates of a run, or of a re-ranking table, with the texts of a collection."""
    collection, faults = open_requested(request), Faults(skip=request.skip)
    if request.candidates is not None:
        run = read_run(Path(request.candidates), faults)
    elif isinstance(collection, CandidateTable):
        run = collection.candidates()
    else:
        raise InputError(
            f"{request.source} has no candidates of its own",
            hint="name a run that has them: --candidates RUN",
        )
    selected = select_candidates(run, _judged_split(collection, request.split), request.selection)
    if not len(selected.run):
        raise InputError(
            "no query has a relevant document among its candidates",
            hint="are run and judgements from the same collection and split?",
        )
    notes = write_candidate_table(selected.run, collection, request.target, force=request.force)
    return [*selected.notes(), *notes, *_skipped(faults), *_skipped(collection.faults)]


def _judged_split(collection: Collection, split: str | None) -> Qrels:
    """The judgements of a split, or the only ones there are."""
    splits = collection.qrels
    if split is None and len(splits) == 1:
        return next(iter(splits.values()))
    if split is None or split not in splits:
        found = f"no split {split!r}" if split else f"{counted(len(splits), 'split')} of judgements"
        names = ", ".join(splits) or "none: give judgements with --qrels"
        raise InputError(
            f"{collection.name} has {found}", hint=f"name one with --split; it has {names}"
        )
    return splits[split]


def _qrels(source: Path, request: Request, faults: Faults) -> list[str]:
    if request.queries is not None:
        return _judged(source, request, request.queries, faults)
    qrels = read_qrels(source, faults)
    write_qrels(qrels, request.target, format=request.to or "", force=request.force)
    return []


def _judged(source: Path, request: Request, log: str, faults: Faults) -> list[str]:
    """Judgements with their queries, as a folder; those of a log's lines are named anew."""
    if request.to not in (None, BEIR.name):
        raise InputError(
            f"cannot write judgements with their queries as {request.to!r}",
            hint=f"formats: {BEIR.name}",
        )
    qrels, queries = read_qrels(source, faults), read_queries(log, faults=faults)
    judged = [query for query in queries if query.id in qrels.queries]
    if not judged and not is_id(log) and detect_format(log) == QUERYLOG.name:
        qrels, judged = name_by_text(qrels, Path(log))
    missing = [query for query in qrels.queries if query not in queries]
    if missing:
        raise InputError(
            f"{log} has no query {missing[0]!r}, which {source} judges ({len(missing):,} such)",
            hint="give the queries that were judged",
        )
    split = the_split(source)[0] if source.is_dir() else Path(plain_name(source)).stem
    write_judged(judged, qrels, request.target, split, request.force)
    return []


def _conversion_of_one_format(
    source: Path, name: str, to: str | None
) -> Callable[[Path, Path, bool], list[str]] | None:
    """What turns a file into a target that one format alone can become, if it is such a target."""
    for format in all_formats().values():
        if to and to in format.conversions:
            if format.name != name:
                raise InputError(
                    f"{source} is {name}, not a {format.description}",
                    hint=f"only {format.name} can be written as {to!r}",
                )
            return format.conversions[to]
    return None


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


def _collection(request: Request) -> list[str]:
    collection = open_requested(request)
    if request.only_queries:
        notes = _write_queries(collection.queries, request)
    else:
        to = request.to or target_format(
            request.target, lambda format: format.write_collection, COLLECTION
        )
        notes = write_collection(collection, request.target, to, request.force)
    return [*notes, *_skipped(collection.faults)]


def _write_queries(queries: Queries, request: Request) -> list[str]:
    to = request.to or target_format(request.target, lambda format: format.write_queries, JSONL)
    return write_queries(queries, request.target, to, request.force)


def _skipped(faults: Faults) -> list[str]:
    skipped = [f"{counted(faults.count, 'bad line')} skipped"] if faults.count else []
    return [*skipped, *[f"skipped: {fault}" for fault in faults.first], *faults.notes()]
