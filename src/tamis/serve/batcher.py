"""Pairs of several requests scored together, in the order in which the requests came.

One thread runs a model. It takes pairs from the requests that wait, oldest first, until a budget of
tokens is full; how fast it has been lately says how many fit before a deadline. A request whose
client has gone is dropped before the next batch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from tamis.scorers.tokenized import TokenizedPairs, TokenScorer
from tamis.serve.errors import InferenceError, UnhealthyError
from tamis.serve.observer import Observer

FIRST_PACE = 5_000.0
"""Tokens a second before the first batch."""
MEMORY = 0.8
"""How much of the pace before stays after a batch."""
CAUTION = 0.8
"""The share of the time left before a deadline that a batch is planned to take."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Scored:
    """What a request's first pairs scored; NaN where the time did not suffice."""

    values: NDArray[np.float32]
    count: int
    """How many were scored."""
    truncated_tokens: NDArray[np.int32]
    tokens: int
    """Tokens that were read."""
    queue_seconds: float
    """From being handed in to the first batch."""
    inference_seconds: float
    """Time of the batches that its pairs were in."""


@dataclass(eq=False)
class Work:
    """The pairs of one request."""

    pairs: TokenizedPairs
    deadline: float | None
    """By `perf_counter`."""
    future: Future[Scored] = field(default_factory=Future)
    submitted: float = field(default_factory=perf_counter)
    started: float | None = None
    inference_seconds: float = 0.0
    next: int = 0
    """The first pair that was not scored."""

    def __post_init__(self) -> None:
        self.values = np.full(len(self.pairs), np.nan, np.float32)
        self.ends = np.cumsum(self.pairs.lengths)

    def count_within(self, tokens: float) -> int:
        """How many of the next pairs have so many tokens at most."""
        before = int(self.ends[self.next - 1]) if self.next else 0
        return int(np.searchsorted(self.ends, before + tokens, side="right")) - self.next

    def tokens_of(self, count: int) -> int:
        """How many tokens the next pairs have."""
        before = int(self.ends[self.next - 1]) if self.next else 0
        return int(self.ends[self.next + count - 1]) - before

    def tokens_in_time(self, pace: float) -> float:
        """How many tokens can be read before the deadline."""
        if self.deadline is None:
            return np.inf
        return max(0.0, (self.deadline - perf_counter()) * pace * CAUTION)

    def is_over(self, pace: float) -> bool:
        """Whether it is scored, or there is no time for more."""
        if self.next >= len(self.pairs):
            return True
        left = self.tokens_in_time(pace)
        return not left or (self.next > 0 and not self.count_within(left))

    def finish(self) -> None:
        """Hand out what is scored."""
        start = self.started if self.started is not None else perf_counter()
        tokens = int(self.ends[self.next - 1]) if self.next else 0
        scored = Scored(
            self.values, self.next, self.pairs.truncated_tokens, tokens, start - self.submitted,
            self.inference_seconds,
        )  # fmt: skip
        try:
            self.future.set_result(scored)
        except InvalidStateError:  # it was cancelled meanwhile
            return

    def fail(self, error: Exception) -> None:
        """Hand out an error."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            return


Part = tuple[Work, int, int]
"""Pairs from one number to another of one request."""


class Batcher:
    """A model and the thread that runs it."""

    def __init__(
        self, scorer: TokenScorer, budget: int, name: str = "", observer: Observer | None = None
    ) -> None:
        """Starts the thread; `close` ends it."""
        self.scorer, self.budget, self.name = scorer, budget, name
        self.observer = observer or Observer()
        self.pace = FIRST_PACE
        self._queue: deque[Work] = deque()
        self._condition = Condition()
        self._is_closed = False
        self._thread = Thread(target=self._run, name=f"tamis-batches-{name}", daemon=True)
        self._thread.start()

    def submit(self, pairs: TokenizedPairs, deadline: float | None = None) -> Future[Scored]:
        """Score pairs with whatever else waits; cancel the future if nobody wants it any more."""
        work = Work(pairs, deadline)
        if not len(pairs):
            work.finish()
            return work.future
        with self._condition:
            if self._is_closed:
                raise UnhealthyError(f"{self.name} is closed", hint="ask again")
            self._queue.append(work)
            self._condition.notify()
        return work.future

    def close(self) -> None:
        """Score what waits, then end the thread."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._queue and not self._is_closed:
                    self._condition.wait()
                if not self._queue:
                    return
                parts = self._take()
            if parts:
                self._score(parts)

    def _take(self) -> list[Part]:
        """The next batch; what is over or gone leaves the queue."""
        waiting = deque[Work]()
        for work in self._queue:
            if work.future.cancelled():
                self.observer.dropped(self.name)
            elif work.is_over(self.pace):
                work.finish()
            else:
                waiting.append(work)
        self._queue = waiting
        return fill(waiting, self.budget, self.pace)

    def _score(self, parts: Sequence[Part]) -> None:
        start = perf_counter()
        for work, _, _ in parts:
            work.started = work.started or start
        items = [item for work, first, end in parts for item in work.pairs.items[first:end]]
        lengths = [work.pairs.lengths[first:end] for work, first, end in parts]
        tokens = int(np.concatenate(lengths).sum())
        try:
            values = self.scorer.score_tokenized(items)
        except Exception as error:  # whatever a model raises ends these requests, not the thread
            _log.exception("%s: a batch of %d pairs failed", self.name, len(items))
            self._fail(parts, error)
            return
        seconds = perf_counter() - start
        self.pace = MEMORY * self.pace + (1 - MEMORY) * tokens / max(seconds, 1e-6)
        self.observer.batch(self.name, len(items), tokens, seconds)
        self._hand_out(parts, values, seconds)

    def _fail(self, parts: Sequence[Part], cause: Exception) -> None:
        failed = {id(work) for work, _, _ in parts}
        for work, _, _ in parts:
            error = InferenceError("the model failed", hint="see the log of the service")
            error.__cause__ = cause
            work.fail(error)
        with self._condition:
            self._queue = deque(work for work in self._queue if id(work) not in failed)

    def _hand_out(self, parts: Sequence[Part], values: NDArray[np.float32], seconds: float) -> None:
        place = 0
        for work, first, end in parts:
            work.values[first:end] = values[place : place + end - first]
            work.next, place = end, place + end - first
            work.inference_seconds += seconds
            if work.next == len(work.pairs):
                work.finish()


def fill(waiting: Iterable[Work], budget: int, pace: float) -> list[Part]:
    """The pairs of the next batch, oldest request first.

    A batch with a request that has a deadline is no longer than that allows. One pair is taken in
    any case.
    """
    parts: list[Part] = []
    taken, room = 0, float(budget)
    for work in waiting:
        limit = min(room, work.tokens_in_time(pace))
        count = work.count_within(limit - taken) if limit > taken else 0
        if not count and not parts:
            count = 1
        if count:
            parts.append((work, work.next, work.next + count))
            taken += work.tokens_of(count)
            room = limit
        elif work.deadline is None:
            break
    return parts
