"""Rankings of many queries, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import InputError, check_nested
from tamis.types import frames
from tamis.types.ids import Ids
from tamis.types.order import repeated, trec_eval_order
from tamis.types.records import Queries

Column = NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Ranking:
    """One query's documents in order: a view into a run.

    >>> run = Run.from_dict({"q1": {"d1": 2.0, "d2": 3.0}})
    >>> list(run["q1"])
    [('d2', 3.0), ('d1', 2.0)]
    """

    docs: Ids
    doc: NDArray[np.int32]
    score: NDArray[np.float32]
    extra: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.doc)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return zip(self.ids, self.score.tolist(), strict=True)

    @property
    def ids(self) -> list[str]:
        """The document ids, best first."""
        return self.docs.take(self.doc)


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """For each query its documents, best first, with scores and further columns by name.

    Rows of query n are `offsets[n]` to `offsets[n + 1]` of `doc` (a number in `docs`), `score`
    and every column of `extra`. Rows handed in in another order are put in the order of
    trec_eval: by score, descending, then by id, descending.

    >>> run = Run.from_dict({"q1": {"d1": 2.0, "d2": 3.0}, "q2": {"d3": 1.0}})
    >>> len(run), run["q1"].ids, run.top(1)["q1"].ids
    (2, ['d2', 'd1'], ['d2'])
    """

    queries: Queries
    docs: Ids
    offsets: NDArray[np.int64]
    doc: NDArray[np.int32]
    score: NDArray[np.float32]
    extra: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._set("offsets", np.ascontiguousarray(self.offsets, np.int64))
        self._set("doc", np.ascontiguousarray(self.doc, np.int32))
        self._set("score", np.ascontiguousarray(self.score, np.float32))
        self._set("extra", {name: np.asarray(column) for name, column in self.extra.items()})
        self._check()
        self._put_in_order()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check(self) -> None:
        rows = len(self.doc)
        if len(self.offsets) != len(self.queries) + 1 or self.offsets[0] != 0:
            raise InputError(f"{len(self.queries)} queries need {len(self.queries) + 1} offsets")
        if self.offsets[-1] != rows or np.any(np.diff(self.offsets) < 0):
            raise InputError(f"offsets must ascend to the number of rows, {rows}")
        for name, column in [("score", self.score), *self.extra.items()]:
            if len(column) != rows:
                raise InputError(f"{rows} documents but {len(column)} values of {name!r}")
        if rows and not (self.doc.min() >= 0 and self.doc.max() < len(self.docs)):
            raise InputError("a document number lies outside the table of ids")
        if np.isnan(self.score).any():
            query = self._query_of(int(np.flatnonzero(np.isnan(self.score))[0]))
            raise InputError(
                f"query {query!r} has a score that is not a number", hint="leave such documents out"
            )
        again = repeated(self.offsets, self.doc, len(self.docs))
        if len(again):
            row = int(again[0])
            raise InputError(
                f"query {self._query_of(row)!r} lists document {self.docs[self.doc[row]]!r} twice",
                hint="keep the better of the two",
            )

    def _query_of(self, row: int) -> str:
        return self.queries.ids[int(np.searchsorted(self.offsets, row, side="right")) - 1]

    def _put_in_order(self) -> None:
        columns = {"doc": self.doc, "score": self.score, **self.extra}
        copied = False
        for rows, order in trec_eval_order(self.offsets, self.doc, self.score):
            if not copied:
                columns, copied = {name: column.copy() for name, column in columns.items()}, True
            for column in columns.values():
                column[rows] = column[rows][order]
        if copied:
            self._set("doc", columns.pop("doc"))
            self._set("score", columns.pop("score"))
            self._set("extra", columns)

    @classmethod
    def _unchecked(
        cls,
        queries: Queries,
        docs: Ids,
        offsets: NDArray[np.int64],
        doc: NDArray[np.int32],
        score: NDArray[np.float32],
        extra: Mapping[str, Column] | None = None,
    ) -> Run:
        """A run from columns known to be in the order of trec_eval: nothing is checked."""
        run = object.__new__(cls)
        names = ("queries", "docs", "offsets", "doc", "score", "extra")
        for name, value in zip(
            names, (queries, docs, offsets, doc, score, extra or {}), strict=True
        ):
            run._set(name, value)
        return run

    @classmethod
    def _sorted_from_distinct(
        cls,
        queries: Queries,
        docs: Ids,
        offsets: NDArray[np.int64],
        doc: NDArray[np.int32],
        score: NDArray[np.float32],
    ) -> Run:
        """A run from columns known to be whole and to repeat nothing: only put in order."""
        run = cls._unchecked(queries, docs, offsets, doc, score)
        run._put_in_order()
        return run

    @classmethod
    def from_dict(cls, rankings: Mapping[str, Mapping[str, float]]) -> Run:
        """A run from `{query: {document: score}}`, the shape other tools use."""
        check_nested(rankings, "a run", 'a dictionary: {"q1": {"d1": 2.5}}')
        queries = Queries(Ids.of(rankings))
        rows = [(doc, score) for query in queries.ids for doc, score in rankings[query].items()]
        docs, doc = Ids.numbering([doc for doc, _ in rows])
        sizes = [len(rankings[query]) for query in queries.ids]
        score = np.array([score for _, score in rows], np.float32)
        return cls(queries, docs, np.cumsum([0, *sizes]), doc, score)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The run as `{query: {document: score}}`; extra columns are left out."""
        return {query: dict(self[query]) for query in self.queries.ids}

    @classmethod
    def from_pandas(cls, frame: frames.Frame) -> Run:
        """A run from a DataFrame with the columns `query_id`, `doc_id` and `score`.

        Rows may come in any order: scores decide, and a column `rank` is not read. Other columns
        become extra columns. Ids may be whole numbers.
        """
        queries, docs, query, doc = frames.read_pairs(frame, frames.RUN_COLUMNS)
        numbers = frames.read_numbers(frame, frames.SCORE, frames.RUN_COLUMNS)
        order = np.argsort(query, kind="stable")
        offsets = np.cumsum([0, *np.bincount(query, minlength=len(queries))])
        further = frames.further_columns(frame, (*frames.RUN_COLUMNS, frames.RANK))
        extra = {name: column[order] for name, column in further}
        score = numbers[order].astype(np.float32)
        return cls(Queries(queries), docs, offsets, doc[order], score, extra)

    def to_pandas(self) -> Any:
        """A DataFrame: `query_id`, `doc_id`, `score`, `rank`, then the extra columns, best first.

        A query without documents has no row there, and the queries' texts are left out.
        """
        columns: dict[str, Any] = {
            frames.QUERY: np.repeat(np.array(list(self.queries.ids), object), self.sizes()),
            frames.DOCUMENT: np.array(self.docs.take(self.doc), object),
            frames.SCORE: self.score,
            frames.RANK: self.ranks(),
        }
        extra = {name: column for name, column in self.extra.items() if name not in columns}
        return frames.make_frame({**columns, **extra})

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.queries.ids)

    def __contains__(self, query_id: object) -> bool:
        return query_id in self.queries

    def __getitem__(self, query_id: str) -> Ranking:
        return self.ranking(self.queries.ids.number(query_id))

    def ranking(self, number: int) -> Ranking:
        """The ranking of the query with this number."""
        rows = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        extra = {name: column[rows] for name, column in self.extra.items()}
        return Ranking(self.docs, self.doc[rows], self.score[rows], extra)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        if self.queries != other.queries or not np.array_equal(self.offsets, other.offsets):
            return False
        mapped = (
            self.doc if self.docs is other.docs else self.docs.positions_in(other.docs)[self.doc]
        )
        return (
            np.array_equal(mapped, other.doc)
            and np.array_equal(self.score, other.score)
            and self.extra.keys() == other.extra.keys()
            and all(np.array_equal(column, other.extra[n]) for n, column in self.extra.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Run: {len(self):,} queries, {len(self.doc):,} rows, extra: {list(self.extra)}>"

    def sizes(self) -> NDArray[np.int64]:
        """How many documents each query has."""
        return np.diff(self.offsets)

    def ranks(self) -> NDArray[np.int64]:
        """The rank of every row within its query, from 1."""
        return np.arange(1, len(self.doc) + 1) - np.repeat(self.offsets[:-1], self.sizes())

    def top(self, k: int) -> Run:
        """The first k documents of every query."""
        if k < 1:
            raise InputError(f"cannot keep the top {k}", hint="keep at least one")
        if len(self) == 0 or self.sizes().max() <= k:
            return self
        return self.rows(self.ranks() <= k)

    def rows(self, keep: NDArray[np.bool_]) -> Run:
        """Some of the rows; a query may keep none."""
        counted = np.concatenate([[0], np.cumsum(keep)])
        return Run._unchecked(
            self.queries,
            self.docs,
            counted[self.offsets],
            self.doc[keep],
            self.score[keep],
            {name: column[keep] for name, column in self.extra.items()},
        )

    def select(self, queries: Ids) -> Run:
        """The rankings of those of these queries that are in the run."""
        numbers = queries.positions_in(self.queries.ids)
        numbers = numbers[numbers >= 0]
        selected = np.zeros(len(self), bool)
        selected[numbers] = True
        rows = self.rows(np.repeat(selected, self.sizes()))
        bounds = np.concatenate([rows.offsets[:-1][selected], rows.offsets[-1:]])
        return Run._unchecked(
            self.queries.select(numbers), self.docs, bounds, rows.doc, rows.score, rows.extra
        )

    def with_queries(self, queries: Queries) -> Run:
        """The same rankings with the texts of these queries; each query here must be among them."""
        numbers = self.queries.ids.positions_in(queries.ids)
        if (numbers < 0).any():
            missing = self.queries.ids[int(np.flatnonzero(numbers < 0)[0])]
            raise InputError(
                f"query {missing!r} of the run is not among the queries",
                hint="are run and queries from the same collection and split?",
            )
        return self._with(queries=queries.select(numbers))

    def with_docs(self, docs: Ids) -> Run:
        """The same rankings over another table of ids, which must hold every document here."""
        if docs is self.docs:
            return self
        number_of = self.docs.positions_in(docs)
        doc = number_of[self.doc]
        if len(doc) and doc.min() < 0:
            missing = self.docs[int(self.doc[int(np.argmin(doc))])]
            raise InputError(f"document {missing!r} of the run is not in the other table of ids")
        return self._with(docs=docs, doc=doc)

    def with_extra(self, **columns: ArrayLike) -> Run:
        """The same rankings with further columns, one value per row."""
        extra = {name: np.asarray(column) for name, column in columns.items()}
        for name, column in extra.items():
            if len(column) != len(self.doc):
                raise InputError(f"{len(self.doc)} documents but {len(column)} values of {name!r}")
        return self._with(extra={**self.extra, **extra})

    def _with(self, **changes: object) -> Run:
        names = ("queries", "docs", "offsets", "doc", "score", "extra")
        columns = {name: changes.get(name, getattr(self, name)) for name in names}
        return Run._unchecked(**cast(dict[str, Any], columns))


def join_runs(runs: Sequence[Run]) -> Run:
    """One run of runs over different queries; only columns that all have are kept.

    >>> parts = [Run.from_dict({"q2": {"d1": 1.0}}), Run.from_dict({"q1": {"d2": 1.0}})]
    >>> list(join_runs(parts))
    ['q1', 'q2']
    """
    if not runs:
        raise InputError("no runs to join")
    docs = runs[0].docs
    for run in runs[1:]:
        docs = docs.union(run.docs)
    runs = [run.with_docs(docs) for run in runs]
    queries = Queries.of(query for run in runs for query in run.queries)
    if any(run.queries.texts is None for run in runs):
        queries = Queries(queries.ids)
    first = np.concatenate([[0], np.cumsum([len(run) for run in runs])])
    place = np.empty(len(queries), np.int64)
    for start, run in zip(first[:-1], runs, strict=True):
        place[run.queries.ids.positions_in(queries.ids)] = start + np.arange(len(run))
    starts = np.concatenate(
        [run.offsets[:-1] + s for run, s in zip(runs, _starts(runs), strict=True)]
    )
    sizes = np.concatenate([run.sizes() for run in runs])[place]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.arange(offsets[-1]) + np.repeat(starts[place] - offsets[:-1], sizes)
    names = [name for name in runs[0].extra if all(name in run.extra for run in runs)]
    return Run._unchecked(
        queries,
        docs,
        offsets,
        np.concatenate([run.doc for run in runs])[rows],
        np.concatenate([run.score for run in runs])[rows],
        {name: np.concatenate([run.extra[name] for run in runs])[rows] for name in names},
    )


def _starts(runs: Sequence[Run]) -> list[int]:
    return [0, *accumulate(len(run.doc) for run in runs)][:-1]
