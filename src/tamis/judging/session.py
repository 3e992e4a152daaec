"""A judge's way through a pool: answer, skip, undo; an answer is on disk before the next question.

What a judge is shown, and how answers are typed, is left to the command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tamis import durable
from tamis.collection.judgements import read_qrels
from tamis.errors import InputError, OutputError, command
from tamis.evaluation.power import Power, power_of
from tamis.judging.folder import JudgedFolder
from tamis.judging.pools import Pooled
from tamis.text.near import is_same_query
from tamis.types import Queries

ASSUMED_SECONDS_PER_ANSWER = 6.0
"""Until the judge's own pace is known."""
MIN_QUERIES_FOR_POWER = 5
"""Before that the spread of the differences is hardly known."""
PACE_ANSWERS = 20
"""The pace is the median of so many last answers, so that a break does not count."""


@dataclass(frozen=True)
class Place:
    """Which query and which of its documents is asked, counted from 1, and of how many."""

    query: int
    num_queries: int
    document: int
    num_documents: int


class Judging:
    r"""A way through a pool: answer, skip, undo. An answer is on disk before the next is asked.

    Pairs that the folder judges already are not asked again. Open it with `open_judging`.

    >>> from tempfile import TemporaryDirectory
    >>> from tamis.collection.readers import read_queries
    >>> from tamis.types import Query
    >>> items = [Pooled(Query("q1", "sieve"), doc_id, (1,)) for doc_id in ("d1", "d2")]
    >>> with TemporaryDirectory() as folder:
    ...     judged = Path(folder) / "judged"
    ...     with open_judging(items, judged) as judging:
    ...         judging.answer(1)
    ...         judging.answer(0)
    ...         _ = judging.undo()
    ...         judging.current.doc_id, read_qrels(judged).to_dict(), read_queries(judged).texts
    ('d2', {'q1': {'d1': 1}}, ('sieve',))
    """

    def __init__(
        self, items: Sequence[Pooled], path: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._items, self._clock = tuple(items), clock
        self._file = JudgedFolder(path, (name for i in items for name in (i.query.id, i.doc_id)))
        _refuse_other_texts(items, self._file.queries, path)
        judgements = read_qrels(path).to_dict() if self._file.size else {}
        self.num_before = sum(map(len, judgements.values()))
        """How many judgements the folder had before this session."""
        self._grades: dict[int, int] = {
            number: judgements[item.query.id][item.doc_id]
            for number, item in enumerate(items)
            if item.doc_id in judgements.get(item.query.id, {})
        }
        self._of_query: dict[str, list[int]] = {}
        for number, item in enumerate(items):
            self._of_query.setdefault(item.query.id, []).append(number)
        self._skipped: set[int] = set()
        self._steps: list[int] = []
        self._took: list[float] = []
        self._since = clock()

    @property
    def num_answered(self) -> int:
        """How many answers of this session stand."""
        return sum(number in self._grades for number in self._steps)

    @property
    def num_skipped(self) -> int:
        """How many were skipped in this session."""
        return len(self._skipped)

    @property
    def current(self) -> Pooled | None:
        """What is asked now; None at the end."""
        number = self._next()
        return None if number is None else self._items[number]

    @property
    def num_left(self) -> int:
        """How many are still to be asked in this session."""
        return len(self._items) - len(self._grades) - len(self._skipped)

    def seconds_left(self) -> float:
        """How long that takes at the judge's pace."""
        pace = [*self._took[-PACE_ANSWERS:], *[ASSUMED_SECONDS_PER_ANSWER] * (5 - len(self._took))]
        return self.num_left * median(pace)

    def place(self) -> Place | None:
        """Where the judge is; None at the end."""
        number = self._next()
        if number is None:
            return None
        query_id = self._items[number].query.id
        query, numbers = list(self._of_query).index(query_id), self._of_query[query_id]
        return Place(query + 1, len(self._of_query), numbers.index(number) + 1, len(numbers))

    def count_partly_judged(self) -> int:
        """How many queries have some of their documents judged, but not all."""
        judged = ([n in self._grades for n in numbers] for numbers in self._of_query.values())
        return sum(any(flags) and not all(flags) for flags in judged)

    def power(self, system: int, baseline: int) -> Power | None:
        """What the queries judged so far can show of one source of the pool against another.

        By the reciprocal rank, over queries of which all documents are judged and one at least is
        relevant; None where these are too few.
        """
        differences = []
        for numbers in self._of_query.values():
            if not all(number in self._grades for number in numbers):
                continue
            relevant = [self._items[n].ranks for n in numbers if self._grades[n] > 0]
            if relevant:
                differences.append(
                    _reciprocal_rank([ranks[system] for ranks in relevant])
                    - _reciprocal_rank([ranks[baseline] for ranks in relevant])
                )
        return power_of(differences) if len(differences) >= MIN_QUERIES_FOR_POWER else None

    def answer(self, grade: int) -> None:
        """Judge what is asked: 0 is not relevant, more is better."""
        number = self._current_number()
        item = self._items[number]
        self._file.append(item.query, item.doc_id, grade)
        self._grades[number] = grade
        self._step(number)

    def skip(self) -> None:
        """Leave what is asked unjudged; it is asked again in another session."""
        number = self._current_number()
        self._skipped.add(number)
        self._step(number)

    def undo(self) -> bool:
        """Take the last answer or skip of this session back; False where there is none."""
        if not self._steps:
            return False
        if self._steps[-1] in self._grades:
            self._file.take_back()
        number = self._steps.pop()
        self._grades.pop(number, None)
        self._skipped.discard(number)
        return True

    def _next(self) -> int | None:
        handled = self._grades.keys() | self._skipped
        return next((n for n in range(len(self._items)) if n not in handled), None)

    def _current_number(self) -> int:
        number = self._next()
        if number is None:
            raise InputError("everything in the pool is judged or skipped", hint="undo, or end")
        return number

    def _step(self, number: int) -> None:
        self._steps.append(number)
        now = self._clock()
        self._took.append(now - self._since)
        self._since = now


def _reciprocal_rank(ranks: Iterable[int | None]) -> float:
    """Of the first relevant document.

    >>> _reciprocal_rank([None, 4, 2]), _reciprocal_rank([None])
    (0.5, 0.0)
    """
    return max((1 / rank for rank in ranks if rank is not None), default=0.0)


def _refuse_other_texts(items: Iterable[Pooled], judged_queries: Queries, path: Path) -> None:
    """Refuse judgements of other queries that have the same ids."""
    for query in {item.query.id: item.query for item in items}.values():
        if query.id not in judged_queries:
            continue
        judged_text = judged_queries[query.id].text
        if not is_same_query(judged_text, query.text):
            raise InputError(
                f"{path} has judgements of {judged_text!r} as query {query.id!r}, "
                f"which is {query.text!r} here",
                hint="choose another name",
            )


@contextmanager
def open_judging(
    items: Sequence[Pooled], path: Path | str, *, queries_file: str = "queries.txt"
) -> Iterator[Judging]:
    """Judge a pool into a folder, new or to be extended; a second judge of it is refused.

    `queries_file` is where the queries are, for a hint.
    """
    path = Path(path)
    if path.is_file():
        raise OutputError(
            f"{path} is a file: judgements go into a folder, with their queries",
            hint="choose another name, or go on from the file: "
            + command("convert", path, f"{path.stem}-judged", "--queries", queries_file),
        )
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent}", hint="make it first")
    with durable.locked(path):
        yield Judging(items, path)
