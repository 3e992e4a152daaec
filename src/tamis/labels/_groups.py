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
from tamis.labels.examples import KINDS, ROLES, SOURCES, TO_THE_END, Examples, Role, Source
from tamis.types import Ids, Passage, Queries

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of one query: which documents, for what, and which characters of them."""

    query: int
    doc: Ints
    role: NDArray[np.int8]
    spans: Sequence[tuple[int, int]] | None = None
    """A start and an end a row; whole texts without."""
    titled: bool = True


def group_of(query: int, positives: Ints, others: Ints, role: Role, **more: Any) -> Group:
    """Positive documents, and others for another role, positives first."""
    roles = [ROLES.index("positive")] * len(positives) + [ROLES.index(role)] * len(others)
    doc = np.concatenate([positives, others]).astype(np.int32)
    return Group(query, doc, np.array(roles, np.int8), **more)


def as_examples(
    queries: Queries,
    docs: Ids,
    groups: Sequence[Group],
    source: Source,
    facts: Mapping[str, Any],
    counts: Mapping[str, int],
    origins: Mapping[int, Passage] | None = None,
) -> Examples:
    """Examples of classes, 1 for positives and 0 for others; tables hold what is used.

    In the facts, `counts` stand below those of queries and roles.
    """
    sizes = np.array([len(group.doc) for group in groups], np.int64)
    query, queries_used = _renumbered(np.array([group.query for group in groups], np.int32))
    doc, docs_used = _renumbered(_joined([group.doc for group in groups], np.int32))
    role = _joined([group.role for group in groups], np.int8)
    spans = _joined([_spans(group) for group in groups], np.int32).reshape(-1, 2)
    titled = np.array([group.titled for group in groups], bool)
    place = {int(number): place for place, number in enumerate(queries_used.tolist())}
    made = Examples(
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
        np.full(len(doc), SOURCES.index(source), np.int8),
        np.full(len(doc), KINDS.index("class"), np.int8),
        {place[number]: origin for number, origin in (origins or {}).items() if number in place},
        {**facts, "tamis": __version__},
    )
    return recounted(made, **counts)


def recounted(examples: Examples, **more: int) -> Examples:
    """The same with `counts` in the facts that are those of its rows, and some more."""
    facts = dict(examples.facts)
    others = ~examples.is_role("positive")
    found = {"queries": len(np.unique(examples.query))}
    found |= {str(role): int(examples.is_role(role).sum()) for role in ROLES}
    alone = examples.groups - len(np.unique(examples.group[others]))
    before = {name: n for name, n in facts.get("counts", {}).items() if name not in found}
    found |= {**before, **more, "queries without a negative": alone}
    facts["counts"] = {name: count for name, count in found.items() if count}
    return replace(examples, facts=facts)


def _joined(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *(part.reshape(-1) for part in parts)])


def _spans(group: Group) -> Ints:
    if group.spans is not None:
        return np.array(group.spans, np.int32).reshape(-1)
    return np.tile(np.array([0, TO_THE_END], np.int32), len(group.doc))


def _renumbered(numbers: Ints) -> tuple[Ints, Ints]:
    """The numbers in a table of those that occur, and that table."""
    used, place = np.unique(numbers, return_inverse=True)
    return place.astype(np.int32), used


def generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers for one query, the same whatever else is labelled beside it."""
    if seed < 0:
        raise InputError(f"a seed of {seed} is none", hint="it is 0 or more")
    return np.random.default_rng([seed, xxhash.xxh3_64_intdigest(name.encode())])


def drawn(found: Ints, count: int | None, random: np.random.Generator) -> Ints:
    """So many of these in a random order; without a number all, as they are."""
    return found if count is None else random.permutation(found)[:count]


def sample_queries(examples: Examples, count: int, *, seed: int = 0) -> Examples:
    """The groups of so many queries; a smaller sample of the same seed is part of a larger.

    >>> two = Examples.of_rows([(q, "d1", 1.0, "positive") for q in ("q1", "q2")], source="gold")
    >>> len(sample_queries(two, 1))
    1
    """
    used = np.unique(examples.query)
    if count >= len(used):
        return examples
    chosen = generator(seed, "queries").permutation(used)[:count]
    return recounted(examples.select(np.isin(examples.query, chosen)))
