"""What selectors and the answer classifier learn: targets by hand, and no tested question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.tasks import evidence, evidence_data
from tamis.tasks.answer_classifier import (
    AnswerScores,
    answer_examples,
    answer_inputs,
    score_answers,
)
from tamis.tasks.evidence import open_selector, rank_sentences
from tamis.tasks.evidence_data import QUERY_FORMS, Answer, EvidenceData, Question
from tamis.tasks.evidence_selection import tune_rule
from tamis.tasks.evidence_training import (
    check_against_teacher,
    gold_examples,
    teacher_examples,
    train_selector,
    training_inputs,
)
from tamis.training import loop
from tamis.training.recipes import resolve
from tamis.training.samplers import targets
from tamis.training.trainer import Job
from tamis.types import Document, Pairs, Qrels, Run, Scores
from tamis.types.pipeline import Scale

PAGE = Path(__file__).parents[2] / "docs/how-to/task-evidence.md"
TEXTS = {
    "p1": ("the drum sieve", "a net", "the grain flour sort"),
    "p2": ("a fish net", "the drum"),
    "p3": ("flour sort", "grain sieve", "a drum"),
}
QUESTIONS = (
    Question("q1", "sort the grain", "p1", (Answer("flour", True), Answer("fish", False))),
    Question("q2", "a drum sieve", "p1", (Answer("drum", True), Answer("net", False))),
    Question("q3", "net fish", "p2", (Answer("net", False), Answer("fish", True))),
    Question("q4", "Net, fish!", "p3", (Answer("net", False), Answer("fish", True))),
)
GRADES = {
    "train": {"q1": {"p1.2": 1, "p1.0": 0}, "q2": {"p1.0": 1}, "q4": {"p3.1": 1}},
    "dev": {"q3": {"p2.0": 1}},
}


@pytest.fixture
def data() -> EvidenceData:
    """Question q4 is trained on and asks the same as q3, which is tested."""
    sentences = {
        f"{paragraph}.{n}": Document(f"{paragraph}.{n}", text, "", {"paragraph": paragraph})
        for paragraph, texts in TEXTS.items()
        for n, text in enumerate(texts)
    }
    paragraphs = {
        name: tuple(f"{name}.{n}" for n in range(len(texts))) for name, texts in TEXTS.items()
    }
    questions = {question.id: question for question in QUESTIONS}
    qrels = {split: Qrels.from_dict(grades) for split, grades in GRADES.items()}
    return EvidenceData("toy", sentences, paragraphs, questions, qrels)


class Table:
    """Scores from a table, by text."""

    scale: Scale = "regression"

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores = scores

    def score(self, pairs: Pairs) -> Scores:
        values = [self.scores.get(pairs.texts[text], 0.0) for _, text in pairs.index.tolist()]
        return Scores(np.array(values, np.float32), np.zeros(len(values), np.int32))


def values_of(examples: Any, query: str) -> dict[str, float]:
    rows = examples.query == examples.queries.ids.number(query)
    names = examples.docs.take(examples.doc[rows])
    learnt = targets(examples, resolve("infuse-gold").loss)
    return dict(zip(names, learnt[rows].tolist(), strict=True))


def test_a_teachers_scores_are_scaled_within_the_question(data: EvidenceData) -> None:
    teacher = Table({"the drum sieve": 9.0, "a net": 3.0, "the grain flour sort": 5.0})
    examples = teacher_examples(data, [data.questions["q1"]], teacher, "question")
    # equation 3: (s - 3) / (9 - 3) * 5
    expected = {"p1.0": 5.0, "p1.1": 0.0, "p1.2": (5 - 3) / 6 * 5}
    assert values_of(examples, "q1") == pytest.approx(expected)


@pytest.mark.parametrize("form", QUERY_FORMS)
def test_gold_is_five_or_zero(data: EvidenceData, form: Any) -> None:
    examples = gold_examples(data, data.questions_of("train"), "train", form)
    names = ["q1"] if form != "question+answer" else ["q1+0", "q1+1"]
    for name in names:
        assert values_of(examples, name) == {"p1.0": 0.0, "p1.1": 0.0, "p1.2": 5.0}
    assert examples.queries.texts is not None
    texts = dict(zip(examples.queries.ids, examples.queries.texts, strict=True))
    assert texts[names[-1]] == QUESTIONS[0].query_texts(form)[-1]


def learnt_queries(
    monkeypatch: pytest.MonkeyPatch, train: Any
) -> tuple[Sequence[str], dict[str, Any]]:
    """The queries that reach the loop."""
    jobs: list[Job] = []
    original = loop.train

    def spy(job: Job, **options: Any) -> Any:
        jobs.append(job)
        return original(job, **options)

    monkeypatch.setattr(loop, "train", spy)
    trained = train()
    (job,) = jobs
    used = np.unique(job.examples.query).tolist()
    assert job.examples.queries.texts is not None
    return [job.examples.queries.texts[n] for n in used], {"trained": trained, "job": job}


@pytest.mark.parametrize("form", QUERY_FORMS)
def test_no_tested_question_is_learnt_from(
    data: EvidenceData,
    form: Any,
    tiny_cross_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions = data.questions_of("train")
    with open_selector("bm25", data) as teacher:
        steps = (
            teacher_examples(data, questions, teacher, form),
            gold_examples(data, questions, "train", form),
        )
        for number, examples in enumerate(steps):
            texts, _ = learnt_queries(
                monkeypatch,
                lambda examples=examples, number=number: train_selector(
                    examples, training_inputs(data, "train", form, ["dev"]),
                    base=tiny_cross_encoder, recipe="infuse-gold-small",
                    out=tmp_path / f"{form}{number}", max_length=24, epochs=1,
                ),
            )  # fmt: skip
            expected = [t for name in ("q1", "q2") for t in data.questions[name].query_texts(form)]
            assert sorted(texts) == sorted(expected), "q4 repeats a tested question"


def test_the_page_tunes_a_trained_selector_on_questions_it_did_not_learn_from(
    data: EvidenceData, tiny_cross_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python skip\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    other = Question("q4", "flour sort", "p3")
    data = replace(data, questions={**data.questions, "q4": other})
    jobs: list[Job] = []
    tuned: list[str] = []
    train = loop.train

    def train_spy(job: Job, **options: Any) -> Any:
        jobs.append(job)
        return train(job, **options)

    def tune_spy(run: Run, relevant: Any) -> Any:
        tuned.extend(run)
        return tune_rule(run, relevant)

    monkeypatch.setattr(loop, "train", train_spy)
    monkeypatch.setattr(evidence, "tune_rule", tune_spy)
    monkeypatch.setattr(evidence_data, "read_evidence", lambda _: data)
    monkeypatch.chdir(tmp_path)
    Path("minilm").symlink_to(tiny_cross_encoder)
    exec(code, {})
    learnt = {job.examples.queries.ids[n] for job in jobs for n in job.examples.query.tolist()}
    assert len(jobs) == 2 and learnt and tuned and not learnt & {*tuned}


def test_a_trained_selector_ranks_what_it_learnt(
    data: EvidenceData, tiny_cross_encoder: Path, tmp_path: Path
) -> None:
    questions = [data.questions[name] for name in ("q1", "q2")]
    examples = gold_examples(data, questions, "train", "question")
    trained = train_selector(
        examples, training_inputs(data, "train", "question", ["dev"]), base=tiny_cross_encoder,
        recipe="infuse-gold-small", out=tmp_path / "m", max_length=24, steps=60, batch_size=6,
        learning_rate=0.01,
    )  # fmt: skip
    run, truncated = rank_sentences(data, questions, trained.load().scorer)
    assert [run[name].ids[0] for name in ("q1", "q2")] == ["p1.2", "p1.0"] and not truncated


def test_a_tested_split_is_not_learnt_from(data: EvidenceData) -> None:
    with pytest.raises(InputError, match="'dev' is tested on"):
        training_inputs(data, "dev", "question", ["dev"])
    assert list(training_inputs(data, "train", "question", ["dev"]).held_out.ids) == ["q3"]


def test_a_check_against_the_teacher_by_hand() -> None:
    teacher = Run.from_dict({"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"d": 2.0, "e": 1.0}})
    ours = Run.from_dict({"q1": {"a": 9.0, "c": 8.0, "b": 7.0}, "q2": {"e": 5.0, "d": 4.0}})
    check = check_against_teacher(ours, teacher, {"q1": frozenset("b"), "q2": frozenset("e")})
    assert check.tau == pytest.approx(((2 - 1) / 3 + -1) / 2)
    assert (check.same_first, check.first_relevant, check.teacher_first_relevant) == (0.5, 0.5, 0)


def test_the_classifier_reads_selected_evidence_alone(data: EvidenceData) -> None:
    asked: list[tuple[str, str]] = []

    class Reader(Table):
        def score(self, pairs: Pairs) -> Scores:
            asked.extend((pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist())
            return Scores(np.zeros(len(pairs), np.float32), np.zeros(len(pairs), np.int32))

    questions = [data.questions[name] for name in ("q2", "q1")]
    score_answers(data, questions, Reader({}), {"q1": {"p1.2", "p1.0"}, "q2": frozenset()})
    assert asked == [
        ("sort the grain flour", "the drum sieve the grain flour sort"),
        ("sort the grain fish", "the drum sieve the grain flour sort"),
        ("a drum sieve drum", ""),
        ("a drum sieve net", ""),
    ]


def test_answers_are_measured_by_the_official_rules() -> None:
    rows = AnswerScores(
        np.array([0, 0, 0, 1, 1]),
        np.array([True, True, False, False, False]),
        np.array([0.9, 0.2, 0.6, 0.4, 0.1], np.float32),
    )
    measures = rows.measures(0.5)["official"]
    # question 0: 1 of 2 called is right, 1 of 2 right is called; question 1: nothing of nothing
    precision, recall = (1 / 2 + 1) / 2, (1 / 2 + 1) / 2
    assert measures["f1_m"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert (measures["f1_a"], measures["em0"]) == (pytest.approx(0.5), 0.5)
    assert set(rows.measures(0.5)["super_glue"]) == {"f1_m", "f1_a", "exact_match"}
    assert 0.1 <= rows.threshold().value < 0.9


def test_a_threshold_just_below_the_least_score_calls_every_answer_correct() -> None:
    score = np.array([0.9, 0.1], np.float32)
    rows = AnswerScores(np.array([0, 0]), np.array([True, True]), score)
    threshold = rows.threshold()
    assert threshold.value < float(score[1]) == np.float32(threshold.value)
    assert rows.measures(threshold.value)["official"]["f1_m"] == threshold.f1_m == 1.0


def test_the_classifier_learns_answers_as_classes(
    data: EvidenceData, tiny_cross_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = data.questions_of("train")
    examples = answer_examples(questions)
    values = dict(zip(examples.queries.ids.take(examples.query), examples.value, strict=True))
    assert values == {"q1+0": 1, "q1+1": 0, "q2+0": 1, "q2+1": 0, "q4+0": 0, "q4+1": 1}
    inputs = answer_inputs(data, questions, data.relevant("train"), ["dev"])
    texts, made = learnt_queries(
        monkeypatch,
        lambda: train_selector(
            examples, inputs, base=tiny_cross_encoder, recipe="docrank-small",
            out=tmp_path / "answers", max_length=24, epochs=1,
        ),
    )  # fmt: skip
    assert sorted(texts) == [
        "a drum sieve drum", "a drum sieve net", "sort the grain fish", "sort the grain flour"
    ], "q4 repeats a tested question"  # fmt: skip
    (document,) = made["job"].lookup.fetch(["q1"])
    assert document.text == "the grain flour sort", "judged 0 is no evidence"


def test_an_answer_that_is_neither_is_refused() -> None:
    with pytest.raises(InputError, match="neither correct nor not"):
        answer_examples([Question("q", "Why?", "p", (Answer("so"),))])
