"""From a ranking of a question's sentences to the ones that are selected: one rule a system.

A rule is a number of sentences, a threshold on the score, or a threshold on the score put on 0 to 5
within the question (equation 3 of Yadav, Bethard and Surdeanu). It is tuned on questions that are
not tested on. A threshold that no sentence passes leaves the best one selected: every question
needs evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.labels.weak import MAX_WEAK_LABEL, scale_scores
from tamis.tasks.evidence_measures import check_relevant
from tamis.tasks.multirc_measures import f1_of
from tamis.types import Run

RuleKind = Literal["top", "scaled", "score"]
MAX_TOP = 10
SCALED_STEP = 0.05
MAX_THRESHOLDS = 200
"""How many thresholds on the score are tried: quantiles of all scores."""


@dataclass(frozen=True)
class Rule:
    """Which sentences of a ranking are selected.

    >>> run = Run.from_dict({"q": {"a": 9.0, "b": 5.0, "c": 1.0}})
    >>> [run.docs[doc] for doc in Rule("scaled", 2.0).select(run).doc]  # scaled: 5, 2.5 and 0
    ['a', 'b']
    >>> str(Rule("top", 2)), str(Rule("score", 1.5)), str(Rule("scaled", 2.0))
    ('the best 2', 'score ≥ 1.5', 'scaled score ≥ 2')
    """

    kind: RuleKind
    value: float

    def __str__(self) -> str:
        if self.kind == "top":
            return f"the best {self.value:g}"
        return f"{'scaled ' if self.kind == 'scaled' else ''}score ≥ {self.value:.4g}"

    def select(self, run: Run) -> Run:
        """The rows that are selected."""
        return run.rows(self.is_selected(run))

    def is_selected(self, run: Run) -> NDArray[np.bool_]:
        """Which rows of a run are selected."""
        rank = run.ranks()
        if self.kind == "top":
            return rank <= self.value
        passed: NDArray[np.bool_] = (_values(run, self.kind) >= self.value) | (rank == 1)
        return passed


def _values(run: Run, kind: RuleKind) -> NDArray[np.float32]:
    if kind == "score":
        return run.score
    return scale_scores(np.repeat(np.arange(len(run)), run.sizes()), run.score)[0]


@dataclass(frozen=True)
class Tuned:
    """A rule, and the F1 of the means it has on the questions it was tuned on."""

    rule: Rule
    f1: float
    questions: int


def tune_rule(run: Run, relevant: Mapping[str, Set[str]]) -> Tuned:
    """The rule of the highest F1; of equal ones a number before a threshold, and the lower value.

    >>> run = Run.from_dict({"q1": {"a": 3.0, "b": 2.9, "c": 0.0}, "q2": {"d": 3.0, "e": 1.0}})
    >>> tune_rule(run, {"q1": {"a", "b"}, "q2": {"d"}})
    Tuned(rule=Rule(kind='scaled', value=0.05), f1=1.0, questions=2)
    """
    if not len(run):
        raise InputError(
            "no questions to tune a threshold on", hint="name another split to tune on"
        )
    names = run.docs.take(run.doc)
    question = np.repeat(np.arange(len(run)), run.sizes())
    wanted = [relevant[name] for name in run.queries.ids]
    check_relevant(dict(zip(run.queries.ids, wanted, strict=True)))
    hit = np.array([name in wanted[q] for name, q in zip(names, question.tolist(), strict=True)])
    sizes = np.array([len(sentences) for sentences in wanted], float)
    best: Tuned | None = None
    for rule in _rules(run):
        selected = rule.is_selected(run)
        hits = np.bincount(question, weights=selected & hit, minlength=len(run))
        counts = np.bincount(question, weights=selected, minlength=len(run))
        value = f1_of(float((hits / np.maximum(1, counts)).mean()), float((hits / sizes).mean()))
        if best is None or value > best.f1:
            best = Tuned(rule, value, len(run))
    assert best is not None
    return best


def _rules(run: Run) -> Iterator[Rule]:
    for number in range(1, MAX_TOP + 1):
        yield Rule("top", number)
    for step in range(1, round(MAX_WEAK_LABEL / SCALED_STEP) + 1):
        yield Rule("scaled", round(step * SCALED_STEP, 2))
    quantiles = np.quantile(run.score, np.linspace(0, 1, MAX_THRESHOLDS))
    for value in np.unique(quantiles).tolist():
        yield Rule("score", value)
