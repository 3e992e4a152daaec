"""What is learnt for multiple choice: targets by hand, and never a test question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.cli.app import run
from tamis.errors import InputError
from tamis.labels.examples import TEST_HASHES, Examples
from tamis.search import Index
from tamis.tasks.choice_questions import Choice, ChoiceQueries, Question
from tamis.tasks.choice_training import (
    draw_questions,
    gold_examples,
    label_choices,
    mark_test,
    score_examples,
    without_test,
)
from tamis.text.near import is_same_query, query_hash
from tamis.training import loop
from tamis.training.losses import POSITIVE_TARGET
from tamis.training.recipes import resolve
from tamis.training.samplers import targets
from tamis.training.trainer import Job
from tamis.types import Document, Run

ABC = (Choice("A", "drum"), Choice("B", "sieve"), Choice("C", "net"))
FIRST = Question("q1", "What sorts grain?", ABC, "B")
SECOND = Question("q2", "What catches fish?", ABC, "C")
SCORED = Run.from_dict({
    "q1#1": {"f1": 1.0, "f2": 3.0},
    "q1#2": {"f1": 7.0, "f3": 5.0},
    "q1#3": {"f2": 2.0, "f4": 4.0},
    "q2#1": {"f1": 10.0, "f2": 20.0},
    "q2#3": {"f4": 40.0},
})  # fmt: skip


def targets_of(examples: Examples) -> dict[str, list[float]]:
    """Of every choice the values of its pairs."""
    found: dict[str, list[float]] = {}
    for query, value in zip(examples.query.tolist(), examples.value.tolist(), strict=True):
        found.setdefault(examples.queries.ids[query], []).append(value)
    return found


def test_every_pair_of_a_choice_has_its_mean_score_scaled_over_the_question() -> None:
    examples = score_examples(ChoiceQueries.of([FIRST, SECOND]), SCORED, "bm25")
    means = [(1 + 3) / 2, (7 + 5) / 2, (2 + 4) / 2]
    scaled = [(mean - means[0]) / (means[1] - means[0]) * 5 for mean in means]
    assert targets_of(examples) == {
        "q1#1": pytest.approx([scaled[0]] * 2),
        "q1#2": pytest.approx([scaled[1]] * 2),
        "q1#3": pytest.approx([scaled[2]] * 2),
        # one choice of q2 has no fact: the two others are least and greatest
        "q2#1": [0.0, 0.0],
        "q2#3": [5.0],
    }
    assert examples.facts["choices_without_facts"] == 1
    assert set(examples.docs.take(examples.doc)) == {"f1", "f2", "f3", "f4"}


def test_each_pair_is_of_its_own_fact() -> None:
    examples = gold_examples(ChoiceQueries.of([FIRST, SECOND]), SCORED)
    pairs = {
        (examples.queries.ids[q], examples.docs[d])
        for q, d in zip(examples.query.tolist(), examples.doc.tolist(), strict=True)
    }
    assert ("q1#2", "f3") in pairs and ("q1#1", "f3") not in pairs and len(pairs) == 9


def test_the_second_step_learns_five_or_zero() -> None:
    examples = gold_examples(ChoiceQueries.of([FIRST, SECOND]), SCORED)
    learnt = np.asarray(targets(examples, resolve("infuse-gold").loss)).ravel()
    by_query = {examples.queries.ids[q]: v for q, v in zip(examples.query, learnt, strict=True)}
    assert by_query == {"q1#1": 0, "q1#2": 5, "q1#3": 0, "q2#1": 0, "q2#3": 5}
    assert POSITIVE_TARGET == 5
    assert examples.is_role("positive").tolist() == (learnt == 5).tolist()


def test_equal_scores_of_a_question_become_zero_and_are_counted() -> None:
    equal = Run.from_dict({"q1#1": {"f1": 2.0}, "q1#2": {"f2": 2.0}, "q1#3": {"f3": 2.0}})
    examples = score_examples(ChoiceQueries.of([FIRST]), equal, "bm25")
    assert examples.value.tolist() == [0.0, 0.0, 0.0]
    assert examples.facts["questions_with_all_scores_equal"] == 1


def test_a_question_without_a_key_cannot_be_learnt() -> None:
    with pytest.raises(InputError, match="question 'q9' has no answer"):
        gold_examples(ChoiceQueries.of([Question("q9", "Why?", ABC)]), SCORED)


def test_test_questions_are_left_out_of_what_is_learnt() -> None:
    same_id = Question("q2", "Something else entirely?", ABC, "A")
    same_text = Question("t1", "what sorts grain", (Choice("A", "x"), Choice("B", "y")), "A")
    other = Question("q3", "Who grinds flour?", ABC, "A")
    assert without_test([FIRST, SECOND, other], [same_id, same_text]) == [other]
    assert without_test([FIRST], []) == [FIRST]


def test_examples_carry_the_hashes_of_test_queries() -> None:
    examples = mark_test(gold_examples(ChoiceQueries.of([FIRST, SECOND]), SCORED), [SECOND])
    assert query_hash("What catches fish? net") in examples.facts[TEST_HASHES]
    assert len(examples.facts[TEST_HASHES]) == 3


def test_every_kind_of_label_has_the_same_facts_and_the_hashes(tmp_path: Path) -> None:
    facts = [Document("f1", "a sieve sorts grain"), Document("f2", "a net catches fish")]
    index = Index.build(facts, tmp_path / "index")
    scores, gold = label_choices([FIRST], index, ["bm25", "gold"], {"bm25": None}, 2, test=[SECOND])
    assert scores.docs.take(scores.doc) == gold.docs.take(gold.doc)
    assert len(scores) == len(gold) > 0
    for examples in (scores, gold):
        assert query_hash("What catches fish? net") in examples.facts[TEST_HASHES]


def test_a_sample_is_drawn_by_its_seed_alone() -> None:
    questions = [Question(f"q{n}", "Why?", ABC) for n in range(20)]
    drawn = draw_questions(questions, 5, 7)
    assert drawn == draw_questions(questions, 5, 7) != draw_questions(questions, 5, 8)
    assert drawn == [question for question in questions if question in drawn]
    assert len(drawn) == 5 and draw_questions(questions, None, 7) == questions


TOPICS = ["sieve", "drum", "net", "grain", "flour", "fish"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_cross_encoder: Path) -> Path:
    """Six training questions, of which one is also asked in the test split, with facts."""
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    monkeypatch.chdir(tmp_path)
    Path("base").symlink_to(tiny_cross_encoder)
    Path("arc").mkdir()
    facts = [
        {"_id": f"{a}-{b}", "text": f"the {a} a {b}"} for a in TOPICS for b in TOPICS if a != b
    ]
    records: list[dict[str, Any]] = [
        {
            "id": f"train{n}", "question": f"sort {one}", "choices": ["the drum", "a net"],
            "answer": "AB"[n % 2], "partition": "Easy", "explanation": [f"{one}-{TOPICS[n - 1]}"],
        }
        for n, one in enumerate(TOPICS)
    ]  # fmt: skip
    test = [{**records[2], "id": "test0", "question": "Sort net?", "choices": ["fish", "flour"]}]
    test[0]["explanation"] = ["net-fish"]
    for name, lines in {"facts": facts, "arc/train": records, "arc/test": test}.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        Path(f"{name}.jsonl").write_text(text, "utf-8")
    return tmp_path


SHORT = ["--set", "epochs=1", "--set", "max_length=24", "--set", "learning_rate=1e-3"]
TRAIN = ["task", "choice-train", "arc", "-c", "facts.jsonl", "--base", "base", "--threads", "1"]


def test_no_test_question_is_in_any_training_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: list[Job] = []
    train = loop.train

    def spy(job: Job, **options: object) -> object:
        jobs.append(job)
        return train(job, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "train", spy)
    labels = ["--labels", "bm25", "--labels", "gold", "-o", "model"]
    assert run([*TRAIN, *SHORT, *labels]) == 0, capsys.readouterr().err
    assert [job.recipe.name for job in jobs] == ["infuse-scores", "infuse-gold"]
    for job in jobs:
        used = {job.examples.queries.texts[n] for n in job.examples.query.tolist()}  # type: ignore[index]
        assert len(used) == 5 * 2
        assert not any(is_same_query(text.rsplit(" ", 2)[0], "sort net") for text in used)
    assert jobs[1].base == "model.infuse-scores"
    assert "1 question not learnt from" in capsys.readouterr().err


def test_no_question_of_dev_is_learnt_from_unless_dev_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = [json.loads(line) for line in Path("arc/train.jsonl").read_text("utf-8").splitlines()]
    dev = [
        {**record, "id": f"dev{n}", "question": f"{record['question'].title()}?"}
        for n, record in enumerate(train[3:5])
    ]
    Path("arc/dev.jsonl").write_text("".join(json.dumps(line) + "\n" for line in dev), "utf-8")
    for split, learnt, message in (("train", 6 - 1 - 2, "3 questions not"), ("dev", 2, "")):
        options = ["--split", split, "--labels", "gold", "-o", split, "--json"]
        assert run([*TRAIN, *SHORT, *options]) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        assert json.loads(printed.out)["questions"] == learnt
        assert message in printed.err and ("not learnt from" in printed.err) == bool(message)


def test_a_test_split_is_not_learnt_from(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for data in (["arc", "--split", "test"], ["arc/test.jsonl"]):
        arguments = ["task", "choice-train", *data, *TRAIN[3:], "--labels", "gold", "-o", "model"]
        assert run(arguments) == 1
        assert "test is a test split" in capsys.readouterr().err
    assert not Path("model").exists()


@pytest.mark.parametrize(
    "labels",
    [["gold", "gold"], ["bm25", "alignment:x"], ["bm25", "gold", "alignment:x"]],
)
def test_labels_that_do_not_go_together(
    folder: Path, labels: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [part for name in labels for part in ("--labels", name)]
    assert run([*TRAIN, *asked, "-o", "model"]) == 2
    assert "--labels is one kind of score" in capsys.readouterr().err


def test_gold_comes_second_in_whatever_order_it_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["--labels", "gold", "--labels", "bm25", "--sample", "3", "-o", "model", "--json"]
    assert run([*TRAIN, *SHORT, *labels]) == 0, capsys.readouterr().err
    printed = json.loads(capsys.readouterr().out)
    assert (printed["questions"], printed["recipe"]) == (3, "infuse-gold")


def test_from_training_to_answers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRAIN, *SHORT, "--labels", "gold", "-o", "model"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    asked = ["task", "choice", "arc", "-c", "facts.jsonl", "--split", "test", "--depth", "2"]
    for model in ("bm25", "model"):
        options = ["--model", model, "--json", "--evidence", "5", "-o", f"{model}.jsonl"]
        assert run([*asked, *options]) == 0, capsys.readouterr().err
        printed = json.loads(capsys.readouterr().out)
        assert (printed["questions"], printed["facts_per_choice"]) == (1, 2)
        assert set(printed["accuracy"]) == {"All", "Easy"}
        assert 0 < printed["evidence"]["value"] <= 1
        (line,) = Path(f"{model}.jsonl").read_text("utf-8").splitlines()
        record = json.loads(line)
        assert record["id"] == "test0" and set(record["scores"]) == {"A", "B"}
        assert printed["accuracy"]["All"]["value"] == record["points"]
    assert run([*asked, "--model", "bm25"]) == 0
    printed_table = capsys.readouterr().out
    assert "bm25, 2 facts per choice" in printed_table and "Easy" in printed_table
    assert run([*asked, "--model", "bm25", "-o", "model.jsonl"]) == 1
    assert "model.jsonl exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["absent", "-c", "facts.jsonl", "--model", "bm25"], "there is no absent"),
        (["arc", "-c", "facts.jsonl", "--model", "bm25"], "no questions of a split 'dev'"),
        (["arc/train.jsonl", "-c", "absent", "--model", "bm25"], "absent"),
        (["arc/train.jsonl", "-c", "facts.jsonl", "--model", "alignment"], "needs word vectors"),
        (["facts.jsonl", "-c", "facts.jsonl", "--model", "bm25"], "facts.jsonl:1: no text in"),
    ],
)
def test_what_cannot_be_used_is_said_in_two_lines(
    folder: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["task", "choice", *arguments]) == 1
    error, hint = capsys.readouterr().err.strip().splitlines()[-2:]
    assert error.startswith("error: ") and problem in error and hint.startswith("hint: ")
