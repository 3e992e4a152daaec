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
from tamis.labels._groups import Group, Ints, as_examples, draw, generator, group_of
from tamis.labels.examples import Examples, Role
from tamis.types import Ids, Qrels, Queries, Run

Negatives = Literal["run", "random", "judged", "mixed"]
NEGATIVE_SOURCES: dict[Negatives, tuple[str, ...]] = {
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
    """Negatives drawn per query; None makes all of them a pool."""
    depth: int = 100
    seed: int = 0
    missing: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        if self.negatives not in NEGATIVE_SOURCES:
            sources = ", ".join(NEGATIVE_SOURCES)
            raise InputError(f"negatives come from {sources}, not {self.negatives!r}")
        for name, value in {"grade": self.grade, "depth": self.depth, "count": self.count}.items():
            if value is not None and value < 1:
                raise InputError(f"a {name} of {value} is too low", hint="use 1 or more")

    @property
    def sources(self) -> tuple[str, ...]:
        """Where negatives come from, one by one."""
        return NEGATIVE_SOURCES[self.negatives]

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

    def __init__(
        self, queries_to_label: Ids, queries: Ids, offsets: NDArray[np.int64], doc: Ints
    ) -> None:
        self._number, self._offsets, self._doc = (
            queries_to_label.positions_in(queries),
            offsets,
            doc,
        )

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
        run_top = None if run is None or "run" not in rule.sources else run.top(rule.depth)
        self.rule, self.queries, self.counts = rule, queries, Counter[str]()
        self.docs = qrels.docs if documents is None else documents.union(qrels.docs)
        self.docs = self.docs if run_top is None else self.docs.union(run_top.docs)
        in_collection = None if documents is None else self.docs.positions_in(documents) >= 0
        self.in_collection: NDArray[np.bool_] = (
            np.ones(len(self.docs), bool) if in_collection is None else in_collection
        )
        self.collection_docs = np.flatnonzero(self.in_collection).astype(np.int32)
        judged = qrels.docs.positions_in(self.docs)[qrels.doc]
        self.judged = _Lists(queries.ids, qrels.queries, qrels.offsets, judged)
        self.grade = qrels.grade
        self.run_lists = None
        if run_top is not None:
            docs = run_top.docs.positions_in(self.docs)[run_top.doc]
            self.run_lists = _Lists(queries.ids, run_top.queries.ids, run_top.offsets, docs)

    def group(self, query: int) -> Group | None:
        """The rows of a query; None if it has no positive."""
        judged, grades = self.judged.of(query), self.grade[self.judged.rows(query)]
        if not len(judged):
            self.counts["excluded_queries_without_a_judgement"] += 1
            return None
        positives = self._present(query, judged[grades >= self.rule.grade], "judged relevant")
        if not len(positives):
            self.counts["excluded_queries_without_a_positive"] += 1
            return None
        below_grade = (grades > 0) & (grades < self.rule.grade)
        self.counts["excluded_documents_below_grade"] += int(below_grade.sum())
        negatives = self._negatives(query, judged[grades > 0], judged[grades <= 0])
        return group_of(query, positives, negatives, self.rule.role)

    def _negatives(self, query: int, relevant: Ints, zeros: Ints) -> Ints:
        random = generator(self.rule.seed, self.queries.ids[query])
        lists: list[Ints] = []
        for source in self.rule.sources:
            if source == "judged":
                docs = self._present(query, zeros, "judged 0")
            elif source == "run" and self.run_lists is not None:
                docs = self._present(query, self.run_lists.of(query), "of the run")
            else:
                docs = self._random(relevant, random)
            lists.append(draw(docs[~np.isin(docs, relevant)], self.rule.count, random))
        return interleave(lists)[: self.rule.count]

    def _random(self, relevant: Ints, random: np.random.Generator) -> Ints:
        """Random documents of the collection that are not relevant."""
        size = (self.rule.count or self.rule.depth) + len(relevant)
        docs = random.choice(
            self.collection_docs, min(size, len(self.collection_docs)), replace=False
        )
        return docs[~np.isin(docs, relevant)][: self.rule.count or self.rule.depth]

    def _present(self, query: int, docs: Ints, description: str) -> Ints:
        """Those that are in the collection; others are an error, or counted."""
        in_collection = self.in_collection[docs]
        if in_collection.all():
            return docs
        if self.rule.missing == "raise":
            raise InputError(
                f"document {self.docs[int(docs[~in_collection][0])]!r}, {description} for query "
                f"{self.queries.ids[query]!r}, is not in the collection",
                hint="is it the right collection? --on-error skip (missing='skip') leaves it out",
            )
        self.counts[f"left out: documents {description}, not in the collection"] += int(
            (~in_collection).sum()
        )
        return docs[in_collection]

    def facts(self) -> dict[str, Any]:
        """How the rows are made."""
        rule = self.rule
        return {
            "labelled_by": "gold",
            "grade": rule.grade,
            "negatives_from": rule.negatives,
            "negatives_per_query": rule.count,
            "depth": rule.depth,
            "seed": rule.seed,
        }


def interleave(lists: list[Ints]) -> Ints:
    """One of each list after the other, none twice.

    >>> interleave([np.array([1, 2, 3]), np.array([4, 1])]).tolist()
    [1, 4, 2, 3]
    """
    if len(lists) == 1:
        return lists[0]
    turns = chain.from_iterable(zip_longest(*(docs.tolist() for docs in lists)))
    return np.array([docs for docs in dict.fromkeys(turns) if docs is not None], np.int32)
