"""Judging what was found, pair by pair: the pool, and the folder that grows by a line an answer.

What a judge is shown, and how answers are typed, is left to the command line.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np
import xxhash

from tamis import durable
from tamis.collection.beir import QUERIES, write_beir_queries
from tamis.collection.judgements import (
    BEIR_COLUMNS,
    BEIR_HEADER,
    QRELS,
    read_qrels,
    split_files,
    the_split,
    torn_line,
)
from tamis.collection.lines import packing
from tamis.collection.notes import Notes, refuse_break
from tamis.collection.opening import read_queries
from tamis.errors import InputError, OutputError
from tamis.pipeline.hybrid import Hybrid
from tamis.search import Index, chosen_source
from tamis.types import Queries, Query, Source
from tamis.types.pipeline import TopOfSource

SECONDS = 6.0
"""What an answer takes, until the judge's own pace is known."""
PACE = 20
"""The pace is the median of so many last answers, so that a break does not count."""
SPLIT = "judged"
_log = logging.getLogger(__name__)


class Judgeable(Protocol):
    """What can be judged: a sieve, or an index alone."""

    @property
    def index(self) -> Index:
        """Where the documents are."""

    @property
    def source(self) -> Source:
        """The whole pipeline."""

    @property
    def first(self) -> Source:
        """Its first stage."""

    @property
    def queries(self) -> Queries | None:
        """Queries that are known but not judged."""


@dataclass(frozen=True)
class IndexAlone:
    """An index as something to judge: its own ranking is the whole pipeline."""

    index: Index
    queries: Queries | None = None

    @property
    def source(self) -> Source:
        """What `tamis search` uses: what was tuned, else BM25."""
        return chosen_source(self.index)

    @property
    def first(self) -> Source:
        """The same."""
        return self.source


def sources_of(thing: Judgeable) -> list[Source]:
    """Whose results are pooled: the pipeline, its first stage, what that is made of, and words
    alone; each once.
    """
    parts = thing.first.sources if isinstance(thing.first, Hybrid) else ()
    whole = thing.source
    whole = whole.source if isinstance(whole, TopOfSource) else whole  # nothing is re-ranked
    sources = [whole, thing.first, *parts, chosen_source(thing.index)]
    return list({json.dumps(each.spec(), sort_keys=True): each for each in sources}.values())


@dataclass(frozen=True)
class Pooled:
    """A document to judge for a query, and its rank in each source: none where not found."""

    query: Query
    doc_id: str
    ranks: tuple[int | None, ...]


def pool(
    sources: Sequence[Source], queries: Queries, depth: int = 10, seed: int = 0
) -> tuple[Pooled, ...]:
    """The first `depth` documents of every source, each once, query after query.

    Queries and the documents of each come in an order drawn by the seed, so that their places tell
    nothing about who found them or at which rank. The place of one against another depends on
    nothing else: a deeper pool, or more queries, leave it as it is.
    """
    runs = [source.search(queries, depth) for source in sources]
    found = []
    for query in sorted(queries, key=lambda query: _lot(seed, query.id)):
        ranks: dict[str, list[int | None]] = {}
        for number, run in enumerate(runs):
            for rank, doc_id in enumerate(run[query.id].ids if query.id in run else [], 1):
                ranks.setdefault(doc_id, [None] * len(runs))[number] = rank
        for doc_id in sorted(ranks, key=lambda doc_id: _lot(seed, query.id, doc_id)):
            found.append(Pooled(query, doc_id, tuple(ranks[doc_id])))
    return tuple(found)


def sample_queries(queries: Queries, count: int, seed: int = 0) -> Queries:
    """So many of the queries, drawn by the seed; a smaller sample is part of a larger one.

    >>> queries = Queries.of(Query(f"q{n}", "sieve") for n in range(9))
    >>> few, more = (sample_queries(queries, count) for count in (2, 5))
    >>> len(few), all(query.id in more for query in few)
    (2, True)
    """
    ids = list(queries.ids)
    drawn = sorted(range(len(ids)), key=lambda number: _lot(seed, ids[number]))[:count]
    return queries.select(np.array(sorted(drawn), np.int64))


def _lot(seed: int, *ids: str) -> int:
    return int(xxhash.xxh3_64_intdigest("\0".join(ids).encode(errors="surrogatepass"), seed=seed))


@dataclass(frozen=True)
class Place:
    """Which query and which of its documents is asked, counted from 1, and of how many."""

    query: int
    queries: int
    document: int
    documents: int


class Judging:
    r"""A way through a pool: answer, skip, undo. An answer is on disk before the next is asked.

    Pairs that the folder judges already are not asked again. Open it with `open_judging`.

    >>> from tempfile import TemporaryDirectory
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
        known = read_qrels(path).to_dict() if self._file.size else {}
        self.kept = sum(map(len, known.values()))
        """How many judgements the folder had before."""
        self._grades: dict[int, int] = {
            number: known[item.query.id][item.doc_id]
            for number, item in enumerate(items)
            if item.doc_id in known.get(item.query.id, {})
        }
        self._of_query: dict[str, list[int]] = {}
        for number, item in enumerate(items):
            self._of_query.setdefault(item.query.id, []).append(number)
        self._skipped: set[int] = set()
        self._steps: list[int] = []
        self._took: list[float] = []
        self._since = clock()

    @property
    def given(self) -> int:
        """How many answers of this session stand."""
        return sum(number in self._grades for number in self._steps)

    @property
    def skipped(self) -> int:
        """How many were skipped in this session."""
        return len(self._skipped)

    @property
    def current(self) -> Pooled | None:
        """What is asked now; None at the end."""
        number = self._next()
        return None if number is None else self._items[number]

    @property
    def left(self) -> int:
        """How many are still to be asked in this session."""
        return len(self._items) - len(self._grades) - len(self._skipped)

    def seconds_left(self) -> float:
        """How long that takes at the judge's pace."""
        pace = [*self._took[-PACE:], *[SECONDS] * (5 - len(self._took))]
        return self.left * median(pace)

    def place(self) -> Place | None:
        """Where the judge is; None at the end."""
        number = self._next()
        if number is None:
            return None
        here = self._items[number].query.id
        query, numbers = list(self._of_query).index(here), self._of_query[here]
        return Place(query + 1, len(self._of_query), numbers.index(number) + 1, len(numbers))

    def partly(self) -> int:
        """How many queries have some of their documents judged, but not all."""
        judged = ([n in self._grades for n in numbers] for numbers in self._of_query.values())
        return sum(any(each) and not all(each) for each in judged)

    def answer(self, grade: int) -> None:
        """Judge what is asked: 0 is not relevant, more is better."""
        number = self._asked()
        item = self._items[number]
        self._file.append(item.query, item.doc_id, grade)
        self._grades[number] = grade
        self._step(number)

    def skip(self) -> None:
        """Leave what is asked unjudged; it is asked again in another session."""
        number = self._asked()
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
        done = self._grades.keys() | self._skipped
        return next((n for n in range(len(self._items)) if n not in done), None)

    def _asked(self) -> int:
        number = self._next()
        if number is None:
            raise InputError("everything in the pool is judged or skipped", hint="undo, or end")
        return number

    def _step(self, number: int) -> None:
        self._steps.append(number)
        now = self._clock()
        self._took.append(now - self._since)
        self._since = now


def _refuse_other_texts(items: Iterable[Pooled], known: Queries, path: Path) -> None:
    """Refuse judgements of other queries that have the same ids."""
    for query in {item.query.id: item.query for item in items}.values():
        if query.id in known and known[query.id].text != query.text:
            raise InputError(
                f"{path} has judgements of {known[query.id].text!r} as query {query.id!r}, "
                f"which is {query.text!r} here",
                hint="choose another name",
            )


@contextmanager
def open_judging(items: Sequence[Pooled], path: Path | str) -> Iterator[Judging]:
    """Judge a pool into a folder, new or to be extended; a second judge of it is refused."""
    path = Path(path)
    if path.is_file():
        raise OutputError(
            f"{path} is a file: judgements go into a folder, with their queries",
            hint="choose another name, or go on from the file: tamis convert "
            f"{path} {path.stem}-judged --queries queries.txt",
        )
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent}", hint="make it first")
    with durable.locked(path):
        yield Judging(items, path)


class JudgedFolder:
    """A folder of judgements with their queries, whole at any moment: `queries.jsonl` and
    `qrels/SPLIT.tsv`, to which lines are added and taken back.

    A query is there before its first judgement. The first line of judgements comes by a rename and
    goes with the file, since an empty one judges nothing.
    """

    def __init__(self, path: Path, ids: Iterable[str]) -> None:
        """The folder as it is; `ids` are those that will have to go in."""
        if path.is_dir() and {file.name for file in path.iterdir()} - {QUERIES, QRELS}:
            raise OutputError(f"{path} is a folder of something else", hint="choose another name")
        for name in ids:
            refuse_break(name)
        self.path = path
        queries = path / QUERIES
        self.queries = read_queries(queries) if queries.exists() else Queries.of([])
        files = split_files(path)
        self.file = the_split(path)[1] if files else path / QRELS / f"{SPLIT}.tsv"
        if packing(self.file) if files else None:
            raise InputError(
                f"{self.file} is packed and cannot grow line by line", hint="unpack it"
            )
        self._drop_torn_line()
        self._sizes = [self.file.stat().st_size if files else 0]

    def _drop_torn_line(self) -> None:
        torn = torn_line(self.file, BEIR_COLUMNS) if self.file.exists() else b""
        if torn:
            with self.file.open("r+b") as file:
                file.truncate(self.file.stat().st_size - len(torn))
            _log.warning("%s: its last line was not written to its end and is dropped", self.file)

    @property
    def size(self) -> int:
        """How many bytes of judgements there are."""
        return self._sizes[-1]

    def append(self, query: Query, doc: str, grade: int) -> None:
        """Add a judgement; it is on disk when this returns, and not there at all if it raises."""
        self._expect_unchanged()
        self._add_query(query)
        row = f"{query.id}\t{doc}\t{grade}\n"
        if self.size:
            self._add(row.encode())
        else:
            self.file.parent.mkdir(exist_ok=True)
            with durable.new_file(self.file, force=True) as part:
                part.write_text(f"{BEIR_HEADER}\n{row}", "utf-8")
        self._sizes.append(self.file.stat().st_size)

    def _add_query(self, query: Query) -> None:
        if query.id in self.queries:
            return
        self.path.mkdir(exist_ok=True)
        more = Queries.of([*self.queries, query])
        write_beir_queries(more, self.path / QUERIES, Notes(), force=True)
        self.queries = more

    def _add(self, row: bytes) -> None:
        with self.file.open("r+b", buffering=0) as file:
            file.seek(-1, os.SEEK_END)
            row = row if file.read(1) == b"\n" else b"\n" + row
            try:
                if file.write(row) != len(row):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.file))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(self.size)
                raise

    def take_back(self) -> None:
        """Remove the last judgement that was appended; its query stays."""
        self._expect_unchanged()
        if self._sizes[-2] == 0:
            self.file.unlink()
        else:
            with self.file.open("r+b") as file:
                file.truncate(self._sizes[-2])
                os.fsync(file.fileno())
        self._sizes.pop()

    def _expect_unchanged(self) -> None:
        size = self.file.stat().st_size if self.file.exists() else 0
        if size != self.size:
            raise OutputError(
                f"{self.file} was changed by another program meanwhile",
                hint="this judgement is not in it; start again to go on from what is there",
            )
