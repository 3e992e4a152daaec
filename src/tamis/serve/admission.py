"""Which requests are let in: whole ones, as long as they are not too many or have too many tokens.

A request that is let in is answered. One that is not is told when there will be room, from how
much waits and how fast it has been done lately.
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
    ...         print(error, error.retry_after)  # 10 tokens too many at 5,000 a second
    the queue of 'm' is full: 1 requests, 90 tokens 0.002
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
            self.observer.queue_size(self.model, self.requests, self.tokens)

    def leave(self, tokens: int, done: bool = True) -> None:
        """Leave the queue; a request that was not `done` says nothing of the pace."""
        with self._lock:
            self.requests -= 1
            self.tokens -= tokens
            self._window_tokens += tokens if done else 0
            elapsed = self.clock() - self._window_start
            if elapsed >= WINDOW and self._window_tokens:
                measured = self._window_tokens / elapsed
                self.pace = MEMORY * self.pace + (1 - MEMORY) * measured
                self._window_start, self._window_tokens = self.clock(), 0
            self.observer.queue_size(self.model, self.requests, self.tokens)

    def _retry_after(self, tokens: int) -> float:
        """Seconds until a request of so many tokens has room."""
        over = max(0, self.tokens + min(tokens, self.max_tokens) - self.max_tokens)
        if self.requests >= self.max_requests:
            over = max(over, self.tokens // max(1, self.requests))
        return min(MAX_RETRY_AFTER, max(1, over) / self.pace)
