"""What is said of examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tamis.labels.duplicate_negatives import drop_copies
from tamis.labels.example_summary import (
    UNJUDGED,
    describe_examples,
    grades_of,
    likely_false,
    scores_of,
    show_examples,
)
from tamis.labels.examples import Examples
from tamis.pipeline.document_lookup import MappingLookup
from tamis.types import Document, Qrels, Queries, Query, Run

MADE = Examples.of_rows(
    [
        ("q1", "d1", 1.0, "positive"),
        ("q1", "d2", 0.0, "negative"),
        ("q1", "d3", 0.0, "negative"),
        ("q1", "d4", 0.0, "pool"),
        ("q2", "d2", 1.0, "positive"),
        ("q2", "d9", 1.0, "positive"),
        ("q2", "d1", 0.0, "negative"),
    ],
    source="gold",
    facts={"labelled_by": "hand", "counts": {"queries": 2}},
)
DOCS = {f"d{n}": Document(f"d{n}", "x" * n, "Title") for n in range(1, 10)}
QUERIES = Queries.of([Query("q1", "first"), Query("q2", "second")])


def test_counts() -> None:
    facts = describe_examples(MADE, MappingLookup(DOCS)).facts
    assert facts["rows"] == 7
    assert (facts["groups"], facts["queries"], facts["documents"]) == (2, 2, 5)
    assert facts["by"]["role"] == {"positive": 3, "negative": 3, "pool": 1}
    assert facts["by"]["source"] == {"gold": 7}
    assert facts["by"]["kind_of_value"] == {"class": 7}
    assert facts["per_query"]["positive"]["mean"] == 1.5
    assert facts["per_query"]["pool"] == {
        "mean": 0.5, "min": 0, "median": 0.5, "p90": 0.9, "max": 1,
    }  # fmt: skip
    # "Title " and 1, 2 and 9 characters
    assert facts["characters"]["positive"]["mean"] == 10
    assert facts["how"]["labelled_by"] == "hand"
    assert "values" not in facts
    scored = Examples.of_rows([("q1", "d1", 2.5, "pool")], source="teacher", kind="score")
    assert describe_examples(scored).facts["values"]["pool"]["mean"] == 2.5


def test_a_likely_false_negative_scores_above_all_positives() -> None:
    run = Run.from_dict(
        {"q1": {"d1": 5, "d2": 6, "d3": 5, "d4": 7, "d8": 9}, "q2": {"d2": 1, "d1": 4}}
    )
    assert likely_false(MADE, run).tolist() == [False, True, False, True, False, False, True]
    judged = Qrels.from_dict({"q1": {"d4": 0}})
    found = describe_examples(MADE, run=run, qrels=[judged])
    assert found.facts["likely_false_negatives"]["rows"] == 2
    assert found.warnings == (
        "2 of 4 negatives (50%), in 2 queries, may be false: "
        "unjudged, they score above the positives",
    )


def test_a_positive_that_no_list_has_lies_below_all_that_are_listed() -> None:
    assert (
        likely_false(MADE, Run.from_dict({"q1": {"d2": 1.0}})).tolist()
        == [False, True] + [False] * 5
    )
    assert not likely_false(MADE, Run.from_dict({"q7": {"d2": 1.0}})).any()
    assert not likely_false(MADE, Run.from_dict({})).any()


def test_the_best_positive_counts() -> None:
    run = Run.from_dict({"q2": {"d2": 1, "d9": 5, "d1": 4}})
    assert not likely_false(MADE, run).any()


def test_grades_and_scores_are_looked_up() -> None:
    one, two = Qrels.from_dict({"q1": {"d2": 0, "d1": 2}}), Qrels.from_dict({"q2": {"d1": 1}})
    none = UNJUDGED
    assert grades_of(MADE, [one, two]).tolist() == [2, 0, none, none, none, none, 1]
    run = Run.from_dict({"q1": {"d2": 3.0}, "q2": {"d9": 4.0}})
    low = -np.inf
    assert scores_of(MADE, run).tolist() == [low, 3, low, low, low, 4, low]
    assert describe_examples(MADE, qrels=[one, two]).facts["judged"] == {
        "positive": {"relevant": 1, "not_relevant": 0, "not_judged": 2},
        "negative": {"relevant": 1, "not_relevant": 1, "not_judged": 1},
        "pool": {"relevant": 0, "not_relevant": 0, "not_judged": 1},
    }


def test_some_are_shown() -> None:
    made = MADE.with_queries(QUERIES)
    first, second = show_examples(made, MappingLookup(DOCS), 5)
    assert (first.text, second.text) == ("first", "second")
    assert [row.document for row in first.rows] == ["d1", "d2", "d3"]
    assert first.of == 4
    assert [row.role for row in second.rows] == ["positive", "positive", "negative"]
    assert second.rows[0].text == "Title xx"
    assert len(show_examples(made, MappingLookup(DOCS), 1)) == 1


def test_of_scores_the_best_and_the_worst_are_shown() -> None:
    rows = [("q1", f"d{n}", float(n), "pool") for n in range(1, 8)]
    made = Examples.of_rows(rows, source="teacher", kind="score").with_queries(QUERIES)  # type: ignore[arg-type]
    (group,) = show_examples(made, MappingLookup(DOCS), 5)
    assert [row.value for row in group.rows] == [7, 6, 2, 1]


def test_copies_of_a_positive_are_left_out() -> None:
    docs = {**DOCS, "d3": Document("d3", " x ", "Other"), "d4": Document("d4", "y")}
    kept = drop_copies(MADE, docs)
    assert kept.docs.take(kept.doc) == ["d1", "d2", "d4", "d2", "d9", "d1"]
    assert kept.facts["counts"] == {
        "queries": 2, "positive": 3, "negative": 2, "pool": 1, "excluded_copies_of_a_positive": 1,
    }  # fmt: skip
    assert drop_copies(MADE, DOCS) is MADE


def test_nothing_at_all_can_be_described() -> None:
    empty = replace(MADE, facts={}).select(np.zeros(len(MADE), bool))
    facts = describe_examples(empty, MappingLookup({}), Run.from_dict({}))
    assert facts.facts["rows"] == 0
    assert facts.facts["likely_false_negatives"]["rows"] == 0


@pytest.mark.parametrize("count", [1, 2, 9])
def test_the_same_are_shown_again(count: int) -> None:
    made = MADE.with_queries(QUERIES)
    library = MappingLookup(DOCS)
    assert show_examples(made, library, count) == show_examples(made, library, count)
