"""The shape of Cohere's `/v2/rerank`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from tamis.serve.dialects.base import (
    MAX_MILLISECONDS,
    Documents,
    Parsed,
    ShownItem,
    StrictBody,
    as_documents,
    read_body,
    seconds_of,
    shown_items,
    unused_keys,
    warnings_of,
)
from tamis.serve.errors import ServiceError
from tamis.serve.requests import RankAnswer, RankRequest


class CohereRequest(StrictBody):
    """`POST /v2/rerank` of Cohere; what vLLM's clients add is taken, too."""

    query: str
    documents: Documents
    model: str | None = None
    top_n: int | None = Field(None, ge=0, description="0 or null: all")
    max_tokens_per_doc: int | None = Field(None, ge=1)
    priority: int | None = Field(None, description="taken and not used: first come, first served")
    return_documents: bool | None = Field(None, description="not of Cohere; where true, `document`")
    latency_ms: float | None = Field(
        None, ge=0, le=MAX_MILLISECONDS, description="re-rank as deep as this allows"
    )


class CohereDocument(TypedDict):
    """A document in an answer, where it was asked for."""

    text: str


class CohereResult(TypedDict):
    """A document in the answer."""

    index: int
    relevance_score: float
    document: NotRequired[dict[str, Any]]


class ApiVersion(TypedDict):
    """Which version of the API answers."""

    version: str


class CohereTokens(TypedDict):
    """What was read."""

    input_tokens: int


class CohereMeta(TypedDict):
    """What there is to know of an answer."""

    api_version: ApiVersion
    tokens: CohereTokens
    warnings: NotRequired[list[str]]


class CohereAnswer(TypedDict):
    """The answer."""

    id: str
    results: list[CohereResult]
    meta: CohereMeta


class CohereErrorBody(TypedDict):
    """An error as Cohere has it."""

    id: str
    message: str


class Cohere:
    """See `Dialect`."""

    name = "cohere"

    def parse(self, body: Mapping[str, Any]) -> Parsed:
        """See `Dialect.parse`."""
        read = read_body(CohereRequest, body)
        request = RankRequest(
            (read.query,),
            as_documents(read.documents),
            read.model,
            top=read.top_n or None,
            latency=seconds_of(read.latency_ms),
            document_tokens=read.max_tokens_per_doc,
        )
        unused = unused_keys(body, "truncate_prompt_tokens", "use_activation")
        documents = body["documents"]
        return Parsed(request, documents, bool(read.return_documents), warnings=unused)

    def answer(self, answer: RankAnswer, parsed: Parsed, request_id: str) -> CohereAnswer:
        """See `Dialect.answer`."""
        meta: CohereMeta = {
            "api_version": {"version": "2"},
            "tokens": {"input_tokens": answer.tokens},
        }
        if warnings := warnings_of(answer, parsed):
            meta["warnings"] = warnings
        results = [cohere_result(shown, parsed) for shown in shown_items(answer, parsed)]
        return {"id": request_id, "results": results, "meta": meta}

    def error(self, error: ServiceError, request_id: str) -> tuple[int, dict[str, Any]]:
        """See `Dialect.error`."""
        body: CohereErrorBody = {"id": request_id, "message": error.in_full}
        return error.status, {**body}


def cohere_result(shown: ShownItem, parsed: Parsed) -> CohereResult:
    """One document of an answer."""
    result: CohereResult = {"index": shown.index, "relevance_score": shown.relevance}
    if parsed.return_documents:
        result["document"] = document_object(parsed.documents[shown.index])
    return result


def document_object(document: Any) -> dict[str, Any]:
    """A document as it came, as an object.

    >>> document_object("a text")
    {'text': 'a text'}
    """
    return {"text": document} if isinstance(document, str) else document
