"""What every request passes: its id and the log, then the key, the metrics, errors made answers.

The headers of CORS are added between the two, so that a page can read errors, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tamis.serve.auth import check_key
from tamis.serve.errors import ServiceError
from tamis.serve.exchange import Exchange, exchange_of
from tamis.serve.jobs import as_service_error
from tamis.serve.logs import REQUESTS
from tamis.serve.service import Service

OPEN_PATHS = ("/health", "/ready", "/docs", "/docs/oauth2-redirect", "/openapi.json")
"""What needs no key."""
QUIET_PATHS = ("/health", "/ready", "/metrics")
"""What is asked every few seconds and logged only where it fails."""
METHODS: Mapping[str, str] = {
    "/rerank": "rerank",
    "/v1/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/api/rerank": "rerank",
    "/score": "score",
    "/v1/score": "score",
    "/api/search": "search",
    "/embed": "embed",
    "/v1/embeddings": "embed",
    "/similarity": "similarity",
}
"""What the metrics count requests to a path as."""
_log = logging.getLogger(__name__)


class Gate:
    """Middleware around everything: gives a request its id, and logs it."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        exchange = Exchange(scope["path"], scope["method"], headers, self.service.settings.dialect)
        scope["tamis.exchange"] = exchange
        sent = _Sender(send, exchange, self.service)
        try:
            await self.app(scope, receive, sent)
        finally:
            self._log(exchange, sent.status)

    def _log(self, exchange: Exchange, status: int | None) -> None:
        if exchange.path in QUIET_PATHS and status == 200:
            return
        facts = {
            "id": exchange.id,
            "method": exchange.method,
            "path": exchange.path[:200],
            "status": status,
            "ms": round(exchange.seconds * 1000, 3),
            "dialect": exchange.dialect,
            **exchange.facts,
        }
        REQUESTS.info("request", extra={"facts": facts})


class Guard:
    """Middleware around the routes: checks the key, counts, and makes errors answers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange, is_answered = exchange_of(scope), False

        async def noted_send(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        if method := METHODS.get(exchange.path):
            self.service.metrics.requests.labels(method).inc()
        try:
            if exchange.path not in OPEN_PATHS:
                check_key(self.service.keys, exchange.headers, self.service.settings.host)
            await self.app(scope, receive, noted_send)
        except Exception as cause:  # nothing may reach a client as a traceback
            error = self._noted(cause, exchange)
            if is_answered:
                raise
            await exchange.respond_error(error)(scope, receive, send)

    def _noted(self, cause: Exception, exchange: Exchange) -> ServiceError:
        """The error for the client, counted and, if it is ours, logged."""
        error = as_service_error(cause)
        if type(error) is ServiceError or error.status >= 500:
            _log.error("request failed", exc_info=cause, extra={"facts": {"id": exchange.id}})
        self.service.metrics.failed(error)
        return error


class _Sender:
    """Sends, with the request's id, and what closes the connection if the service is ending;
    remembers the status.
    """

    def __init__(self, send: Send, exchange: Exchange, service: Service) -> None:
        self._send, self._exchange, self._service = send, exchange, service
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", [])]
            headers.append((b"x-request-id", self._exchange.id.encode("ascii")))
            if self._service.is_ending:
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        await self._send(message)
