"""Two explanations of one query side by side: why the one stands above the other."""

from __future__ import annotations

from collections.abc import Mapping

from tamis.types.explanation import Difference, Explanation, PartDifference


def difference(
    one: Explanation,
    other: Explanation,
    breakdowns: tuple[Mapping[str, float], Mapping[str, float]],
) -> Difference:
    """How every contribution of a document differs from the other's; `breakdowns` add up to the
    scores of both.
    """
    terms = _differences(_terms(one), _terms(other))
    parts = _differences(*breakdowns)
    return Difference(
        other.id, other.title, other.rank, other.score, one.score - other.score, parts, terms
    )


def _terms(explanation: Explanation) -> dict[str, float]:
    return {part.term: part.contribution for part in explanation.terms}


def _differences(
    one: Mapping[str, float], other: Mapping[str, float]
) -> tuple[PartDifference, ...]:
    """The differences of all parts, 0 where one has none of it, the largest first."""
    pairs = {name: (one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}
    rows = [PartDifference(name, a, b, a - b) for name, (a, b) in pairs.items()]
    return tuple(sorted(rows, key=lambda row: -abs(row.difference)))
