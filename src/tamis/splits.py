"""Parts of a collection's queries for training, validation and test that leak nothing.

`is_test` is the one rule for which splits are held out, `HeldOut` the one for which queries may
not be learnt from because of them. Where parts are drawn, queries that are duplicates or
near-duplicates of each other stay in one part, and so do those with the same answer, where
judgements are given and that leaves parts of about the shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tamis.errors import InputError
from tamis.text.near import connected_groups, near_any, near_duplicates, query_hash
from tamis.types import Ids, Qrels, Queries

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def is_test(split: str) -> bool:
    """Whether a split is held out: whether its name contains "test", in any case.

    >>> [is_test(name) for name in ("test", "devtest", "TestA", "latest", "train")]
    [True, True, True, True, False]
    """
    return "test" in split.casefold()


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The queries of test splits: what repeats one of them may not be learnt from.

    >>> from tamis.types import Query
    >>> texts = {"a": "drum sieve", "b": "Drum sieve?", "c": "sift flour"}
    >>> queries = Queries.of(Query(name, text) for name, text in texts.items())
    >>> held_out = HeldOut.of({"test": Qrels.from_dict({"a": {"d1": 1}})}, queries)
    >>> held_out.splits, [*held_out.leaks(queries)]
    (('test',), ['a', 'b'])
    """

    splits: tuple[str, ...]
    ids: Ids
    texts: tuple[str, ...] = ()
    """Those that are known."""
    hashes: frozenset[str] = frozenset()
    """Those of the texts, and of test queries of which nothing else is known."""

    @classmethod
    def of(
        cls, splits: Mapping[str, Qrels], queries: Queries | None, hashes: Iterable[str] = ()
    ) -> HeldOut:
        """The queries of the test splits among some judgements, with their texts where known."""
        names = tuple(name for name in splits if is_test(name))
        ids = Ids.of([])
        for name in names:
            ids = ids.union(splits[name].queries)
        return cls.of_queries(ids, queries, hashes, names)

    @classmethod
    def of_queries(
        cls,
        ids: Ids,
        queries: Queries | None,
        hashes: Iterable[str] = (),
        splits: tuple[str, ...] = (),
    ) -> HeldOut:
        """These queries, with their texts where known."""
        texts: tuple[str, ...] = ()
        if queries is not None and queries.texts is not None:
            places = ids.positions_in(queries.ids)
            texts = tuple(queries.texts[place] for place in places[places >= 0].tolist())
            texts = tuple(text for text in texts if text.strip())
        return cls(splits, ids, texts, frozenset([*hashes, *map(query_hash, texts)]))

    def leaks(self, queries: Queries) -> Ids:
        """Those of the queries that are test queries, or the same as one, or nearly the same."""
        leaking = queries.ids.positions_in(self.ids) >= 0
        if queries.texts is not None and self.hashes:
            same = [
                bool(text.strip()) and query_hash(text) in self.hashes for text in queries.texts
            ]
            leaking |= np.array(same, bool)
        if queries.texts is not None and self.texts:
            leaking[near_any(queries.texts, self.texts)] = True
        return queries.ids.select(np.flatnonzero(leaking))


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
    sizes = {name: share / total * len(queries) for name, share in shares.items()}
    numbers_by_split: dict[str, list[int]] = {name: [] for name in shares}
    for group in groups:
        emptiest = max(
            numbers_by_split,
            key=lambda name: (sizes[name] - len(numbers_by_split[name])) / sizes[name],
        )
        numbers_by_split[emptiest].extend(group)
    return {
        name: queries.ids.select(np.array(sorted(numbers), int))
        for name, numbers in numbers_by_split.items()
    }


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
        (
            queries.ids.select(np.setdiff1d(everything, held_out_ids.positions_in(queries.ids))),
            held_out_ids,
        )
        for held_out_ids in held_out
    ]


def _shuffled_groups(
    queries: Queries, seed: int, answers: Qrels | None, room: float
) -> list[list[int]]:
    """Queries that belong together, in a seeded order; large groups first, so that they fit."""
    alike = near_duplicates(queries.texts) if queries.texts is not None else []
    if answers is not None:
        connected = [*alike, *_groups_by_answer(queries.ids, answers)]
        pairs = ((group[0], other) for group in connected for other in group[1:])
        both = connected_groups(pairs, len(queries))
        alike = both if max(map(len, both), default=0) <= room else alike
    grouped = {number for group in alike for number in group}
    groups = alike + [[number] for number in range(len(queries)) if number not in grouped]
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    return sorted((groups[n] for n in order), key=len, reverse=True)


def _groups_by_answer(ids: Ids, qrels: Qrels) -> list[list[int]]:
    """The numbers of queries that share a relevant document, one group per document."""
    whose = np.repeat(qrels.queries.positions_in(ids), np.diff(qrels.offsets))
    is_relevant = (qrels.grade > 0) & (whose >= 0)
    doc, query = qrels.doc[is_relevant], whose[is_relevant]
    order = np.argsort(doc, kind="stable")
    groups = np.split(query[order], np.flatnonzero(np.diff(doc[order])) + 1)
    return [group.tolist() for group in groups if len(group) > 1]
