"""The shapes of embeddings: TEI's `/embed` and `/similarity`, OpenAI's `/v1/embeddings`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import Field
from typing_extensions import TypedDict

from tamis.serve.dialects.base import StrictBody, Texts, read_body
from tamis.serve.dialects.superset import Usage
from tamis.serve.errors import InvalidError
from tamis.serve.requests import EmbedAnswer, EmbedRequest

QUERY_PROMPTS, DOCUMENT_PROMPTS = ("query",), ("document", "passage")
"""What a client may call the side of a model that encodes its texts."""


class TeiEmbedRequest(StrictBody):
    """`POST /embed` of TEI."""

    inputs: str | Texts
    truncate: bool | None = Field(None, description="null: truncate")
    truncation_direction: Literal["right", "Right", "left", "Left"] = "right"
    normalize: bool | None = Field(None, description="false is refused: embeddings have length one")
    prompt_name: str | None = Field(
        None, description="query, or document (also passage), which is the default"
    )
    dimensions: int | None = Field(None, description="no other than the model's")
    model: str | None = Field(None, description="not of TEI: the name of a model")


class SimilarityInputs(StrictBody):
    """A sentence, and those it is compared with."""

    source_sentence: str
    sentences: Texts


class SimilarityParameters(StrictBody):
    """How sentences are encoded."""

    truncate: bool | None = None
    truncation_direction: Literal["right", "Right", "left", "Left"] = "right"
    prompt_name: str | None = None


class SimilarityRequest(StrictBody):
    """`POST /similarity` of TEI."""

    inputs: SimilarityInputs
    parameters: SimilarityParameters | None = None
    model: str | None = None


class OpenAiRequest(StrictBody):
    """`POST /v1/embeddings` of OpenAI, with strings; lists of token ids are refused."""

    input: str | Texts
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="base64: little-endian float32; default: float"
    )
    dimensions: int | None = Field(None, description="no other than the model's")


class OpenAiEmbedding(TypedDict):
    """An embedding in the answer."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class OpenAiAnswer(TypedDict):
    """The answer of `/v1/embeddings`."""

    object: Literal["list"]
    data: list[OpenAiEmbedding]
    model: str
    usage: Usage


@dataclass(frozen=True)
class ParsedTexts:
    """A request for embeddings, and how they are to look."""

    request: EmbedRequest
    is_base64: bool = False


class EmbeddingDialect(Protocol):
    """One shape of embeddings over HTTP."""

    def parse(self, body: Mapping[str, Any]) -> ParsedTexts:
        """The request that a body is."""

    def answer(self, answer: EmbedAnswer, parsed: ParsedTexts) -> Any:
        """The body of an answer."""


class TeiEmbed:
    """`/embed`: a bare array of embeddings."""

    def parse(self, body: Mapping[str, Any]) -> ParsedTexts:
        """See `EmbeddingDialect.parse`."""
        read = read_body(TeiEmbedRequest, body)
        check_direction(read.truncation_direction)
        if read.normalize is False:
            raise InvalidError(
                "normalize: false is not supported", param="normalize",
                hint="leave it out: embeddings have length one",
            )  # fmt: skip
        return ParsedTexts(
            EmbedRequest(
                as_texts(read.inputs), read.model, is_query_prompt(read.prompt_name),
                read.dimensions, read.truncate is not False,
            )
        )  # fmt: skip

    def answer(self, answer: EmbedAnswer, parsed: ParsedTexts) -> Any:
        """See `EmbeddingDialect.answer`."""
        return answer.embeddings


class TeiSimilarity:
    """`/similarity`: a bare array of cosines."""

    def parse(self, body: Mapping[str, Any]) -> ParsedTexts:
        """See `EmbeddingDialect.parse`; the sentence is the first text."""
        read = read_body(SimilarityRequest, body)
        wishes = read.parameters or SimilarityParameters()
        check_direction(wishes.truncation_direction)
        sentences = read.inputs.sentences
        return ParsedTexts(
            EmbedRequest(
                (read.inputs.source_sentence, *sentences) if sentences else (), read.model,
                is_query_prompt(wishes.prompt_name), truncate=wishes.truncate is not False,
                method="similarity",
            )
        )  # fmt: skip

    def answer(self, answer: EmbedAnswer, parsed: ParsedTexts) -> Any:
        """See `EmbeddingDialect.answer`."""
        return answer.embeddings[1:] @ answer.embeddings[0]


class OpenAi:
    """`/v1/embeddings`."""

    def parse(self, body: Mapping[str, Any]) -> ParsedTexts:
        """See `EmbeddingDialect.parse`."""
        read = read_body(OpenAiRequest, body)
        request = EmbedRequest(as_texts(read.input), read.model, dimensions=read.dimensions)
        return ParsedTexts(request, read.encoding_format == "base64")

    def answer(self, answer: EmbedAnswer, parsed: ParsedTexts) -> OpenAiAnswer:
        """See `EmbeddingDialect.answer`."""
        shown = [
            b64encode(row.astype("<f4").tobytes()).decode("ascii") if parsed.is_base64 else row
            for row in answer.embeddings
        ]
        data: list[Any] = [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in enumerate(shown)
        ]
        usage: Usage = {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}
        return {"object": "list", "data": data, "model": answer.model, "usage": usage}


EMBEDDING_DIALECTS: Mapping[str, EmbeddingDialect] = {
    "/embed": TeiEmbed(),
    "/similarity": TeiSimilarity(),
    "/v1/embeddings": OpenAi(),
}
"""By path."""


def as_texts(value: str | list[str]) -> tuple[str, ...]:
    """One text or several.

    >>> as_texts("a"), as_texts(["a", "b"])
    (('a',), ('a', 'b'))
    """
    return (value,) if isinstance(value, str) else tuple(value)


def is_query_prompt(name: str | None) -> bool:
    """Whether a prompt is the one of queries.

    >>> is_query_prompt("query"), is_query_prompt("passage"), is_query_prompt(None)
    (True, False, False)
    """
    if name not in (None, *QUERY_PROMPTS, *DOCUMENT_PROMPTS):
        raise InvalidError(
            "there is no such prompt", hint="prompt_name: query or document", param="prompt_name"
        )
    return name in QUERY_PROMPTS


def check_direction(direction: str) -> None:
    """Refuse to truncate texts at their start."""
    if direction.lower() == "left":
        raise InvalidError(
            "truncation_direction: left is not supported", param="truncation_direction",
            hint="leave it out: texts are truncated at their end",
        )  # fmt: skip
