"""From a path or an id to a collection, or to queries, whatever format they are in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tamis.collection._records import Columns
from tamis.collection.base import Collection, Faults, OnError, Reference
from tamis.collection.checks import FaultsOnce, checked_queries
from tamis.collection.detection import detect_format
from tamis.collection.formats import Format, all_formats, formats_of
from tamis.collection.judgements import read_qrels
from tamis.collection.querylog import refuse_line_numbers
from tamis.durable import folder_exists
from tamis.errors import InputError, check_path
from tamis.text.near import is_same_query
from tamis.types import Qrels, Queries

PYDOCS, IR_DATASETS = "tamis:pydocs", "ir_datasets:"


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

    The format is detected by looking inside unless it is named. `queries` and `qrels` (a file a
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
    check_path(path_or_id, "a collection")
    faults = FaultsOnce(skip=on_error == "skip")
    columns = columns or Columns()
    collection = _open(path_or_id, format, columns, faults)
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
    return collection.replaced(queries=lambda: read_queries(path, faults=collection.faults))


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

    return collection.replaced(queries, qrels)


def join_queries(queries: Queries, more: Queries, origin: str | Path) -> Queries:
    """All queries; one id must not stand for two texts."""
    by_id = {query.id: query for query in queries}
    for query in more:
        same_id = by_id.setdefault(query.id, query)
        if not is_same_query(same_id.text, query.text):
            raise InputError(
                f"query {query.id!r} of {origin} is {query.text!r}, but {same_id.text!r} in the "
                "collection",
                hint="are these judgements of this collection?",
            )
    return Queries.of(by_id.values())


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
    check_path(path_or_id, "a file of queries")
    columns, faults = columns or Columns(), faults or Faults()
    if is_id(path_or_id) or _existing(path_or_id).is_dir():
        return _open(path_or_id, format, columns, faults).queries
    path = Path(path_or_id)
    reader = _find_format(path, format, columns, "queries")
    if reader.with_columns is not None:
        reader = reader.with_columns(columns)
    if reader.read_queries is not None:
        return checked_queries(path, reader.read_queries(path, faults), faults)
    if "collection" in reader.holds:
        return _open(path, format, columns, faults).queries
    raise _wrong_content(path, reader.name, "queries")


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


def _open(
    path_or_id: str | Path, format_name: str | None, columns: Columns, faults: Faults
) -> Collection:
    if is_id(path_or_id):
        return _open_id(str(path_or_id), faults)
    path = _existing(path_or_id)
    format = _find_format(path, format_name, columns, "a collection")
    if columns != Columns():
        format = _name_columns(path, format, columns)
    if format.open_collection is None:
        raise _wrong_content(path, format.name, "a collection")
    return format.open_collection(path, faults)


def _find_format(path: Path, name: str | None, columns: Columns, content: str) -> Format:
    """The format of this name, or the one that a path is of."""
    formats = all_formats()
    if name is not None and name not in formats:
        raise InputError(f"there is no format {name!r}", hint=f"formats: {', '.join(formats)}")
    name = name or detect_format(path, columns)
    if name not in formats:
        raise _wrong_content(path, name, content)
    return formats[name]


def _name_columns(path: Path, format: Format, columns: Columns) -> Format:
    if format.with_columns is None:
        with_columns = [name for name, other in all_formats().items() if other.with_columns]
        raise InputError(
            f"{path} has no columns to name: it is {format.name}",
            hint=f"columns are named in {', '.join(with_columns)}",
        )
    return format.with_columns(columns)


def _wrong_content(path: Path, name: str, content: str) -> InputError:
    format = all_formats().get(name)
    description = format.description if format else f"a tamis {name}"
    readable = (
        formats_of("queries") if content == "queries" else formats_of("collection", "documents")
    )
    return InputError(
        f"{path} is not {content}: it is {name}, {description}",
        hint=f"formats for {content}: {', '.join(readable)}",
    )


def _open_id(name: str, faults: Faults) -> Collection:
    if name == PYDOCS:
        from tamis.collection.pydocs import open_pydocs

        return open_pydocs()
    if name.startswith(IR_DATASETS):
        from tamis.collection.irdatasets import open_irdatasets

        return open_irdatasets(name.removeprefix(IR_DATASETS), faults)
    raise InputError(f"there is no collection {name}", hint=f"tamis brings one: {PYDOCS}")
