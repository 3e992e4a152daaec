"""Two explanations of one query side by side: why the one stands above the other."""

from __future__ import annotations

from collections.abc import Mapping

from tamis.types.explanation import Difference, Explanation, PartDifference


def difference(one: Explanation, other: Explanation) -> Difference:
    """How every contribution of a document differs from the other's.

    The parts are those of the last fusion, or the features of a learnt ranker, or the terms where
    nothing else made the score.
    """
    terms = _differences(_terms(one), _terms(other))
    parts = _differences(_last_parts(one), _last_parts(other))
    return Difference(
        other.id, other.title, other.rank, other.score, one.score - other.score, parts, terms
    )


def _terms(explanation: Explanation) -> dict[str, float]:
    return {part.term: part.contribution for part in explanation.terms}


def _last_parts(explanation: Explanation) -> dict[str, float]:
    if explanation.features:
        return {feature.name: feature.contribution for feature in explanation.features}
    last = explanation.stages[-1].name
    return {part.name: part.contribution for part in explanation.parts if part.stage == last}


def _differences(
    one: Mapping[str, float], other: Mapping[str, float]
) -> tuple[PartDifference, ...]:
    """The differences of parts that both have, the largest first."""
    rows = [
        PartDifference(name, one[name], other[name], one[name] - other[name])
        for name in one
        if name in other
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.difference)))
