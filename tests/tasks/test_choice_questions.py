"""Questions are read in our format and in AI2's, and a bad line says where it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tamis.collection.base import Faults
from tamis.errors import InputError, LineError
from tamis.tasks.choice_questions import (
    Choice,
    ChoiceQueries,
    Question,
    question_files,
    read_questions,
    read_split,
)

GOOD = {"id": "q1", "question": "Why?", "choices": ["a", "b"], "answer": "B"}


def written(folder: Path, *records: Any, name: str = "dev.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def test_our_format(tmp_path: Path) -> None:
    record = {**GOOD, "partition": "Easy", "explanation": ["f1", "f2", "f1"]}
    assert read_questions(written(tmp_path, record)) == [
        Question("q1", "Why?", (Choice("A", "a"), Choice("B", "b")), "B", "Easy", ("f1", "f2"))
    ]


@pytest.mark.parametrize(
    "record",
    [
        {  # AI2's own files
            "id": "q1", "answerKey": "2",
            "question": {
                "stem": "Why?",
                "choices": [{"text": "a", "label": "1"}, {"text": "b", "label": "2"}],
            },
        },
        {  # the data sets library's
            "id": "q1", "answerKey": "2", "question": "Why?",
            "choices": {"text": ["a", "b"], "label": ["1", "2"]},
        },
        {
            "_id": "q1", "stem": "Why?", "answer": 2,
            "choices": [{"label": 1, "text": "a"}, {"label": 2, "text": "b"}],
        },
    ],
)  # fmt: skip
def test_other_formats(tmp_path: Path, record: dict[str, Any]) -> None:
    (question,) = read_questions(written(tmp_path, record))
    assert question == Question("q1", "Why?", (Choice("1", "a"), Choice("2", "b")), "2")


def test_a_question_without_a_key_is_kept(tmp_path: Path) -> None:
    (question,) = read_questions(
        written(tmp_path, {k: v for k, v in GOOD.items() if k != "answer"})
    )
    assert question.answer is None


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({**GOOD, "answer": "C"}, "the answer 'C' is no choice's label"),
        ({**GOOD, "choices": ["a"]}, "no list of choices"),
        ({**GOOD, "choices": "ab"}, "no list of choices"),
        ({**GOOD, "choices": ["a", {"label": "B"}]}, "choice 2 has no text"),
        ({**GOOD, "choices": ["a", " "]}, "choice 2 has no text"),
        ({**GOOD, "choices": [{"label": None, "text": "a"}, "b"]}, "choice 1 has no label"),
        ({**GOOD, "choices": [{"label": "", "text": "a"}, "b"]}, "choice 1 has no label"),
        ({**GOOD, "choices": {"text": ["a", "b"], "label": ["A", None]}}, "choice 2 has no label"),
        ({**GOOD, "choices": {"text": ["a", "b"], "label": None}}, "no list of labels"),
        ({**GOOD, "choices": [{"label": "B", "text": "a"}, "b"]}, "the same label"),
        ({**GOOD, "choices": {"text": ["a", "b"], "label": ["A"]}}, "differ in number"),
        ({**GOOD, "question": " "}, "no text in 'question'"),
        ({**GOOD, "id": None}, "no 'id'"),
        ({**GOOD, "explanation": "f1"}, "'explanation' is no list of ids"),
        (GOOD, "question 'q1' occurs twice"),
        ([1], "not a JSON object"),
    ],
)
def test_a_bad_line_says_where_it_stands(tmp_path: Path, record: Any, problem: str) -> None:
    path = written(tmp_path, GOOD, record)
    with pytest.raises(LineError, match=f"dev.jsonl:2: .*{problem}") as caught:
        read_questions(path)
    assert caught.value.hint
    faults = Faults(skip=True)
    assert [question.id for question in read_questions(path, faults)] == ["q1"]
    assert faults.count == 1


def test_a_folder_has_a_file_a_split_and_may_have_its_facts_beside_them(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, {**GOOD, "id": "q2"}, name="test.jsonl")
    written(tmp_path, {"_id": "f1", "text": "a fact"}, name="facts.jsonl")
    assert list(question_files(tmp_path)) == ["dev", "test"]
    assert [question.id for question in read_split(tmp_path, "test")] == ["q2"]
    with pytest.raises(InputError, match="no questions of a split 'train'") as caught:
        read_split(tmp_path, "train")
    assert caught.value.hint == "available splits: dev, test"


@pytest.mark.parametrize("what", ["absent", "empty"])
def test_a_place_without_questions_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        read_split(tmp_path / what, "dev")
    assert caught.value.hint


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no questions"):
        read_questions(written(tmp_path))


def test_every_choice_is_a_query_found_again_by_its_row() -> None:
    questions = [
        Question("z", "Second in order of ids?", (Choice("A", "yes"), Choice("B", "no"))),
        Question("a", "First?", (Choice("1", "so"), Choice("2", "or"), Choice("3", "so"))),
    ]
    choices = ChoiceQueries.of(questions)
    texts = [choices.queries.texts[n] for n in choices.query.tolist()]  # type: ignore[index]
    assert texts == [
        "Second in order of ids? yes", "Second in order of ids? no",
        "First? so", "First? or", "First? so",
    ]  # fmt: skip
    assert choices.offsets.tolist() == [0, 2, 5]
    assert choices.question.tolist() == [0, 0, 1, 1, 1]
    query = choices.queries[choices.queries.ids[int(choices.query[3])]]
    assert dict(query.fields) == {"question": "a", "choice": "2"}
