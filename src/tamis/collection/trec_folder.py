"""A folder of TREC files: documents, topics and judgements, each known by looking inside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tamis import durable
from tamis.collection import trec_documents
from tamis.collection.base import Collection, Faults, Streamed, no_queries
from tamis.collection.checks import Checks
from tamis.collection.detection import detect_format
from tamis.collection.judgements import read_qrels, write_qrels
from tamis.collection.layout import files_in, kind_of, plain_name
from tamis.collection.loss_notes import LossNotes
from tamis.collection.trec_topics import read_topics, read_topics_xml, write_topics
from tamis.errors import InputError, UnknownFormatError
from tamis.types import Document, Qrels, Queries

DOCUMENTS, TOPICS = "documents.trec", "topics.trec"
TOPIC_READERS = {"topics": read_topics, "topics-xml": read_topics_xml}


def open_trec(path: Path, faults: Faults) -> Collection:
    """A file of TREC documents, or a folder of them with topics and judgements beside them.

    Of a folder, files that are none of these are passed over (disks have such: read-me files) and
    counted in `faults.left_out`.
    """
    files = _sorted_out(path, faults) if path.is_dir() else {"trectext": [path]}
    documents = files.get("trectext", [])
    return Collection(
        path.resolve().name,
        "trectext",
        Streamed(lambda: _documents(documents, faults)),
        lambda: _queries(files, faults),
        lambda: _qrels(files, faults),
        faults,
    )


def _sorted_out(folder: Path, faults: Faults) -> dict[str, list[Path]]:
    """The files of a folder by format."""
    by_format: dict[str, list[Path]] = {}
    faults.left_out.clear()
    for path in files_in(folder):
        try:
            by_format.setdefault(detect_format(path), []).append(path)
        except UnknownFormatError:
            faults.left_out[kind_of(path.name)] += 1
    return by_format


def _documents(paths: list[Path], faults: Faults) -> Iterator[Document]:
    checks = Checks(faults)
    for path in paths:
        yield from checks.documents(path, trec_documents.read_documents(path, faults))


def _queries(files: Mapping[str, list[Path]], faults: Faults) -> Queries:
    checks = Checks(faults)
    found = [
        query
        for format, read in TOPIC_READERS.items()
        for path in files.get(format, [])
        for query in checks.queries(path, read(path, faults))
    ]
    return Queries.of(found) if found else no_queries()


def _qrels(files: Mapping[str, list[Path]], faults: Faults) -> Mapping[str, Qrels]:
    found: dict[str, Path] = {}
    for path in [*files.get("qrels", []), *files.get("beir-qrels", [])]:
        split = split_of(path)
        if split in found:
            raise InputError(
                f"{found[split]} and {path} both hold the judgements of {split!r}",
                hint="rename one of them",
            )
        found[split] = path
    return {split: read_qrels(path, faults) for split, path in found.items()}


def split_of(path: Path) -> str:
    """The split a file of judgements is for, by its name.

    >>> [split_of(Path(name)) for name in ("qrels.dev.txt", "qrels-test.gz", "robust04.qrels")]
    ['dev', 'test', 'robust04']
    """
    name = re.sub(r"\.(txt|tsv|qrels|qrel|trec|parquet)$", "", plain_name(path))
    return re.sub(r"^qrels?[._-]", "", name)


def write_trec(collection: Collection, folder: Path, notes: LossNotes, force: bool = False) -> None:
    """Write a folder with documents.trec, topics.trec and qrels.SPLIT.txt."""
    with durable.new_folder(folder, force=force) as part:
        trec_documents.write_documents(collection.documents, part / DOCUMENTS, notes)
        if len(collection.queries):
            write_topics(collection.queries, part / TOPICS, notes)
        for split, qrels in collection.qrels.items():
            write_qrels(qrels, part / f"qrels.{split}.txt", format="trec")
