"""One state of an index, opened: its segments as one collection of terms and documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import DamagedError
from tamis.search.commit import Commit, SegmentEntry
from tamis.search.embeddings import Embeddings, open_embeddings
from tamis.search.field_values import FieldType
from tamis.search.files import joined
from tamis.search.filters import Included, field_types, pack_flags, segment_flags
from tamis.search.rankings import Ranking, Statistics
from tamis.search.score_tables import PairScores
from tamis.search.segments import Postings, Segment
from tamis.search.term_counts import Ints, Longs
from tamis.types import Document, Ids
from tamis.types.conditions import Condition

REMEMBERED_RANKINGS = 64
REMEMBERED_TERMS = 1_000_000
REMEMBERED_FILTERS = 64


class Lexicon:
    """The terms of all segments as one table, with what is left of each."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.terms = _union([segment.terms for segment in segments])
        self.documents_of = np.zeros(len(self.terms), np.int32)
        self.occurrences = np.zeros(len(self.terms), np.int64)
        self.number_in: list[Ints | None] = []
        """For each segment, of each term here its number there, or -1; None: the same."""
        self.number_of: list[Ints | None] = []
        """For each segment, of each term there its number here; None: the same."""
        self._known: dict[str, int] = {}
        if len(segments) == 1:
            self.documents_of = segments[0].documents_of()
            self.occurrences = segments[0].occurrences()
            self.number_in, self.number_of = [None], [None]
            return
        for segment in segments:
            number_of = segment.terms.positions_in(self.terms)
            number_in = np.full(len(self.terms), -1, np.int32)
            number_in[number_of] = np.arange(len(number_of), dtype=np.int32)
            self.documents_of[number_of] += segment.documents_of()
            self.occurrences[number_of] += segment.occurrences()
            self.number_in.append(number_in)
            self.number_of.append(number_of)

    def numbers(self, terms: list[str]) -> list[int]:
        """The number of each term, -1 for a term that no document has."""
        known = self._known  # other threads may put another in its place
        new = [term for term in dict.fromkeys(terms) if term not in known]
        if new:
            spelled = [term.encode(errors="replace").decode() for term in new]
            numbers = self.terms.numbers(spelled).tolist()
            documents_of = self.documents_of
            known.update(
                (term, number if number >= 0 and documents_of[number] > 0 else -1)
                for term, number in zip(new, numbers, strict=True)
            )
            if len(known) > REMEMBERED_TERMS:
                self._known = {}
        return [known[term] for term in terms]

    def in_segment(self, segment: int, terms: Ints) -> Ints:
        """The numbers that these terms have in a segment, -1 where it lacks one."""
        number_in = self.number_in[segment]
        return terms if number_in is None else number_in[terms]


def _union(tables: Sequence[Ids]) -> Ids:
    if not tables:
        return Ids.of([])
    union = tables[0]
    for table in tables[1:]:
        union = union.union(table)
    return union


class Snapshot:
    """The segments of one commit and what follows from them together."""

    def __init__(self, folder: Path, commit: Commit) -> None:
        self.commit = commit
        self.segments = [open_segment(folder, entry) for entry in commit.segments]
        self.damage: DamagedError | None = None
        """Why the embeddings cannot be read, if so; lexical search works all the same."""
        self._segment_embeddings: list[Embeddings | None] = []
        try:
            self._segment_embeddings = [
                open_embeddings(folder, entry.vectors, entry.vectors_digest)
                for entry in commit.segments
            ]
        except DamagedError as error:
            self.damage = error
        self._pair_scores: dict[Ranking, list[PairScores]] = {}
        self._filters: dict[tuple[Condition, ...], list[Included]] = {}
        self._filters_lock = Lock()

    @property
    def segment_embeddings(self) -> list[Embeddings | None]:
        """Of each segment the embeddings of its documents, where they were encoded."""
        if self.damage is not None:
            raise self.damage
        return self._segment_embeddings

    @property
    def embeddings(self) -> list[Embeddings]:
        """The embeddings of those segments that have some."""
        return [embeddings for embeddings in self.segment_embeddings if embeddings is not None]

    def total(self, name: str) -> int:
        """How many documents, documents with_terms, or total_terms there are."""
        return sum(segment.fact(name) for segment in self.segments)

    @cached_property
    def statistics(self) -> Statistics:
        """What rankings know of the collection."""
        return Statistics(self.total("with_terms"), self.total("total_terms"))

    @cached_property
    def lexicon(self) -> Lexicon:
        """All terms."""
        return Lexicon(self.segments)

    @cached_property
    def ids(self) -> Ids:
        """The ids of all documents, of deleted ones too."""
        return _union([segment.ids for segment in self.segments])

    @cached_property
    def numbers(self) -> list[Ints]:
        """For each segment, of each document its number in `ids`."""
        if len(self.segments) == 1:
            return [self.segments[0].number]
        return [segment.ids.positions_in(self.ids)[segment.number] for segment in self.segments]

    @cached_property
    def _postings(self) -> list[Postings]:
        """For each segment what the kernels read, and no document left out."""
        return [
            segment.postings(number)
            for segment, number in zip(self.segments, self.numbers, strict=True)
        ]

    @cached_property
    def field_types(self) -> dict[str, FieldType]:
        """The fields of the documents, `id` for their ids, and the type of each."""
        return field_types([segment.columns for segment in self.segments])

    def included(self, conditions: tuple[Condition, ...]) -> list[Included]:
        """For each segment which documents may be found: live ones for which all conditions hold.

        What was worked out last is remembered.
        """
        with self._filters_lock:
            if conditions in self._filters:
                return self._filters[conditions]
        flags = [segment.live() for segment in self.segments]
        if conditions:
            flags = [
                segment_flags(conditions, segment.columns, self.field_types, live)
                for segment, live in zip(self.segments, flags, strict=True)
            ]
        included = [pack_flags(segment) for segment in flags]
        with self._filters_lock:
            if len(self._filters) >= REMEMBERED_FILTERS:
                self._filters.pop(next(iter(self._filters)))
            self._filters[conditions] = included
        return included

    def postings(self, conditions: tuple[Condition, ...] = ()) -> list[Postings]:
        """For each segment what the kernels read."""
        pairs = zip(self._postings, self.included(conditions), strict=True)
        return [
            postings._replace(included=included.bits, excluded=included.excluded)
            for postings, included in pairs
        ]

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """For each id the segment and the document that has it now; -1 where it was deleted."""
        segment_of, document_of = np.full((2, len(self.ids)), -1, np.int32)
        for n, (segment, number) in enumerate(zip(self.segments, self.numbers, strict=True)):
            live = np.flatnonzero(segment.live())
            segment_of[number[live]] = n
            document_of[number[live]] = live
        return segment_of, document_of

    def pair_scores(self, ranking: Ranking) -> list[PairScores]:
        """For each segment what a ranking makes of its pairs."""
        scores = self._pair_scores.get(ranking)
        if scores is None:
            if len(self._pair_scores) >= REMEMBERED_RANKINGS:
                self._pair_scores = {}  # other threads may still read the old one
            scores = self._pair_scores[ranking] = [
                ranking.pair_scores(segment.pair_frequency, segment.pair_length, self.statistics)
                for segment in self.segments
            ]
        return scores

    def term_vectors(self, numbers: NDArray[np.integer[Any]]) -> tuple[Longs, Ints, Ints]:
        """Term vectors of these documents: where each begins, its terms, how often each occurs."""
        segment_of, document_of = self.places
        segments, documents = segment_of[numbers], document_of[numbers]
        sizes = np.zeros(len(numbers), np.int64)
        segment_columns = []
        for n, segment in enumerate(self.segments):
            rows = np.flatnonzero(segments == n)
            if len(rows):
                offsets, terms, frequencies = segment.term_vectors(documents[rows])
                number_of = self.lexicon.number_of[n]
                sizes[rows] = np.diff(offsets)
                segment_columns.append(
                    (rows, terms if number_of is None else number_of[terms], frequencies)
                )
        order = np.argsort(
            joined((columns[0] for columns in segment_columns), "<i8"), kind="stable"
        )
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        if len(segment_columns) == 1:
            return offsets, segment_columns[0][1], segment_columns[0][2]
        begins = np.concatenate(
            [[0], np.cumsum(sizes[joined((p[0] for p in segment_columns), "<i8")])]
        )
        where = np.arange(offsets[-1]) + np.repeat(begins[:-1][order] - offsets[:-1], sizes)
        terms = joined((columns[1] for columns in segment_columns), "<i4")[where]
        return offsets, terms, joined((columns[2] for columns in segment_columns), "<i4")[where]

    def document(self, doc_id: str) -> Document:
        """A document by its id; `KeyError` where there is none."""
        segment = int(self.places[0][self.ids.number(doc_id)])
        if segment < 0:
            raise KeyError(doc_id)
        return self.segments[segment].store[doc_id]

    def find(self, doc_id: str) -> Document | None:
        """A document by its id; None where there is none."""
        return self.document(doc_id) if doc_id in self.ids and self.is_live(doc_id) else None

    def is_live(self, doc_id: str) -> bool:
        """Whether a document that was there once is still there."""
        return bool(self.places[0][self.ids.number(doc_id)] >= 0)

    def live_ids(self) -> list[str]:
        """The ids of all documents that are not deleted."""
        return self.ids.take(np.flatnonzero(self.places[0] >= 0))

    def documents(self) -> Iterator[Document]:
        """All documents, in the order they came."""
        for segment in self.segments:
            for document, live in zip(segment.store, segment.live().tolist(), strict=True):
                if live:
                    yield document

    def term_vector(self, doc_id: str) -> Mapping[str, int]:
        """How often each term occurs in one document."""
        number = self.ids.number(doc_id)
        if self.places[0][number] < 0:
            raise KeyError(doc_id)
        _, terms, frequencies = self.term_vectors(np.array([number]))
        spelled = self.lexicon.terms.take(terms)
        return dict(zip(spelled, frequencies.tolist(), strict=True))


def open_segment(folder: Path, entry: SegmentEntry) -> Segment:
    """A segment, which must be the very one that the commit names."""
    deleted = None if entry.deleted is None else folder / entry.deleted
    segment = Segment(folder / entry.folder, deleted)
    if segment.files.digest != entry.digest:
        raise DamagedError(f"{segment.folder} is another segment", hint="build the index again")
    if segment.deleted is not None and segment.deleted.files.digest != entry.deleted_digest:
        raise DamagedError(f"{deleted} is another file", hint="build the index again")
    return segment
