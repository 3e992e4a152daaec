"""Candidates of a run with their texts, written as one table: `qid pid query passage relevancy`.

Rows are sorted by qid, relevancy and pid; `q_idx` and `p_idx` count queries, and the passages of
each, from 0. Which candidates are written is left to `candidate_selection`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis import durable
from tamis.collection.base import Collection, Streamed
from tamis.collection.candidate_rows import COLUMNS, INDEX_COLUMNS, INTEGER
from tamis.collection.candidate_selection import RELEVANCY
from tamis.collection.lines import writing
from tamis.collection.loss_notes import LossNotes, refuse_breaks
from tamis.collection.store import DocumentStore, write_store
from tamis.errors import InputError
from tamis.types import Document, Ids, Run

TITLES = "titles were put before the text of {}: the table has no column for them"


def write_candidate_table(
    candidates: Run, collection: Collection, path: Path | str, *, force: bool = False
) -> list[str]:
    """Write candidates, which have the column `relevancy`, with the texts of their documents.

    Ids that are whole numbers throughout are sorted as numbers, others by their bytes. The queries'
    texts are the run's, else the collection's. Sentences say what was changed.
    """
    path, notes = Path(path), LossNotes()
    if candidates.queries.texts is None:
        candidates = candidates.with_queries(collection.queries)
    used = candidates.docs.select(np.unique(candidates.doc))
    candidates = candidates.with_docs(used)
    _check_ids(candidates)
    with _open_store(collection, used, path) as store, writing(path, force) as file:
        number_of = used.positions_in(store.ids)
        _check_present(candidates, number_of)
        file.write("\t".join([*COLUMNS, *INDEX_COLUMNS]).encode() + b"\n")
        writer = _Writer(candidates, store, number_of, notes)
        with durable.Progress(f"writing {path.name}", len(candidates.doc), "rows") as progress:
            for q_idx, query in enumerate(np.argsort(_sort_keys(candidates.queries.ids)).tolist()):
                lines = writer.lines(query, q_idx)
                file.write("".join(lines).encode())
                progress.advance(len(lines))
    return notes.sentences()


class _Writer:
    """The lines of a table, query by query."""

    def __init__(
        self, candidates: Run, store: DocumentStore, number_of: NDArray[np.int32], notes: LossNotes
    ) -> None:
        self._run, self._store, self._number_of, self._notes = candidates, store, number_of, notes
        self._doc_key = _sort_keys(candidates.docs)
        self._has_note = np.zeros(len(candidates.docs), bool)

    def lines(self, query: int, q_idx: int) -> list[str]:
        """The lines of one query."""
        run = self._run
        rows = slice(int(run.offsets[query]), int(run.offsets[query + 1]))
        relevancy, doc = run.extra[RELEVANCY][rows], run.doc[rows]
        order = np.lexsort((self._doc_key[doc], relevancy))
        relevancy, doc = relevancy[order], doc[order]
        passages = self._passages(doc)
        record = run.queries[run.queries.ids[query]]
        text = self._notes.flat(record.text, "query")
        columns = zip(run.docs.take(doc), passages, relevancy.tolist(), strict=True)
        return [
            f"{record.id}\t{pid}\t{text}\t{passage}\t{grade}\t{q_idx}\t{p_idx}\n"
            for p_idx, (pid, passage, grade) in enumerate(columns)
        ]

    def _passages(self, doc: NDArray[np.int32]) -> list[str]:
        """The texts of documents, on one line each; what is changed is noted once a document."""
        numbers = self._number_of[doc]
        texts, titles = self._store.texts(numbers), self._store.titles(numbers)
        unnoted = LossNotes()
        passages = []
        for number, title, text in zip(doc.tolist(), titles, texts, strict=True):
            notes = unnoted if self._has_note[number] else self._notes
            self._has_note[number] = True
            if title:
                notes.add(TITLES, "document")
                text = f"{title} {text}" if text else title
            passages.append(notes.flat(text, "text"))
        return passages


def _sort_keys(ids: Ids) -> NDArray[np.int64]:
    """What ids are sorted by: the numbers they are, or else their place in the order of bytes."""
    strings = list(ids)
    if all(map(INTEGER.fullmatch, strings)):
        return np.array([int(string) for string in strings], np.int64)
    return np.arange(len(strings), dtype=np.int64)


def _check_ids(candidates: Run) -> None:
    refuse_breaks(candidates.queries.ids)
    refuse_breaks(candidates.docs)
    for query in candidates.queries:
        if not query.text.strip():
            raise InputError(
                f"query {query.id!r} has no text", hint="a table has the text of every query"
            )


def _check_present(candidates: Run, number_of: NDArray[np.int32]) -> None:
    absent = number_of[candidates.doc] < 0
    if absent.any():
        row = int(np.argmax(absent))
        query = int(np.searchsorted(candidates.offsets, row, side="right")) - 1
        raise InputError(
            f"document {candidates.docs[int(candidates.doc[row])]!r} of query "
            f"{candidates.queries.ids[query]!r} is not in the collection",
            hint="was another collection searched?",
        )


@contextmanager
def _open_store(collection: Collection, doc_ids: Ids, path: Path) -> Iterator[DocumentStore]:
    """The documents by id: the collection's own store, or one on disk for as long as it lasts."""
    if isinstance(collection.documents, DocumentStore):
        yield collection.documents
        return
    names = set(doc_ids)

    def read_selected() -> Iterator[Document]:
        return (document for document in collection.documents if document.id in names)

    with durable.scratch_folder(path) as folder:
        write_store(Collection("documents", "stream", Streamed(read_selected)), folder / "store")
        yield DocumentStore(folder / "store")
