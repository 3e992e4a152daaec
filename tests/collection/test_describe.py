"""What is said about a collection, a run, judgements and queries, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tamis.cli.common import show_facts
from tamis.collection import describe
from tamis.collection.base import Collection
from tamis.collection.describe import (
    ByName,
    describe_collection,
    describe_qrels,
    describe_queries,
    describe_run,
    distribution,
    leaks,
)
from tamis.collection.readers import open_collection
from tamis.types import Document, Ids, Qrels, Queries, Query, Run

DOCUMENTS = [
    Document("d1", "sieves sort grain", title="Sieves"),
    Document("d2", "drum"),
    Document("d3", "a drum sieve is a tamis"),
]
QUERIES = Queries.of(
    [
        Query("q1", "what is a tamis", {"lang": "en"}),
        Query("q2", "grain"),
        Query("q3", "drum sieve"),
        Query("q4", "never judged"),
    ]
)


def collection(
    documents: list[Document] = DOCUMENTS,
    queries: Queries = QUERIES,
    qrels: dict[str, dict[str, dict[str, int]]] | None = None,
) -> Collection:
    judged = {split: Qrels.from_dict(part) for split, part in (qrels or {}).items()}
    return Collection("tiny", "beir", documents, lambda: queries, lambda: judged)


def test_distribution() -> None:
    assert distribution([]) == {}
    assert distribution([5]) == {"mean": 5, "min": 5, "median": 5, "p90": 5, "max": 5}
    assert distribution(np.arange(11)) == {
        "mean": 5,
        "min": 0,
        "median": 5,
        "p90": 9,
        "max": 10,
    }
    assert distribution(np.array([0.25, 1.0], np.float32)) == {
        "mean": 0.6,
        "min": 0.2,
        "median": 0.6,
        "p90": 0.9,
        "max": 1,
    }
    assert all(type(value) in (int, float) for value in distribution(np.array([1, 2])).values())


def test_a_small_collection_by_hand() -> None:
    qrels = {"train": {"q1": {"d3": 2, "d2": 0}, "q2": {"d1": 1}}, "test": {"q3": {"d2": 0}}}
    found = describe_collection(collection(qrels=qrels))
    assert found.warnings == ("1 document of one word",)
    assert found.facts == {
        "name": "tiny",
        "format": "beir",
        "documents": {
            "count": 3,
            "with_title": 1,
            "words": {"mean": 3.3, "min": 1, "median": 3, "p90": 5.4, "max": 6},
        },
        "queries": {
            "count": 4,
            "words": {"mean": 2.2, "min": 1, "median": 2, "p90": 3.4, "max": 4},
            "fields": "lang",
        },
        "judgements": {
            "train": {
                "queries": 2,
                "judgements": 3,
                "by_grade": {"0": 1, "1": 1, "2": 1},
                "judged_per_query": {
                    "mean": 1.5,
                    "min": 1,
                    "median": 1.5,
                    "p90": 1.9,
                    "max": 2,
                },
                "queries_without_relevant_document": 0,
            },
            "test": {
                "queries": 1,
                "judgements": 1,
                "by_grade": {"0": 1},
                "judged_per_query": {"mean": 1, "min": 1, "median": 1, "p90": 1, "max": 1},
                "queries_without_relevant_document": 1,
            },
        },
        "queries_without_judgements": 1,
    }
    json.dumps(found.facts)


def test_documents_alone() -> None:
    found = describe_collection(Collection("tiny", "jsonl", DOCUMENTS))
    assert list(found.facts) == ["name", "format", "documents"]


def test_no_documents() -> None:
    found = describe_collection(Collection("none", "jsonl", []))
    assert found.facts["documents"] == {"count": 0, "with_title": 0, "words": {}}
    assert found.warnings == ("there are no documents",)


@pytest.mark.parametrize("batch", [1, 2, 3, 8192])
def test_strangers(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(describe, "IDS_IN_BATCH", batch)
    qrels = {
        "test": {"q1": {"d3": 1, "gone": 1, "lost": 0}, "nobody": {"d1": 1, "gone": 1}},
        "dev": {"q2": {"d1": 1, "d2": 0}},
    }
    found = describe_collection(collection(DOCUMENTS[::2], qrels=qrels))
    assert found.warnings == (
        "test: 3 judgements for documents that are not there",
        "test: judgements for 1 query that are not there",
        "dev: 1 judgement for documents that are not there",
    )
    assert found.facts["queries_without_judgements"] == 2


def test_documents_that_look_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "LONG_DOCUMENT_WORDS", 5)
    documents = [
        *DOCUMENTS,
        Document("d4", "drum"),
        Document("d5", "drum", title="but titled"),
        Document("d6", "sieves sort grain", title="Sieves"),
        Document("d7", "Sieb f\ufffdr Mehl"),
        Document("d8", "", title="only a title"),
    ]
    assert describe_collection(collection(documents)).warnings == (
        "2 documents repeat the text of another",
        "3 documents of one word",
        "1 document of more than 5 words",
        "1 document with U+FFFD: wrongly decoded?",
    )


def test_bad_lines_are_told(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "d1", "text": "two words"}\n{"id": "d2"}\n{"id": "d3"}\n')
    found = describe_collection(open_collection(path, on_error="skip"))
    assert found.facts["bad_lines_skipped"] == 2
    assert found.facts["documents"]["count"] == 1
    assert [line.partition(": no")[0] for line in found.warnings] == [
        f"skipped: {path}:2",
        f"skipped: {path}:3",
    ]


LOG = Queries.of(
    [
        Query("a1", "How do I sift flour?"),
        Query("a2", "how do i sift  flour"),
        Query("b1", "what is a drum sieve"),
        Query("b2", "sieve: what is a drum"),
        Query("c", "unlike any other"),
    ]
)


def test_leaks_between_parts() -> None:
    parts = {"train": Ids.of(["a1", "b1", "b2"]), "test": Ids.of(["a2", "c", "stranger"])}
    assert leaks(LOG, parts) == [("train", "a1", "test", "a2")]
    assert leaks(LOG, {"train": Ids.of(["a1", "a2"]), "test": Ids.of(["b1", "b2", "c"])}) == []


def test_a_query_in_two_parts_leaks() -> None:
    both = Ids.of(["c"])
    assert leaks(LOG, {"train": both, "test": both}) == [("train", "c", "test", "c")]
    assert leaks(Queries(LOG.ids), {"train": both, "test": both}) == [("train", "c", "test", "c")]


def test_leaks_are_warned_of_and_the_first_few_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    qrels = {"train": {"a1": {"d1": 1}, "b1": {"d1": 1}}, "test": {"a2": {"d1": 1}, "b2": {}}}
    monkeypatch.setattr(describe, "MAX_SHOWN_LEAKS", 1)
    found = describe_collection(collection(DOCUMENTS[:1], LOG, qrels))
    assert found.warnings == (
        "2 pairs of queries in different splits are the same or nearly",
        "leak: train 'a1' and test 'a2': How do I sift flour?",
    )


def test_a_run_by_hand() -> None:
    run = Run.from_dict(
        {"q1": {"a": 3.0, "b": 1.0, "c": 1.0}, "q2": {}, "q3": {"a": 1.0, "b": 1.0}, "q4": {}}
    )
    found = describe_run(run.with_extra(passage=[1, 2, 3, 4, 5]))
    assert found.facts == {
        "queries": 4,
        "with_texts": False,
        "rows": 5,
        "documents": 3,
        "documents_per_query": {"mean": 1.2, "min": 0, "median": 1, "p90": 2.7, "max": 3},
        "scores": {"mean": 1.4, "min": 1, "median": 1, "p90": 2.2, "max": 3},
        "tied_with_previous_rank": 2,
        "extra_columns": "passage",
    }
    assert found.warnings == ("2 queries without results",)


def test_runs_at_the_edge() -> None:
    assert describe_run(Run.from_dict({})).facts["scores"] == {}
    assert describe_run(Run.from_dict({"q": {}})).warnings == ("1 query without results",)
    endless = describe_run(Run.from_dict({"q": {"a": float("inf"), "b": 1.0}})).facts
    assert endless["scores"] == distribution([1])
    assert distribution([float("-inf")]) == {}
    one = describe_run(Run.from_dict({"q": {"a": 1.0}}))
    assert one.facts["tied_with_previous_rank"] == 0
    assert one.facts["extra_columns"] == "none"
    assert one.warnings == ()


def test_judgements_by_hand() -> None:
    qrels = Qrels.from_dict({"q1": {"a": 2, "b": -1}, "q2": {"a": 0}, "q3": {"c": 1}})
    found = describe_qrels(qrels)
    assert found.facts["by_grade"] == {"-1": 1, "0": 1, "1": 1, "2": 1}
    assert found.facts["documents"] == 3
    assert found.warnings == ("1 query without a relevant document",)
    part = describe_qrels(qrels.select(Ids.of(["q1"])))
    assert part.facts["documents"] == 2
    assert part.warnings == ()


def test_queries_by_hand() -> None:
    assert describe_queries(LOG).facts == {
        "queries": 5,
        "words": {"mean": 4.6, "min": 3, "median": 5, "p90": 5, "max": 5},
        "fields": "none",
        "near_duplicates": 2,
    }
    assert describe_queries(QUERIES).facts["fields"] == "lang"
    assert describe_queries(Queries(LOG.ids)).facts["words"] == {}


def test_a_table_of_facts_has_blanks_but_leaves_names_of_the_user_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    per_split = {"judged_per_query": {"mean": 2, "my_most": 3}}
    show_facts({"with_title": 1, "judgements": ByName({"my_dev": per_split})})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["with", "title", "1"],
        ["judgements"],
        ["my_dev"],
        ["judged", "per", "query", "mean", "2,", "my", "most", "3"],
    ]
