"""Which answers are correct, from the selected evidence: a second model, whatever selected.

It reads (question and answer, evidence) and learns from judged evidence alone, so it is the same
for every system that selects; so is the score above which it calls an answer correct. MultiRC's
official measures say how well that goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.labels.examples import Examples
from tamis.labels.inputs import LabelInputs, open_inputs
from tamis.tasks.evidence_data import EvidenceData, Question
from tamis.tasks.evidence_training import QUESTION, held_out_queries, queries_of
from tamis.tasks.multirc_measures import (
    Threshold,
    answer_measures,
    super_glue_measures,
    tune_threshold,
)
from tamis.types import Document, Pairs, Query, Scorer

Selected = Mapping[str, Set[str]]
"""The sentences that are selected, by question."""


def evidence_text(data: EvidenceData, question: Question, selected: Set[str]) -> str:
    """The selected sentences as one text, in the order of the paragraph.

    >>> sentences = {name: Document(name, name.upper() + ".") for name in "abc"}
    >>> data = EvidenceData("toy", sentences, {"p": ("a", "b", "c")}, {}, {})
    >>> evidence_text(data, Question("q", "Which?", "p"), {"c", "a"})
    'A. C.'
    """
    names = (name for name in data.paragraphs[question.paragraph] if name in selected)
    return " ".join(data.sentences[name].text for name in names)


def answer_examples(questions: Sequence[Question]) -> Examples:
    """Each question with each answer as a query, and the evidence as its text: a class."""
    queries = queries_of(questions, "question+answer")
    flags = _flags(questions)
    rows: list[Any] = []
    for query in queries:
        is_correct = flags[query.id]
        role = "positive" if is_correct else "negative"
        rows.append((query.id, query.fields[QUESTION], float(is_correct), role))
    return Examples.of_rows(rows, source="gold").with_queries(queries)


def answer_inputs(
    data: EvidenceData, questions: Sequence[Question], selected: Selected, tested: Sequence[str]
) -> LabelInputs:
    """The evidence of each question as a document, and the queries of tested splits."""
    documents = [
        Document(question.id, evidence_text(data, question, selected[question.id]))
        for question in questions
    ]
    queries, qrels = held_out_queries(data, "question+answer", tested)
    return open_inputs(documents, queries=queries, qrels=qrels)


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """A row an answer, the answers of a question side by side."""

    question: NDArray[np.int64]
    correct: NDArray[np.bool_]
    score: NDArray[np.float32]

    def threshold(self) -> Threshold:
        """The score above which an answer is called correct, tuned on these rows."""
        return tune_threshold(self.question, self.correct, self.score)

    def measures(self, threshold: float) -> dict[str, Any]:
        """MultiRC's official measures, and those of Hugging Face's `super_glue`."""
        called = self.score.astype(np.float64) > threshold  # as tuned; float32 would round it
        columns = self.question, self.correct, called
        official, theirs = answer_measures(*columns), super_glue_measures(*columns)
        return {"official": asdict(official), "super_glue": asdict(theirs)}


def score_answers(
    data: EvidenceData, questions: Sequence[Question], scorer: Scorer, selected: Selected
) -> AnswerScores:
    """Every answer of some questions, scored by the evidence that was selected for its question."""
    flags = _flags(questions)
    ordered = sorted(questions, key=lambda question: question.id.encode())
    texts = [evidence_text(data, q, selected.get(q.id, frozenset())) for q in ordered]
    asked: list[Query] = []
    owner: list[int] = []
    for number, question in enumerate(ordered):
        queries = list(queries_of([question], "question+answer"))
        asked += queries
        owner += [number] * len(queries)
    index = np.stack([np.arange(len(asked)), np.array(owner)], 1).astype(np.int32)
    scores = scorer.score(Pairs([query.text for query in asked], texts, index))
    correct = np.array([flags[query.id] for query in asked])
    return AnswerScores(np.array(owner), correct, scores.values)


def _flags(questions: Sequence[Question]) -> dict[str, bool]:
    """Whether each answer is correct, by the id of its query."""
    flags: dict[str, bool] = {}
    for question in questions:
        for query, answer in zip(question.answer_ids, question.answers, strict=True):
            if answer.correct is None:
                raise InputError(
                    f"question {question.id!r} has an answer that is neither correct nor not",
                    hint='give each: {"text": "…", "correct": true}',
                )
            flags[query] = answer.correct
    return flags
