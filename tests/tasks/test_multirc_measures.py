"""MultiRC's answer measures: by hand, against scikit-learn and on the published predictions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from tamis.errors import InputError
from tamis.tasks.multirc_measures import (
    QuestionCounts,
    answer_measures,
    f1_of,
    super_glue_measures,
    tune_threshold,
)

Question = list[tuple[int, int]]
"""Of each answer whether it is right, and whether it is called so."""
some_questions = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=6),
    min_size=1,
    max_size=8,
)


def columns(questions: list[Question]) -> tuple[list[int], list[int], list[int]]:
    rows = [(n, right, called) for n, answers in enumerate(questions) for right, called in answers]
    number, correct, predicted = zip(*rows, strict=True)
    return list(number), list(correct), list(predicted)


def test_measures_by_hand() -> None:
    measured = answer_measures(*columns([
        [(1, 1), (1, 0), (0, 1)],  # precision 1/2, recall 1/2, two mistakes
        [(1, 1), (0, 0), (0, 0), (0, 1)],  # precision 1/2, recall 1, one mistake
        [(1, 1), (1, 1)],  # all right
    ]))  # fmt: skip
    precision, recall = (1 / 2 + 1 / 2 + 1) / 3, (1 / 2 + 1 + 1) / 3
    assert measured.precision_m == pytest.approx(precision)
    assert measured.recall_m == pytest.approx(recall)
    assert measured.f1_m == pytest.approx(2 * precision * recall / (precision + recall))
    pooled_precision, pooled_recall = 4 / 6, 4 / 5
    assert measured.precision_a == pytest.approx(pooled_precision)
    assert measured.recall_a == pytest.approx(pooled_recall)
    assert measured.f1_a == pytest.approx(
        2 * pooled_precision * pooled_recall / (pooled_precision + pooled_recall)
    )
    assert (measured.em0, measured.em1) == pytest.approx((1 / 3, 2 / 3))


def test_f1m_is_not_the_mean_of_f1() -> None:
    questions: list[Question] = [[(1, 1), (0, 1), (0, 1), (0, 1)], [(1, 1), (1, 0), (1, 0), (1, 0)]]
    mean_of_f1 = 2 * 1 * (1 / 4) / (1 + 1 / 4)
    assert answer_measures(*columns(questions)).f1_m == pytest.approx(5 / 8)
    assert mean_of_f1 == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("answers", "precision", "recall"),
    [
        ([(1, 0), (0, 0)], 1.0, 0.0),  # nothing is called right
        ([(0, 1), (0, 0)], 0.0, 1.0),  # nothing is right
        ([(0, 0), (0, 0)], 1.0, 1.0),  # neither
    ],
)
def test_an_empty_set_counts_one(answers: Question, precision: float, recall: float) -> None:
    measured = answer_measures(*columns([answers]))
    assert (measured.precision_m, measured.recall_m) == (precision, recall)
    assert (measured.precision_a, measured.recall_a) == (precision, recall)
    f1 = 1.0 if precision == recall == 1 else 0.0
    assert (measured.f1_m, measured.f1_a) == (f1, f1)


def test_an_empty_set_in_one_question_is_pooled_in_the_other() -> None:
    measured = answer_measures(*columns([[(1, 0), (0, 0)], [(1, 1), (0, 1)]]))
    assert (measured.precision_m, measured.recall_m) == ((1 + 1 / 2) / 2, (0 + 1) / 2)
    assert (measured.precision_a, measured.recall_a) == (1 / 2, 1 / 2)


def test_f1_is_zero_where_precision_and_recall_are() -> None:
    measured = answer_measures(*columns([[(1, 0), (0, 1)]]))
    assert (measured.f1_m, measured.f1_a, measured.em1) == (0.0, 0.0, 0.0)


@given(some_questions)
@settings(deadline=None, max_examples=200)
def test_super_glue_agrees_with_scikit_learn(questions: list[Question]) -> None:
    number, correct, predicted = columns(questions)
    by_question = [
        f1_score([r for r, _ in answers], [c for _, c in answers], average="macro", zero_division=0)
        for answers in questions
    ]
    measured = super_glue_measures(number, correct, predicted)
    assert measured.f1_m == pytest.approx(float(np.mean(by_question)))
    assert measured.f1_a == pytest.approx(f1_score(correct, predicted, zero_division=0))
    exact = [all(right == called for right, called in answers) for answers in questions]
    assert measured.exact_match == pytest.approx(np.mean(exact))


def test_super_glue_by_hand_is_another_f1m() -> None:
    questions: list[Question] = [[(1, 1), (0, 0), (0, 1)], [(1, 1), (1, 1)]]
    right, wrong = 2 * 1 / (2 * 1 + 1), 2 * 1 / (2 * 1 + 1)
    assert super_glue_measures(*columns(questions)).f1_m == pytest.approx(
        ((right + wrong) / 2 + 1) / 2
    )
    assert answer_measures(*columns(questions)).f1_m == pytest.approx(2 * 0.75 / 1.75)


def brute_force(number: list[int], correct: list[int], scores: list[float]) -> float:
    values = np.array(scores)
    cuts = [values.max(), values.min() - 1, *values.tolist()]
    return max(answer_measures(number, correct, (values > cut).astype(int)).f1_m for cut in cuts)


@given(some_questions, st.data())
@settings(deadline=None, max_examples=150)
def test_the_threshold_is_the_best_of_all(questions: list[Question], data: st.DataObject) -> None:
    number, correct, _ = columns(questions)
    scores = data.draw(
        st.lists(st.integers(-3, 3).map(float), min_size=len(number), max_size=len(number))
    )
    tuned = tune_threshold(number, correct, scores)
    predicted = (np.array(scores) > tuned.value).astype(int)
    assert answer_measures(number, correct, predicted).f1_m == pytest.approx(tuned.f1_m)
    assert tuned.f1_m == pytest.approx(brute_force(number, correct, scores))


def test_equal_scores_are_never_parted() -> None:
    tuned = tune_threshold([0, 0, 0], [1, 0, 0], [2.0, 2.0, 1.0])
    assert tuned.value == 1.5
    assert tuned.f1_m == pytest.approx(2 * (1 / 2) * 1 / (3 / 2))


def test_a_threshold_below_every_score() -> None:
    tuned = tune_threshold([0, 0], [1, 1], [2.0, 1.0])
    assert tuned.f1_m == 1.0
    assert 0.9 < tuned.value < 1.0


def test_mistakes_of_a_question_count_both_ways() -> None:
    counts = QuestionCounts.of([3, 3, 7], [1, 0, 1], [0, 1, 1])
    assert counts.mistakes.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("number", "correct", "predicted", "problem"),
    [
        ([], [], [], "no answers"),
        ([1, 0], [1, 0], [1, 0], "order of their questions"),
        ([0, 0], [1, 0], [0.7, 0.2], "1 or 0"),
        ([0, 0], [1], [1, 0], "differ in length"),
    ],
)
def test_bad_columns_are_refused(
    number: list[int], correct: list[int], predicted: list[float], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        answer_measures(number, correct, predicted)


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="no number"):
        tune_threshold([0, 0], [1, 0], [float("nan"), 1.0])


PUBLISHED = Path(os.environ.get("TAMIS_MULTIRC_PREDICTIONS", "absent"))
"""The folder baseline-scores of github.com/CogComp/multirc."""
KEY = Path(os.environ.get("TAMIS_DATA", "absent")) / "multirc" / "dev.json"


def published(name: str) -> list[Question]:
    """The dev questions with a published prediction, as that file has them."""
    entries = json.loads((PUBLISHED / f"{name}.json").read_text("utf-8"))
    predictions = {(entry["pid"], int(entry["qid"])): entry["scores"] for entry in entries}
    paragraphs = json.loads(KEY.read_text("utf-8"))["data"]
    return [
        list(zip([int(a["isAnswer"]) for a in question["answers"]], called, strict=True))
        for paragraph in paragraphs
        for n, question in enumerate(paragraph["paragraph"]["questions"])
        if (called := predictions.get((paragraph["id"], n))) is not None
    ]


needs_published = pytest.mark.skipif(
    not (PUBLISHED.is_dir() and KEY.is_file()),
    reason="needs MultiRC's dev set and its published predictions",
)


@needs_published
@pytest.mark.parametrize(
    ("name", "f1_m", "f1_a", "em0", "em1"),
    [
        ("human-01", 0.8644027389253569, 0.8376722817764166, 0.565582371458552, 0.838405036726128),
        ("allOnes", 0.6100120618883679, 0.5994511050122779, 0.008394543546694, 0.1825813221406086),
        ("simpleLR", 0.6653432058865477, 0.631764705882353, 0.11752360965372, 0.4197271773347324),
        ("lucene_world", 0.618081994056538, 0.5923780487804, 0.014690451206715, 0.20671563483735),
        ("lucene_paragraphs", 0.6424714782767, 0.6004390779363, 0.07450157397691, 0.3221406086044),
    ],
)
def test_the_official_scorer_says_the_same(
    name: str, f1_m: float, f1_a: float, em0: float, em1: float
) -> None:
    """The figures are those of multirc_measures.py itself; the README has the first F1m."""
    measured = answer_measures(*columns(published(name)))
    found = (measured.f1_m, measured.f1_a, measured.em0, measured.em1)
    assert found == pytest.approx((f1_m, f1_a, em0, em1), abs=1e-12)


@needs_published
def test_the_f1a_of_the_readme_is_of_an_older_script() -> None:
    """Before it was mended (d8a643b) the script exchanged precision and recall, and what it called
    F1a was of the means over questions with one more value, 0, which Python 2 had divided to.
    """
    measured = answer_measures(*columns(published("human-01")))
    precision, recall = (953 / 954 * v for v in (measured.recall_m, measured.precision_m))
    assert (precision, recall) == pytest.approx((0.82434611161, 0.906551362683), abs=1e-11)
    assert f1_of(precision, recall) == pytest.approx(0.86349665639, abs=1e-11)
