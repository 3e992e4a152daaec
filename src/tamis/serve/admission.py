"""Which requests are let in: whole ones, as long as they are not too many or have too many tokens.

A request that is let in is answered. One that is not is told when there will be room: when the
oldest requests have left that take up as much, from what is left to read of them and how fast that
has gone lately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter

from tamis.serve.errors import OverloadedError
from tamis.serve.observer import Observer

FIRST_PACE = 5_000.0
"""Tokens a second before anything was measured."""
WINDOW = 0.25
"""Seconds over which the pace is measured at least."""
MEMORY = 0.7
"""How much of the pace before stays when a window is over."""
MAX_RETRY_AFTER = 60.0


@dataclass(eq=False)
class Admission:
    """The requests of one model that wait or run.

    A request with more tokens than may wait is let in where nothing waits.

    >>> gate = Admission("m", max_requests=2, max_tokens=100)
    >>> with gate.admit(90):
    ...     try:
    ...         gate.enter(20)
    ...     except OverloadedError as error:
    ...         print(error, error.retry_after)  # once 90 tokens are read at 5,000 a second
    the queue of 'm' is full: 1 requests, 90 tokens 0.018
    """

    model: str
    max_requests: int
    max_tokens: int
    observer: Observer = field(default_factory=Observer)
    clock: Callable[[], float] = perf_counter
    pace: float = FIRST_PACE
    """Tokens a second, lately."""
    requests: int = 0
    tokens: int = 0
    _costs: list[int] = field(default_factory=list, repr=False)
    """Tokens of each request, the oldest first."""
    _read: int = 0
    """Tokens of them that are read."""
    _is_measured: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)
    _window_start: float = 0.0
    _window_tokens: int = 0

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Be in the queue inside the block."""
        self.enter(tokens)
        try:
            yield
        finally:
            self.leave(tokens)

    def enter(self, tokens: int) -> None:
        """Be in the queue until `leave`, or be told when to come back."""
        with self._lock:
            too_many = self.requests >= self.max_requests
            if too_many or (self.requests and self.tokens + tokens > self.max_tokens):
                raise OverloadedError(
                    f"the queue of {self.model!r} is full: {self.requests} requests, "
                    f"{self.tokens} tokens",
                    retry_after=self._retry_after(tokens),
                )
            if not self.requests:
                self._window_start, self._window_tokens = self.clock(), 0
            self.requests += 1
            self.tokens += tokens
            self._costs.append(tokens)
            self.observer.queue_size(self.model, self.requests, self.tokens)

    def progress(self, tokens: int) -> None:
        """A batch has read so many tokens of those that are in the queue."""
        with self._lock:
            self._read = min(self.tokens, self._read + tokens)
            self._measure(tokens)

    def leave(self, tokens: int, done: bool = True) -> None:
        """Leave the queue; a request that was not `done` says nothing of the pace."""
        with self._lock:
            self.requests -= 1
            self.tokens -= tokens
            self._costs.remove(tokens)
            read = min(self._read, tokens)
            self._read -= read
            self._measure(tokens - read if done else 0)
            self.observer.queue_size(self.model, self.requests, self.tokens)

    def _measure(self, tokens: int) -> None:
        self._window_tokens += tokens
        elapsed = self.clock() - self._window_start
        if elapsed < WINDOW or not self._window_tokens:
            return
        measured = self._window_tokens / elapsed
        memory = MEMORY if self._is_measured else 0.0
        self.pace = memory * self.pace + (1 - memory) * measured
        self._is_measured = True
        self._window_start, self._window_tokens = self.clock(), 0

    def _retry_after(self, tokens: int) -> float:
        """Seconds until enough of the oldest requests have left for one of so many tokens."""
        over = self.tokens + min(tokens, self.max_tokens) - self.max_tokens
        leaving = 0
        for cost in self._costs:
            leaving += cost
            if leaving >= over:
                break
        return min(MAX_RETRY_AFTER, max(1, leaving - self._read) / self.pace)


class Progress(Observer):
    """Tells the queue of a model what its batches have read, and passes everything on."""

    def __init__(self, admission: Admission) -> None:
        """The queue's own observer listens behind it."""
        self.admission, self.inner = admission, admission.observer

    def queue_size(self, model: str, requests: int, tokens: int) -> None:
        """See `Observer`."""
        self.inner.queue_size(model, requests, tokens)

    def batch(self, model: str, pairs: int, tokens: int, seconds: float) -> None:
        """See `Observer`."""
        self.admission.progress(tokens)
        self.inner.batch(model, pairs, tokens, seconds)

    def dropped(self, model: str) -> None:
        """See `Observer`."""
        self.inner.dropped(model)
