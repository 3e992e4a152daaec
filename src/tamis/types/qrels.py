"""Judgements: which documents answer which queries, and how well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, check_nested
from tamis.types import frames
from tamis.types.ids import Ids

GRADES = np.iinfo(np.int32)
"""The range a grade may have."""


@dataclass(frozen=True, eq=False, slots=True)
class Qrels:
    """Grades of judged documents. Judged 0 is a grade; not judged is absent.

    Rows of query n are `offsets[n]` to `offsets[n + 1]` of `doc` and `grade`, by document number.

    >>> qrels = Qrels.from_dict({"q1": {"d2": 1, "d1": 0}})
    >>> qrels["q1"], len(qrels)
    ({'d1': 0, 'd2': 1}, 1)
    """

    queries: Ids
    docs: Ids
    offsets: NDArray[np.int64]
    doc: NDArray[np.int32]
    grade: NDArray[np.int32]

    @classmethod
    def of_rows(
        cls,
        queries: Ids,
        docs: Ids,
        query: NDArray[np.int32],
        doc: NDArray[np.int32],
        grade: NDArray[np.int32],
    ) -> Qrels:
        """Judgements from rows in any order; a pair judged twice is an error."""
        order = np.lexsort((doc, query))
        query, doc, grade = query[order], doc[order], grade[order]
        twice = np.flatnonzero((np.diff(query) == 0) & (np.diff(doc) == 0))
        if len(twice):
            at = int(twice[0])
            raise InputError(
                f"query {queries[query[at]]!r} judges document {docs[doc[at]]!r} twice",
                hint="keep one judgement a query and document",
            )
        offsets = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(queries)))])
        return cls(queries, docs, offsets, doc, np.ascontiguousarray(grade, np.int32))

    @classmethod
    def from_dict(cls, judged: Mapping[str, Mapping[str, int]]) -> Qrels:
        """Judgements from `{query: {document: grade}}`, the shape other tools use."""
        check_nested(judged, "judgements", 'a dictionary: {"q1": {"d1": 1}}')
        rows = [(q, d, g) for q, grades in judged.items() for d, g in grades.items()]
        queries = Ids.of(judged)
        docs, doc = Ids.numbering([d for _, d, _ in rows])
        query = queries.numbers([q for q, _, _ in rows])
        return cls.of_rows(queries, docs, query, doc, np.array([g for *_, g in rows], np.int32))

    def to_dict(self) -> dict[str, dict[str, int]]:
        """The judgements as `{query: {document: grade}}`."""
        return {query: self[query] for query in self.queries}

    @classmethod
    def from_pandas(cls, frame: frames.Frame) -> Qrels:
        """Judgements from a DataFrame with the columns `query_id`, `doc_id` and `relevance`.

        Relevance is a whole number, ids are strings or whole numbers; other columns are not read.
        """
        pairs = frames.read_pairs(frame, frames.QRELS_COLUMNS)
        grade = frames.read_numbers(frame, frames.RELEVANCE, frames.QRELS_COLUMNS)
        wrong = (grade != np.floor(grade)) | (grade < GRADES.min) | (grade > GRADES.max)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"column {frames.RELEVANCE!r} has {grade[row]:g} in row {row}, which is no grade",
                hint=f"{frames.RELEVANCE} is a whole number: 0, 1, 2, …",
            )
        return cls.of_rows(*pairs, grade.astype(np.int32))

    def to_pandas(self) -> Any:
        """A DataFrame: `query_id`, `doc_id`, `relevance`; a query without judgements has no row."""
        columns = {
            frames.QUERY: np.repeat(np.array(list(self.queries), object), np.diff(self.offsets)),
            frames.DOCUMENT: np.array(self.docs.take(self.doc), object),
            frames.RELEVANCE: self.grade,
        }
        return frames.make_frame(columns)

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.queries)

    def __contains__(self, query_id: object) -> bool:
        return query_id in self.queries

    def __getitem__(self, query_id: str) -> dict[str, int]:
        number = self.queries.number(query_id)
        rows = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return dict(zip(self.docs.take(self.doc[rows]), self.grade[rows].tolist(), strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Qrels):
            return NotImplemented
        if self.queries != other.queries or not np.array_equal(self.offsets, other.offsets):
            return False
        mapped = self.docs.positions_in(other.docs)[self.doc]
        return np.array_equal(mapped, other.doc) and np.array_equal(self.grade, other.grade)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Qrels: {len(self):,} queries, {len(self.doc):,} judgements>"

    def select(self, queries: Ids) -> Qrels:
        """The judgements of those of these queries that have any."""
        numbers = queries.positions_in(self.queries)
        numbers = numbers[numbers >= 0]
        sizes = np.diff(self.offsets)[numbers]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[numbers] - offsets[:-1], sizes)
        return Qrels(
            self.queries.select(numbers), self.docs, offsets, self.doc[rows], self.grade[rows]
        )
