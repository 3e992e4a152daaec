"""What a reader of an explanation must know beside its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tamis.types.explanation import TermPart

if TYPE_CHECKING:
    from tamis.explain.result import Search, Standing

MAX_WORDS = 32
"""How many matched words are taken out at most, those that bring the most first."""


def matched_terms(terms: Sequence[TermPart]) -> list[str]:
    """The terms of the query that a document has, those that bring the most first."""
    return [part.term for part in terms if part.status == "matched"]


def notes_of(
    asked: Search,
    of: Standing,
    terms: Sequence[TermPart],
    matched: int,
    unscored: str,
    why_no_hints: str,
) -> tuple[str, ...]:
    """The notes of one document with so many `matched` words; `unscored` names the model that left
    it below.
    """
    notes = [*_of_candidates(asked, of), *_of_query(asked, terms)]
    if unscored:
        notes.append(f"{unscored} did not score it: it keeps its order below")
    if not asked.can_rescore:
        notes.append(f"not scored without its words: {asked.steps[-1].name} scores no text alone")
    if matched > MAX_WORDS and asked.can_rescore and not unscored:
        notes.append(
            f"scored without each of {MAX_WORDS} of its {matched:,} matched words, those that "
            "bring the most"
        )
    if why_no_hints:
        notes.append(f"no gradient and no attention: {why_no_hints}")
    return tuple(notes)


def _of_candidates(asked: Search, of: Standing) -> Iterator[str]:
    candidates = len(asked.run.doc)
    if of.row is None and not candidates:
        yield "the search finds no document: this one has no rank"
    elif of.row is None:
        yield (
            f"not among the {candidates:,} candidates: it has no rank, and is scored on their scale"
        )


def _of_query(asked: Search, terms: Sequence[TermPart]) -> Iterator[str]:
    if asked.lexical is None:
        return
    if not asked.lexical.own:
        yield "the query has no terms: it is all stop words or punctuation"
    elif not any(part.document_frequency for part in terms):
        yield "no document has a term of the query"
