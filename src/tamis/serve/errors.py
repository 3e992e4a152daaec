"""What a service refuses or fails at, each with its HTTP status and what TEI calls it.

ServiceError              500  Backend
├── MalformedError        400  Validation    the body is not JSON
├── EmptyError            400  Empty         there is nothing to rank
├── UnauthorizedError     401  Validation    no key, or a wrong one
├── ForbiddenError        403  Validation    not from there, or not without keys
├── NotFoundError         404  Validation    no such path
├── UnknownModelError     404  Validation    no such model or sieve
├── MethodError           405  Validation
├── SlowClientError       408  Validation    the body did not come in time
├── TooLargeError         413  Validation    too many bytes
├── MediaTypeError        415  Validation    not JSON, or compressed in an unknown way
├── InvalidError          422  Validation    of the wrong type, out of bounds
├── TooManyTextsError     422  Validation    more texts than a request may bring
├── ModelTypeError        422  Backend       a model that has no embeddings (TEI: 424)
├── TruncationError       422  Tokenizer     a text is too long, and truncating is not wanted
├── OverloadedError       429  Overloaded    the queue is full; when to come back
├── ClientGoneError       499  Backend       nobody waits for the answer
├── InferenceError        500  Backend       the model gave no usable score (TEI: 424)
└── UnhealthyError        503  Unhealthy     an index or a model cannot be read
"""

from __future__ import annotations

from math import ceil
from typing import Literal

from tamis.errors import TamisError

TeiType = Literal["Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"]


class ServiceError(TamisError):
    """An error with a status, a code for programs and a cause for the metrics."""

    status: int = 500
    tei_type: TeiType = "Backend"
    code: str = "internal_error"
    cause: str = "internal"
    """The label of `tamis_request_failure`, TEI's where it has one."""

    def __init__(self, message: str, *, hint: str = "", param: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.param = param

    @property
    def in_full(self) -> str:
        """Message and hint as one sentence."""
        return f"{self}; {self.hint}" if self.hint else str(self)


class MalformedError(ServiceError):
    """The body is not JSON."""

    status, tei_type, code, cause = 400, "Validation", "malformed_body", "validation"


class EmptyError(ServiceError):
    """There is nothing to rank."""

    status, tei_type, code, cause = 400, "Empty", "empty", "validation"


class UnauthorizedError(ServiceError):
    """No key, or a wrong one."""

    status, tei_type, code, cause = 401, "Validation", "unauthorized", "unauthorized"


class ForbiddenError(ServiceError):
    """Not from there, or not without keys."""

    status, tei_type, code, cause = 403, "Validation", "forbidden", "unauthorized"


class NotFoundError(ServiceError):
    """No such path."""

    status, tei_type, code, cause = 404, "Validation", "not_found", "not_found"


class UnknownModelError(ServiceError):
    """No such model or sieve, or one that cannot do this."""

    status, tei_type, code, cause = 404, "Validation", "model_not_found", "model_type"


class MethodError(ServiceError):
    """Another method is meant."""

    status, tei_type, code, cause = 405, "Validation", "method_not_allowed", "not_found"


class SlowClientError(ServiceError):
    """The body did not come in time."""

    status, tei_type, code, cause = 408, "Validation", "request_timeout", "validation"


class TooLargeError(ServiceError):
    """Too many bytes."""

    status, tei_type, code, cause = 413, "Validation", "body_too_large", "batch_size"


class MediaTypeError(ServiceError):
    """Not JSON, or compressed in an unknown way."""

    status, tei_type, code, cause = 415, "Validation", "unsupported_media_type", "validation"


class InvalidError(ServiceError):
    """A value of the wrong type or out of bounds."""

    status, tei_type, code, cause = 422, "Validation", "invalid_request", "validation"


class TooManyTextsError(ServiceError):
    """More texts than a request may bring."""

    status, tei_type, code, cause = 422, "Validation", "too_many_documents", "batch_size"


class ModelTypeError(ServiceError):
    """A model that has no embeddings was asked for some."""

    status, tei_type, code, cause = 422, "Backend", "model_type", "model_type"


class TruncationError(ServiceError):
    """A text is too long, and truncating is not wanted."""

    status, tei_type, code, cause = 422, "Tokenizer", "too_many_tokens", "tokenization"


class OverloadedError(ServiceError):
    """The queue is full."""

    status, tei_type, code, cause = 429, "Overloaded", "overloaded", "overloaded"

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, hint=f"come back in {max(1, ceil(retry_after))} s")
        self.retry_after = retry_after


class ClientGoneError(ServiceError):
    """Nobody waits for the answer."""

    status, tei_type, code, cause = 499, "Backend", "client_closed_request", "dropped"


class InferenceError(ServiceError):
    """The model gave no usable score."""

    status, tei_type, code, cause = 500, "Backend", "inference_failed", "inference"


class UnhealthyError(ServiceError):
    """An index or a model cannot be read."""

    status, tei_type, code, cause = 503, "Unhealthy", "not_ready", "unready"
