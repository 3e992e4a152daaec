"""The datasets of the package ir_datasets as collections; where they come from is its business.

Nothing is imported before a dataset is opened: the package makes a folder when it is imported, by
default in the home folder, or where IR_DATASETS_HOME says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tamis.collection.base import Collection, Faults, Streamed, no_queries
from tamis.errors import InputError, require
from tamis.types import Document, Ids, Qrels, Queries, Query

SPLITS = ("train", "dev", "validation", "valid", "val", "test", "eval")
TITLES = ("title", "headline")
TEXTS = ("text", "body", "contents", "abstract")


def open_irdatasets(dataset_id: str, faults: Faults | None = None) -> Collection:
    """Open a dataset by its id, such as `beir/scifact/test`.

    The judgements have the split that the id names, or else `test`.
    """
    faults = faults or Faults()
    package = require("ir_datasets")
    try:
        dataset = package.load(dataset_id)
    except KeyError:
        raise InputError(
            f"ir_datasets has no dataset {dataset_id!r}", hint="ir_datasets list shows all ids"
        ) from None
    if not dataset.has_docs():
        raise InputError(
            f"the dataset {dataset_id!r} has no documents",
            hint="ir_datasets list shows all ids; the shorter ones have documents",
        )
    source = _Dataset(dataset_id, dataset, package)
    return Collection(
        dataset_id,
        "ir_datasets",
        Streamed(lambda: source.documents(faults)),
        source.queries if dataset.has_queries() else no_queries,
        source.qrels if dataset.has_qrels() else dict,
        faults,
    )


def split_of(dataset_id: str) -> str:
    """The split an id names.

    >>> split_of("msmarco-passage/dev/small"), split_of("cranfield")
    ('dev', 'test')
    """
    names = dataset_id.split("/")[1:]
    return next((name for name in names if name in SPLITS), "test")


class _Dataset:
    """One dataset, read when it is asked for."""

    def __init__(self, dataset_id: str, dataset: Any, package: Any) -> None:
        self.id, self._dataset, self._package = dataset_id, dataset, package

    def documents(self, faults: Faults) -> Iterator[Document]:
        for record in self._read(self._dataset.docs_iter):
            title, text, fields = _text_fields(record, "doc_id")
            document = Document(record.doc_id, text, title, fields)
            faults.count_if_empty(document)
            yield document

    def queries(self) -> Queries:
        return Queries.of(
            Query(record.query_id, text or title, fields)
            for record in self._read(self._dataset.queries_iter)
            for title, text, fields in [_text_fields(record, "query_id")]
        )

    def qrels(self) -> dict[str, Qrels]:
        judged: list[tuple[str, str, int]] = []
        by_subtopic = False
        for record in self._read(self._dataset.qrels_iter):
            judged.append((record.query_id, record.doc_id, int(record.relevance)))
            by_subtopic = by_subtopic or "subtopic_id" in record._fields
        return {split_of(self.id): _qrels(self.id, judged, by_subtopic)}

    def _read(self, records: Callable[[], Any]) -> Iterator[Any]:
        """The records; a download that fails is said to be one."""
        with self._explained():
            stream = iter(records())
        while True:
            with self._explained():
                record = next(stream, None)
            if record is None:
                return
            yield record

    @contextmanager
    def _explained(self) -> Iterator[None]:
        util = self._package.util
        try:
            yield
        except (OSError, RuntimeError, EOFError, util.HashVerificationError) as error:
            problem = str(error).partition("\n")[0] or type(error).__name__
            raise InputError(
                f"ir_datasets cannot get {self.id}: {problem}",
                hint=f"with a network: ir_datasets export {self.id} docs > /dev/null; then copy "
                f"~/.ir_datasets from there to {util.home_path()}",
            ) from error


def _text_fields(record: Any, id_name: str) -> tuple[str, str, dict[str, str]]:
    """Title, text and other fields of a document or query; only text and numbers are kept.

    The text is what the dataset calls its default text, without the title where it begins with it.
    """
    values = {
        name: value if isinstance(value, str) else str(value)
        for name, value in record._asdict().items()
        if name != id_name and isinstance(value, str | int | float)
    }
    title_name = next((name for name in TITLES if values.get(name)), "")
    title = values.get(title_name, "")
    text = _text(record, values)
    if title and text.startswith(title):
        text = text[len(title) :].lstrip()
    fields = {
        name: value
        for name, value in values.items()
        if name != title_name
        and not name.startswith("marked_up")  # the same text again
        and not (name in TEXTS and value in text)
        and value != text
    }
    return title, text, fields


def _text(record: Any, values: dict[str, str]) -> str:
    if hasattr(record, "default_text"):
        return str(record.default_text())
    return next((values[name] for name in (*TEXTS, *TITLES) if values.get(name)), "")


def _qrels(dataset_id: str, judged: list[tuple[str, str, int]], by_subtopic: bool) -> Qrels:
    """Judgements; of a document judged for several subtopics of a query, the best counts."""
    queries, query = Ids.numbering([query_id for query_id, _, _ in judged])
    docs, doc = Ids.numbering([doc_id for _, doc_id, _ in judged])
    grade = np.array([grade for _, _, grade in judged], np.int32)
    order = np.lexsort((grade, doc, query))
    query, doc, grade = query[order], doc[order], grade[order]
    same = (np.diff(query) == 0) & (np.diff(doc) == 0)
    torn = np.flatnonzero(same & (np.diff(grade) != 0))
    if len(torn) and not by_subtopic:
        at = int(torn[0])
        raise InputError(
            f"{dataset_id} judges document {docs[int(doc[at])]!r} both {grade[at]} and "
            f"{grade[at + 1]} for query {queries[int(query[at])]!r}",
            hint="export its judgements, keep one of the two, and read that file",
        )
    last = np.concatenate([~same, [True]]) if len(grade) else np.empty(0, bool)
    return Qrels.of_rows(queries, docs, query[last], doc[last], grade[last])
