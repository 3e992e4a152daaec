"""What a collection has to learn from and to test with, and the parts of its queries.

Given splits are kept: test splits (`splits.is_test`) are for testing, every other is to learn and
to choose on. Where no split is for testing, judged queries are parted so that near-duplicates and,
where possible, queries with the same answer stay together, if there are enough of them to test on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.search import Index
from tamis.splits import HeldOut, is_test, split
from tamis.types import Ids, Qrels, Queries

PARTED = 40
"""How many judged queries there must be for some of them to be set aside for testing."""
TESTED = 300
"""How many test queries are used at most, drawn with the seed: the others would cost more than
they tell."""
LONG = 300
"""From how many words on average documents are scored by passages."""
PASSAGES = "words:150"
PASSAGE_WORDS = 150
LEARNT = 5_000
"""How many judged queries are learnt from at most in half an hour."""
UNANSWERED = 50
"""How many queries without an answer are looked at in each part: enough for a threshold."""
SHARES = {"learn": 0.6, "test": 0.4}
UNUSABLE = {
    "judged queries without text": "are these judgements of these queries? (--queries FILE)",
    "judgements of documents that are not there": "are these judgements of this collection?",
    "judged queries whose answers are not there": "are these judgements of this collection?",
}
"""Why judgements cannot be used, and what to do about it."""
SHOWN_IDS = 3
"""How many ids a warning names."""
UNLEARNT = "judged queries, more than are learnt from"
UNTESTED = "judged queries, more than are tested on"
NOTHING = Qrels.from_dict({})


@dataclass(frozen=True, eq=False)
class Parts:
    """The queries by what they are for; every query has a text, every judged one an answer."""

    learn: Qrels
    test: Qrels
    queries: Queries
    """All of them."""
    log: Queries
    """Those that may be learnt from without judgements: none of the test queries."""
    judged: Ids
    """Those that have judgements, used or not."""
    given: bool
    """Whether the test queries are those of a split that was there."""
    left_out: Mapping[str, int]
    unanswered: tuple[Queries, Queries]
    """Judged to have no answer: to calibrate on, and to test that on."""
    test_splits: tuple[str, ...] = ()
    """The splits that are held out."""
    warnings: tuple[str, ...] = ()
    """Which judgements cannot be used, and why."""

    @property
    def shared(self) -> int:
        """How many test queries have an answer that a query to learn from has too."""
        answers = _answers(self.learn)
        return sum(bool(answers & _answers(self.test, query)) for query in self.test)

    def tested_on(self, most: int, seed: int) -> Parts:
        """The same with so many test queries at most; how many are left out is counted."""
        test = sampled(self.test, most, seed)
        counts = Counter(self.left_out)
        counts[UNTESTED] += len(self.test) - len(test)
        return replace(self, test=test, left_out={what: n for what, n in counts.items() if n})

    def asked(self, qrels: Qrels) -> Queries:
        """The queries of some judgements, with their texts."""
        return self.queries.select(qrels.queries.positions_in(self.queries.ids))

    def facts(self) -> dict[str, Any]:
        """What there is, in words and numbers."""
        how = "drawn from the judged queries"
        if self.given:
            splits = ", ".join(self.test_splits)
            how = f"held out: split{'s' * (len(self.test_splits) > 1)} {splits}"
        found: dict[str, Any] = {
            "queries": len(self.queries),
            "judged, to learn and choose on": len(self.learn),
            "judged, to test on": f"{len(self.test):,} ({how})" if len(self.test) else 0,
            "not judged": len(self.queries) - len(self.judged),
        }
        if self.shared:
            found["test queries with an answer that is also learnt from"] = self.shared
        if any(map(len, self.unanswered)):
            found["judged to have no answer"] = sum(map(len, self.unanswered))
        return found | ({"left out": dict(self.left_out)} if self.left_out else {})


def parted(
    queries: Queries,
    qrels: Mapping[str, Qrels],
    documents: Ids,
    *,
    seed: int = 0,
    tested: int = TESTED,
    learnt: int = LEARNT,
) -> Parts:
    """The parts of a collection's queries: so many judged ones at most, drawn with the seed.

    >>> from tamis.types import Query
    >>> log = Queries.of([Query("q1", "sieve"), Query("q2", "drum")])
    >>> judged = {"train": Qrels.from_dict({"q1": {"d1": 1, "d9": 1}})}
    >>> parts = parted(log, judged, Ids.of(["d1", "d2"]))
    >>> len(parts.learn), len(parts.test), len(parts.log)
    (1, 0, 2)
    >>> dict(parts.left_out)
    {'judgements of documents that are not there': 1}
    """
    counts: Counter[str] = Counter()
    unusable = Unusable(counts)
    texts = queries.texts or ()
    asked = queries.select(np.flatnonzero([bool(text.strip()) for text in texts]))
    counts["queries without text"] = len(queries) - len(asked)
    both = {name: _usable(each, asked, documents, unusable) for name, each in qrels.items()}
    usable = {name: found for name, (found, _) in both.items()}
    named = [name for name in usable if is_test(name)]
    test = joined([usable[name] for name in named])
    learn = without(joined([usable[name] for name in usable if name not in named]), test.queries)
    given = bool(len(test))
    if not given and len(learn) >= PARTED:
        learn, test = _parted(learn, asked, seed)
    answered = joined([*usable.values()]).queries
    unusable.refuse_all(qrels, [*answered, *(query for _, ids in both.values() for query in ids)])
    none = {name: without_ids(ids, answered) for name, (_, ids) in both.items()}
    unanswered = _unanswered(none, asked, seed)
    hidden = test.queries.union(unanswered[1].ids)
    for name in named:
        hidden = hidden.union(qrels[name].queries)
    leaking = HeldOut.of_queries(hidden, asked).leaks(asked)
    alike = without_ids(leaking, hidden)
    counts["queries nearly the same as a test query"] = len(alike)
    learn, hidden = without(learn, alike), hidden.union(alike)
    unanswered = _without(unanswered[0], alike), unanswered[1]
    log = _without(asked, hidden)
    known = Ids.of([])
    for each in qrels.values():
        known = known.union(each.queries)
    known = known.select(np.flatnonzero(known.positions_in(asked.ids) >= 0))
    some = sampled(learn, learnt, seed)
    counts[UNLEARNT] = len(learn) - len(some)
    left_out = {what: count for what, count in counts.items() if count}
    parts = Parts(
        some, test, asked, log, known, given, left_out, unanswered, tuple(named),
        tuple(unusable.warnings()),
    )  # fmt: skip
    return parts.tested_on(tested, seed)


def _parted(learn: Qrels, asked: Queries, seed: int) -> tuple[Qrels, Qrels]:
    """Judged queries to learn from and to test on; all to learn from where they are too alike."""
    judged = asked.select(learn.queries.positions_in(asked.ids))
    try:
        parts = split(judged, SHARES, seed=seed, answers=learn)
    except InputError:
        return learn, NOTHING
    return learn.select(parts["learn"]), learn.select(parts["test"])


def _without(queries: Queries, ids: Ids) -> Queries:
    return queries.select(np.flatnonzero(queries.ids.positions_in(ids) < 0))


def without_ids(ids: Ids, others: Ids) -> Ids:
    """The ids that are not among others."""
    return ids.select(np.flatnonzero(ids.positions_in(others) < 0))


def _unanswered(splits: Mapping[str, Ids], asked: Queries, seed: int) -> tuple[Queries, Queries]:
    """Queries judged to have no answer: those of test splits to test on, else drawn."""
    parts = [Ids.of([]), Ids.of([])]
    for name, none in splits.items():
        parts[is_test(name)] = parts[is_test(name)].union(none)
    learn, test = (asked.select(each.positions_in(asked.ids)) for each in parts)
    if len(learn) >= PARTED and not any(map(is_test, splits)):
        drawn = np.random.default_rng(seed).permutation(len(learn))
        cut = round(SHARES["learn"] * len(drawn))
        learn, test = (learn.select(np.sort(each)) for each in (drawn[:cut], drawn[cut:]))
    overlap = learn.ids.positions_in(test.ids) >= 0
    kept = np.flatnonzero(~overlap)[:UNANSWERED]
    return learn.select(kept), test.select(np.arange(min(len(test), UNANSWERED)))


def sampled(qrels: Qrels, count: int, seed: int) -> Qrels:
    """The judgements of so many queries at most, drawn with a seed."""
    if len(qrels) <= count:
        return qrels
    chosen = np.random.default_rng(seed).permutation(len(qrels))[:count]
    return qrels.select(qrels.queries.select(np.sort(chosen)))


def without(qrels: Qrels, queries: Ids) -> Qrels:
    """The judgements of other queries than these."""
    return qrels.select(without_ids(qrels.queries, queries))


def joined(parts: list[Qrels]) -> Qrels:
    """Judgements in one; of a document that several judge, the first part's count."""
    judged: dict[str, dict[str, int]] = {}
    for part in parts:
        for query in part.queries:
            judged[query] = {**part[query], **judged.get(query, {})}
    return Qrels.from_dict(judged)


def _answers(qrels: Qrels, *queries: str) -> set[str]:
    """The documents that answer some queries, or any."""
    return {doc for query in queries or qrels for doc, grade in qrels[query].items() if grade > 0}


@dataclass(frozen=True)
class Unusable:
    """Judgements that cannot be used, counted by reason, with the first ids of each."""

    counts: Counter[str]
    ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, reason: str, ids: Ids, rows: int | None = None) -> None:
        """Count these queries or documents, or as many rows as they have."""
        self.counts[reason] += len(ids) if rows is None else rows
        room = SHOWN_IDS - len(self.ids[reason])
        self.ids[reason] += [ids[number] for number in range(min(room, len(ids)))]

    def warnings(self) -> list[str]:
        """A sentence for each reason, with what to do."""
        return [f"{self._told(reason)}; {hint}" for reason, hint in UNUSABLE.items()
                if self.counts[reason]]  # fmt: skip

    def refuse_all(self, qrels: Mapping[str, Qrels], usable: list[str]) -> None:
        """Refuse judgements of which none can be used."""
        judged = {query for split in qrels.values() for query in split.queries}
        if judged and not usable:
            reasons = [reason for reason in UNUSABLE if self.counts[reason]]
            why = "; ".join(map(self._told, reasons)) or "they judge nothing"
            raise InputError(
                f"none of the {len(judged):,} judged queries can be used: {why}",
                hint=UNUSABLE[reasons[0]] if reasons else "is it the right file?",
            )

    def _told(self, reason: str) -> str:
        return f"{self.counts[reason]:,} {reason}, such as {', '.join(self.ids[reason])}"


def _usable(qrels: Qrels, asked: Queries, documents: Ids, unusable: Unusable) -> tuple[Qrels, Ids]:
    """The judgements that can be used: of queries with a text, of documents that are there; and
    the queries of which no document is right, be it there or not.
    """
    there = (qrels.docs.positions_in(documents) >= 0)[qrels.doc]
    absent = qrels.docs.select(np.unique(qrels.doc[~there]))
    unusable.add("judgements of documents that are not there", absent, int((~there).sum()))
    whose = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    rows = _rows(qrels, whose, there)
    has_text = rows.queries.positions_in(asked.ids) >= 0
    unusable.add("judged queries without text", rows.queries.select(np.flatnonzero(~has_text)))
    rows = rows.select(rows.queries.select(np.flatnonzero(has_text)))
    query = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    answered = np.bincount(query[rows.grade > 0], minlength=len(rows)) > 0
    right, none = (rows.queries.select(np.flatnonzero(each)) for each in (answered, ~answered))
    gone = qrels.queries.select(np.unique(whose[(qrels.grade > 0) & ~there]))
    lost = none.select(np.flatnonzero(none.positions_in(gone) >= 0))
    unusable.add("judged queries whose answers are not there", lost)
    return rows.select(right), without_ids(none, lost)


def _rows(qrels: Qrels, query: NDArray[np.int64], kept: NDArray[np.bool_]) -> Qrels:
    rows = query[kept].astype(np.int32)
    return Qrels.of_rows(qrels.queries, qrels.docs, rows, qrels.doc[kept], qrels.grade[kept])


def average_words(index: Index) -> float:
    """How many words a document has on average, stop words aside."""
    return index.total_terms / max(1, index.documents)


def passages_for(index: Index) -> str:
    """How documents are split: not at all where most are short."""
    return PASSAGES if average_words(index) > LONG else "whole"
