"""A scorer that asks a service: `POST /v2/rerank`, as Cohere, Jina and others answer it.

A request is `{"model", "query", "documents", "top_n"}`, the answer
`{"results": [{"index", "relevance_score"}]}`. A service does not say what it truncates, so no token
is counted as truncated. What its scores mean is not known either: their scale is `regression`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.types import Pairs, Scores
from tamis.types.pipeline import Scale

RETRY_STATUS_CODES = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_PAUSE_SECONDS = 60.0
MAX_MESSAGE_CHARS = 200

Batch = tuple[int, NDArray[np.int64]]
"""The number of a query, and the places of the pairs that are asked for with it."""


@dataclass(frozen=True)
class RerankService:
    """Scores by asking the service at `url`, which is the whole address.

    A request is tried again, after 1, 2, 4 … seconds or as long as the service asks for, where it
    is too busy, fails or does not answer; after `tries` that is an error. `key` goes along as a
    bearer token and is never shown. `threads` is how many requests are under way at once.

    >>> RerankService("http://localhost:8000/v2/rerank", "my-model", key="secret")
    RerankService(url='http://localhost:8000/v2/rerank', model='my-model')
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    documents: int = field(default=100, repr=False)
    """How many documents a request has at most."""
    threads: int = field(default=1, repr=False)
    timeout: float = field(default=60.0, repr=False)
    tries: int = field(default=6, repr=False)
    pause: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)
    scale: Scale = field(default="regression", repr=False)

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise InputError(
                f"{self.url!r} is no address of a service",
                hint="give it whole: https://HOST/v2/rerank",
            )
        if address.username or address.password:
            raise InputError(
                "the address of the service has a name or password in it",
                hint="give the key apart from it",
            )

    @property
    def identity(self) -> str:
        """What scores are kept under: that the service changes its model cannot be seen."""
        return f"{self.url} {self.model}"

    def score(self, pairs: Pairs) -> Scores:
        """One value per pair."""
        values = np.empty(len(pairs), np.float32)
        batches = list(self._batches(pairs))

        def ask(batch: Batch) -> NDArray[np.float32]:
            query, places = batch
            texts = [pairs.texts[number] for number in pairs.index[places, 1].tolist()]
            return self._ask(pairs.queries[query], texts)

        with ThreadPoolExecutor(self.threads) as pool:
            for (_, places), scores in zip(batches, pool.map(ask, batches), strict=True):
                values[places] = scores
        return Scores(values, np.zeros(len(pairs), np.int32))

    def _batches(self, pairs: Pairs) -> Iterator[Batch]:
        """Pairs of one query, as many as a request may have."""
        for query in np.unique(pairs.index[:, 0]).tolist():
            places = np.flatnonzero(pairs.index[:, 0] == query)
            for start in range(0, len(places), self.documents):
                yield query, places[start : start + self.documents]

    def _ask(self, query: str, texts: list[str]) -> NDArray[np.float32]:
        body = {"model": self.model, "query": query, "documents": texts, "top_n": len(texts)}
        for attempt in range(1, self.tries + 1):
            try:
                return scores_of(self._post(json.dumps(body).encode()), len(texts), self.url)
            except _TemporaryError as problem:
                if attempt == self.tries:
                    raise InputError(
                        f"{problem}, after {attempt} tries",
                        hint="try later: the same command goes on where this one stopped",
                    ) from None
                self.pause(min(problem.seconds or 2.0 ** (attempt - 1), MAX_PAUSE_SECONDS))
        raise InputError("a service is asked once at least", hint="give one try or more")

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = Request(self.url, body, headers, method="POST")
        if self.key:
            request.add_unredirected_header("Authorization", f"Bearer {self.key}")
        try:
            with build_opener(_NoRedirects).open(request, timeout=self.timeout) as answer:
                raw: bytes = answer.read()
                return raw
        except HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                raise InputError(
                    f"nothing answers at {self.url}", hint="is the service running?"
                ) from None
            raise _TemporaryError(f"{self.url} cannot be reached: {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise _TemporaryError(f"{self.url} broke off: {type(error).__name__}") from None

    def _refusal(self, error: HTTPError) -> Exception:
        """What an answer other than 200 means."""
        message = error.read(4 * MAX_MESSAGE_CHARS).decode("utf-8", "replace")
        message = " ".join((message.replace(self.key, "…") if self.key else message).split())[
            :MAX_MESSAGE_CHARS
        ]
        problem = f"{self.url} answers {error.code}" + (f": {message}" if message else "")
        if error.code in RETRY_STATUS_CODES:
            return _TemporaryError(problem, _seconds(error.headers.get("Retry-After")))
        if 300 <= error.code < 400:
            hint = (
                f"the service is elsewhere now: {error.headers.get('Location', 'it does not say')}"
            )
            return InputError(problem, hint=hint)
        return InputError(problem, hint=_HINTS.get(error.code, "see what the service asks for"))


_HINTS = {
    400: "does the service know this model and take so many documents per request?",
    401: "the service wants a key: name the variable of the environment that holds it",
    403: "the service does not take this key",
    404: "is the address whole? it ends in /v2/rerank as a rule",
    405: "is the address whole? it ends in /v2/rerank as a rule",
    413: "the service takes fewer documents per request",
    422: "does the service know this model and take so many documents per request?",
}


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirection: a request to elsewhere would lose its body, or give away its key."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _TemporaryError(Exception):
    """A request that may do better later."""

    def __init__(self, problem: str, seconds: float = 0.0) -> None:
        super().__init__(problem)
        self.seconds = seconds


def _seconds(text: str | None) -> float:
    """How long to wait; nothing where that is not said in seconds."""
    return float(text) if text and text.strip().isdecimal() else 0.0


def scores_of(raw: bytes, count: int, url: str) -> NDArray[np.float32]:
    """The scores in an answer, in the order in which the documents were sent.

    >>> scores_of(b'{"results": [{"index": 0, "relevance_score": 0.5}]}', 1, "http://localhost")
    array([0.5], dtype=float32)
    """
    try:
        score_of = {
            result["index"]: result["relevance_score"] for result in json.loads(raw)["results"]
        }
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{url} answers something else than scores",
            hint='expected: {"results": [{"index": 0, "relevance_score": 0.5}, …]}',
        ) from None
    if score_of.keys() != set(range(count)):
        raise InputError(
            f"{url} answers with the scores of {len(score_of)} documents to a request of {count}",
            hint="the service must score every document it is sent",
        )
    values = [score_of[number] for number in range(count)]
    if not all(_is_score(value) for value in values):
        raise InputError(
            f"{url} answers with a score that is no number", hint="is the service in order?"
        )
    return np.array(values, np.float32)


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
