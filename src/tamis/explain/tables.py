"""An explanation as tables of text, which the terminal and the page both show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tamis.pages.text_format import shorten, signed
from tamis.types.explanation import Explanation, LexicalFacts, PartDifference

NAMES_OF_PARAMETERS = {"bm25": "BM25", "ql": "query likelihood"}
MAX_NAME = 20
"""So that every table fits 80 columns."""
MAX_NAME_BESIDE_HINTS = 16
MAX_NAME_OF_STAGE = 16


@dataclass(frozen=True)
class Table:
    """A heading, the heads of columns and rows of text; from `text_columns` on they are numbers."""

    heading: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    note: str = ""
    bars: tuple[float, ...] = ()
    """Of each row a number whose bar is shown, where there are such."""
    dim: tuple[bool, ...] = ()
    """Of each row whether it brings nothing."""


def tables_of(found: Explanation) -> list[Table]:
    """Everything that there is to show in tables, in the order it is read."""
    return [
        *_stages(found),
        *_parts(found),
        *_terms(found),
        *_words(found),
        *_features(found),
        *_against(found),
    ]


def facts_of(found: Explanation) -> dict[str, str]:
    """What is said above the tables."""
    facts = {
        "query": found.query,
        "document": found.id,
        "rank": "none: not among the candidates" if found.rank is None else f"{found.rank:,}",
        "score": number(found.score),
    }
    if found.probability is not None:
        facts["probability"] = f"{found.probability:.0%}"
        if found.threshold is not None:
            facts["probability"] += f" (threshold {found.threshold:.0%})"
    elif found.shown_score is not None:
        facts["from 0 to 1"] = f"{found.shown_score:.2f}"
    if found.truncated_tokens:
        facts["truncated"] = f"{found.truncated_tokens:,} tokens"
    return facts


def passage_line(found: Explanation) -> str:
    """Where the winning passage lies and what it scores."""
    passage = found.passage
    if passage is None:
        return "the document has no text"
    place = f"characters {passage.start:,} to {passage.end:,}"
    if passage.field != "text":
        place = f"the {passage.field}"
    of = f", passage {passage.number + 1} of {passage.passages}" if passage.passages > 1 else ""
    scores = "" if passage.score is None else f", scores {number(passage.score)}"
    return f"{place}{of}{scores}"


def number(value: float | None) -> str:
    """A score or a part of one.

    >>> number(3.14159), number(-2.5), number(None), number(-0.00001)
    ('3.1416', '−2.5000', '–', '0.0000')
    """
    return "–" if value is None else signed(value).removeprefix("+")


def _rank(rank: int | None) -> str:
    return "–" if rank is None else f"{rank:,}"


def _stages(found: Explanation) -> Iterator[Table]:
    rows = [
        (
            shorten(step.name, MAX_NAME_OF_STAGE),
            _rank(step.rank_before),
            _rank(step.rank),
            number(step.score_before),
            number(step.score),
            f"{step.candidates:,}",
        )
        for step in found.stages
    ]
    heads = ("stage", "rank before", "rank after", "score before", "score after", "candidates")
    yield Table("Stages", heads, tuple(rows))


def _parts(found: Explanation) -> Iterator[Table]:
    heads = ("part", "rank", "score", "normalised", "weight", "contribution")
    for stage in dict.fromkeys(part.stage for part in found.parts):
        parts = [part for part in found.parts if part.stage == stage]
        rows = [
            (
                shorten(part.name, MAX_NAME),
                _rank(part.rank),
                number(part.score),
                number(part.normalised),
                f"{part.weight:.2f}",
                number(part.contribution),
            )
            for part in parts
        ]
        total = sum(part.contribution for part in parts)
        bars = tuple(part.contribution for part in parts)
        yield Table(f"Parts of {stage}", heads, tuple(rows), 1, f"sum {number(total)}", bars)


def _terms(found: Explanation) -> Iterator[Table]:
    if found.lexical is None or not found.terms:
        return
    weighted = any(part.weight != 1 for part in found.terms)
    heads: tuple[str, ...] = ("term", "status", "tf", "documents", "idf", "contribution")
    rows = [
        (
            shorten(part.term, MAX_NAME),
            part.status,
            str(part.tf),
            f"{part.document_frequency:,}",
            number(part.idf),
            *((f"{part.weight:.3g}",) if weighted else ()),
            number(part.contribution),
        )
        for part in found.terms
    ]
    if weighted:
        heads = (*heads[:-1], "weight", heads[-1])
    yield Table(
        "Terms", heads, tuple(rows), 2, lexical_note(found.lexical),
        tuple(part.contribution for part in found.terms),
        tuple(not part.tf for part in found.terms),
    )  # fmt: skip


def lexical_note(facts: LexicalFacts) -> str:
    """What all terms have in common, in a sentence."""
    parameters = ", ".join(
        f"{name.replace('_', ' ')} {value:g}" for name, value in facts.parameters.items()
    )
    return (
        f"{NAMES_OF_PARAMETERS[facts.ranking]} {number(facts.score)} ({parameters}); "
        f"{facts.length:,} terms long, on average {facts.average_length:.1f}, "
        f"{facts.documents:,} documents"
    )


def _words(found: Explanation) -> Iterator[Table]:
    if not found.words:
        return
    heads = ["without", "as written", "score", "change"]
    has_gradient = any(word.gradient is not None for word in found.words)
    has_attention = any(word.attention is not None for word in found.words)
    heads += ["gradient*"] * has_gradient + ["attention*"] * has_attention
    longest = MAX_NAME_BESIDE_HINTS if len(heads) > 4 else MAX_NAME
    rows = []
    for word in found.words:
        row = [
            shorten(word.term, longest),
            shorten(", ".join(word.words), longest),
            number(word.score_without),
            signed(word.change),
        ]
        row += [_share(word.gradient)] * has_gradient + [_share(word.attention)] * has_attention
        rows.append(tuple(row))
    note = "the document scored again without the word"
    hints = ["gradient times input"] * has_gradient + ["attention"] * has_attention
    if hints:
        note += f"; * its share of the model's {' and '.join(hints)}: a hint, no proof"
    bars = tuple(word.change for word in found.words)
    yield Table("Without a word", tuple(heads), tuple(rows), 2, note, bars)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _features(found: Explanation) -> Iterator[Table]:
    if found.features:
        rows = [
            (shorten(feature.name, MAX_NAME), number(feature.value), signed(feature.contribution))
            for feature in found.features
        ]
        total = sum(feature.contribution for feature in found.features)
        bars = tuple(feature.contribution for feature in found.features)
        heads = ("feature", "value", "contribution")
        yield Table("Features of the ranker", heads, tuple(rows), 1, f"sum {number(total)}", bars)


def _against(found: Explanation) -> Iterator[Table]:
    against = found.against
    if against is None:
        return
    rank = "no rank" if against.rank is None else f"rank {against.rank:,}"
    note = f"{rank}, score {number(against.score)}, difference {signed(against.difference)}"
    heading = f"Against {shorten(against.id, 2 * MAX_NAME)}"
    if against.parts:
        yield _differences(heading, "part", against.parts, note)
        note = ""
    if against.terms:
        yield _differences(f"{heading}, by term", "term", against.terms, note)


def _differences(heading: str, head: str, rows: Sequence[PartDifference], note: str) -> Table:
    cells = [
        (
            shorten(row.name, MAX_NAME),
            number(row.contribution),
            number(row.other),
            signed(row.difference),
        )
        for row in rows
    ]
    heads = (head, "this", "other", "difference")
    return Table(heading, heads, tuple(cells), 1, note, tuple(row.difference for row in rows))
