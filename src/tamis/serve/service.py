"""What the routes of a service do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tamis import __version__
from tamis.serve.auth import Keys
from tamis.serve.bodies import BODIES_AT_ONCE, BodyBudget, check_counts, read_json
from tamis.serve.dialects.base import MAX_MILLISECONDS, seconds_of
from tamis.serve.dialects.embeddings import EMBEDDING_DIALECTS
from tamis.serve.dialects.tamis import parse_search, search_body
from tamis.serve.engine import Engine
from tamis.serve.errors import ClientGoneError, ForbiddenError, InvalidError
from tamis.serve.exchange import Exchange, exchange_of
from tamis.serve.jobs import Job
from tamis.serve.jobs import Request as EngineRequest
from tamis.serve.metrics import Metrics
from tamis.serve.served import CHARACTERS_PER_TOKEN
from tamis.serve.settings import ServeSettings

LATENCY_HEADER = "x-latency-ms"
"""The time a request may take, where its shape has no place for it."""


@dataclass(eq=False)
class Service:
    """An engine behind HTTP."""

    engine: Engine
    settings: ServeSettings
    keys: Keys | None
    metrics: Metrics
    parent: int | None = None
    """The process that restarts workers, if this is one."""
    is_ending: bool = False
    budget: BodyBudget = field(init=False)

    def __post_init__(self) -> None:
        self.budget = BodyBudget(BODIES_AT_ONCE * self.settings.limits.body_bytes)

    async def _read(self, request: Request, exchange: Exchange) -> dict[str, Any]:
        """The body, with no more values than may be looked at one by one."""
        limits = self.settings.limits
        body = await read_json(request.receive, exchange.headers, limits, self.budget)
        exchange.choose_dialect(body)  # whose errors these are
        check_counts(body, limits.documents)
        return body

    async def rank(self, request: Request) -> Response:
        """Rank documents, in the shape of path and body."""
        exchange = exchange_of(request.scope)
        body = await self._read(request, exchange)
        dialect = exchange.choose_dialect(body)
        parsed = dialect.parse(body)
        asked = parsed.request
        if asked.latency is None:
            asked = replace(asked, latency=latency_of(exchange))
        answer = await self._answer(asked, request.receive, exchange)
        return exchange.respond_answer(dialect.answer(answer, parsed, exchange.id), answer)

    async def search(self, request: Request) -> Response:
        """Search a sieve."""
        exchange = exchange_of(request.scope)
        body = await self._read(request, exchange)
        asked = parse_search(body)
        if asked.latency is None:
            asked = replace(asked, latency=latency_of(exchange))
        answer = await self._answer(asked, request.receive, exchange)
        return exchange.respond_answer(search_body(answer, asked, exchange.id), answer)

    async def embed(self, request: Request) -> Response:
        """Encode texts, in the shape of the path."""
        exchange = exchange_of(request.scope)
        dialect = EMBEDDING_DIALECTS[exchange.path]
        parsed = dialect.parse(await self._read(request, exchange))
        answer = await self._answer(parsed.request, request.receive, exchange)
        return exchange.respond_embeddings(dialect.answer(answer, parsed), answer)

    async def _answer(
        self, asked: EngineRequest, receive: Callable[[], Awaitable[Any]], exchange: Exchange
    ) -> Any:
        job = self.engine.submit(asked)
        answer = await wait_for(job, receive)
        self.metrics.answered(asked.method, answer, exchange.seconds)
        return answer

    async def health(self, request: Request) -> Response:
        """The process answers."""
        return exchange_of(request.scope).respond({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """What is served can be read."""
        health = await asyncio.to_thread(self.engine.health)
        is_ready = bool(health) and not self.is_ending
        is_ready = is_ready and all(each.readable for each in health.values())
        models = {
            name: {"readable": each.readable, "changed": each.changed, "message": each.message}
            for name, each in health.items()
        }
        body = {"ready": is_ready, "ending": self.is_ending, "models": models}
        return exchange_of(request.scope).respond(body, 200 if is_ready else 503)

    async def info(self, request: Request) -> Response:
        """What is served, and what a request may bring; with the keys of TEI."""
        limits, models = self.settings.limits, self.engine.facts()
        first = models[0] if models else {}
        body = {
            "model_id": first.get("name"),
            "model_dtype": first.get("dtype"),
            "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
            "max_concurrent_requests": limits.queued_requests,
            "max_input_length": first.get("max_length")
            or limits.text_characters // CHARACTERS_PER_TOKEN,
            "max_batch_tokens": limits.batch_tokens,
            "max_client_batch_size": limits.documents,
            "auto_truncate": True,
            "version": __version__,
            "dialect": self.settings.dialect,
            "max_body_bytes": limits.body_bytes,
            "max_text_characters": limits.text_characters,
            "max_queued_tokens": limits.queued_tokens,
            "models": models,
        }
        return exchange_of(request.scope).respond(body)

    async def show_metrics(self, request: Request) -> Response:
        """Metrics as Prometheus reads them."""
        text = await asyncio.to_thread(self.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def reload(self, request: Request) -> Response:
        """Open everything anew, and the keys too."""
        exchange = exchange_of(request.scope)
        if self.keys is None:
            raise ForbiddenError(
                "a reload needs a key", hint="start with --api-key-file, or SIGHUP"
            )
        if self.parent is not None:
            os.kill(self.parent, signal.SIGHUP)
            return exchange.respond({"id": exchange.id, "status": "restarting workers"}, 202)
        names = await self.take_up_anew()
        return exchange.respond({"id": exchange.id, "status": "reloaded", "models": names})

    async def take_up_anew(self) -> list[str]:
        """Open everything anew; where that fails, all stays as it is."""
        path = self.settings.api_key_file
        keys = Keys.read(path) if path else None
        names = await asyncio.to_thread(self.engine.reload)
        self.keys = keys
        return list(names)


async def wait_for(job: Job, receive: Callable[[], Awaitable[Any]]) -> Any:
    """The answer of a job, unless its client goes before: then what is not computed is dropped."""
    answer = asyncio.wrap_future(job.future)
    gone = asyncio.ensure_future(_disconnected(receive))
    either: set[asyncio.Future[Any]] = {answer, gone}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise ClientGoneError("the client has gone")
    finally:
        gone.cancel()
        if not answer.done():
            job.cancel()


async def _disconnected(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def latency_of(exchange: Exchange) -> float | None:
    """The seconds that a request's header allows it."""
    value = exchange.headers.get(LATENCY_HEADER)
    if value is None:
        return None
    try:
        milliseconds = float(value)
    except ValueError:
        milliseconds = -1.0
    if not isfinite(milliseconds) or not 0 <= milliseconds <= MAX_MILLISECONDS:
        raise InvalidError(
            f"{LATENCY_HEADER} is no number of milliseconds", hint=f"{LATENCY_HEADER}: 200",
            param=LATENCY_HEADER,
        )  # fmt: skip
    return seconds_of(milliseconds)
