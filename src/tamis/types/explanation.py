"""The explanation of one result: frozen records, and the JSON that every front end shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

TermStatus = Literal["matched", "missing", "expanded"]


@dataclass(frozen=True)
class StageResult:
    """Where the document stood before a step of the pipeline and after it."""

    name: str
    rank_before: int | None
    score_before: float | None
    rank: int | None
    """None where the document is not among what the step gives."""
    score: float | None
    candidates: int
    """How many documents the step gives."""


@dataclass(frozen=True)
class FusionPart:
    """What one ranking brings to a fused score."""

    stage: str
    """The step that fuses."""
    name: str
    rank: int | None
    """In this ranking; None where it did not find the document."""
    score: float | None
    """As this ranking gives it."""
    normalised: float
    """On the common scale; where the document was not found, what such documents get."""
    weight: float
    contribution: float
    """weight · normalised; the contributions of a fusion add up to its score."""


@dataclass(frozen=True)
class LexicalFacts:
    """What every term of a lexical score has in common."""

    ranking: str
    """`bm25` or `ql`."""
    parameters: Mapping[str, float]
    """`k1` and `b`, or `mu`; of RM3 `rm3_terms`, `rm3_documents` and `rm3_weight`."""
    length: int
    """The document's length in terms, as the score has it: one byte in the index."""
    average_length: float
    documents: int
    """With at least one term."""
    score: float
    """The sum of the terms' contributions."""


@dataclass(frozen=True)
class TermPart:
    """What one term brings to the lexical score."""

    term: str
    status: TermStatus
    """`matched` and `missing` terms are of the query, `expanded` ones were added to it."""
    weight: float
    """In the query: how often it occurs there, or what expansion made of it."""
    tf: int
    """How often the document has it."""
    document_frequency: int
    idf: float | None
    """BM25's; None where no document has the term, and for query likelihood."""
    contribution: float


@dataclass(frozen=True)
class PassageFacts:
    """The passage that answers best: characters `start` to `end` of a field of the document."""

    number: int
    start: int
    end: int
    field: str
    text: str
    score: float | None
    """The passage's own score by the model; None where no model read passages."""
    passages: int
    """How many passages the document has."""
    matches: tuple[tuple[int, int], ...] = ()
    """Where words of the query stand: their characters in `text`."""


@dataclass(frozen=True)
class WordEffect:
    """What the score becomes where a matched word is taken out of the document."""

    term: str
    words: tuple[str, ...]
    """As the document writes it."""
    score_without: float
    change: float
    """`score_without` less the score: below 0 where the word helps."""
    parts_without: Mapping[str, float]
    """The raw score of each part of the pipeline for the edited text."""
    gradient: float | None = None
    """Gradient times input of its tokens, as a share; less trustworthy than `change`."""
    attention: float | None = None
    """Attention of the first token to its tokens, as a share; less trustworthy than `change`."""


@dataclass(frozen=True)
class FeatureContribution:
    """What a feature of a learnt ranker adds to its score."""

    name: str
    value: float | None
    """None of an embedding, and of the bias."""
    contribution: float


@dataclass(frozen=True)
class Neighbour:
    """The document above or below."""

    id: str
    title: str
    rank: int
    score: float
    difference: float
    """The score of the explained document less this one's."""


@dataclass(frozen=True)
class PartDifference:
    """A contribution to this document's score beside that to the other's."""

    name: str
    contribution: float
    other: float
    difference: float


@dataclass(frozen=True)
class Difference:
    """How the document compares with another one, part by part."""

    id: str
    title: str
    rank: int | None
    score: float
    difference: float
    """The score less the other's."""
    parts: tuple[PartDifference, ...]
    """What each ranking, model or feature brings to the final score; the differences add up to
    `difference`."""
    terms: tuple[PartDifference, ...]
    """Of the lexical score."""


@dataclass(frozen=True)
class Explanation:
    """Why a document stands where it stands for a query."""

    query: str
    id: str
    title: str
    rank: int | None
    """None where the document is not among the candidates; it is scored all the same."""
    score: float
    """What the ranking goes by."""
    shown_score: float | None
    """From 0 to 1, as a hit has it; None of a pipeline that has no such scale."""
    calibrated: bool
    """Whether `shown_score` is how probable it is that the document is an answer."""
    threshold: float | None
    """The probability from which the first document counts as an answer, where one was tested."""
    system: str | None
    """The system that a sieve has selected, by its name; None of another pipeline."""
    stages: tuple[StageResult, ...]
    parts: tuple[FusionPart, ...]
    lexical: LexicalFacts | None
    terms: tuple[TermPart, ...]
    passage: PassageFacts | None
    truncated_tokens: int
    words: tuple[WordEffect, ...]
    features: tuple[FeatureContribution, ...]
    neighbours: tuple[Neighbour, ...]
    """The documents right above and right below."""
    against: Difference | None
    notes: tuple[str, ...]

    @property
    def probability(self) -> float | None:
        """The calibrated probability, where there is one."""
        return self.shown_score if self.calibrated else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, one documented form for every front end (docs/reference/json.md)."""
        values = asdict(self)
        return {**values, "probability": self.probability}
