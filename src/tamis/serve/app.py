"""The application: paths, their methods, and the gate before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from tamis import __version__
from tamis.serve.dialects.embeddings import EMBEDDING_DIALECTS
from tamis.serve.errors import MethodError, NotFoundError, ServiceError
from tamis.serve.exchange import exchange_of
from tamis.serve.gate import Gate, Guard
from tamis.serve.openapi import openapi
from tamis.serve.service import Service

EXPOSED_HEADERS = (
    "X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Total-Time", "X-Tamis-Depth",
    "X-Tamis-Reranked", "X-Tamis-Truncated-Tokens",
)  # fmt: skip
"""What a page of another origin may read of an answer."""
PROBED_PATHS = ("/health", "/ready")
"""What load balancers ask by HEAD, too."""
Handler = Callable[[Request], Awaitable[Response]]


def create_app(service: Service) -> FastAPI:
    """The application of a service."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.engine.close)

    app = FastAPI(
        title="tamis", version=__version__, lifespan=lifespan, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    for path, method, handler in routes(service):
        methods = [method, "HEAD"] if path in PROBED_PATHS else [method]
        app.add_api_route(path, handler, methods=methods, response_model=None)
    app.add_exception_handler(HTTPException, partial(_routing_error, service))
    app.add_middleware(Guard, service=service)  # what is added last is outermost
    if service.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "X-API-Key",
                "X-Latency-Ms",
                "X-Request-Id",
            ],
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(Gate, service=service)
    schema: dict[str, Any] = {}

    def cached_openapi() -> dict[str, Any]:
        schema.update(schema or openapi())
        return schema

    app.openapi = cached_openapi  # type: ignore[method-assign]
    return app


def routes(service: Service) -> list[tuple[str, str, Handler]]:
    """Every path with its method and what answers it."""
    ranks = ("/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score", "/api/rerank")
    return [
        *((path, "POST", service.rank) for path in ranks),
        *((path, "POST", service.embed) for path in EMBEDDING_DIALECTS),
        ("/api/search", "POST", service.search),
        ("/admin/reload", "POST", service.reload),
        ("/health", "GET", service.health),
        ("/ready", "GET", service.ready),
        ("/info", "GET", service.info),
        ("/metrics", "GET", service.show_metrics),
    ]


async def _routing_error(service: Service, request: Request, cause: Exception) -> Response:
    """A path or a method that is not there, in the shape of the path."""
    assert isinstance(cause, HTTPException)
    exchange = exchange_of(request.scope)
    if cause.status_code == 404:
        error: ServiceError = NotFoundError("there is no such path", hint="see /docs")
    elif cause.status_code == 405:
        error = MethodError("this path takes another method", hint="see /docs")
    else:
        raise cause
    service.metrics.failed(error)
    response = exchange.respond_error(error)
    response.headers.update(cause.headers or {})
    return response
