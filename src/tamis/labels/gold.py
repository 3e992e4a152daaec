"""Examples from judgements: what was judged relevant against what was not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.durable import Progress
from tamis.errors import InputError
from tamis.labels._groups import Group, Ints, as_examples, drawn, generator, group_of
from tamis.labels.examples import Examples, Role
from tamis.types import Ids, Qrels, Queries, Run

Negatives = Literal["run", "random", "judged", "mixed"]
SOURCES_OF: dict[Negatives, tuple[str, ...]] = {
    "run": ("run",),
    "random": ("random",),
    "judged": ("judged",),
    "mixed": ("judged", "run", "random"),
}
"""Where negatives come from: the first stage's list, all documents, those judged 0, or all three
in turn."""


@dataclass(frozen=True)
class Rule:
    """Which documents are positive and which may be negative."""

    grade: int = 1
    negatives: Negatives = "run"
    count: int | None = None
    """How many negatives are drawn a query; without a number all are a pool."""
    depth: int = 100
    seed: int = 0
    missing: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        if self.negatives not in SOURCES_OF:
            known = ", ".join(SOURCES_OF)
            raise InputError(f"negatives come from {known}, not {self.negatives!r}")
        for what, value in {"grade": self.grade, "depth": self.depth, "count": self.count}.items():
            if value is not None and value < 1:
                raise InputError(f"a {what} of {value} is too low", hint="it is 1 or more")

    @property
    def sources(self) -> tuple[str, ...]:
        """Where negatives come from, one by one."""
        return SOURCES_OF[self.negatives]

    @property
    def role(self) -> Role:
        """What rows that are not positive are for."""
        return "pool" if self.count is None else "negative"


def gold(
    qrels: Qrels,
    queries: Queries,
    run: Run | None = None,
    documents: Ids | None = None,
    *,
    grade: int = 1,
    negatives: Negatives = "run",
    negatives_per_query: int | None = None,
    depth: int = 100,
    seed: int = 0,
    missing: Literal["raise", "skip"] = "raise",
) -> Examples:
    """A group for every query that has a document judged `grade` or better: those are positive.

    Without `negatives_per_query` all that may be negative is a pool, from which training draws
    afresh every epoch: the first `depth` documents of the run, as many random ones, whatever was
    judged 0. With a number, so many are drawn now. A document judged above 0 is never among them,
    not even below the grade. `documents` are the ids of the collection: a document that is not
    among them is an error, or with `missing="skip"` left out and counted. Counts are in `facts`.

    >>> qrels = Qrels.from_dict({"q1": {"d1": 2, "d2": 1}})
    >>> run = Run.from_dict({"q1": {"d1": 3.0, "d2": 2.0, "d3": 1.0}})
    >>> made = gold(qrels, run.queries, run, grade=2)
    >>> made.docs.take(made.doc), made.value.tolist(), made.facts["counts"]["pool"]
    (['d1', 'd3'], [1.0, 0.0], 1)
    """
    rule = Rule(grade, negatives, negatives_per_query, depth, seed, missing)
    labelling = _Labelling(qrels, queries, run, documents, rule)
    groups: list[Group] = []
    with Progress("labelling", len(queries), "queries") as progress:
        for number in range(len(queries)):
            progress.advance()
            group = labelling.group(number)
            if group is not None:
                groups.append(group)
    if not groups:
        raise InputError(
            f"none of {len(queries):,} queries has a document judged {grade} or better",
            hint="are queries and judgements of the same split?",
        )
    return as_examples(queries, labelling.docs, groups, "gold", labelling.facts(), labelling.counts)


class _Lists:
    """The documents that some queries have, by the number of the query among all."""

    def __init__(self, asked: Ids, queries: Ids, offsets: NDArray[np.int64], doc: Ints) -> None:
        self._number, self._offsets, self._doc = asked.positions_in(queries), offsets, doc

    def rows(self, query: int) -> slice:
        number = int(self._number[query])
        if number < 0:
            return slice(0, 0)
        return slice(int(self._offsets[number]), int(self._offsets[number + 1]))

    def of(self, query: int) -> Ints:
        return self._doc[self.rows(query)]


class _Labelling:
    """Judgements, lists and documents in one table of ids, and what was counted."""

    def __init__(
        self, qrels: Qrels, queries: Queries, run: Run | None, documents: Ids | None, rule: Rule
    ) -> None:
        if "run" in rule.sources and run is None:
            raise InputError("there is no run to take negatives from", hint="search first")
        if "random" in rule.sources and documents is None:
            raise InputError("random negatives need the ids of all documents")
        listed = None if run is None or "run" not in rule.sources else run.top(rule.depth)
        self.rule, self.queries, self.counts = rule, queries, Counter[str]()
        self.docs = qrels.docs if documents is None else documents.union(qrels.docs)
        self.docs = self.docs if listed is None else self.docs.union(listed.docs)
        there = None if documents is None else self.docs.positions_in(documents) >= 0
        self.there: NDArray[np.bool_] = np.ones(len(self.docs), bool) if there is None else there
        self.everything = np.flatnonzero(self.there).astype(np.int32)
        judged = qrels.docs.positions_in(self.docs)[qrels.doc]
        self.judged = _Lists(queries.ids, qrels.queries, qrels.offsets, judged)
        self.grade = qrels.grade
        self.listed = None
        if listed is not None:
            found = listed.docs.positions_in(self.docs)[listed.doc]
            self.listed = _Lists(queries.ids, listed.queries.ids, listed.offsets, found)

    def group(self, query: int) -> Group | None:
        """The rows of a query; nothing where it has no positive."""
        judged, grades = self.judged.of(query), self.grade[self.judged.rows(query)]
        if not len(judged):
            self.counts["left out: queries without a judgement"] += 1
            return None
        positives = self._present(query, judged[grades >= self.rule.grade], "judged relevant")
        if not len(positives):
            self.counts["left out: queries without a positive"] += 1
            return None
        between = (grades > 0) & (grades < self.rule.grade)
        self.counts["left out: documents judged above 0, below the grade"] += int(between.sum())
        others = self._negatives(query, judged[grades > 0], judged[grades <= 0])
        return group_of(query, positives, others, self.rule.role)

    def _negatives(self, query: int, relevant: Ints, zeros: Ints) -> Ints:
        random = generator(self.rule.seed, self.queries.ids[query])
        lists: list[Ints] = []
        for source in self.rule.sources:
            if source == "judged":
                found = self._present(query, zeros, "judged 0")
            elif source == "run" and self.listed is not None:
                found = self._present(query, self.listed.of(query), "of the run")
            else:
                found = self._random(relevant, random)
            lists.append(drawn(found[~np.isin(found, relevant)], self.rule.count, random))
        return in_turn(lists)[: self.rule.count]

    def _random(self, relevant: Ints, random: np.random.Generator) -> Ints:
        """Random documents, as many as can be wanted."""
        wanted = (self.rule.count or self.rule.depth) + len(relevant)
        found = random.choice(self.everything, min(wanted, len(self.everything)), replace=False)
        return found[~np.isin(found, relevant)][: self.rule.count or self.rule.depth]

    def _present(self, query: int, found: Ints, what: str) -> Ints:
        """Those that are in the collection; others are an error, or counted."""
        there = self.there[found]
        if there.all():
            return found
        if self.rule.missing == "raise":
            raise InputError(
                f"document {self.docs[int(found[~there][0])]!r}, {what} for query "
                f"{self.queries.ids[query]!r}, is not in the collection",
                hint="is it the right collection? --on-error skip (missing='skip') leaves it out",
            )
        self.counts[f"left out: documents {what}, not in the collection"] += int((~there).sum())
        return found[there]

    def facts(self) -> dict[str, Any]:
        """How the rows are made."""
        rule = self.rule
        return {
            "made by": "gold",
            "grade": rule.grade,
            "negatives from": rule.negatives,
            "negatives per query": rule.count,
            "depth": rule.depth,
            "seed": rule.seed,
        }


def in_turn(lists: list[Ints]) -> Ints:
    """One of each list after the other, none twice.

    >>> in_turn([np.array([1, 2, 3]), np.array([4, 1])]).tolist()
    [1, 4, 2, 3]
    """
    if len(lists) == 1:
        return lists[0]
    turns = chain.from_iterable(zip_longest(*(each.tolist() for each in lists)))
    return np.array([each for each in dict.fromkeys(turns) if each is not None], np.int32)
