"""Search results: a document, the passage that answers best, and a score from 0 to 1.

A score means the same whatever else was found. Where it is no calibrated probability, a fixed
function of the ranking's own score makes it: larger stays larger, and no other document counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.search.field_values import elements
from tamis.text.analysis import Analyzer
from tamis.text.passages import PassageSpec, parse_spec, split
from tamis.types import Document, Passage

Values = NDArray[np.float64]
HALF_LEXICAL_SCORE = 10.0
"""The score of BM25 or query likelihood that is .5 on the scale from 0 to 1."""
SHOWN_PASSAGES = parse_spec("words:100")
"""How a document is split where its ranking did not look at passages."""


@dataclass(frozen=True)
class Hit:
    """A document that was found, with its best passage and its score."""

    id: str
    rank: int
    score: float
    """From 0 to 1: how probable it is an answer if `calibrated`, else a fixed function of
    `raw_score` or of what that was fused from."""
    calibrated: bool
    raw_score: float
    """What the ranking went by."""
    title: str
    passage: str
    """The passage that answers best: characters `start` to `end` of the text. The title where
    the document has no text."""
    start: int
    end: int
    fields: Mapping[str, str | list[str]]
    """The document's fields; a list, such as tags, as one."""
    text: str
    """The whole document."""

    @property
    def probability(self) -> float | None:
        """The score where it is a probability, else None."""
        return self.score if self.calibrated else None


def make_hit(
    document: Document,
    passage: Passage | None,
    *,
    rank: int,
    score: float,
    raw_score: float,
    calibrated: bool = False,
) -> Hit:
    """A hit of a document; without a passage the whole document is one."""
    start, end = (0, len(document.text)) if passage is None else (passage.start, passage.end)
    if passage is not None and passage.field == "title":
        text, start, end = document.title, 0, 0
    else:
        text = document.text[start:end]
    return Hit(
        document.id, rank, float(score), calibrated, float(raw_score), document.title,
        text, start, end, {name: _listed(value) for name, value in document.fields.items()},
        document.text,
    )  # fmt: skip


def _listed(value: str) -> str | list[str]:
    """A list that is written as JSON as a list, anything else as it is."""
    several = elements(value)
    return value if several == [value] else several


def numbered_passage(document: Document, spec: PassageSpec, number: int) -> Passage | None:
    """The passage with this number; None where the document has none such."""
    passages = split(document, spec).passages
    return next((passage for passage in passages if passage.number == number), None)


def matching_passage(
    document: Document, terms: Collection[str], analyzer: Analyzer
) -> Passage | None:
    """The passage with the most distinct terms, then the most matches, then the first.

    >>> from tamis.text.analysis import analyzer
    >>> document = Document("d1", "Nets catch fish. " * 40 + "Sieves sort grain.")
    >>> passage = matching_passage(document, ["siev"], analyzer("english"))
    >>> document.text[passage.start : passage.end].endswith("Sieves sort grain.")
    True
    """
    passages = split(document, SHOWN_PASSAGES).passages
    if len(passages) < 2:
        return passages[0] if passages else None
    distinct = set(terms)
    matches = [
        (term, start) for term, start, _ in analyzer.spans(document.text) if term in distinct
    ]

    def matched(passage: Passage) -> tuple[int, int]:
        inside = [term for term, start in matches if passage.start <= start < passage.end]
        return len(set(inside)), len(inside)

    return max(passages, key=matched)


def lexical_score(score: ArrayLike) -> Values:
    """A score of BM25 or query likelihood as 0 to 1: s / (s + 10).

    >>> lexical_score([0.0, 10.0, 30.0]).tolist()
    [0.0, 0.5, 0.75]
    """
    values = np.maximum(np.asarray(score, np.float64), 0.0)
    scores: Values = values / (values + HALF_LEXICAL_SCORE)
    return scores


def cosine_score(score: ArrayLike) -> Values:
    """A cosine as 0 to 1: (1 + cosine) / 2.

    >>> cosine_score([-1.0, 0.0, 1.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    scores: Values = np.clip((1 + np.asarray(score, np.float64)) / 2, 0.0, 1.0)
    return scores


def score_of_scale(scale: str, score: ArrayLike) -> Values:
    """A score of a model as 0 to 1, by what it means: a probability as it is, a cosine and
    anything else by its function.

    >>> score_of_scale("probability", 0.2).tolist(), score_of_scale("cosine", 0.5).tolist()
    (0.2, 0.75)
    """
    if scale == "probability":
        return np.clip(np.asarray(score, np.float64), 0.0, 1.0)
    return cosine_score(score) if scale == "cosine" else logistic_score(score)


def logistic_score(score: ArrayLike) -> Values:
    """A logit as 0 to 1: 1 / (1 + exp(-logit)).

    >>> logistic_score([0.0, 800.0]).tolist()
    [0.5, 1.0]
    """
    scores: Values = np.exp(-np.logaddexp(0.0, -np.asarray(score, np.float64)))
    return scores
