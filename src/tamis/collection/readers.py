"""From a path or an id to a collection, or to queries, whatever format they are in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tamis.collection import msmarco, tables, trec_topics
from tamis.collection._records import Columns
from tamis.collection.base import Collection, Faults, OnError, Reference, Streamed
from tamis.collection.beir import open_beir, open_judged
from tamis.collection.checks import Checks, FaultsOnce, checked_queries
from tamis.collection.detection import detect_format
from tamis.collection.formats import FORMATS, formats_of
from tamis.collection.judgements import read_qrels
from tamis.collection.layout import files_in
from tamis.collection.querylog import read_querylog, refuse_line_numbers
from tamis.collection.trec_folder import open_trec
from tamis.durable import folder_exists
from tamis.errors import InputError
from tamis.text.near import is_same_query
from tamis.types import Document, Qrels, Queries, Query

PYDOCS, IR_DATASETS = "tamis:pydocs", "ir_datasets:"
TABLES = ("jsonl", "csv", "tsv", "parquet", "arrow")


def open_collection(
    path_or_id: str | Path,
    *,
    format: str | None = None,
    columns: Columns | None = None,
    queries: str | Path | None = None,
    qrels: Mapping[str, str | Path] | None = None,
    on_error: OnError = "raise",
) -> Collection:
    """A collection from a file, a folder, `tamis:pydocs` or `ir_datasets:ID`.

    The format is found by looking inside unless it is given. `queries` and `qrels` (a file a
    split) stand in for what the collection has of its own; a folder of judgements brings its
    queries along. Documents are read, and checked, each time they are gone through; with
    `on_error="skip"` bad lines are counted in `.faults` instead of raised, each once. A document
    without text and title is none: it is kept, and counted there.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "documents"
    ...     _ = file.write_text('{"id": "d1", "text": "Sieves sort grain."}')
    ...     [document.text for document in open_collection(file).documents]
    ['Sieves sort grain.']
    """
    faults = FaultsOnce(skip=on_error == "skip")
    columns = columns or Columns()
    collection = _open(path_or_id, _Request(format, columns, faults))
    collection.reference = Reference(str(path_or_id), is_id(path_or_id), format, columns, on_error)
    return with_files(collection, queries, qrels)


def with_files(
    collection: Collection,
    queries: str | Path | None = None,
    qrels: Mapping[str, str | Path] | None = None,
) -> Collection:
    """A collection with the queries and judgements of other files, where such are given."""
    if queries is not None:
        collection = _with_queries(collection, queries)
    if qrels is not None:
        collection = _with_qrels(collection, qrels, queries)
    return collection


def _with_queries(collection: Collection, path: str | Path) -> Collection:
    if not is_id(path):
        _existing(path)
    return Collection(
        collection.name,
        collection.format,
        collection.documents,
        lambda: read_queries(path, faults=collection.faults),
        lambda: collection.qrels,
        collection.faults,
        collection.reference,
    )


def _with_qrels(
    collection: Collection, paths: Mapping[str, str | Path], log: str | Path | None
) -> Collection:
    folders = [path for path in paths.values() if _existing(path).is_dir()]

    def queries() -> Queries:
        joined = collection.queries
        for folder in folders:
            joined = join_queries(joined, read_queries(folder, faults=collection.faults), folder)
        return joined

    def qrels() -> Mapping[str, Qrels]:
        splits = {split: read_qrels(path, collection.faults) for split, path in paths.items()}
        refuse_line_numbers(collection.queries.ids, splits, paths, log)
        return splits

    return Collection(
        collection.name,
        collection.format,
        collection.documents,
        queries,
        qrels,
        collection.faults,
        collection.reference,
    )


def join_queries(queries: Queries, more: Queries, origin: str | Path) -> Queries:
    """All queries; one id must not stand for two texts."""
    known = {query.id: query for query in queries}
    for query in more:
        if query.id in known and not is_same_query(known[query.id].text, query.text):
            raise InputError(
                f"query {query.id!r} of {origin} is {query.text!r}, but "
                f"{known[query.id].text!r} in the collection",
                hint="are these judgements of this collection?",
            )
        known.setdefault(query.id, query)
    return Queries.of(known.values())


def read_queries(
    path_or_id: str | Path,
    format: str | None = None,
    *,
    columns: Columns | None = None,
    faults: Faults | None = None,
) -> Queries:
    r"""The queries of a file in any format that holds queries, or of a collection.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log"
    ...     _ = log.write_text("how do I sift flour\ndrum sieve\n")
    ...     sorted(query.text for query in read_queries(log))
    ['drum sieve', 'how do I sift flour']
    """
    request = _Request(format, columns or Columns(), faults or Faults())
    if is_id(path_or_id) or _existing(path_or_id).is_dir():
        return _open(path_or_id, request).queries
    path = Path(path_or_id)
    format = request.format_of(path)
    rows = _query_rows(path, format, request)
    if rows is not None:
        return checked_queries(path, rows, request.faults)
    if "collection" in FORMATS[format].holds:
        return _open(path, request).queries
    raise _wrong_kind(path, format, "queries")


@dataclass(frozen=True)
class _Request:
    """How something is to be opened."""

    format: str | None
    columns: Columns
    faults: Faults

    def format_of(self, path: Path) -> str:
        format = self.format or detect_format(path, self.columns)
        if format not in FORMATS and self.format is not None:
            known = ", ".join(FORMATS)
            raise InputError(f"there is no format {format!r}", hint=f"formats: {known}")
        return format


def is_id(path_or_id: str | Path) -> bool:
    """Whether this names a collection that is no file: asked of the string, not of the disk."""
    return str(path_or_id).startswith(("tamis:", IR_DATASETS))


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not folder_exists(path) and not path.exists():
        raise InputError(
            f"there is no file or folder {path}",
            hint=f"a collection is a path, {PYDOCS} or {IR_DATASETS}ID",
        )
    return path


def _open(path_or_id: str | Path, request: _Request) -> Collection:
    if is_id(path_or_id):
        return _open_id(str(path_or_id), request.faults)
    path = _existing(path_or_id)
    format = request.format_of(path)
    if format in TABLES:
        return _open_table(path, format, request)
    if format == "beir":
        return open_beir(path, request.faults, request.columns)
    if request.columns != Columns():
        raise InputError(
            f"{path} has no columns to name: it is {format}",
            hint=f"columns are named in {', '.join(TABLES)} and beir",
        )
    if format in OPENERS:
        return OPENERS[format](path, request.faults)
    raise _wrong_kind(path, format, "a collection")


def _open_id(name: str, faults: Faults) -> Collection:
    if name == PYDOCS:
        from tamis.collection.pydocs import open_pydocs

        return open_pydocs()
    if name.startswith(IR_DATASETS):
        from tamis.collection.irdatasets import open_irdatasets

        return open_irdatasets(name.removeprefix(IR_DATASETS), faults)
    raise InputError(f"there is no collection {name}", hint=f"tamis brings one: {PYDOCS}")


def _wrong_kind(path: Path, format: str, wanted: str) -> InputError:
    found = FORMATS[format].description if format in FORMATS else f"a tamis {format}"
    kinds = ("queries",) if wanted == "queries" else ("collection", "documents")
    return InputError(
        f"{path} is not {wanted}: it is {format}, {found}",
        hint=f"formats for {wanted}: {', '.join(formats_of(*kinds))}",
    )


def _open_table(path: Path, format: str, request: _Request) -> Collection:
    paths = files_in(path) if path.is_dir() else [path]
    columns, faults = request.columns, request.faults

    def documents() -> Iterator[Document]:
        checks = Checks(faults)
        for file in paths:
            rows = tables.read_documents(file, format, columns, faults)
            yield from checks.documents(file, rows)

    return Collection(path.resolve().name, format, Streamed(documents), faults=faults)


def _open_id_text(path: Path, faults: Faults) -> Collection:
    def documents() -> Iterator[Document]:
        return Checks(faults).documents(path, msmarco.read_passages(path, faults))

    return Collection(path.resolve().name, "id-text", Streamed(documents), faults=faults)


def _open_long_documents(path: Path, faults: Faults) -> Collection:
    def documents() -> Iterator[Document]:
        return Checks(faults).documents(path, msmarco.read_long_documents(path, faults))

    return Collection(path.resolve().name, "msmarco-docs", Streamed(documents), faults=faults)


def _open_store(path: Path, faults: Faults) -> Collection:
    from tamis.collection.store import open_store

    return open_store(path)


def _open_files(path: Path, faults: Faults) -> Collection:
    from tamis.collection.files import open_files

    return open_files(path, faults)


def _open_reranking(path: Path, faults: Faults) -> Collection:
    from tamis.collection.reranking import open_reranking

    return open_reranking(path, faults)


OPENERS: Mapping[str, Callable[[Path, Faults], Collection]] = {
    "msmarco": msmarco.open_msmarco,
    "trectext": open_trec,
    "collection": _open_store,
    "judged": open_judged,
    "files": _open_files,
    "reranking": _open_reranking,
    "id-text": _open_id_text,
    "msmarco-docs": _open_long_documents,
}
"""What opens a collection of each format without columns to name."""

QUERY_READERS: Mapping[str, Callable[[Path, Faults], Iterator[tuple[int, Query]]]] = {
    "id-text": msmarco.read_queries,
    "topics": trec_topics.read_topics,
    "topics-xml": trec_topics.read_topics_xml,
    "querylog": read_querylog,
}
"""What reads the queries of a file of each format without columns to name."""


def _query_rows(path: Path, format: str, request: _Request) -> Iterator[tuple[int, Query]] | None:
    if format in TABLES:
        return tables.read_queries(path, format, request.columns, request.faults)
    reader = QUERY_READERS.get(format)
    return None if reader is None else reader(path, request.faults)
