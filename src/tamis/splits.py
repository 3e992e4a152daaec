"""Parts of a collection's queries for training, validation and test that leak nothing.

Queries that are duplicates or near-duplicates of each other stay in one part, and so do those with
the same answer, where judgements are given and that leaves parts of about the shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tamis.errors import InputError
from tamis.text.near import near_duplicates
from tamis.types import Ids, Qrels, Queries

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def split(
    queries: Queries,
    shares: Mapping[str, float] | None = None,
    *,
    seed: int = 0,
    answers: Qrels | None = None,
) -> dict[str, Ids]:
    """Disjoint parts of the queries, by name, of about the given shares.

    The same queries and seed give the same parts, in whatever order the queries came. With
    `answers`, queries that share a relevant document are not parted, unless there are so many of
    them that they fit into no part.

    >>> from tamis.types import Query
    >>> log = Queries.of(Query(f"q{n:02}", f"{n} sieves") for n in range(10))
    >>> {name: len(part) for name, part in split(log).items()}
    {'train': 6, 'validation': 2, 'test': 2}
    """
    shares = shares or SHARES
    total = sum(shares.values())
    if any(share <= 0 for share in shares.values()):
        raise InputError("every part needs a share above zero", hint="for example 0.6, 0.2, 0.2")
    room = min(shares.values()) / total * len(queries)
    groups = _shuffled_groups(queries, seed, answers, room)
    if len(groups) < len(shares):
        raise InputError(
            f"{len(queries)} queries, {len(groups)} of them different, "
            f"cannot make {len(shares)} parts",
            hint="write more queries",
        )
    wanted = {name: share / total * len(queries) for name, share in shares.items()}
    parts: dict[str, list[int]] = {name: [] for name in shares}
    for group in groups:
        emptiest = max(parts, key=lambda name: (wanted[name] - len(parts[name])) / wanted[name])
        parts[emptiest].extend(group)
    return {name: queries.ids.select(np.array(sorted(part), int)) for name, part in parts.items()}


def folds(
    queries: Queries, k: int = 5, *, seed: int = 0, answers: Qrels | None = None
) -> list[tuple[Ids, Ids]]:
    """For each of k folds the queries to learn from and the queries held out.

    Every query is held out once; `answers` as in `split`.

    >>> from tamis.types import Query
    >>> log = Queries.of(Query(f"q{n}", f"{n} sieves") for n in range(6))
    >>> [(len(learn), len(held_out)) for learn, held_out in folds(log, 3)]
    [(4, 2), (4, 2), (4, 2)]
    """
    if k < 2:
        raise InputError(f"{k} folds leave nothing to learn from", hint="take two or more")
    shares = {str(n): 1.0 for n in range(k)}
    held_out = split(queries, shares, seed=seed, answers=answers).values()
    everything = np.arange(len(queries))
    return [
        (queries.ids.select(np.setdiff1d(everything, part.positions_in(queries.ids))), part)
        for part in held_out
    ]


def _shuffled_groups(
    queries: Queries, seed: int, answers: Qrels | None, room: float
) -> list[list[int]]:
    """Queries that belong together, in a seeded order; large groups first, so that they fit."""
    alike = near_duplicates(queries.texts) if queries.texts is not None else []
    if answers is not None:
        both = _joined([*alike, *_sharing(queries.ids, answers)], len(queries))
        alike = both if max(map(len, both), default=0) <= room else alike
    grouped = {number for group in alike for number in group}
    groups = alike + [[number] for number in range(len(queries)) if number not in grouped]
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    return sorted((groups[n] for n in order), key=len, reverse=True)


def _sharing(ids: Ids, qrels: Qrels) -> list[list[int]]:
    """The numbers of queries that share a relevant document, a group a document."""
    whose = np.repeat(qrels.queries.positions_in(ids), np.diff(qrels.offsets))
    kept = (qrels.grade > 0) & (whose >= 0)
    doc, query = qrels.doc[kept], whose[kept]
    order = np.argsort(doc, kind="stable")
    parts = np.split(query[order], np.flatnonzero(np.diff(doc[order])) + 1)
    return [part.tolist() for part in parts if len(part) > 1]


def _joined(groups: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Groups that share a member made one, those of one member left out.

    >>> _joined([[0, 2], [2, 3], [1, 4]], 6)
    [[0, 2, 3], [1, 4]]
    """
    pairs = np.array([(group[0], other) for group in groups for other in group[1:]], int)
    pairs = pairs.reshape(-1, 2)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    label = connected_components(graph, directed=False)[1]
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted(part.tolist() for part in parts if len(part) > 1)
