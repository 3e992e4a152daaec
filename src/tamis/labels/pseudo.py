"""Examples without judgements: the first stage's best document against others of its list."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tamis.durable import Progress
from tamis.errors import InputError
from tamis.labels._groups import Group, Ints, as_examples, draw, generator, group_of
from tamis.labels.examples import Examples, Role
from tamis.types import Ranking, Run


def pseudo(
    run: Run,
    *,
    negatives_per_query: int | None = 10,
    positives: int = 1,
    first: int | None = None,
    depth: int = 100,
    margin: float | None = None,
    seed: int = 0,
) -> Examples:
    """A group for every query of the run: its first documents are positive, others negative.

    Ranks 1 to `positives` are positive. Negatives come from ranks `first` (the one after the
    positives, if unset) to `depth`, that many per query, drawn at random; without a number all of
    them are a pool, from which training draws afresh every epoch. With a `margin` of 0.2 a
    negative's score is at least 20% below the first document's. A query with fewer than two
    results, or left without a negative, gives nothing and is counted in `facts`. Judgements play
    no part.

    >>> run = Run.from_dict({"q1": {"d1": 3.0, "d2": 2.9, "d3": 1.0}})
    >>> made = pseudo(run, margin=0.2)
    >>> made.docs.take(made.doc), made.value.tolist()
    (['d1', 'd3'], [1.0, 0.0])
    """
    first = positives + 1 if first is None else first
    _check(negatives_per_query, positives, first, depth, margin)
    counts: Counter[str] = Counter()
    groups: list[Group] = []
    with Progress("labelling", len(run), "queries") as progress:
        for query, name in enumerate(run.queries.ids):
            progress.advance()
            ranking = run.ranking(query)
            if len(ranking) < 2:
                counts["excluded_queries_with_fewer_than_two_results"] += 1
                continue
            eligible = _far_enough(ranking, first, depth, margin, name)
            negatives = draw(eligible, negatives_per_query, generator(seed, name))
            if not len(negatives):
                counts["excluded_queries_without_a_negative"] += 1
                continue
            role: Role = "pool" if negatives_per_query is None else "negative"
            groups.append(group_of(query, ranking.doc[:positives], negatives, role))
    if not groups:
        raise InputError(
            f"none of {len(run):,} queries has a positive and a negative",
            hint="search deeper, or allow ranks and scores closer to the first",
        )
    facts = {
        "labelled_by": "pseudo",
        "positives": positives,
        "negatives_per_query": negatives_per_query,
        "negatives_from_rank": first,
        "depth": depth,
        "margin": margin,
        "seed": seed,
    }
    return as_examples(run.queries, run.docs, groups, "pseudo", facts, counts)


def _check(count: int | None, positives: int, first: int, depth: int, margin: float | None) -> None:
    for name, value in {"positives": positives, "negatives_per_query": count}.items():
        if value is not None and value < 1:
            raise InputError(f"{name}: {value} is too low", hint="use 1 or more")
    if first <= positives:
        raise InputError(
            f"rank {first} would be positive and negative", hint=f"begin at rank {positives + 1}"
        )
    if depth < first:
        raise InputError(f"there is no rank from {first} to {depth}", hint="go deeper")
    if margin is not None and not 0 <= margin < 1:
        raise InputError(f"a margin of {margin:g} is no share of a score", hint="0.2 is 20%")


def _far_enough(ranking: Ranking, first: int, depth: int, margin: float | None, query: str) -> Ints:
    """The documents of these ranks whose scores lie far enough below the first."""
    docs: Ints = ranking.doc[first - 1 : depth]
    if margin is None:
        return docs
    score = ranking.score[first - 1 : depth]
    if ranking.score[0] <= 0:
        raise InputError(
            f"the best score of query {query!r} is {ranking.score[0]:g}: no share can be taken",
            hint="a margin is for scores above 0, as BM25's are",
        )
    far: Ints = docs[score <= np.float32(1 - margin) * ranking.score[0]]
    return far
