"""`tamis:pydocs`: Python's own documentation as a collection, with questions we wrote.

The documents are read from the running interpreter; nothing of them is shipped. Of the queries,
260 are questions with graded judgements in three splits, and 600 are a log without: written, not
collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from tamis.collection.base import Collection, Streamed
from tamis.collection.pydocs.documents import documents as read_documents
from tamis.collection.pydocs.questions import Questions, lexical_gap, load_log, load_questions
from tamis.types import Document, Qrels, Queries, Query


class PyDocs(Collection):
    """The demo collection; `questions` also says how many were dropped and what they share."""

    def __init__(self) -> None:
        super().__init__(
            "tamis:pydocs",
            "pydocs",
            Streamed(self._stream),
            self._all_queries,
            self._judgements,
        )

    @cached_property
    def read(self) -> tuple[tuple[str, str, str], ...]:
        """Id, title and text of every document: some five megabytes, so kept."""
        return tuple(read_documents())

    @cached_property
    def questions(self) -> Questions:
        """The questions that the running interpreter's documents answer."""
        return load_questions(id for id, _, _ in self.read)

    def gap(self) -> float:
        """The share of questions with no word of the names or first lines of their answers."""
        return lexical_gap(self.questions.answered, self.read)

    def facts(self) -> Mapping[str, Any]:
        """How hard the questions are, and how many had to be dropped."""
        return {
            "questions": {
                "without_word_shared_with_answer": f"{self.gap():.0%}",
                "dropped_without_answer_in_this_python": self.questions.dropped,
            }
        }

    def _stream(self) -> Iterator[Document]:
        return (Document(id, text, title) for id, title, text in self.read)

    def _all_queries(self) -> Queries:
        questions = [Query(question.id, question.text) for question in self.questions.answered]
        log = [Query(f"log-{n:03}", text) for n, text in enumerate(load_log(), 1)]
        return Queries.of([*questions, *log])

    def _judgements(self) -> dict[str, Qrels]:
        return {
            split: Qrels.from_dict(
                {q.id: q.grades for q in self.questions.answered if q.split == split}
            )
            for split in ("train", "validation", "test")
        }


def open_pydocs() -> PyDocs:
    """Open the demo collection.

    >>> collection = open_pydocs()
    >>> sorted(collection.qrels)
    ['test', 'train', 'validation']
    """
    return PyDocs()
