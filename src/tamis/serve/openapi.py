"""The description of the service for programs, `/openapi.json`, from the types of the dialects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from tamis import __version__
from tamis.serve.dialects import cohere, embeddings, superset, tamis, tei

ERRORS = {
    "400": "The body is not JSON, or there is nothing to rank.",
    "401": "No key, or a wrong one.",
    "403": "Not from there, or not without keys.",
    "404": "No such model or sieve.",
    "408": "The body did not come in time.",
    "413": "The body has too many bytes.",
    "415": "The body is not said to be JSON, or compressed in an unknown way.",
    "422": "A value is of the wrong type or out of bounds.",
    "424": "The model failed, or has no embeddings (TEI).",
    "429": "The queue is full; Retry-After says when to come back.",
    "500": "The model failed.",
    "503": "An index or a model cannot be read.",
}


class StatusBody(TypedDict):
    """The process answers."""

    status: str


class ModelHealthBody(TypedDict):
    """Whether one thing that is served can be read."""

    readable: bool
    changed: bool
    message: str


class ReadyBody(TypedDict):
    """Whether requests should come here."""

    ready: bool
    ending: bool
    models: dict[str, ModelHealthBody]


@dataclass(frozen=True)
class Endpoint:
    """A path, with the types of what it takes and gives."""

    path: str
    summary: str
    answer: Any
    request: Any = None
    error: Any = tamis.TamisErrorBody
    method: str = "post"


ENDPOINTS = (
    Endpoint("/api/search", "Search a sieve", tamis.AnswerBody, tamis.SearchBody),
    Endpoint("/api/rerank", "Rank documents", tamis.AnswerBody, tamis.RerankBody),
    Endpoint(
        "/rerank", "Rank as TEI (texts) or as Jina, vLLM, Infinity (documents)",
        list[tei.TeiResult] | superset.SupersetAnswer,
        tei.TeiRequest | superset.SupersetRequest,
        tei.TeiErrorBody | superset.SupersetErrorBody,
    ),
    Endpoint(
        "/v1/rerank", "Rank as Cohere v1, Jina, vLLM", superset.SupersetAnswer,
        superset.SupersetRequest, superset.SupersetErrorBody,
    ),
    Endpoint(
        "/v2/rerank", "Rank as Cohere v2", cohere.CohereAnswer, cohere.CohereRequest,
        cohere.CohereErrorBody,
    ),
    Endpoint(
        "/score", "Score as vLLM", superset.ScoreAnswer, superset.ScoreBody,
        superset.SupersetErrorBody,
    ),
    Endpoint(
        "/v1/score", "Score as vLLM", superset.ScoreAnswer, superset.ScoreBody,
        superset.SupersetErrorBody,
    ),
    Endpoint(
        "/embed", "Encode as TEI", list[list[float]], embeddings.TeiEmbedRequest, tei.TeiErrorBody
    ),
    Endpoint(
        "/similarity", "Cosines as TEI", list[float], embeddings.SimilarityRequest,
        tei.TeiErrorBody,
    ),
    Endpoint(
        "/v1/embeddings", "Encode as OpenAI", embeddings.OpenAiAnswer, embeddings.OpenAiRequest,
        superset.SupersetErrorBody,
    ),
    Endpoint("/admin/reload", "Open all models and sieves anew", dict[str, Any]),
    Endpoint("/health", "The process answers", StatusBody, method="get"),
    Endpoint("/ready", "What is served can be read", ReadyBody, method="get"),
    Endpoint("/info", "What is served", dict[str, Any], method="get"),
)  # fmt: skip


def openapi() -> dict[str, Any]:
    """The whole description."""
    inputs: list[tuple[tuple[str, str], Any, TypeAdapter[Any]]] = []
    for endpoint in ENDPOINTS:
        for role in ("request", "answer", "error"):
            if (kind := getattr(endpoint, role)) is not None:
                mode = "validation" if role == "request" else "serialization"
                inputs.append(((endpoint.path, role), mode, TypeAdapter(kind)))
    found, shared = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")
    schemas = {key: schema for (key, _), schema in found.items()}
    paths = {
        endpoint.path: {endpoint.method: _operation(endpoint, schemas)} for endpoint in ENDPOINTS
    }
    paths["/metrics"] = {"get": _metrics()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "tamis", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": shared["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    error = _json(schemas[endpoint.path, "error"])
    answers = {"200": {"description": "The answer.", **_json(schemas[endpoint.path, "answer"])}}
    failures = {status: {"description": what, **error} for status, what in ERRORS.items()}
    if endpoint.path == "/ready":
        failures["503"] = {"description": "Not ready.", **_json(schemas[endpoint.path, "answer"])}
    if endpoint.path == "/admin/reload":
        answers["202"] = {"description": "New workers take the place of the old.", **answers["200"]}
    operation = {"summary": endpoint.summary, "responses": answers | failures}
    if endpoint.request is None:
        return operation
    body = {"required": True, **_json(schemas[endpoint.path, "request"])}
    return {**operation, "requestBody": body}


def _json(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _metrics() -> dict[str, Any]:
    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    return {
        "summary": "Metrics for Prometheus",
        "responses": {"200": {"description": "Metrics.", **text}},
    }
