"""Groups of rows put together as examples, and the random numbers of one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis import __version__
from tamis.errors import InputError
from tamis.labels.examples import (
    LABEL_SOURCES,
    LABEL_TYPES,
    ROLES,
    TO_THE_END,
    Examples,
    LabelSource,
    Role,
)
from tamis.types import Ids, Passage, Queries

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of one query: which documents, for what, and which characters of them."""

    query: int
    doc: Ints
    role: NDArray[np.int8]
    spans: Sequence[tuple[int, int]] | None = None
    """One (start, end) per row; None means whole texts."""
    titled: bool = True


def group_of(query: int, positives: Ints, other_docs: Ints, role: Role, **more: Any) -> Group:
    """Positive documents, and others for another role, positives first."""
    roles = [ROLES.index("positive")] * len(positives) + [ROLES.index(role)] * len(other_docs)
    doc = np.concatenate([positives, other_docs]).astype(np.int32)
    return Group(query, doc, np.array(roles, np.int8), **more)


def as_examples(
    queries: Queries,
    docs: Ids,
    groups: Sequence[Group],
    source: LabelSource,
    facts: Mapping[str, Any],
    counts: Mapping[str, int],
    origins: Mapping[int, Passage] | None = None,
) -> Examples:
    """Examples of classes, 1 for positives and 0 for others; tables hold what is used.

    In the facts, `counts` stand below those of queries and roles.
    """
    sizes = np.array([len(group.doc) for group in groups], np.int64)
    query, queries_used = _renumber(np.array([group.query for group in groups], np.int32))
    doc, docs_used = _renumber(_concatenate([group.doc for group in groups], np.int32))
    role = _concatenate([group.role for group in groups], np.int8)
    spans = _concatenate([_spans(group) for group in groups], np.int32).reshape(-1, 2)
    titled = np.array([group.titled for group in groups], bool)
    position_of = {int(number): position for position, number in enumerate(queries_used.tolist())}
    examples = Examples(
        queries.select(queries_used),
        docs.select(docs_used),
        np.repeat(np.arange(len(groups), dtype=np.int32), sizes),
        np.repeat(query, sizes),
        doc,
        spans[:, 0].copy(),
        spans[:, 1].copy(),
        np.repeat(titled, sizes),
        (role == ROLES.index("positive")).astype(np.float32),
        role,
        np.full(len(doc), LABEL_SOURCES.index(source), np.int8),
        np.full(len(doc), LABEL_TYPES.index("class"), np.int8),
        {
            position_of[number]: origin
            for number, origin in (origins or {}).items()
            if number in position_of
        },
        {**facts, "tamis": __version__},
    )
    return update_counts(examples, **counts)


def update_counts(examples: Examples, **more: int) -> Examples:
    """The same examples with `counts` in the facts counted anew, and some more."""
    facts = dict(examples.facts)
    not_positive = ~examples.is_role("positive")
    counts = {"queries": len(np.unique(examples.query))}
    counts |= {str(role): int(examples.is_role(role).sum()) for role in ROLES}
    alone = examples.groups - len(np.unique(examples.group[not_positive]))
    earlier = {name: n for name, n in facts.get("counts", {}).items() if name not in counts}
    counts |= {**earlier, **more, "queries_without_a_negative": alone}
    facts["counts"] = {name: count for name, count in counts.items() if count}
    return replace(examples, facts=facts)


def _concatenate(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(array.reshape(-1) for array in arrays)])


def _spans(group: Group) -> Ints:
    if group.spans is not None:
        return np.array(group.spans, np.int32).reshape(-1)
    return np.tile(np.array([0, TO_THE_END], np.int32), len(group.doc))


def _renumber(numbers: Ints) -> tuple[Ints, Ints]:
    """The numbers in a table of those that occur, and that table."""
    used, place = np.unique(numbers, return_inverse=True)
    return place.astype(np.int32), used


def generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers for one query, the same whatever else is labelled beside it."""
    if seed < 0:
        raise InputError(f"the seed is {seed}", hint="use 0 or more")
    return np.random.default_rng([seed, xxhash.xxh3_64_intdigest(name.encode())])


def draw(docs: Ints, count: int | None, random: np.random.Generator) -> Ints:
    """So many of these in a random order; without a number all, as they are."""
    return docs if count is None else random.permutation(docs)[:count]


def sample_queries(examples: Examples, count: int, *, seed: int = 0) -> Examples:
    """The groups of so many queries; a smaller sample of the same seed is part of a larger.

    >>> two = Examples.of_rows([(q, "d1", 1.0, "positive") for q in ("q1", "q2")], source="gold")
    >>> len(sample_queries(two, 1))
    1
    """
    used = np.unique(examples.query)
    if count >= len(used):
        return examples
    sampled = generator(seed, "queries").permutation(used)[:count]
    return update_counts(examples.select(np.isin(examples.query, sampled)))
