"""One request on its way through the engine."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import Any

from tamis.errors import InputError, TamisError
from tamis.serve.batcher import Scored
from tamis.serve.errors import (
    ClientGoneError,
    InferenceError,
    InvalidError,
    ServiceError,
    UnhealthyError,
)
from tamis.serve.requests import (
    EmbedAnswer,
    EmbedRequest,
    RankAnswer,
    RankRequest,
    SearchRequest,
    Times,
)

Request = RankRequest | SearchRequest | EmbedRequest


@dataclass(eq=False)
class Job:
    """A request that was let in, and its answer once there is one."""

    request: Request
    model: str
    latency: float | None = None
    """Seconds it may take, counted from `start`."""
    start: float = field(default_factory=perf_counter)
    future: Future[Any] = field(default_factory=Future)
    """A `RankAnswer`, or an `EmbedAnswer` to an `EmbedRequest`."""
    times: Times = field(default_factory=Times)
    tokens: int = 0
    """Tokens that a model read for it."""
    out_of_time: bool = False
    """Whether its time was up before all pairs were scored."""
    _parts: list[Future[Any]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def deadline(self) -> float | None:
        """When its time is up, by `perf_counter`."""
        return None if self.latency is None else self.start + self.latency

    @property
    def is_over(self) -> bool:
        """Whether its time is up."""
        return self.deadline is not None and perf_counter() >= self.deadline

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer."""
        return self.future.cancelled()

    def cancel(self) -> None:
        """Nobody waits for the answer: what is not computed yet is dropped."""
        self.future.cancel()
        with self._lock:
            parts = list(self._parts)
        for part in parts:
            part.cancel()

    def own(self, part: Future[Scored]) -> Future[Scored]:
        """Cancel this work with the request."""
        with self._lock:
            self._parts.append(part)
        if self.is_cancelled:
            part.cancel()
        return part

    def note(self, scored: Scored) -> None:
        """Count what was scored for it."""
        self.tokens += scored.tokens
        self.out_of_time |= scored.count < len(scored.values)
        self.times.queue += scored.queue_seconds
        self.times.inference += scored.inference_seconds

    def check(self) -> None:
        """Stop here if nobody waits for the answer."""
        if self.is_cancelled:
            raise ClientGoneError("the client has gone")

    def succeed(self, answer: RankAnswer | EmbedAnswer) -> None:
        """Hand out the answer."""
        self.times.total = perf_counter() - self.start
        try:
            self.future.set_result(answer)
        except InvalidStateError:
            return

    def fail(self, error: BaseException) -> None:
        """Hand out an error, as one that a client may see."""
        try:
            self.future.set_exception(as_service_error(error))
        except InvalidStateError:
            return


def as_service_error(error: BaseException) -> ServiceError:
    """The error as one with a status; what nobody foresaw says nothing of what is inside.

    >>> as_service_error(InputError("no field 'x'", hint="fields: y")).status
    422
    >>> as_service_error(KeyError("secret")).in_full
    'the service failed; see its log'
    """
    match error:
        case ServiceError():
            return error
        case InputError():
            found: ServiceError = InvalidError(str(error), hint=error.hint)
        case TamisError() | OSError():
            found = UnhealthyError("an index or a model cannot be read", hint="see /ready")
        case MemoryError():
            found = InferenceError("there is not enough memory", hint="send less at once")
        case _:
            found = ServiceError("the service failed", hint="see its log")
    found.__cause__ = error
    return found
