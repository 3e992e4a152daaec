"""What every dialect is: pure functions between JSON and what the engine takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tamis.serve.errors import InvalidError, ServiceError
from tamis.serve.requests import RankAnswer, RankedItem, RankRequest
from tamis.types import Document

Body = TypeVar("Body", bound=BaseModel)
MAX_MILLISECONDS = 3_600_000


class StrictBody(BaseModel):
    """A body whose values have to be of the very type; what else it has is left alone."""

    model_config = ConfigDict(strict=True, extra="ignore")


class DocumentObject(BaseModel):
    """A document as an object; what it has beside id, title and text travels along."""

    model_config = ConfigDict(strict=True, extra="allow")

    text: str | None = None
    id: str | int | None = None
    title: str | None = None


Texts = Annotated[list[str], Field(fail_fast=True)]
"""Looked at up to the first that is wrong."""
Documents = Annotated[list[str | DocumentObject], Field(fail_fast=True)]


@dataclass(frozen=True)
class Parsed:
    """A request, and how its answer is to look."""

    request: RankRequest
    documents: Sequence[Any]
    """As they came."""
    return_documents: bool = False
    raw_scores: bool = False
    warnings: tuple[str, ...] = ()
    """What a client wishes that is not done."""

    def __post_init__(self) -> None:
        if self.return_documents:
            check_returnable(self.documents)


class Dialect(Protocol):
    """One shape of ranking over HTTP."""

    name: str

    def parse(self, body: Mapping[str, Any]) -> Parsed:
        """The request that a body is; `InvalidError` says what is wrong with it."""

    def answer(self, answer: RankAnswer, parsed: Parsed, request_id: str) -> Any:
        """The body of an answer."""

    def error(self, error: ServiceError, request_id: str) -> tuple[int, dict[str, Any]]:
        """Status and body of an error."""


def read_body(kind: type[Body], body: Mapping[str, Any]) -> Body:
    """The body as a model of pydantic; the first thing that is wrong is said, without its value."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = [str(part) for part in first["loc"] if not _is_type_name(part)]
        name = ".".join(place) or "the body"
        raise InvalidError(
            f"{name[:200]}: {first['msg'][:200]}",
            hint="see /docs",
            param=place[0] if place else None,
        ) from None


def _is_type_name(part: object) -> bool:
    """Whether a part of a place names a member of a union, not a key."""
    return part in ("str", "DocumentObject")


def as_documents(
    values: Sequence[str | DocumentObject], rank_fields: Sequence[str] | None = None
) -> list[Document]:
    """Strings or objects as documents, each with its own id or its number.

    >>> [document.text for document in as_documents(["a", DocumentObject(text="b")])]
    ['a', 'b']
    """
    return [_as_document(number, value, rank_fields) for number, value in enumerate(values)]


def check_returnable(documents: Sequence[Any]) -> None:
    """Refuse documents that can be read as JSON, and are nested too deep to be written.

    >>> check_returnable(["a text", {"text": "another", "n": [[1]]}])
    """
    try:
        orjson.dumps({"results": [{"document": documents}]})
    except orjson.JSONEncodeError:
        raise InvalidError(
            "a document is nested too deep to be returned", param="documents",
            hint="send fewer levels, or do not ask for documents",
        ) from None  # fmt: skip


def own_id(document: Any) -> str | int | None:
    """The id that a document brought, as it came.

    >>> own_id({"id": 7, "text": "a text"}), own_id("a text")
    (7, None)
    """
    name: str | int | None = document.get("id") if isinstance(document, Mapping) else None
    return name


def _as_document(
    number: int, value: str | DocumentObject, rank_fields: Sequence[str] | None
) -> Document:
    if isinstance(value, str):
        return Document(str(number), value)
    extra = value.model_extra or {}
    name = str(number) if value.id is None else str(value.id)
    fields = {key: text for key, text in extra.items() if isinstance(text, str)}
    if rank_fields:
        texts = {**fields, "title": value.title, "text": value.text}
        chosen = [text for key in rank_fields if (text := texts.get(key)) is not None]
        if not chosen:
            raise InvalidError(
                f"documents.{number} has none of the rank_fields as text", param="rank_fields",
                hint="name fields that every document has",
            )  # fmt: skip
        return Document(name, "\n".join(filter(None, chosen)), "", fields)
    if value.text is None:
        raise InvalidError(
            f"documents.{number} has no text", param="documents",
            hint='a document is a string or an object with "text"',
        )  # fmt: skip
    return Document(name, value.text, value.title or "", fields)


def seconds_of(milliseconds: float | None) -> float | None:
    """Milliseconds of a request as seconds; None is no limit.

    >>> seconds_of(250), seconds_of(0), seconds_of(None)
    (0.25, 0.0, None)
    """
    return None if milliseconds is None else milliseconds / 1000


@dataclass(frozen=True)
class ShownItem:
    """A document in an answer with the numbers that the shapes of others send."""

    item: RankedItem
    relevance: float
    """From 0 to 1."""
    score: float
    """The model's own where that is asked for, else the same."""

    @property
    def index(self) -> int:
        """Its place in the request."""
        assert self.item.index is not None
        return self.item.index


def shown_items(answer: RankAnswer, parsed: Parsed) -> list[ShownItem]:
    """The documents in descending order of the score that is sent; of equal ones, as ranked.

    One that was not scored has the score 0, or the lowest of the others where that is below 0.
    """
    shown = [_as_shown(item, parsed.raw_scores) for item in answer.items if item.score is not None]
    least = min([0.0, *(each.score for each in shown)])
    late = [ShownItem(item, 0.0, least) for item in answer.items if item.score is None]
    return sorted([*shown, *late], key=lambda each: -each.score)


def _as_shown(item: RankedItem, raw: bool) -> ShownItem:
    score = item.score or 0.0
    own = item.raw_score if raw else score
    return ShownItem(item, score, score if own is None else own)


def unused_keys(body: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    """What to warn of where a body has keys that mean something elsewhere.

    >>> unused_keys({"query": "q", "truncate_prompt_tokens": 9}, "truncate_prompt_tokens")
    ('truncate_prompt_tokens is not used',)
    """
    return tuple(f"{name} is not used" for name in names if body.get(name) is not None)


def warnings_of(answer: RankAnswer, parsed: Parsed | None = None) -> list[str]:
    """What a client should know that its shape has no place for."""
    warnings = [*(parsed.warnings if parsed else ()), *answer.warnings]
    if answer.truncated_tokens:
        warnings.append(f"{answer.truncated_tokens} tokens did not fit the model")
    if answer.out_of_time:
        warnings.append(f"{answer.depth} of {answer.candidates} documents were re-ranked in time")
    return warnings
