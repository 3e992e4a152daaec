"""The queries of a fit by what they are used for: to train and select on, to test on, unjudged.

Splits of the collection are kept: test splits (`splits.is_test`) are tested on, every other is
trained and selected on. Without a test split, judged queries are split so that near-duplicates and,
where possible, queries with the same answer stay together, if there are enough of them.
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

MIN_JUDGED_TO_SPLIT = 40
"""How many judged queries there must be for some of them to be set aside for a test."""
MAX_TEST_QUERIES = 300
"""How many test queries are used at most, drawn with the seed."""
LONG_DOCUMENT_WORDS = 300
"""Longer documents, on average, are scored by passages."""
PASSAGE_SPEC = "words:150"
PASSAGE_WORDS = 150
MAX_TRAIN_QUERIES = 5_000
"""How many judged queries are trained on at most in half an hour."""
MAX_UNANSWERABLE = 50
"""How many queries without an answer are used in each split: enough for a threshold."""
SHARES = {"train": 0.6, "test": 0.4}
UNUSABLE = {
    "judged queries without text": "are these judgements of these queries? (--queries FILE)",
    "judgements of documents that are not there": "are these judgements of this collection?",
    "judged queries whose answers are not there": "are these judgements of this collection?",
}
"""Why judgements cannot be used, and what to do about it."""
SHOWN_IDS = 3
"""How many ids a warning names."""
NOT_TRAINED_ON = "judged queries beyond the most that are trained on"
NOT_TESTED_ON = "judged queries beyond the most that are tested on"
NOTHING = Qrels.from_dict({})


@dataclass(frozen=True, eq=False)
class QuerySplits:
    """The queries by use; every query has a text, every judged one an answer."""

    train: Qrels
    """To train and select on."""
    test: Qrels
    queries: Queries
    """All of them."""
    log: Queries
    """Those that may be trained on without judgements: none of the test queries."""
    judged: Ids
    """Those that have judgements, used or not."""
    has_test_split: bool
    """Whether the test queries are those of a split of the collection."""
    left_out: Mapping[str, int]
    unanswerable: tuple[Queries, Queries]
    """Judged to have no answer: to calibrate on, and to test the threshold on."""
    test_splits: tuple[str, ...] = ()
    """The splits that are held out."""
    warnings: tuple[str, ...] = ()
    """Which judgements cannot be used, and why."""

    @property
    def sharing_answers(self) -> int:
        """How many test queries have an answer that a training query has too."""
        answers = _answers(self.train)
        return sum(bool(answers & _answers(self.test, query)) for query in self.test)

    def with_test_sample(self, most: int, seed: int) -> QuerySplits:
        """The same with so many test queries at most; how many are left out is counted."""
        test = sample(self.test, most, seed)
        counts = Counter(self.left_out)
        counts[NOT_TESTED_ON] += len(self.test) - len(test)
        return replace(self, test=test, left_out={what: n for what, n in counts.items() if n})

    def queries_of(self, qrels: Qrels) -> Queries:
        """The queries of some judgements, with their texts."""
        return self.queries.select(qrels.queries.positions_in(self.queries.ids))

    def facts(self) -> dict[str, Any]:
        """What there is, by what it is called."""
        how = "drawn from the judged queries"
        if self.has_test_split:
            splits = ", ".join(self.test_splits)
            how = f"held out: split{'s' * (len(self.test_splits) > 1)} {splits}"
        facts: dict[str, Any] = {
            "queries": len(self.queries),
            "judged_queries_for_training_and_selection": len(self.train),
            "judged_queries_for_the_test": f"{len(self.test):,} ({how})" if len(self.test) else 0,
            "queries_without_judgements": len(self.queries) - len(self.judged),
        }
        if self.sharing_answers:
            facts["test_queries_with_an_answer_of_a_training_query"] = self.sharing_answers
        if any(map(len, self.unanswerable)):
            facts["queries_judged_to_have_no_answer"] = sum(map(len, self.unanswerable))
        return facts | (
            {"left_out": {what.replace(" ", "_"): n for what, n in self.left_out.items()}}
            if self.left_out
            else {}
        )


def split_queries(
    queries: Queries,
    qrels: Mapping[str, Qrels],
    documents: Ids,
    *,
    seed: int = 0,
    max_test: int = MAX_TEST_QUERIES,
    max_train: int = MAX_TRAIN_QUERIES,
) -> QuerySplits:
    """The splits of a collection's queries: so many judged ones at most, drawn with the seed.

    >>> from tamis.types import Query
    >>> log = Queries.of([Query("q1", "sieve"), Query("q2", "drum")])
    >>> judged = {"train": Qrels.from_dict({"q1": {"d1": 1, "d9": 1}})}
    >>> splits = split_queries(log, judged, Ids.of(["d1", "d2"]))
    >>> len(splits.train), len(splits.test), len(splits.log)
    (1, 0, 2)
    >>> dict(splits.left_out)
    {'judgements of documents that are not there': 1}
    """
    counts: Counter[str] = Counter()
    unusable = Unusable(counts)
    texts = queries.texts or ()
    with_text = queries.select(np.flatnonzero([bool(text.strip()) for text in texts]))
    counts["queries without text"] = len(queries) - len(with_text)
    both = {
        name: _usable(split_qrels, with_text, documents, unusable)
        for name, split_qrels in qrels.items()
    }
    usable = {name: judgements for name, (judgements, _) in both.items()}
    test_splits = [name for name in usable if is_test(name)]
    test = join_qrels([usable[name] for name in test_splits])
    other_qrels = join_qrels([usable[name] for name in usable if name not in test_splits])
    train = without(other_qrels, test.queries)
    has_test_split = bool(len(test))
    if not has_test_split and len(train) >= MIN_JUDGED_TO_SPLIT:
        train, test = _set_aside(train, with_text, seed)
    answered = join_qrels([*usable.values()]).queries
    unusable.refuse_all(qrels, [*answered, *(query for _, ids in both.values() for query in ids)])
    without_answer = {name: without_ids(ids, answered) for name, (_, ids) in both.items()}
    unanswerable = _unanswerable(without_answer, with_text, seed)
    hidden = test.queries.union(unanswerable[1].ids)
    for name in test_splits:
        hidden = hidden.union(qrels[name].queries)
    leaking = HeldOut.of_queries(hidden, with_text).leaks(with_text)
    alike = without_ids(leaking, hidden)
    counts["queries nearly the same as a test query"] = len(alike)
    train, hidden = without(train, alike), hidden.union(alike)
    unanswerable = _without(unanswerable[0], alike), unanswerable[1]
    log = _without(with_text, hidden)
    judged_ids = Ids.of([])
    for split_qrels in qrels.values():
        judged_ids = judged_ids.union(split_qrels.queries)
    judged_ids = judged_ids.select(np.flatnonzero(judged_ids.positions_in(with_text.ids) >= 0))
    sampled = sample(train, max_train, seed)
    counts[NOT_TRAINED_ON] = len(train) - len(sampled)
    left_out = {what: count for what, count in counts.items() if count}
    splits = QuerySplits(
        sampled, test, with_text, log, judged_ids, has_test_split, left_out, unanswerable,
        tuple(test_splits), tuple(unusable.warnings()),
    )  # fmt: skip
    return splits.with_test_sample(max_test, seed)


def _set_aside(train: Qrels, with_text: Queries, seed: int) -> tuple[Qrels, Qrels]:
    """Judged queries to train and to test on; all to train on where they are too alike."""
    judged = with_text.select(train.queries.positions_in(with_text.ids))
    try:
        split_ids = split(judged, SHARES, seed=seed, answers=train)
    except InputError:
        return train, NOTHING
    return train.select(split_ids["train"]), train.select(split_ids["test"])


def _without(queries: Queries, ids: Ids) -> Queries:
    return queries.select(np.flatnonzero(queries.ids.positions_in(ids) < 0))


def without_ids(ids: Ids, excluded: Ids) -> Ids:
    """The ids that are not among others."""
    return ids.select(np.flatnonzero(ids.positions_in(excluded) < 0))


def _unanswerable(
    splits: Mapping[str, Ids], with_text: Queries, seed: int
) -> tuple[Queries, Queries]:
    """Queries judged to have no answer: those of test splits to test on, else drawn."""
    train_and_test = [Ids.of([]), Ids.of([])]
    for name, ids in splits.items():
        train_and_test[is_test(name)] = train_and_test[is_test(name)].union(ids)
    train, test = (with_text.select(ids.positions_in(with_text.ids)) for ids in train_and_test)
    if len(train) >= MIN_JUDGED_TO_SPLIT and not any(map(is_test, splits)):
        numbers = np.random.default_rng(seed).permutation(len(train))
        cut = round(SHARES["train"] * len(numbers))
        train, test = (train.select(np.sort(some)) for some in (numbers[:cut], numbers[cut:]))
    overlap = train.ids.positions_in(test.ids) >= 0
    some = np.flatnonzero(~overlap)[:MAX_UNANSWERABLE]
    return train.select(some), test.select(np.arange(min(len(test), MAX_UNANSWERABLE)))


def sample(qrels: Qrels, count: int, seed: int) -> Qrels:
    """The judgements of so many queries at most, drawn with a seed."""
    if len(qrels) <= count:
        return qrels
    numbers = np.random.default_rng(seed).permutation(len(qrels))[:count]
    return qrels.select(qrels.queries.select(np.sort(numbers)))


def without(qrels: Qrels, queries: Ids) -> Qrels:
    """The judgements of other queries than these."""
    return qrels.select(without_ids(qrels.queries, queries))


def join_qrels(judgements: list[Qrels]) -> Qrels:
    """Judgements in one; of a document that several judge, the first part's count."""
    judged: dict[str, dict[str, int]] = {}
    for split_qrels in judgements:
        for query in split_qrels.queries:
            judged[query] = {**split_qrels[query], **judged.get(query, {})}
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
        return [f"{self._describe_reason(reason)}; {hint}" for reason, hint in UNUSABLE.items()
                if self.counts[reason]]  # fmt: skip

    def refuse_all(self, qrels: Mapping[str, Qrels], usable: list[str]) -> None:
        """Refuse judgements of which none can be used."""
        judged = {query for split in qrels.values() for query in split.queries}
        if judged and not usable:
            reasons = [reason for reason in UNUSABLE if self.counts[reason]]
            why = "; ".join(map(self._describe_reason, reasons)) or "they judge nothing"
            raise InputError(
                f"none of the {len(judged):,} judged queries can be used: {why}",
                hint=UNUSABLE[reasons[0]] if reasons else "is it the right file?",
            )

    def _describe_reason(self, reason: str) -> str:
        return f"{self.counts[reason]:,} {reason}, such as {', '.join(self.ids[reason])}"


def _usable(
    qrels: Qrels, with_text: Queries, documents: Ids, unusable: Unusable
) -> tuple[Qrels, Ids]:
    """The judgements that can be used: of queries with a text, of documents that are there; and
    the queries of which no document is right, be it there or not.
    """
    exists = (qrels.docs.positions_in(documents) >= 0)[qrels.doc]
    absent = qrels.docs.select(np.unique(qrels.doc[~exists]))
    unusable.add("judgements of documents that are not there", absent, int((~exists).sum()))
    whose = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    rows = _rows(qrels, whose, exists)
    has_text = rows.queries.positions_in(with_text.ids) >= 0
    unusable.add("judged queries without text", rows.queries.select(np.flatnonzero(~has_text)))
    rows = rows.select(rows.queries.select(np.flatnonzero(has_text)))
    query = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    answered = np.bincount(query[rows.grade > 0], minlength=len(rows)) > 0
    right, none = (rows.queries.select(np.flatnonzero(mask)) for mask in (answered, ~answered))
    with_lost_answer = qrels.queries.select(np.unique(whose[(qrels.grade > 0) & ~exists]))
    lost = none.select(np.flatnonzero(none.positions_in(with_lost_answer) >= 0))
    unusable.add("judged queries whose answers are not there", lost)
    return rows.select(right), without_ids(none, lost)


def _rows(qrels: Qrels, query: NDArray[np.int64], mask: NDArray[np.bool_]) -> Qrels:
    rows = query[mask].astype(np.int32)
    return Qrels.of_rows(qrels.queries, qrels.docs, rows, qrels.doc[mask], qrels.grade[mask])


def average_words(index: Index) -> float:
    """How many words a document has on average, stop words aside."""
    return index.total_terms / max(1, index.num_documents)


def passages_for(index: Index) -> str:
    """How documents are split: not at all where most are short."""
    return PASSAGE_SPEC if average_words(index) > LONG_DOCUMENT_WORDS else "whole"
