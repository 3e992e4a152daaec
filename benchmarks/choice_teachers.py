"""Whether a first step ranks choices as its teacher does, on training questions it did not see.

A second step tells nothing about infusion where the first has not learnt. The check is on training
questions outside the sample, so that settings may be chosen by it; the untrained model is beside
it, to see what was learnt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tamis.durable import new_file
from tamis.models.model_lookup import Ranker
from tamis.search import Index
from tamis.tasks.choice import OVERALL, accuracies, measure_choice
from tamis.tasks.choice_questions import Question


@dataclass(frozen=True)
class TeacherCheck:
    """How a model ranks the choices of held-out training questions, beside a teacher."""

    system: str
    teacher: str
    k: int
    seed: int
    same_best: float
    """The share of questions whose best choice is the teacher's."""
    correlation: float
    """Of the choices' scores with the teacher's, within a question; the mean over questions."""
    compared: int
    """How many questions these two are of: those in which the teacher tells choices apart."""
    accuracy: float
    teacher_accuracy: float
    questions: int
    """How many questions accuracy is of: all."""

    def __str__(self) -> str:
        return (
            f"k={self.k} {self.system}, seed {self.seed}: {self.teacher}'s best choice in "
            f"{100 * self.same_best:.1f}% of {self.compared} held-out training questions, mean "
            f"correlation of the choices' scores {self.correlation:.3f}; accuracy "
            f"{100 * self.accuracy:.1f}, {self.teacher}'s {100 * self.teacher_accuracy:.1f}, "
            f"of {self.questions}"
        )


def check_teacher(
    questions: Sequence[Question],
    index: Index,
    k: int,
    seed: int,
    student: tuple[str, Ranker | None],
    teacher: tuple[str, Ranker | None],
) -> TeacherCheck:
    """Compare two systems, each with its name, on the same questions."""
    answered = [measure_choice(questions, index, one[1], k, threads=1).answered
                for one in (student, teacher)]  # fmt: skip
    scores = [[one.scores for one in some] for some in answered]
    same, correlation, compared = agreement(*scores)
    right, taught = (accuracies(some)[OVERALL].value for some in answered)
    return TeacherCheck(
        student[0], teacher[0], k, seed, same, correlation, compared, right, taught, len(questions)
    )


def agreement(
    scores: Sequence[Sequence[float]], teacher: Sequence[Sequence[float]]
) -> tuple[float, float, int]:
    """How often the best choice is the teacher's, the mean correlation within questions, and of
    how many: questions whose choices all have equal scores with the teacher are left out.
    """
    same, correlations = [], []
    for own, taught in zip(scores, teacher, strict=True):
        if len({*taught}) < 2 or not np.isfinite([*own, *taught]).all():
            continue
        same.append(float(int(np.argmax(own)) == int(np.argmax(taught))))
        spread = np.std(own) > 0
        correlations.append(float(np.corrcoef(own, taught)[0, 1]) if spread else 0.0)
    return float(np.mean(same)), float(np.mean(correlations)), len(same)


def write_check(check: TeacherCheck, path: Path) -> None:
    """Keep a check."""
    path.parent.mkdir(exist_ok=True)
    with new_file(path, force=True) as unfinished:
        unfinished.write_text(json.dumps(asdict(check)), "utf-8")


def read_checks(folder: Path) -> Iterator[TeacherCheck]:
    """All checks of a folder."""
    for path in sorted(folder.glob("*.json")):
        yield TeacherCheck(**json.loads(path.read_text("utf-8")))
