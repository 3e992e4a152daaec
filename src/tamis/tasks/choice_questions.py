"""Multiple-choice questions: their file format, and every choice of them as a query.

A file has one JSON object a line; docs/how-to/task-choice.md describes it. What is made of the
choices' queries is left to `choice`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.collection.base import Faults
from tamis.collection.jsonl import read_jsonl
from tamis.errors import InputError, LineError
from tamis.types import Queries, Query

SUFFIX = ".jsonl"
EXAMPLE = '{"id": "q1", "question": "…", "choices": ["…", "…"], "answer": "B"}'
QUESTION_KEYS = ("question", "stem")
ANSWER_KEYS = ("answer", "answerKey")
PARTITION_KEYS = ("partition", "set")
"""Our key first, then those of AI2's files."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that a question offers."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its choices, and what is known of the right one.

    >>> two = Choice("A", "a drum"), Choice("B", "a sieve")
    >>> Question("q1", "What sorts grain?", two, answer="B").right.text
    'a sieve'
    """

    id: str
    text: str
    choices: tuple[Choice, ...]
    answer: str | None = None
    """The label of the right choice."""
    partition: str = ""
    """Easy or Challenge, for example; accuracy is also given for each."""
    explanation: tuple[str, ...] = ()
    """The ids of the facts that explain the answer."""

    @property
    def right(self) -> Choice:
        """The right choice."""
        return next(choice for choice in self.choices if choice.label == self.answer)


@dataclass(frozen=True, eq=False)
class ChoiceQueries:
    """Questions, and a query a choice: the question and the choice's text.

    Choices stand in the order of their questions: those of question n are the rows `offsets[n]` to
    `offsets[n + 1]`, and `query` is the number of each row's query.
    """

    questions: tuple[Question, ...]
    queries: Queries
    query: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, questions: Sequence[Question]) -> ChoiceQueries:
        """The choices of some questions as queries.

        >>> two = Choice("A", "a drum"), Choice("B", "a sieve")
        >>> choices = ChoiceQueries.of([Question("q1", "What sorts grain?", two)])
        >>> [query.text for query in choices.queries], choices.offsets.tolist()
        (['What sorts grain? a drum', 'What sorts grain? a sieve'], [0, 2])
        """
        if not questions:
            raise InputError("there are no questions", hint=f"a line is {EXAMPLE}")
        records = [record for question in questions for record in _queries_of(question)]
        queries = Queries.of(records)
        sizes = [len(question.choices) for question in questions]
        return cls(
            tuple(questions),
            queries,
            queries.ids.numbers([record.id for record in records]),
            np.cumsum([0, *sizes]),
        )

    @property
    def question(self) -> NDArray[np.int64]:
        """Of each row the number of its question."""
        return np.repeat(np.arange(len(self.questions)), np.diff(self.offsets))

    @property
    def is_right(self) -> NDArray[np.bool_]:
        """Of each row whether it is the right choice."""
        return np.array(
            [choice.label == q.answer for q in self.questions for choice in q.choices], bool
        )


def _queries_of(question: Question) -> Iterator[Query]:
    for number, choice in enumerate(question.choices, 1):
        fields = {"question": question.id, "choice": choice.label}
        yield Query(f"{question.id}#{number}", f"{question.text} {choice.text}", fields)


def question_files(path: Path | str) -> dict[str, Path]:
    """The files of questions by split: those of a folder, or a file under its own name."""
    path = Path(path)
    if path.is_file():
        return {path.stem: path}
    if not path.is_dir():
        raise InputError(f"there is no {path}", hint="name a file of questions or their folder")
    files = {file.stem: file for file in sorted(path.glob(f"*{SUFFIX}")) if _has_choices(file)}
    if not files:
        raise InputError(
            f"{path} has no file of questions", hint=f"SPLIT{SUFFIX}, in which a line is {EXAMPLE}"
        )
    return files


def _has_choices(file: Path) -> bool:
    """Whether the first record has choices: a folder may have its facts beside its questions."""
    first = next(iter(read_jsonl(file, Faults(skip=True))), None)
    return first is not None and _choices_of(first[1]) is not None


def read_split(path: Path | str, split: str, faults: Faults | None = None) -> list[Question]:
    """The questions of one split of a folder, or of a file, which has one split only."""
    files = question_files(path)
    if Path(path).is_file():
        return read_questions(path, faults)
    if split not in files:
        raise InputError(
            f"{path} has no questions of a split {split!r}",
            hint=f"available splits: {', '.join(files)}",
        )
    return read_questions(files[split], faults)


def read_questions(path: Path | str, faults: Faults | None = None) -> list[Question]:
    """The questions of a file; a bad line is an error, or is skipped and counted.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "dev.jsonl"
    ...     record = '{"id": "q1", "question": "Why?", "choices": ["a", "b"], "answer": "B"}'
    ...     _ = file.write_text(record)
    ...     read_questions(file)[0].right
    Choice(label='B', text='b')
    """
    path, faults = Path(path), Faults() if faults is None else faults
    questions: dict[str, Question] = {}
    for line, record in read_jsonl(path, faults):
        try:
            question = _question(record)
            if question.id in questions:
                raise _BadQuestionError(
                    f"question {question.id!r} occurs twice", "give it its own id"
                )
        except _BadQuestionError as bad:
            faults.meet(LineError(path, line, str(bad), hint=bad.hint))
            continue
        questions[question.id] = question
    if not questions:
        raise InputError(f"{path} has no questions", hint=f"a line is {EXAMPLE}")
    return list(questions.values())


class _BadQuestionError(Exception):
    """A record that is no question."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


def _question(record: Mapping[str, Any]) -> Question:
    inner = record.get("question")
    text = _first(inner if isinstance(inner, Mapping) else record, QUESTION_KEYS)
    id = record.get("id", record.get("_id"))
    if type(id) not in (str, int) or id == "":
        raise _BadQuestionError("no 'id'", f"a line is {EXAMPLE}")
    if not isinstance(text, str) or not text.strip():
        raise _BadQuestionError("no text in 'question'", f"a line is {EXAMPLE}")
    choices = _read_choices(record)
    answer = _first(record, ANSWER_KEYS)
    labels = [choice.label for choice in choices]
    if answer is not None and str(answer) not in labels:
        raise _BadQuestionError(
            f"the answer {answer!r} is no choice's label", f"labels here: {', '.join(labels)}"
        )
    partition = _first(record, PARTITION_KEYS)
    return Question(
        str(id),
        text,
        choices,
        None if answer is None else str(answer),
        "" if partition is None else str(partition),
        _explanation(record.get("explanation")),
    )


def _first(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((record[key] for key in keys if record.get(key) is not None), None)


def _choices_of(record: Mapping[str, Any]) -> Any:
    """What stands for the choices, also inside the question, as AI2 nests them."""
    inner = record.get("question")
    return (inner if isinstance(inner, Mapping) and "choices" in inner else record).get("choices")


def _read_choices(record: Mapping[str, Any]) -> tuple[Choice, ...]:
    listed = _choices_of(record)
    if isinstance(listed, Mapping) and isinstance(listed.get("text"), list):
        labels = listed.get("label", list(ascii_uppercase[: len(listed["text"])]))
        if not isinstance(labels, list):
            raise _BadQuestionError("the choices have no list of labels", CHOICES_HINT)
        if len(labels) != len(listed["text"]):
            raise _BadQuestionError(
                "labels and texts of the choices differ in number", CHOICES_HINT
            )
        listed = [{"label": a, "text": b} for a, b in zip(labels, listed["text"], strict=True)]
    if not isinstance(listed, list) or not 2 <= len(listed) <= len(ascii_uppercase):
        raise _BadQuestionError("no list of choices, two at least", CHOICES_HINT)
    choices = tuple(_choice(n, value) for n, value in enumerate(listed))
    if len({choice.label for choice in choices}) < len(choices):
        raise _BadQuestionError("two choices have the same label", CHOICES_HINT)
    return choices


CHOICES_HINT = 'say "choices": ["…", "…"] or [{"label": "A", "text": "…"}, …]'


def _choice(number: int, value: Any) -> Choice:
    if isinstance(value, str):
        value = {"text": value}
    text = value.get("text") if isinstance(value, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise _BadQuestionError(f"choice {number + 1} has no text", CHOICES_HINT)
    label = value.get("label", ascii_uppercase[number])
    if type(label) not in (str, int) or label == "":
        raise _BadQuestionError(f"choice {number + 1} has no label", CHOICES_HINT)
    return Choice(str(label), text)


def _explanation(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(one) in (str, int) for one in value):
        raise _BadQuestionError(
            "'explanation' is no list of ids", 'say "explanation": ["fact1", "fact2"]'
        )
    return tuple(dict.fromkeys(map(str, value)))
