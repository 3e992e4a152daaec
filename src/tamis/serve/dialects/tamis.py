"""Our own shape: everything that is known of an answer, in the words of the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from tamis.serve.dialects.base import (
    MAX_MILLISECONDS,
    Documents,
    Parsed,
    StrictBody,
    as_documents,
    own_id,
    read_body,
    seconds_of,
    warnings_of,
)
from tamis.serve.errors import InvalidError, ServiceError
from tamis.serve.requests import RankAnswer, RankedItem, RankRequest, SearchRequest

MAX_TOP, MAX_EXPLAINED = 1000, 20
MAX_CONDITIONS, MAX_CONDITION_LENGTH = 100, 1000
OWN_KEYS = ("id", "title", "text")
"""What a document as an object has beside its fields."""
OF_SEARCHES = ("explain", "filters", "where")
"""Keys of a search that mean nothing where documents are handed in."""


Condition = Annotated[str, Field(max_length=MAX_CONDITION_LENGTH)]


class SearchBody(StrictBody):
    """`POST /api/search`: search a sieve."""

    query: str
    model: str | None = Field(None, description="the name of a sieve; default: the first one")
    top: int = Field(10, ge=1, le=MAX_TOP)
    filters: (
        Condition
        | Annotated[list[Condition], Field(max_length=MAX_CONDITIONS, fail_fast=True)]
        | None
    ) = Field(None, description='conditions on fields, such as "author=ada" or "date>=2024"')
    latency_ms: float | None = Field(
        None, ge=0, le=MAX_MILLISECONDS, description="re-rank as deep as this allows"
    )
    explain: bool = Field(False, description="explain every hit; 20 at most")


class RerankBody(StrictBody):
    """`POST /api/rerank`: rank documents of one's own."""

    query: str
    documents: Documents
    model: str | None = None
    top: int | None = Field(None, ge=1)
    latency_ms: float | None = Field(None, ge=0, le=MAX_MILLISECONDS)
    truncate: bool = Field(True, description="false: refuse what does not fit the model")


class StageBody(TypedDict):
    """Where a document stands in what a stage gives; null where it is not there."""

    name: str
    rank: int | None
    score: float | None


class HitBody(TypedDict):
    """A document in the answer."""

    index: int | None
    id: str | int
    rank: int
    title: str
    passage: str
    start: int
    end: int
    fields: dict[str, Any]
    score: float | None
    probability: float | None
    calibrated: bool
    raw_score: float | None
    scored: bool
    stages: list[StageBody]
    truncated_tokens: int
    explanation: dict[str, Any] | None


class TimeBody(TypedDict):
    """How long a stage took."""

    name: str
    ms: float
    candidates: int


class TimingsBody(TypedDict):
    """Milliseconds of the parts of a request."""

    total: float
    queue: float
    tokenization: float
    inference: float
    stages: list[TimeBody]


class AnswerBody(TypedDict):
    """The answer."""

    id: str
    model: str
    query: str
    hits: list[HitBody]
    reranked: bool
    depth: int | None
    candidates: int
    tokens: int
    truncated_tokens: int
    verified: bool | None
    threshold: float | None
    timings_ms: TimingsBody
    warnings: list[str]


class ProblemBody(TypedDict):
    """What is wrong."""

    code: str
    message: str
    hint: str
    param: str | None


class TamisErrorBody(TypedDict):
    """An error."""

    id: str
    error: ProblemBody


class Tamis:
    """`/api/rerank`, see `Dialect`."""

    name = "tamis"

    def parse(self, body: Mapping[str, Any]) -> Parsed:
        """See `Dialect.parse`."""
        read = read_body(RerankBody, body)
        if wish := next((key for key in OF_SEARCHES if body.get(key)), None):
            raise InvalidError(
                f"{wish} is for searches: documents that are handed in have no index", param=wish,
                hint="leave it out, or search a sieve with POST /api/search",
            )  # fmt: skip
        request = RankRequest(
            (read.query,),
            as_documents(read.documents),
            read.model,
            top=read.top,
            latency=seconds_of(read.latency_ms),
            truncate=read.truncate,
        )
        return Parsed(request, body["documents"], return_documents=True)

    def answer(self, answer: RankAnswer, parsed: Parsed, request_id: str) -> AnswerBody:
        """See `Dialect.answer`."""
        hits = [own_hit_body(item, parsed) for item in answer.items]
        return answer_body(answer, parsed.request.query, hits, request_id)

    def error(self, error: ServiceError, request_id: str) -> tuple[int, dict[str, Any]]:
        """See `Dialect.error`."""
        body: TamisErrorBody = {
            "id": request_id,
            "error": {
                "code": error.code,
                "message": str(error),
                "hint": error.hint,
                "param": error.param,
            },
        }
        return error.status, {**body}


def parse_search(body: Mapping[str, Any]) -> SearchRequest:
    """The search that a body is."""
    named = dict(body)
    if named.get("filters") is None and "where" in named:
        named["filters"] = named["where"]
    read = read_body(SearchBody, named)
    if read.explain and read.top > MAX_EXPLAINED:
        raise InvalidError(
            f"top: {read.top} hits cannot all be explained", param="top",
            hint=f"{MAX_EXPLAINED} at most with explain",
        )  # fmt: skip
    filters = [read.filters] if isinstance(read.filters, str) else read.filters or []
    return SearchRequest(
        read.query, read.model, read.top, tuple(filters), seconds_of(read.latency_ms), read.explain
    )


def search_body(answer: RankAnswer, request: SearchRequest, request_id: str) -> AnswerBody:
    """The body of an answer to a search."""
    hits = [hit_body(item, "", "") for item in answer.items]
    return answer_body(answer, request.query, hits, request_id)


def answer_body(answer: RankAnswer, query: str, hits: list[HitBody], request_id: str) -> AnswerBody:
    """An answer with all that is known of it."""
    return {
        "id": request_id,
        "model": answer.model,
        "query": query,
        "hits": hits,
        "reranked": answer.reranked,
        "depth": answer.depth,
        "candidates": answer.candidates,
        "tokens": answer.tokens,
        "truncated_tokens": answer.truncated_tokens,
        "verified": answer.verified,
        "threshold": answer.threshold,
        "timings_ms": timings(answer),
        "warnings": warnings_of(answer),
    }


def hit_body(item: RankedItem, title: str, text: str) -> HitBody:
    """A document in an answer; `title` and `text` are those of one that no sieve looked at."""
    hit = item.hit
    found = None if hit is None else hit.hit
    return {
        "index": item.index,
        "id": item.id,
        "rank": item.rank,
        "title": title if found is None else found.title,
        "passage": text if found is None else found.passage,
        "start": 0 if found is None else found.start,
        "end": len(text) if found is None else found.end,
        "fields": {} if found is None else dict(found.fields),
        "score": item.score,
        "probability": item.probability,
        "calibrated": item.calibrated,
        "raw_score": item.raw_score,
        "scored": item.score is not None if hit is None else hit.scored,
        "stages": [] if hit is None else [_stage(place) for place in hit.stages],
        "truncated_tokens": item.truncated_tokens,
        "explanation": item.explanation,
    }


def own_hit_body(item: RankedItem, parsed: Parsed) -> HitBody:
    """A document of one's own in an answer, with its id and fields as they came."""
    assert item.index is not None
    document, original = parsed.request.documents[item.index], parsed.documents[item.index]
    body = hit_body(item, document.title, document.text)
    if isinstance(original, Mapping):
        body["id"] = item.id if own_id(original) is None else original["id"]
        body["fields"] = {key: original[key] for key in original if key not in OWN_KEYS}
    return body


def _stage(place: Any) -> StageBody:
    values: StageBody = asdict(place)  # type: ignore[assignment]
    return values


def timings(answer: RankAnswer) -> TimingsBody:
    """The times of an answer in milliseconds."""
    times = answer.times
    return {
        "total": _ms(times.total),
        "queue": _ms(times.queue),
        "tokenization": _ms(times.tokenization),
        "inference": _ms(times.inference),
        "stages": [
            {"name": stage.name, "ms": _ms(stage.seconds), "candidates": stage.candidates}
            for stage in answer.stages
        ],
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
