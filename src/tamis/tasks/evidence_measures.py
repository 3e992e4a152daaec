"""How good selected evidence is: precision and recall, question by question, and their F1.

Precision and recall are averaged over questions, and F1 is the harmonic mean of the two means.
AutoROCC's published code computes something else, which has its own name here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.tasks.multirc_measures import f1_of

Values = NDArray[np.float64]


def autorocc_f1(precision: float, recall: float) -> float:
    """F1 as the code of AutoROCC divides: by 1 where P + R is less, which is too low then.

    >>> autorocc_f1(0.75, 0.75), autorocc_f1(0.25, 0.5), f1_of(0.25, 0.5)
    (0.75, 0.25, 0.3333333333333333)
    """
    return 2 * precision * recall / max(1.0, precision + recall)


@dataclass(frozen=True, eq=False)
class EvidenceValues:
    """Precision and recall of every question, in the order of their ids.

    `weights` is how many correct answers each question has: AutoROCC's code counts a question once
    for each of them, and not at all without one.
    """

    questions: tuple[str, ...]
    precision: Values
    recall: Values
    selected: NDArray[np.int64]
    weights: Values

    def summary(self) -> EvidenceMeasures:
        """Means over the questions."""
        precision, recall = float(self.precision.mean()), float(self.recall.mean())
        weighted = self.weights if self.weights.any() else np.ones(len(self.questions))
        theirs = [float(np.average(v, weights=weighted)) for v in (self.precision, self.recall)]
        return EvidenceMeasures(
            precision,
            recall,
            f1_of(precision, recall),
            theirs[0],
            theirs[1],
            autorocc_f1(theirs[0], theirs[1]),
            len(self.questions),
            float(self.selected.mean()),
        )


@dataclass(frozen=True)
class EvidenceMeasures:
    """Means over questions, and the same by the rules of AutoROCC's code."""

    precision: float
    recall: float
    f1: float
    autorocc_precision: float
    autorocc_recall: float
    autorocc_f1: float
    questions: int
    selected: float
    """How many sentences are selected for a question, on average."""


def evidence_values(
    selected: Mapping[str, Set[str]],
    relevant: Mapping[str, Set[str]],
    correct_answers: Mapping[str, int] | None = None,
) -> EvidenceValues:
    """Precision and recall of each judged question; nothing selected has a precision of 0.

    >>> values = evidence_values({"q1": {"a", "b"}, "q2": {"c"}}, {"q1": {"a"}, "q2": {"c", "d"}})
    >>> values.precision.tolist(), values.recall.tolist(), values.summary().f1
    ([0.5, 1.0], [1.0, 0.5], 0.75)
    """
    questions = tuple(sorted(relevant, key=str.encode))
    check_relevant({question: relevant[question] for question in questions})
    chosen = [selected.get(question, frozenset()) for question in questions]
    hits = np.array([len(s & relevant[q]) for q, s in zip(questions, chosen, strict=True)], float)
    sizes = np.array([len(sentences) for sentences in chosen], np.int64)
    counts = correct_answers or {}
    return EvidenceValues(
        questions,
        hits / np.maximum(1, sizes),
        hits / np.array([len(relevant[question]) for question in questions]),
        sizes,
        np.array([counts.get(question, 0) for question in questions], float),
    )


def check_relevant(relevant: Mapping[str, Set[str]]) -> None:
    """Refuse questions of which one has no relevant sentence, or no questions at all.

    >>> check_relevant({"q1": {"a"}, "q2": set()})
    Traceback (most recent call last):
    tamis.errors.InputError: question 'q2' has no relevant sentence
    """
    without = [question for question, sentences in relevant.items() if not sentences]
    if without or not relevant:
        raise InputError(
            f"question {without[0]!r} has no relevant sentence" if without else "no questions",
            hint="precision and recall need a sentence judged relevant for every question",
        )


def f1_of_means_test(
    first: Sequence[Values], second: Sequence[Values], *, samples: int = 10_000, seed: int = 0
) -> float:
    """The two-sided p-value of a paired randomisation test of two F1 of means.

    `first` and `second` are precision and recall, a value a question. Were the systems alike, each
    question could as well have its values exchanged; p = (as extreme + 1) / (samples + 1).

    >>> same = np.array([0.5, 1.0])
    >>> f1_of_means_test((same, same), (same, same))
    1.0
    """
    values = np.stack([np.stack(first), np.stack(second)])
    random, step = np.random.default_rng(seed), 500
    observed = abs(np.diff(_f1_of(values.mean(2)))[0])
    extreme = 0
    for start in range(0, samples, step):
        swap = random.random((min(step, samples - start), values.shape[2])) < 0.5
        shift = (swap @ (values[1] - values[0]).T) / values.shape[2]
        means = np.stack([values[0].mean(1) + shift, values[1].mean(1) - shift])
        difference = np.abs(np.diff(_f1_of(means), axis=0)[0])
        extreme += int((difference >= observed - 1e-12).sum())
    return (extreme + 1) / (samples + 1)


def _f1_of(means: Values) -> Values:
    """F1 along the last axis, which has precision and recall."""
    total = means.sum(-1)
    scores: Values = 2 * means.prod(-1) / np.where(total > 0, total, 1.0)
    return scores
