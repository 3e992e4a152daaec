"""One shape that serves the clients of Cohere v1, Jina, vLLM, Infinity, Voyage and others.

They differ in names: any of them is taken, and answers and errors have those of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import time
from typing import Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from tamis.serve.dialects.base import (
    MAX_MILLISECONDS,
    Documents,
    Parsed,
    ShownItem,
    StrictBody,
    Texts,
    as_documents,
    own_id,
    read_body,
    seconds_of,
    shown_items,
    unused_keys,
    warnings_of,
)
from tamis.serve.dialects.cohere import document_object
from tamis.serve.errors import InvalidError, ServiceError
from tamis.serve.requests import RankAnswer, RankRequest

SPELLINGS = {
    "documents": ("documents", "texts", "input", "passages", "items"),
    "top_n": ("top_n", "top_k"),
    "return_documents": ("return_documents", "return_text", "return_input"),
}
"""What clients call the same thing; the first that is there counts."""
UNUSED_KEYS = ("truncate_prompt_tokens",)
"""Of vLLM: a warning says so."""


class SupersetRequest(StrictBody):
    """`POST /rerank` and `/v1/rerank`; `documents` may also be called texts, input, passages or
    items, `top_n` top_k, and `return_documents` return_text or return_input.
    """

    query: str
    documents: Documents
    model: str | None = None
    top_n: int | None = Field(None, ge=0, description="0 or null: all")
    return_documents: bool | None = Field(None, description="true: every result has its document")
    rank_fields: Texts | None = Field(
        None, description="the fields of objects that are ranked by; default: title and text"
    )
    max_tokens_per_doc: int | None = Field(None, ge=1)
    raw_scores: bool | None = Field(None, description="true: `score` is the model's own")
    use_activation: bool | None = Field(None, description="false: the same as raw_scores")
    truncate: bool | None = Field(None, description="false: refuse what does not fit")
    latency_ms: float | None = Field(
        None, ge=0, le=MAX_MILLISECONDS, description="re-rank as deep as this allows"
    )


class SupersetResult(TypedDict):
    """A document in the answer."""

    index: int
    relevance_score: float
    score: float
    id: NotRequired[str | int]
    document: NotRequired[dict[str, Any]]


class Usage(TypedDict):
    """Tokens that a model read."""

    prompt_tokens: int
    total_tokens: int


class SupersetMeta(TypedDict):
    """What there is to know of an answer."""

    api_version: dict[str, str]
    tokens: dict[str, int]
    reranked: bool
    depth: int | None
    truncated_tokens: int
    warnings: NotRequired[list[str]]


class SupersetAnswer(TypedDict):
    """The answer."""

    id: str
    object: str
    created: int
    model: str
    results: list[SupersetResult]
    meta: SupersetMeta
    usage: Usage


class ErrorObject(TypedDict):
    """An error as OpenAI, vLLM and Infinity have it."""

    message: str
    type: str
    param: str | None
    code: str


class SupersetErrorBody(TypedDict):
    """An error in the fields of all."""

    id: str
    message: str
    detail: str
    hint: str
    error: ErrorObject


class Superset:
    """See `Dialect`."""

    name = "superset"

    def parse(self, body: Mapping[str, Any]) -> Parsed:
        """See `Dialect.parse`."""
        named = with_one_spelling(body)
        read = read_body(SupersetRequest, named)
        request = RankRequest(
            (read.query,),
            as_documents(read.documents, read.rank_fields),
            read.model,
            top=read.top_n or None,
            latency=seconds_of(read.latency_ms),
            document_tokens=read.max_tokens_per_doc,
            truncate=read.truncate is not False,
        )
        return Parsed(
            request, named["documents"], bool(read.return_documents),
            read.use_activation is False or bool(read.raw_scores),
            unused_keys(body, *UNUSED_KEYS),
        )  # fmt: skip

    def answer(self, answer: RankAnswer, parsed: Parsed, request_id: str) -> SupersetAnswer:
        """See `Dialect.answer`."""
        return {
            "id": request_id,
            "object": "rerank",
            "created": int(time()),
            "model": answer.model,
            "results": [superset_result(shown, parsed) for shown in shown_items(answer, parsed)],
            "meta": superset_meta(answer, parsed),
            "usage": usage(answer),
        }

    def error(self, error: ServiceError, request_id: str) -> tuple[int, dict[str, Any]]:
        """See `Dialect.error`."""
        body: SupersetErrorBody = {
            "id": request_id,
            "message": error.in_full,
            "detail": error.in_full,
            "hint": error.hint,
            "error": {
                "message": error.in_full,
                "type": error_type(error.status),
                "param": error.param,
                "code": error.code,
            },
        }
        return error.status, {**body}


def with_one_spelling(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same body with the names that are used here.

    >>> with_one_spelling({"query": "q", "passages": ["a"], "top_k": 2})
    {'query': 'q', 'documents': ['a'], 'top_n': 2}
    """
    others = {name for names in SPELLINGS.values() for name in names}
    named = {key: value for key, value in body.items() if key not in others}
    for name, spellings in SPELLINGS.items():
        there = [body[each] for each in spellings if body.get(each) is not None]
        if there:
            named[name] = there[0]
    return named


def superset_result(shown: ShownItem, parsed: Parsed) -> SupersetResult:
    """One document of an answer."""
    result: SupersetResult = {
        "index": shown.index, "relevance_score": shown.relevance, "score": shown.score,
    }  # fmt: skip
    document = parsed.documents[shown.index]
    if (name := own_id(document)) is not None:
        result["id"] = name
    if parsed.return_documents:
        result["document"] = document_object(document)
    return result


def superset_meta(answer: RankAnswer, parsed: Parsed) -> SupersetMeta:
    """What there is to know of an answer."""
    meta: SupersetMeta = {
        "api_version": {"version": "1"},
        "tokens": {"input_tokens": answer.tokens},
        "reranked": answer.reranked,
        "depth": answer.depth,
        "truncated_tokens": answer.truncated_tokens,
    }
    if warnings := warnings_of(answer, parsed):
        meta["warnings"] = warnings
    return meta


def usage(answer: RankAnswer) -> Usage:
    """Tokens that a model read."""
    return {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}


def error_type(status: int) -> str:
    """What OpenAI calls an error of this status.

    >>> error_type(401), error_type(422)
    ('authentication_error', 'invalid_request_error')
    """
    names = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    if status in names:
        return names[status]
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


class ScoreBody(StrictBody):
    """`POST /score` of vLLM: one query for all documents, or one for each. `text_1` or `data_1`
    may stand for `queries`, and `text_2`, `data_2` or `items` for `documents`.
    """

    queries: str | Texts
    documents: str | Documents
    model: str | None = None
    use_activation: bool | None = Field(None, description="false: the model's own score")
    raw_scores: bool | None = None
    max_tokens_per_doc: int | None = Field(None, ge=1)
    latency_ms: float | None = Field(None, ge=0, le=MAX_MILLISECONDS)


class ScoreDatum(TypedDict):
    """The score of a pair."""

    index: int
    object: Literal["score"]
    score: float


class ScoreAnswer(TypedDict):
    """The answer of `/score`: `data` in the order of the request, `results` best first."""

    id: str
    object: str
    created: int
    model: str
    data: list[ScoreDatum]
    results: NotRequired[list[SupersetResult]]
    meta: SupersetMeta
    usage: Usage


class Score(Superset):
    """`/score`, see `Dialect`; its errors are those of the superset."""

    name = "score"

    def parse(self, body: Mapping[str, Any]) -> Parsed:
        """See `Dialect.parse`."""
        named = dict(body)
        for name, spellings in _SCORE_SPELLINGS.items():
            there = [body[each] for each in spellings if body.get(each) is not None]
            named[name] = there[0] if there else None
        read = read_body(
            ScoreBody, {key: value for key, value in named.items() if value is not None}
        )
        texts = [read.documents] if isinstance(read.documents, str) else read.documents
        queries = (read.queries,) if isinstance(read.queries, str) else tuple(read.queries)
        if len(queries) not in (1, len(texts)):
            raise InvalidError(
                f"{len(queries)} queries for {len(texts)} documents", param="queries",
                hint="send one query, or one for each document",
            )  # fmt: skip
        request = RankRequest(
            queries,
            as_documents(texts),
            read.model,
            latency=seconds_of(read.latency_ms),
            document_tokens=read.max_tokens_per_doc,
            method="score",
        )
        raw = read.use_activation is False or bool(read.raw_scores)
        documents = [named["documents"]] if isinstance(read.documents, str) else named["documents"]
        return Parsed(request, documents, raw_scores=raw, warnings=unused_keys(body, *UNUSED_KEYS))

    def answer(self, answer: RankAnswer, parsed: Parsed, request_id: str) -> Any:
        """See `Dialect.answer`."""
        data: list[ScoreDatum] = [
            {"index": shown.index, "object": "score", "score": shown.score}
            for shown in sorted(shown_items(answer, parsed), key=lambda shown: shown.index)
        ]
        body: ScoreAnswer = {
            "id": request_id,
            "object": "list",
            "created": int(time()),
            "model": answer.model,
            "data": data,
            "meta": superset_meta(answer, parsed),
            "usage": usage(answer),
        }
        if not parsed.request.is_paired:
            body["results"] = [
                superset_result(shown, parsed) for shown in shown_items(answer, parsed)
            ]
        return body


_SCORE_SPELLINGS = {
    "queries": ("queries", "query", "text_1", "data_1"),
    "documents": ("documents", "items", "text_2", "data_2", "texts"),
}
