"""What is in a file of examples, in numbers and as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.collection.describe import Facts, distribution
from tamis.collection.loss_notes import counted
from tamis.labels.example_texts import row_texts
from tamis.labels.examples import LABEL_SOURCES, LABEL_TYPES, ROLES, Examples, Role, readable_facts
from tamis.pipeline.document_lookup import DocumentLookup
from tamis.types import Ids, Qrels, Queries, Run

MAX_ROWS_MEASURED = 2000
UNJUDGED = np.iinfo(np.int64).min
ROWS_SHOWN_PER_ROLE = 2


def describe_examples(
    examples: Examples,
    lookup: DocumentLookup | None = None,
    run: Run | None = None,
    qrels: Sequence[Qrels] = (),
) -> Facts:
    """Counts by source, role, kind and query; how they were made.

    A lookup adds the lengths of texts, a run (of any first stage) how many negatives score above
    the positives, judgements how often they agree.

    >>> made = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> describe_examples(made).facts["rows"]
    1
    """
    facts: dict[str, Any] = {
        "kind": "examples",
        "rows": len(examples),
        "groups": examples.groups,
        "queries": len(np.unique(examples.query)),
        "documents": len(np.unique(examples.doc)),
        "by": {
            "source": _count_by_name(examples.source, LABEL_SOURCES),
            "role": _count_by_name(examples.role, ROLES),
            "kind_of_value": _count_by_name(examples.kind, LABEL_TYPES),
        },
        "per_query": {name: per for name in ROLES if (per := _per_query(examples, name))},
    }
    if (examples.kind != LABEL_TYPES.index("class")).any():
        facts["values"] = {
            name: distribution(examples.value[rows]) for name, rows in _roles(examples)
        }
    if lookup is not None:
        facts["characters"] = _lengths(examples, lookup)
    warnings: tuple[str, ...] = ()
    if qrels:
        facts["judged"] = _judged(examples, qrels)
    if run is not None:
        facts["likely_false_negatives"], warnings = _likely_false_negatives(examples, run, qrels)
    if examples.facts:
        facts["how"] = readable_facts(examples.facts)
    return Facts(facts, warnings)


def _count_by_name(codes: NDArray[np.int8], names: tuple[str, ...]) -> dict[str, int]:
    counts = np.bincount(codes, minlength=len(names)).tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def _roles(examples: Examples) -> list[tuple[Role, NDArray[np.bool_]]]:
    """The roles that there are, and their rows."""
    rows_by_role = [(role, examples.is_role(role)) for role in ROLES]
    return [(role, rows) for role, rows in rows_by_role if rows.any()]


def _per_query(examples: Examples, role: Role) -> dict[str, float]:
    rows = examples.is_role(role)
    counts = np.bincount(examples.query[rows], minlength=len(examples.queries))
    return distribution(counts[np.unique(examples.query)]) if rows.any() else {}


def _lengths(examples: Examples, lookup: DocumentLookup) -> dict[str, dict[str, float]]:
    """How long the texts of each role are, of at most `MAX_ROWS_MEASURED` rows."""
    with_queries = examples if examples.queries.texts is not None else _with_empty_queries(examples)
    lengths: dict[str, dict[str, float]] = {}
    for role, rows in _roles(examples):
        sample = np.flatnonzero(rows)
        if len(sample) > MAX_ROWS_MEASURED:
            sample = np.sort(
                np.random.default_rng(0).choice(sample, MAX_ROWS_MEASURED, replace=False)
            )
        lengths[role] = distribution(
            [len(text) for text in row_texts(with_queries, sample, lookup)[1]]
        )
    return lengths


def _with_empty_queries(examples: Examples) -> Examples:
    """The same with empty queries, where only the texts matter."""
    empty = ("",) * len(examples.queries)
    return replace(examples, queries=Queries(examples.queries.ids, empty))


def _matching_rows(
    examples: Examples, queries: Ids, docs: Ids, offsets: NDArray[np.int64], doc: NDArray[np.int32]
) -> NDArray[np.int64]:
    """For every row of the examples the row of a run or of judgements that is of the same pair."""
    query = examples.queries.ids.positions_in(queries)[examples.query].astype(np.int64)
    text = examples.docs.positions_in(docs)[examples.doc]
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    keys = owner * len(docs) + doc
    order = np.argsort(keys, kind="stable")
    pair_keys = np.where((query >= 0) & (text >= 0), query * len(docs) + text, -1)
    if not len(keys):
        return np.full(len(examples), -1)
    place = order[np.searchsorted(keys, pair_keys, sorter=order).clip(max=len(keys) - 1)]
    return np.where(keys[place] == pair_keys, place, -1)


def grades_of(examples: Examples, qrels: Sequence[Qrels]) -> NDArray[np.int64]:
    """The highest grade of every row, and `UNJUDGED` where it has none."""
    best = np.full(len(examples), UNJUDGED)
    for judgements in qrels:
        matches = _matching_rows(
            examples, judgements.queries, judgements.docs, judgements.offsets, judgements.doc
        )
        best = np.maximum(best, np.append(judgements.grade.astype(np.int64), UNJUDGED)[matches])
    return best


def scores_of(examples: Examples, run: Run) -> NDArray[np.float32]:
    """The score that a run has for every row; minus infinity where it does not list the text."""
    matches = _matching_rows(examples, run.queries.ids, run.docs, run.offsets, run.doc)
    score: NDArray[np.float32] = np.append(run.score, np.float32(-np.inf))[matches]
    return score


def likely_false(examples: Examples, run: Run, qrels: Sequence[Qrels] = ()) -> NDArray[np.bool_]:
    """Which rows are not positive, nor judged, but score above all positives of their group.

    >>> rows = [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "negative")]
    >>> made = Examples.of_rows(rows, source="gold")
    >>> likely_false(made, Run.from_dict({"q1": {"d1": 1.0, "d2": 2.0}})).tolist()
    [False, True]
    """
    score, positive = scores_of(examples, run), examples.is_role("positive")
    best = np.full(examples.groups, -np.inf, np.float32)
    np.maximum.at(best, examples.group[positive], score[positive])
    has_positive = np.zeros(examples.groups, bool)
    has_positive[examples.group[positive]] = True
    above = ~positive & has_positive[examples.group] & (score > best[examples.group])
    suspects: NDArray[np.bool_] = above & (grades_of(examples, qrels) == UNJUDGED)
    return suspects


def _likely_false_negatives(
    examples: Examples, run: Run, qrels: Sequence[Qrels]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    above, not_positive = likely_false(examples, run, qrels), ~examples.is_role("positive")
    count, total = int(above.sum()), int(not_positive.sum())
    queries = len(np.unique(examples.query[above]))
    facts = {"rows": count, "of_not_positive": total, "queries": queries}
    if not count:
        return facts, ()
    return facts, (
        f"{count:,} of {total:,} negatives ({count / total:.0%}), in {counted(queries, 'query')}, "
        "may be false: unjudged, they score above the positives",
    )


def _judged(examples: Examples, qrels: Sequence[Qrels]) -> dict[str, dict[str, int]]:
    """How rows of each role were judged, where they were."""
    grade = grades_of(examples, qrels)
    is_judged = grade != UNJUDGED
    return {
        role: {
            "relevant": int((rows & (grade > 0)).sum()),
            "not_relevant": int((rows & is_judged & (grade <= 0)).sum()),
            "not_judged": int((rows & ~is_judged).sum()),
        }
        for role, rows in _roles(examples)
    }


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """A row as a person reads it."""

    role: str
    value: float
    document: str
    text: str


@dataclass(frozen=True, slots=True)
class ExampleGroup:
    """A query and some of its rows, and how many there are."""

    query: str
    text: str
    rows: tuple[ExampleRow, ...]
    of: int


def show_examples(
    examples: Examples, lookup: DocumentLookup, count: int, *, seed: int = 0
) -> list[ExampleGroup]:
    """Some groups drawn at random, in their order, with a few rows of each."""
    size = min(count, examples.groups)
    groups = np.sort(np.random.default_rng(seed).choice(examples.groups, size, replace=False))
    offsets = examples.offsets
    return [
        _show_group(examples, lookup, int(offsets[group]), int(offsets[group + 1]))
        for group in groups.tolist()
    ]


def _show_group(examples: Examples, lookup: DocumentLookup, start: int, end: int) -> ExampleGroup:
    rows = np.arange(start, end)
    positive = examples.is_role("positive")[rows]
    by_value = rows[np.argsort(-examples.value[rows], kind="stable")]
    row_numbers = [*rows[positive][:ROWS_SHOWN_PER_ROLE], *rows[~positive][:ROWS_SHOWN_PER_ROLE]]
    if not positive.any():  # scores: the best and the worst
        row_numbers = [
            *by_value[:ROWS_SHOWN_PER_ROLE],
            *by_value[ROWS_SHOWN_PER_ROLE:][-ROWS_SHOWN_PER_ROLE:],
        ]
    rows_shown = np.array(row_numbers, np.int64)
    queries, texts = row_texts(examples, rows_shown, lookup)
    names = examples.docs.take(examples.doc[rows_shown])
    example_rows = tuple(
        ExampleRow(ROLES[int(examples.role[row])], float(examples.value[row]), name, text)
        for row, name, text in zip(rows_shown.tolist(), names, texts, strict=True)
    )
    name = examples.queries.ids[int(examples.query[start])]
    return ExampleGroup(name, queries[0], example_rows, end - start)
