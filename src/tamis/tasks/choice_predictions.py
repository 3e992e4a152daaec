"""The answers of a model as a file: one JSON object a question, with the score of every choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.collection.jsonl import write_jsonl
from tamis.tasks.choice import Answered


def write_predictions(answered: Sequence[Answered], path: Path, *, force: bool = False) -> None:
    """Write a JSON lines file, whole or not at all."""
    write_jsonl((as_record(one) for one in answered), path, force)


def as_record(answered: Answered) -> dict[str, Any]:
    """A question's answer as plain JSON; a choice without facts has the score null.

    >>> from tamis.tasks.choice_questions import Choice, Question
    >>> question = Question("q1", "Why?", (Choice("A", "a"), Choice("B", "b")), "A")
    >>> as_record(Answered(question, (1.5, -math.inf), ("A",)))
    {'id': 'q1', 'predicted': ['A'], 'points': 1.0, 'scores': {'A': 1.5, 'B': None}}
    """
    labels = [choice.label for choice in answered.question.choices]
    scores = [score if math.isfinite(score) else None for score in answered.scores]
    return {
        "id": answered.question.id,
        "predicted": list(answered.best),
        "points": answered.points,
        "scores": dict(zip(labels, scores, strict=True)),
    }
