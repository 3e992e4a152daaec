"""The second collection: which sentences are judged, and which questions are left out."""

from __future__ import annotations

from pathlib import Path

from benchmarks.answer_sentences import convert

from tamis.collection.base import Collection
from tamis.tasks.evidence import open_selector, select_evidence
from tamis.tasks.evidence_data import read_evidence
from tamis.types import Document, Qrels, Queries, Query

PARAGRAPHS = [
    Document("p1", "Ada sieves the flour. Bob sleeps. Ada bakes."),
    Document("p2", "Emil beats cream."),
]
QUESTIONS = {
    "q1": ("Who sleeps?", "Bob", "p1"),
    "q2": ("Who bakes?", "Ada", "p1"),  # in two sentences
    "q3": ("Who beats cream?", "Emil", "p2"),  # in the only one
    "q4": ("What is done?", "flour. Bob sleeps", "p1"),  # in two halves
    "q5": ("What does Ada sieve?", "flour", "p1"),
}


def squad() -> Collection:
    queries = [Query(id, text, {"answer": answer}) for id, (text, answer, _) in QUESTIONS.items()]
    judged = {id: {paragraph: 1} for id, (_, _, paragraph) in QUESTIONS.items()}
    splits = {"dev": [*judged][:4], "test": ["q5"]}
    qrels = {
        name: Qrels.from_dict({id: judged[id] for id in some}) for name, some in splits.items()
    }
    return Collection("toy", "beir", PARAGRAPHS, lambda: Queries.of(queries), lambda: qrels)


def test_the_sentence_with_the_answer_is_judged(tmp_path: Path) -> None:
    counts = convert(squad(), tmp_path / "out")
    assert counts == {
        "used": 2, "several sentences hold the answer": 1, "no sentence holds the answer": 1,
        "the paragraph is one sentence": 1,
    }  # fmt: skip
    data = read_evidence(tmp_path / "out")
    assert data.relevant("dev") == {"q1": {"p1#1"}} and data.relevant("test") == {"q5": {"p1#0"}}
    assert data.paragraphs == {"p1": ("p1#0", "p1#1", "p1#2"), "p2": ("p2#0",)}
    assert data.sentences["p1#1"].text == "Bob sleeps."


def test_no_query_has_an_answer(tmp_path: Path) -> None:
    convert(squad(), tmp_path / "out")
    assert "answer" not in (tmp_path / "out" / "queries.jsonl").read_text("utf-8")
    data = read_evidence(tmp_path / "out")
    assert not any(question.answers for question in data.questions.values())
    with open_selector("bm25", data) as scorer:
        evidence = select_evidence(data, scorer, "question", split="test", tune_split="dev")
    assert evidence.first_relevant == 1
