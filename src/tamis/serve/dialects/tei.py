"""The shape of Hugging Face's text-embeddings-inference: `texts` in, a bare array out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from tamis.serve.dialects.base import Parsed, StrictBody, Texts, read_body, shown_items
from tamis.serve.errors import (
    InferenceError,
    InvalidError,
    ModelTypeError,
    ServiceError,
    TeiType,
)
from tamis.serve.requests import RankAnswer, RankRequest
from tamis.types import Document

INFERENCE_STATUS = 424
"""What TEI answers where the model fails, or cannot do this."""


class TeiRequest(StrictBody):
    """`POST /rerank` of TEI."""

    query: str
    texts: Texts
    truncate: bool | None = Field(None, description="null: truncate")
    truncation_direction: Literal["right", "Right", "left", "Left"] = "right"
    raw_scores: bool | None = None
    return_text: bool | None = None
    model: str | None = Field(None, description="not of TEI: the name of a model or a sieve")


class TeiResult(TypedDict):
    """A text in the answer."""

    index: int
    score: float
    text: NotRequired[str]


class TeiErrorBody(TypedDict):
    """An error as TEI has it."""

    error: str
    error_type: TeiType


class Tei:
    """See `Dialect`."""

    name = "tei"

    def parse(self, body: Mapping[str, Any]) -> Parsed:
        """See `Dialect.parse`."""
        read = read_body(TeiRequest, body)
        if read.truncation_direction.lower() == "left":
            raise InvalidError(
                "truncation_direction: left is not supported", param="truncation_direction",
                hint="leave it out: texts are truncated at their end",
            )  # fmt: skip
        request = RankRequest(
            (read.query,),
            [Document(str(number), text) for number, text in enumerate(read.texts)],
            read.model,
            truncate=read.truncate is not False,
        )
        return Parsed(request, read.texts, bool(read.return_text), bool(read.raw_scores))

    def answer(self, answer: RankAnswer, parsed: Parsed, request_id: str) -> list[TeiResult]:
        """See `Dialect.answer`."""
        results: list[TeiResult] = []
        for shown in shown_items(answer, parsed):
            result: TeiResult = {"index": shown.index, "score": shown.score}
            if parsed.return_documents:
                result["text"] = parsed.documents[shown.index]
            results.append(result)
        return results

    def error(self, error: ServiceError, request_id: str) -> tuple[int, dict[str, Any]]:
        """See `Dialect.error`."""
        body: TeiErrorBody = {"error": error.in_full, "error_type": error.tei_type}
        is_models = isinstance(error, InferenceError | ModelTypeError)
        return INFERENCE_STATUS if is_models else error.status, {**body}
