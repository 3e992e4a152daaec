"""MS MARCO's folders: tables without headers for passages, documents, queries and judgements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from tamis import durable
from tamis.collection.base import Collection, Faults, Streamed
from tamis.collection.checks import Checks, collection_of_files
from tamis.collection.formats import Format
from tamis.collection.judgements import read_qrels
from tamis.collection.layout import (
    files_in,
    packed_as,
    plain_name,
    refuse_odd_splits,
    the_file,
)
from tamis.collection.lines import numbered_lines, writing
from tamis.collection.loss_notes import (
    LossNotes,
    refuse_break,
    refuse_breaks,
    refuse_white_space,
)
from tamis.collection.samples import FileHead, FolderSample, mostly
from tamis.errors import InputError, LineError
from tamis.types import Document, Qrels, Queries, Query

PASSAGES, DOCUMENTS = "collection.tsv", "msmarco-docs.tsv"
_TITLES = "titles were put before the text of {}: MS MARCO files have no column for them"
_QUERIES = re.compile(r"queries(\.(?P<split>.+))?\.tsv|msmarco-doc(?P<doc_split>.+)-queries\.tsv")
_QRELS = re.compile(r"qrels(\.(?P<split>.+))?\.tsv|msmarco-doc(?P<doc_split>.+)-qrels\.tsv")
UNNAMED_SPLIT = "all"


def _is_msmarco(folder: FolderSample) -> bool:
    return bool(packed_as(folder.path, PASSAGES) or packed_as(folder.path, DOCUMENTS))


def open_msmarco(folder: Path, faults: Faults) -> Collection:
    """An MS MARCO folder as a collection; the queries of all files are put together."""
    path = the_file(folder, PASSAGES) or the_file(folder, DOCUMENTS)
    if path is None:
        raise InputError(
            f"{folder} has neither {PASSAGES} nor {DOCUMENTS}", hint="is it the right folder?"
        )
    read = read_passages if plain_name(path) == PASSAGES else read_long_documents
    return Collection(
        folder.resolve().name,
        "msmarco",
        Streamed(lambda: Checks(faults).documents(path, read(path, faults))),
        lambda: _queries(folder, faults),
        lambda: _qrels(folder, faults),
        faults,
    )


def _cells(path: Path, names: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    columns = len(names.split())
    for number, line in numbered_lines(path, faults):
        cells = line.split("\t")
        if len(cells) == columns:
            yield number, cells
        elif line:
            problem = f"{len(cells)} columns where {columns} are expected"
            hint = f"a line is, with tabs between: {names}"
            faults.meet(LineError(path, number, problem, hint=hint))


def read_passages(path: Path, faults: Faults) -> Iterator[tuple[int, Document]]:
    """Two columns, id and text."""
    for number, (doc_id, text) in _cells(path, "id text", faults):
        yield number, Document(doc_id, text)


def read_long_documents(path: Path, faults: Faults) -> Iterator[tuple[int, Document]]:
    """Four columns, id, url, title and text; the url is a field."""
    for number, (doc_id, url, title, text) in _cells(path, "id url title text", faults):
        yield number, Document(doc_id, text, title, {"url": url} if url else {})


def read_queries(path: Path, faults: Faults) -> Iterator[tuple[int, Query]]:
    """Two columns, id and text."""
    for number, (query_id, text) in _cells(path, "id text", faults):
        yield number, Query(query_id, text)


def _splits(folder: Path, pattern: re.Pattern[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for path in files_in(folder):
        if path.parent == folder and (match := pattern.fullmatch(plain_name(path))):
            split = match["split"] or match["doc_split"] or UNNAMED_SPLIT
            if split in files:
                names = f"{files[split].name} and {path.name}"
                raise InputError(f"{folder} has {names}", hint="which one is meant? keep one")
            files[split] = path
    return files


def _queries(folder: Path, faults: Faults) -> Queries:
    """The queries of all files; one file may repeat another's, as `dev.small` does `dev`'s."""
    texts: dict[str, str] = {}
    for path in _splits(folder, _QUERIES).values():
        for query in _agreeing(path, texts, faults):
            texts[query.id] = query.text
    return Queries.of(Query(query_id, text) for query_id, text in texts.items())


def _agreeing(path: Path, texts: Mapping[str, str], faults: Faults) -> Iterator[Query]:
    checks = Checks(faults)
    for number, query in read_queries(path, faults):
        if texts.get(query.id, query.text) != query.text:
            problem = f"query {query.id!r} has another text in another file"
            error = LineError(path, number, problem, hint="give every query its own id")
            faults.meet(error)
        else:
            yield from checks.queries(path, [(number, query)])


def _qrels(folder: Path, faults: Faults) -> Mapping[str, Qrels]:
    return {split: read_qrels(path, faults) for split, path in _splits(folder, _QRELS).items()}


def write_msmarco(
    collection: Collection, folder: Path, notes: LossNotes, force: bool = False
) -> None:
    """Write passages, queries (one file per judged split) and judgements."""
    refuse_odd_splits(collection.qrels)
    with durable.new_folder(folder, force=force) as unfinished:
        with writing(unfinished / PASSAGES) as file:
            for document in collection.documents:
                file.write(_line(document, notes))
        for split, qrels in collection.qrels.items():
            _write_qrels(qrels, unfinished / f"qrels.{split}.tsv")
        for split, queries in _by_split(collection.queries, collection.qrels).items():
            _write_queries(queries, unfinished / f"queries.{split}.tsv", notes)


def _by_split(queries: Queries, judged: Mapping[str, Qrels]) -> dict[str, Queries]:
    """The queries of each split, and those of none, which go to a split of their own."""
    by_split: dict[str, Queries] = {}
    unjudged = np.ones(len(queries), bool)
    for split, qrels in judged.items():
        in_split = queries.ids.positions_in(qrels.queries) >= 0
        by_split[split] = queries.select(np.flatnonzero(in_split))
        unjudged &= ~in_split
    by_split["unjudged" if judged else UNNAMED_SPLIT] = queries.select(np.flatnonzero(unjudged))
    return {split: split_queries for split, split_queries in by_split.items() if len(split_queries)}


def _write_queries(queries: Queries, path: Path, notes: LossNotes) -> None:
    refuse_breaks(queries.ids)
    with writing(path) as file:
        for query in queries:
            if any(query.fields.values()):
                notes.add("the fields of {} were left out: there is no column for them", "query")
            file.write(f"{query.id}\t{notes.flat(query.text, 'query')}\n".encode())


def _write_qrels(qrels: Qrels, path: Path) -> None:
    for ids in (qrels.queries, qrels.docs):
        refuse_white_space(ids, "an MS MARCO qrels file")
    with writing(path) as file:
        for query in qrels:
            rows = (f"{query}\t0\t{doc}\t{grade}\n" for doc, grade in qrels[query].items())
            file.write("".join(rows).encode())


def _line(document: Document, notes: LossNotes) -> bytes:
    text = document.text
    if document.title:
        notes.add(_TITLES, "document")
        text = f"{document.title} {text}" if text else document.title
    if document.fields:
        notes.add("the fields of {} were left out: there is no column for them", "document")
    refuse_break(document.id)
    return f"{document.id}\t{notes.flat(text, 'text')}\n".encode()


def _is_id_text(head: FileHead) -> bool:
    cells = [line.split("\t") for line in head.rows]
    return mostly(len(row) == 2 and row[0] and " " not in row[0] for row in cells)


def _is_long_documents(head: FileHead) -> bool:
    cells = [line.split("\t") for line in head.rows]
    return mostly(len(row) == 4 and row[0] and row[1].startswith("http") for row in cells)


def _open_passages(path: Path, faults: Faults) -> Collection:
    read = partial(read_passages, faults=faults)
    return collection_of_files(path, ID_TEXT.name, [path], read, faults)


def _open_long_documents(path: Path, faults: Faults) -> Collection:
    read = partial(read_long_documents, faults=faults)
    return collection_of_files(path, MSMARCO_DOCS.name, [path], read, faults)


MSMARCO = Format(
    name="msmarco",
    description="folder with collection.tsv or msmarco-docs.tsv (MS MARCO), queries.NAME.tsv and "
    "qrels.NAME.tsv",
    holds=("collection",),
    detect_folder=_is_msmarco,
    open_collection=open_msmarco,
    write_collection=write_msmarco,
)
ID_TEXT = Format(
    name="id-text",
    description="two columns, id and text, tab between, no header",
    holds=("documents", "queries"),
    detect=_is_id_text,
    open_collection=_open_passages,
    read_queries=read_queries,
)
MSMARCO_DOCS = Format(
    name="msmarco-docs",
    description="four columns, id, url, title and text, tabs between, no header",
    holds=("documents",),
    detect=_is_long_documents,
    open_collection=_open_long_documents,
)
