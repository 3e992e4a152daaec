"""How well the right answers of a question are told from the others: the measures of MultiRC.

A question has any number of answers, of which any number is right. `answer_measures` computes what
the data set's own scorer does, `super_glue_measures` what Hugging Face calls by the same names:
another F1m. Both take columns with one row an answer, the rows of a question side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import InputError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class AnswerMeasures:
    """What MultiRC's scorer prints: `_m` are means over questions, `_a` is over all answers."""

    precision_m: float
    recall_m: float
    f1_m: float
    """Of the mean precision and the mean recall, not the mean of the questions' F1."""
    precision_a: float
    recall_a: float
    f1_a: float
    em0: float
    """The share of questions of which every answer is judged right."""
    em1: float
    """The share of questions of which one answer at most is judged wrong."""


@dataclass(frozen=True)
class SuperGlueMeasures:
    """What `super_glue`'s scorer prints of MultiRC; `f1_m` is not that of `AnswerMeasures`."""

    f1_m: float
    """The mean over questions of macro F1 over the classes right and wrong."""
    f1_a: float
    exact_match: float


@dataclass(frozen=True)
class Threshold:
    """From which score an answer is called right (above, not at it), and the F1m that this gives
    where it was tuned."""

    value: float
    f1_m: float


@dataclass(frozen=True, eq=False)
class QuestionCounts:
    """Of each question how many answers are called right, are right, and are both."""

    predicted: Counts
    correct: Counts
    agreed: Counts
    answers: Counts

    @classmethod
    def of(cls, question: ArrayLike, correct: ArrayLike, predicted: ArrayLike) -> QuestionCounts:
        """Counted from columns with a row an answer.

        >>> counts = QuestionCounts.of([0, 0, 1], [True, True, False], [True, False, False])
        >>> counts.precision.tolist(), counts.recall.tolist(), counts.mistakes.tolist()
        ([1.0, 1.0], [0.5, 1.0], [1, 0])
        """
        starts, right = _starts(question), _flags(correct)
        called = _flags(predicted)
        if not len(right) == len(called) == len(np.asarray(question)):
            raise InputError("the columns of the answers differ in length")
        sums = [
            np.add.reduceat(column.astype(np.int64), starts)
            for column in (called, right, called & right, np.ones(len(right)))
        ]
        return cls(*sums)

    @property
    def precision(self) -> Floats:
        """Of each question; 1 where no answer is called right."""
        return _ratios(self.agreed, self.predicted, 1.0)

    @property
    def recall(self) -> Floats:
        """Of each question; 1 where no answer is right."""
        return _ratios(self.agreed, self.correct, 1.0)

    @property
    def mistakes(self) -> Counts:
        """Of each question how many answers are judged wrong."""
        return self.predicted + self.correct - 2 * self.agreed


def answer_measures(
    question: ArrayLike, correct: ArrayLike, predicted: ArrayLike
) -> AnswerMeasures:
    """The measures of MultiRC's own scorer (multirc_measures.py of CogComp/multirc).

    An empty set counts 1: the precision where no answer is called right, the recall where none is.
    Where precision and recall are both 0 that scorer stops; F1 is 0 here.

    >>> measured = answer_measures([0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 0])
    >>> measured.f1_m, round(measured.f1_a, 3), measured.em0, measured.em1
    (0.75, 0.667, 0.0, 1.0)
    """
    counts = QuestionCounts.of(question, correct, predicted)
    precision_m, recall_m = float(counts.precision.mean()), float(counts.recall.mean())
    agreed = counts.agreed.sum()
    precision_a = float(_ratios(agreed, counts.predicted.sum(), 1.0))
    recall_a = float(_ratios(agreed, counts.correct.sum(), 1.0))
    return AnswerMeasures(
        precision_m,
        recall_m,
        f1_of(precision_m, recall_m),
        precision_a,
        recall_a,
        f1_of(precision_a, recall_a),
        float((counts.mistakes == 0).mean()),
        float((counts.mistakes <= 1).mean()),
    )


def super_glue_measures(
    question: ArrayLike, correct: ArrayLike, predicted: ArrayLike
) -> SuperGlueMeasures:
    """The measures of Hugging Face's `super_glue` (configuration `multirc`).

    Of a question the F1 of either class is averaged over the classes that occur, in the key or in
    the prediction, as scikit-learn does.

    >>> super_glue_measures([0, 0, 1, 1], [1, 0, 1, 1], [1, 0, 1, 0])
    SuperGlueMeasures(f1_m=0.6666666666666666, f1_a=0.8, exact_match=0.5)
    """
    counts = QuestionCounts.of(question, correct, predicted)
    neither = counts.answers - counts.predicted - counts.correct + counts.agreed
    right, wrong = (_ratios(2 * same, 2 * same + counts.mistakes, 0.0)
                    for same in (counts.agreed, neither))  # fmt: skip
    classes = sum(
        (same + counts.mistakes > 0).astype(np.int64) for same in (counts.agreed, neither)
    )
    agreed, mistakes = counts.agreed.sum(), counts.mistakes.sum()
    return SuperGlueMeasures(
        float(((right + wrong) / classes).mean()),
        float(_ratios(2 * agreed, 2 * agreed + mistakes, 0.0)),
        float((counts.mistakes == 0).mean()),
    )


def tune_threshold(question: ArrayLike, correct: ArrayLike, scores: ArrayLike) -> Threshold:
    """The threshold of the greatest F1m; an answer is right where its score is above.

    Every threshold that makes a difference is tried: between two scores it is their middle. Of
    several with the same F1m it is the highest.

    >>> tune_threshold([0, 0, 1, 1], [1, 0, 1, 0], [4.0, 1.0, 3.0, 2.0])
    Threshold(value=2.5, f1_m=1.0)
    """
    starts, right = _starts(question), _flags(correct)
    values = np.asarray(scores, np.float64)
    if not len(values) == len(right) == len(np.asarray(question)):
        raise InputError("the columns of the answers differ in length")
    if not np.isfinite(values).all():
        raise InputError("a score of an answer is no number")
    row_question = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(right))))
    order = np.argsort(-values, kind="stable")
    f1 = _f1_from_the_top(row_question[order], right[order], len(starts))
    below = values[order]
    may_cut = np.append(np.append(True, below[1:] < below[:-1]), True)
    best = int(np.argmax(np.where(may_cut, f1, -1.0)))
    return Threshold(_cut(below, best), float(f1[best]))


def f1_of(precision: float, recall: float) -> float:
    """The harmonic mean of two numbers, 0 where both are 0.

    >>> f1_of(1.0, 0.5), f1_of(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def _f1_from_the_top(question: Counts, right: NDArray[np.bool_], questions: int) -> Floats:
    """F1m when the first 0, 1, 2, … answers are called right.

    An answer changes the precision and the recall of its own question only.
    """
    total = np.bincount(question, right, questions)
    order = np.argsort(question, kind="stable")
    starts, hits = _starts(question[order]), right[order].astype(np.int64)
    first = np.repeat(starts, np.diff(np.append(starts, len(question))))
    place = np.arange(len(question)) - first
    earlier = np.cumsum(hits) - hits
    agreed = earlier - earlier[first]
    gains = np.empty((2, len(question)))
    gains[0, order] = (agreed + hits) / (place + 1) - _ratios(agreed, place, 1.0)
    gains[1, order] = _ratios(hits, total[question[order]], 0.0)
    start = np.array([[questions], [(total == 0).sum()]], np.float64)
    precision, recall = np.cumsum(np.hstack([start, gains]), axis=1) / questions
    return np.round(_ratios(2 * precision * recall, precision + recall, 0.0), 12)


def _cut(descending: Floats, count: int) -> float:
    """A threshold with `count` of these scores above it."""
    if count == 0:
        return float(descending[0])
    if count == len(descending):
        return float(np.nextafter(descending[-1], -np.inf))
    return float((descending[count - 1] + descending[count]) / 2)


def _starts(question: ArrayLike) -> Counts:
    """Where the rows of each question begin."""
    numbers = np.asarray(question)
    if not len(numbers):
        raise InputError("there are no answers to measure")
    if (numbers[1:] < numbers[:-1]).any():
        raise InputError(
            "the answers are not in the order of their questions",
            hint="number the questions and sort the answers by them",
        )
    return np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])).astype(np.int64)


def _flags(column: ArrayLike) -> NDArray[np.bool_]:
    """A column of yes and no; anything but 0 and 1 is refused."""
    values = np.asarray(column)
    if not np.isin(values, (0, 1)).all():
        raise InputError(
            "an answer is right or wrong: 1 or 0", hint="binarise scores with tune_threshold"
        )
    return values.astype(bool)


def _ratios(part: Any, whole: Any, empty: float) -> Floats:
    """Shares, `empty` where the whole is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), empty)
