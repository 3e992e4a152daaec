"""TREC's files of `<DOC>` elements, alone or in a folder with topics and judgements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tamis import durable
from tamis.collection.base import Collection, Faults, no_queries
from tamis.collection.checks import Checks, collection_of_files
from tamis.collection.detection import detect_format
from tamis.collection.formats import Format
from tamis.collection.judgements import BEIR_QRELS, QRELS, read_qrels, write_qrels
from tamis.collection.layout import files_in, kind_of, plain_name, refuse_odd_splits
from tamis.collection.lines import writing
from tamis.collection.loss_notes import LossNotes
from tamis.collection.samples import FolderSample
from tamis.collection.sgml import PLAIN_NAME, escape, stretches, without_tags
from tamis.collection.trec_topics import (
    TOPICS,
    TOPICS_XML,
    read_topics,
    read_topics_xml,
    write_topics,
)
from tamis.errors import InputError, LineError, UnknownFormatError
from tamis.types import Document, Qrels, Queries

DOCUMENTS, TOPICS_FILE = "documents.trec", "topics.trec"
TITLES = ("title", "headline", "hl", "head", "ttl")
TEXTS = ("text", "leadpara", "lp", "body")
HEADERS = ("docid", "dochdr")
_RESERVED = {*TITLES, *TEXTS, "doc", "docno"}
_OPENING = re.compile(r"<([A-Za-z][\w-]*+)(?:\s[^<>]*+)?+>")
_CLOSING = re.compile(r"</([A-Za-z][\w-]*+)\s*+>")


def read_documents(path: Path, faults: Faults) -> Iterator[tuple[int, Document]]:
    """The documents of a file with the line each begins on.

    Text is what stands in `<TEXT>` and lead paragraphs, or, where there is none, all but number,
    title and header. Any other element is a field, its name in lower case; those of the same name
    are put together.
    """
    for line, body in stretches(path, "DOC", faults):
        document = _document(body)
        if document is None:
            hint = "every <DOC> needs a <DOCNO>…</DOCNO>"
            faults.meet(LineError(path, line, "<DOC> has no <DOCNO>", hint=hint))
        else:
            yield line, document


def _document(body: str) -> Document | None:
    number: str | None = None
    titles: list[str] = []
    texts: list[str] = []
    other_contents: list[str] = []
    fields: dict[str, list[str]] = {}
    for name, content in _elements(body):
        if name == "docno" and number is None:
            number = without_tags(content)
        elif name in TITLES:
            titles.append(without_tags(content))
        elif name in TEXTS:
            texts.append(without_tags(content))
        else:
            if name not in HEADERS:
                other_contents.append(content)
            if name:
                fields.setdefault(name, []).append(without_tags(content))
    if number is None:
        return None
    if not texts:
        texts = [without_tags(" ".join(other_contents))]
        fields = {name: contents for name, contents in fields.items() if name in HEADERS}
    joined = {name: "\n".join(contents) for name, contents in fields.items()}
    return Document(number, "\n".join(texts), "\n".join(titles), joined)


def _elements(body: str) -> Iterator[tuple[str, str]]:
    """The outermost elements in order, by name; loose text between them has no name."""
    at = 0
    closing_tags = _closing_tags(body)
    for opening in _OPENING.finditer(body):
        name = opening[1].lower()
        closing = closing_tags.get(name)
        while closing and closing[-1][0] < opening.end():
            closing.pop()
        if opening.start() < at or not closing:
            continue
        start, end = closing[-1]
        yield "", body[at : opening.start()]
        yield name, body[opening.end() : start]
        at = end
    yield "", body[at:]


def _closing_tags(body: str) -> dict[str, list[tuple[int, int]]]:
    """Where the closing tags of each name start and end, the last first."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for tag in _CLOSING.finditer(body):
        spans.setdefault(tag[1].lower(), []).append(tag.span())
    for places in spans.values():
        places.reverse()
    return spans


def write_documents(
    documents: Iterable[Document], path: Path, notes: LossNotes, force: bool = False
) -> None:
    """Write a file of `<DOC>` elements; fields become elements where their names can be tags."""
    with writing(path, force) as file:
        for document in documents:
            file.write(_element(document, notes).encode())


def _element(document: Document, notes: LossNotes) -> str:
    lines = ["<DOC>", f"<DOCNO>{escape(document.id)}</DOCNO>"]
    if document.title:
        lines.append(f"<TITLE>{escape(document.title)}</TITLE>")
    for name, value in document.fields.items():
        if PLAIN_NAME.fullmatch(name) and name not in _RESERVED:
            lines.append(f"<{name.upper()}>{escape(value)}</{name.upper()}>")
        else:
            notes.add(f"the field {name!r} of {{}} was left out: it cannot be a tag", "document")
    lines += ["<TEXT>", escape(document.text), "</TEXT>", "</DOC>", ""]
    return "\n".join(lines)


# Folders


def open_trec(path: Path, faults: Faults) -> Collection:
    """A file of TREC documents, or a folder of them with topics and judgements beside them.

    Of a folder, files that are none of these are passed over (disks have such: read-me files);
    those of unknown formats are counted in `faults.left_out`.
    """
    files = _by_format(path, faults) if path.is_dir() else {TRECTEXT.name: [path]}
    collection = collection_of_files(
        path,
        TRECTEXT.name,
        files.get(TRECTEXT.name, []),
        lambda file: read_documents(file, faults),
        faults,
    )
    return collection.replaced(lambda: _queries(files, faults), lambda: _qrels(files, faults))


def _by_format(folder: Path, faults: Faults) -> dict[str, list[Path]]:
    """The files of a folder by format."""
    files: dict[str, list[Path]] = {}
    faults.left_out.clear()
    for path in files_in(folder):
        try:
            files.setdefault(detect_format(path), []).append(path)
        except UnknownFormatError:
            faults.left_out[kind_of(path.name)] += 1
    return files


def _queries(files: Mapping[str, list[Path]], faults: Faults) -> Queries:
    checks = Checks(faults)
    queries = [
        query
        for format, read in ((TOPICS, read_topics), (TOPICS_XML, read_topics_xml))
        for path in files.get(format.name, [])
        for query in checks.queries(path, read(path, faults))
    ]
    return Queries.of(queries) if queries else no_queries()


def _qrels(files: Mapping[str, list[Path]], faults: Faults) -> Mapping[str, Qrels]:
    splits: dict[str, Path] = {}
    for path in [*files.get(QRELS.name, []), *files.get(BEIR_QRELS.name, [])]:
        split = split_of(path)
        if split in splits:
            raise InputError(
                f"{splits[split]} and {path} both hold the judgements of {split!r}",
                hint="rename one of them",
            )
        splits[split] = path
    return {split: read_qrels(path, faults) for split, path in splits.items()}


def split_of(path: Path) -> str:
    """The split a file of judgements is for, by its name.

    >>> [split_of(Path(name)) for name in ("qrels.dev.txt", "qrels-test.gz", "robust04.qrels")]
    ['dev', 'test', 'robust04']
    """
    name = re.sub(r"\.(txt|tsv|qrels|qrel|trec|parquet)$", "", plain_name(path))
    return re.sub(r"^qrels?[._-]", "", name)


def write_trec(collection: Collection, folder: Path, notes: LossNotes, force: bool = False) -> None:
    """Write a folder with documents.trec, topics.trec and qrels.SPLIT.txt."""
    refuse_odd_splits(collection.qrels)
    with durable.new_folder(folder, force=force) as unfinished:
        write_documents(collection.documents, unfinished / DOCUMENTS, notes)
        if len(collection.queries):
            write_topics(collection.queries, unfinished / TOPICS_FILE, notes)
        for split, qrels in collection.qrels.items():
            write_qrels(qrels, unfinished / f"qrels.{split}.txt", format=QRELS.name)


def _has_documents(folder: FolderSample) -> bool:
    return TRECTEXT.name in folder.formats


TRECTEXT = Format(
    name="trectext",
    description="file or folder of <DOC> elements, with topics and qrels beside them",
    holds=("collection", "documents"),
    markup=re.compile(r"<DOC(\s[^<>]*)?>", re.IGNORECASE),
    detect_folder=_has_documents,
    open_collection=open_trec,
    write_collection=write_trec,
)
