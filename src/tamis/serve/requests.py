"""What a service is asked and answers, whatever shape it has on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.fitting.answers import AnswerHit, StageTime
from tamis.types import Document


@dataclass(frozen=True)
class RankRequest:
    """Rank these documents; an id of one's own or else its number is the id of each."""

    queries: tuple[str, ...]
    """One for all documents, or one for each."""
    documents: Sequence[Document]
    model: str | None = None
    """The name of a model or sieve; the first one where none is named."""
    top: int | None = None
    latency: float | None = None
    """Seconds it may take."""
    document_tokens: int | None = None
    """Tokens at which a document is truncated, if the model takes so many."""
    truncate: bool = True
    """Whether texts that do not fit are truncated rather than refused."""
    method: str = "rerank"
    """What the metrics count it as."""

    @property
    def query(self) -> str:
        """The query, where there is one for all documents."""
        return self.queries[0]

    @property
    def is_paired(self) -> bool:
        """Whether every document has a query of its own."""
        return len(self.queries) > 1


@dataclass(frozen=True)
class SearchRequest:
    """Search a sieve."""

    query: str
    model: str | None = None
    top: int = 10
    where: tuple[str, ...] = ()
    latency: float | None = None
    explain: bool = False
    method: str = "search"


@dataclass(frozen=True)
class EmbedRequest:
    """Encode texts."""

    texts: tuple[str, ...]
    model: str | None = None
    are_queries: bool = False
    """Whether they are encoded as queries, where a model makes a difference; else as documents."""
    dimensions: int | None = None
    """How many a client expects."""
    truncate: bool = True
    method: str = "embed"
    latency: float | None = None
    """Not used: all texts are encoded."""


@dataclass(frozen=True)
class RankedItem:
    """A document in an answer."""

    index: int | None
    """Its place in the request; None of a document of the index."""
    id: str
    rank: int
    score: float | None
    """From 0 to 1; None where the time did not suffice to score it."""
    calibrated: bool
    raw_score: float | None
    truncated_tokens: int
    hit: AnswerHit | None = None
    """What a sieve tells beside it."""
    explanation: dict[str, Any] | None = None

    @property
    def probability(self) -> float | None:
        """The score where it is one."""
        return self.score if self.calibrated else None


@dataclass
class Times:
    """Seconds that the parts of a request took."""

    queue: float = 0.0
    tokenization: float = 0.0
    inference: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class RankAnswer:
    """The documents, best first, and how they came about."""

    model: str
    items: tuple[RankedItem, ...]
    """Those without a score of the re-ranker stand below, in their order."""
    depth: int | None
    """How many documents a re-ranker scored; None where there is none."""
    candidates: int
    tokens: int
    """Tokens that a model read."""
    truncated_tokens: int
    times: Times
    stages: tuple[StageTime, ...] = ()
    verified: bool | None = None
    """Of a sieve, whether its ranking was tested."""
    threshold: float | None = None
    """Of a calibrated sieve, from which probability on the first hit counts as an answer."""
    warnings: tuple[str, ...] = field(default=())
    out_of_time: bool = False
    """Whether the time limit left documents without a score."""

    @property
    def reranked(self) -> bool:
        """Whether a model scored any."""
        return bool(self.depth)


@dataclass(frozen=True, eq=False)
class EmbedAnswer:
    """Embeddings, one row a text, of length one."""

    model: str
    embeddings: NDArray[np.float32]
    tokens: int
    truncated_tokens: int
    times: Times
