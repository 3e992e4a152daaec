"""One request and its answer over HTTP: its id, its shape, what is logged and counted of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import Any
from uuid import uuid4

import orjson
from starlette.responses import Response
from starlette.types import Scope

from tamis.serve.dialects.base import Dialect
from tamis.serve.dialects.cohere import Cohere
from tamis.serve.dialects.superset import Score, Superset
from tamis.serve.dialects.tamis import Tamis
from tamis.serve.dialects.tei import Tei
from tamis.serve.errors import OverloadedError, ServiceError
from tamis.serve.requests import EmbedAnswer, RankAnswer
from tamis.serve.settings import DialectName

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (Tei(), Cohere(), Superset(), Score(), Tamis())
}
DEFAULT_DIALECTS = {
    "/rerank": "superset",
    "/v1/rerank": "superset",
    "/v2/rerank": "cohere",
    "/score": "score",
    "/v1/score": "score",
    "/embed": "tei",
    "/similarity": "tei",
    "/v1/embeddings": "superset",
}
"""Of a path, of its errors alone where it gives embeddings; any other speaks tamis."""
FORCED_PATHS = ("/rerank", "/v1/rerank", "/v2/rerank")
"""Where --dialect applies."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass
class Exchange:
    """A request on its way; kept in the scope of ASGI."""

    path: str
    method: str
    headers: Mapping[str, str]
    forced: DialectName = "auto"
    id: str = ""
    start: float = field(default_factory=perf_counter)
    dialect: str = "tamis"
    facts: dict[str, Any] = field(default_factory=dict)
    """What is logged of it."""

    def __post_init__(self) -> None:
        wish = self.headers.get("x-request-id", "")
        self.id = wish if REQUEST_ID.fullmatch(wish) else uuid4().hex
        self.dialect = DEFAULT_DIALECTS.get(self.path, "tamis")
        if self.forced != "auto" and self.path in FORCED_PATHS:
            self.dialect = self.forced

    def choose_dialect(self, body: Mapping[str, Any]) -> Dialect:
        """The dialect of a body: `texts` without `documents` are TEI's."""
        is_tei = self.path == "/rerank" and "texts" in body and "documents" not in body
        if is_tei and self.forced == "auto":
            self.dialect = "tei"
        return DIALECTS[self.dialect]

    @property
    def seconds(self) -> float:
        """Since it came."""
        return perf_counter() - self.start

    def respond(self, body: Any, status: int = 200, **headers: str) -> Response:
        """A body as JSON."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(content, status, named, media_type="application/json")

    def respond_error(self, error: ServiceError) -> Response:
        """An error in the shape of the request."""
        status, body = DIALECTS[self.dialect].error(error, self.id)
        self.facts["error"] = error.code
        headers: dict[str, str] = {}
        if isinstance(error, OverloadedError):
            headers["retry_after"] = str(max(1, ceil(error.retry_after)))
            headers["retry_after_ms"] = str(max(1, ceil(error.retry_after * 1000)))
        if status == 401:
            headers["www_authenticate"] = "Bearer"
        if status in (408, 413):
            headers["connection"] = "close"
        return self.respond(body, status, **headers)

    def respond_answer(self, body: Any, answer: RankAnswer) -> Response:
        """An answer, with the headers of TEI and what its shape has no place for."""
        times = answer.times
        self.facts.update(
            model=answer.model, documents=answer.candidates, tokens=answer.tokens,
            depth=answer.depth, truncated_tokens=answer.truncated_tokens,
            queue_ms=_ms(times.queue), inference_ms=_ms(times.inference),
        )  # fmt: skip
        return self.respond(
            body,
            200,
            x_tamis_reranked=str(answer.reranked).lower(),
            x_tamis_depth=str(answer.depth or 0),
            **_read_headers(answer),
        )

    def respond_embeddings(self, body: Any, answer: EmbedAnswer) -> Response:
        """Embeddings, or what was made of them, with the headers of TEI."""
        self.facts.update(
            model=answer.model, texts=len(answer.embeddings), tokens=answer.tokens,
            truncated_tokens=answer.truncated_tokens,
            queue_ms=_ms(answer.times.queue), inference_ms=_ms(answer.times.inference),
        )  # fmt: skip
        return self.respond(body, 200, **_read_headers(answer))


def _read_headers(answer: RankAnswer | EmbedAnswer) -> dict[str, str]:
    """What a model read, and in what time."""
    times = answer.times
    return {
        "x_total_time": _whole_ms(times.total),
        "x_queue_time": _whole_ms(times.queue),
        "x_tokenization_time": _whole_ms(times.tokenization),
        "x_inference_time": _whole_ms(times.inference),
        "x_compute_tokens": str(answer.tokens),
        "x_tamis_truncated_tokens": str(answer.truncated_tokens),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _whole_ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def exchange_of(scope: Scope) -> Exchange:
    """The exchange that `Gate` put into a scope."""
    exchange: Exchange = scope["tamis.exchange"]
    return exchange
