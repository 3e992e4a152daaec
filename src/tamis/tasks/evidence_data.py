"""Questions about paragraphs whose sentences are documents: what evidence is selected from.

A collection whose documents have a field `paragraph`, and perhaps `position`, and whose queries
have a `paragraph`, and perhaps `answers`: see docs/how-to/task-evidence.md. A question is the unit
of everything here, however many answers it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tamis.collection.base import Collection, Faults
from tamis.collection.beir import CORPUS, QUERIES
from tamis.collection.jsonl import read_jsonl
from tamis.collection.readers import open_collection
from tamis.errors import InputError, LineError
from tamis.types import Document, Ids, Qrels, Queries, Query, Run

QueryForm = Literal["question", "question+answer", "question+answers"]
QUERY_FORMS: tuple[QueryForm, ...] = ("question", "question+answer", "question+answers")
"""The question alone; with each answer in turn; with all answers at once. Whether an answer is
correct is never part of a query."""
PARAGRAPH, POSITION, ANSWERS = "paragraph", "position", "answers"
ANSWERS_HINT = '"answers": [{"text": "…", "correct": true}, …]'


def query_form(text: str) -> QueryForm:
    """A form of query by its name.

    >>> query_form("question+answers")
    'question+answers'
    """
    for form in QUERY_FORMS:
        if text == form:
            return form
    raise InputError(f"there is no query {text!r}", hint=f"queries: {', '.join(QUERY_FORMS)}")


@dataclass(frozen=True, slots=True)
class Answer:
    """A candidate answer; `correct` is None where that is not known."""

    text: str
    correct: bool | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one paragraph, with its candidate answers, correct and not."""

    id: str
    text: str
    paragraph: str
    answers: tuple[Answer, ...] = ()

    @property
    def answer_ids(self) -> list[str]:
        """An id for the question with each of its answers."""
        return [f"{self.id}+{number}" for number in range(len(self.answers))]

    def query_texts(self, form: QueryForm) -> list[str]:
        """What is asked: one text, or one for each answer.

        >>> question = Question("q", "Who sieves?", "p", (Answer("Ada", True), Answer("Bob")))
        >>> question.query_texts("question+answer")
        ['Who sieves? Ada', 'Who sieves? Bob']
        >>> question.query_texts("question+answers")
        ['Who sieves? Ada Bob']
        """
        if form == "question":
            return [self.text]
        if not self.answers:
            raise InputError(
                f"question {self.id!r} has no answers",
                hint="use the question alone: --query question",
            )
        answers = [answer.text for answer in self.answers]
        if form == "question+answers":
            return [" ".join([self.text, *answers])]
        return [f"{self.text} {answer}" for answer in answers]


@dataclass(frozen=True, eq=False)
class EvidenceData:
    """Sentences by id, the sentences of each paragraph in order, questions, judgements by split."""

    name: str
    sentences: Mapping[str, Document]
    paragraphs: Mapping[str, tuple[str, ...]]
    questions: Mapping[str, Question]
    qrels: Mapping[str, Qrels]

    def questions_of(self, split: str) -> list[Question]:
        """The questions that are judged in a split, in the order of their ids."""
        if split not in self.qrels:
            raise InputError(
                f"{self.name} has no judgements of a split {split!r}",
                hint=f"available splits: {', '.join(self.qrels) or 'none'}",
            )
        return [self.questions[question] for question in self.qrels[split].queries]

    def candidates(self, questions: Iterable[Question]) -> Run:
        """Of each question the sentences of its paragraph, in their order there."""
        listed = {question.id: self.paragraphs[question.paragraph] for question in questions}
        orders = {
            question: {sentence: -float(place) for place, sentence in enumerate(sentences)}
            for question, sentences in listed.items()
        }
        records = (Query(name, self.questions[name].text) for name in listed)
        return Run.from_dict(orders).with_queries(Queries.of(records))

    def relevant(self, split: str) -> dict[str, frozenset[str]]:
        """Of each judged question the sentences that it needs."""
        return {
            question: frozenset(name for name, grade in grades.items() if grade > 0)
            for question, grades in self.qrels[split].to_dict().items()
        }

    def with_split(self, split: str, parts: Mapping[str, Sequence[str]]) -> EvidenceData:
        """The same with a split divided into parts, each of the questions of some paragraphs."""
        divided = {}
        for name, paragraphs in parts.items():
            chosen = {*paragraphs}
            questions = [q.id for q in self.questions_of(split) if q.paragraph in chosen]
            divided[name] = self.qrels[split].select(Ids.of(questions))
        others = {name: qrels for name, qrels in self.qrels.items() if name != split}
        return replace(self, qrels={**others, **divided})


def hold_out_paragraphs(
    data: EvidenceData, split: str, share: float, name: str = "validation", seed: int = 0
) -> EvidenceData:
    """The same with a share of a split's paragraphs, drawn at random, as a split of its own.

    All questions of a paragraph stay together.
    """
    paragraphs = sorted({question.paragraph for question in data.questions_of(split)})
    order = np.random.default_rng(seed).permutation(len(paragraphs)).tolist()
    count = max(1, round(share * len(paragraphs)))
    drawn = [paragraphs[place] for place in order[:count]]
    rest = [paragraphs[place] for place in order[count:]]
    return data.with_split(split, {split: rest, name: drawn})


def sample_questions(data: EvidenceData, split: str, count: int, seed: int = 0) -> EvidenceData:
    """The same with so many questions of a split, drawn at random, in place of all."""
    questions = [question.id for question in data.questions_of(split)]
    if count >= len(questions):
        return data
    drawn = np.random.default_rng(seed).choice(len(questions), count, replace=False).tolist()
    sample = data.qrels[split].select(Ids.of(questions[place] for place in drawn))
    return replace(data, qrels={**data.qrels, split: sample})


def read_evidence(data: str | Path | Collection) -> EvidenceData:
    """Questions with their sentences, from a collection or its path.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "corpus.jsonl").write_text(
    ...         '{"_id": "s1", "text": "Ada sieves.", "paragraph": "p", "position": 0}')
    ...     _ = (Path(folder) / "queries.jsonl").write_text(
    ...         '{"_id": "q1", "text": "Who sieves?", "paragraph": "p", "answers": ["Ada"]}')
    ...     read = read_evidence(folder)
    >>> read.questions["q1"].answers, read.paragraphs
    ((Answer(text='Ada', correct=None),), {'p': ('s1',)})
    """
    collection = data if isinstance(data, Collection) else open_collection(data)
    files = _Files(None if isinstance(data, Collection) else Path(data), collection.name)
    sentences = {document.id: document for document in collection.documents}
    paragraphs = _paragraphs(sentences, files)
    questions = {query.id: _question(query, paragraphs, files) for query in collection.queries}
    if not questions:
        raise InputError(
            f"{collection.name} has no questions", hint=f"a folder has them in {QUERIES}"
        )
    _check_judgements(collection.qrels, sentences, questions)
    return EvidenceData(collection.name, sentences, paragraphs, questions, collection.qrels)


@dataclass(frozen=True)
class _Files:
    """Where records were read, to say in an error."""

    path: Path | None
    name: str

    def error(self, file: str, record: str, problem: str, hint: str) -> InputError:
        """The error of a record, with file and line where it stands in a BEIR folder."""
        path = None if self.path is None else self.path / file
        if path is None or not path.is_file():
            return InputError(f"{self.name}: {record!r} {problem}", hint=hint)
        lines = (line for line, row in read_jsonl(path, Faults()) if str(row.get("_id")) == record)
        return LineError(path, next(lines, 1), f"{record!r} {problem}", hint=hint)


def _paragraphs(sentences: Mapping[str, Document], files: _Files) -> dict[str, tuple[str, ...]]:
    """The sentences of each paragraph by their positions, else in the order of the collection."""
    placed: dict[str, list[tuple[float, int, str]]] = {}
    for number, document in enumerate(sentences.values()):
        paragraph = document.fields.get(PARAGRAPH, "")
        if not paragraph:
            hint = (
                'every sentence names its paragraph: {"_id": "s1", "text": "…", "paragraph": "p1"}'
            )
            raise files.error(CORPUS, document.id, "has no field 'paragraph'", hint)
        try:
            position = float(document.fields.get(POSITION, number))
        except ValueError:
            found = document.fields[POSITION]
            hint = "a position is a number, counted from 0"
            raise files.error(CORPUS, document.id, f"has the position {found!r}", hint) from None
        placed.setdefault(paragraph, []).append((position, number, document.id))
    return {name: tuple(entry[-1] for entry in sorted(rows)) for name, rows in placed.items()}


def _question(query: Query, paragraphs: Mapping[str, Any], files: _Files) -> Question:
    paragraph = query.fields.get(PARAGRAPH, "")
    if paragraph not in paragraphs:
        problem = f"asks about paragraph {paragraph!r}, which has no sentences"
        hint = f"every question names the paragraph of some sentences in {CORPUS}"
        raise files.error(QUERIES, query.id, problem, hint)
    try:
        answers = _answers(json.loads(query.fields.get(ANSWERS) or "[]"))
    except (TypeError, KeyError, ValueError):
        raise files.error(
            QUERIES, query.id, "has answers that cannot be read", ANSWERS_HINT
        ) from None
    return Question(query.id, query.text, paragraph, answers)


def _answers(entries: Any) -> tuple[Answer, ...]:
    if not isinstance(entries, list):
        raise TypeError("answers are a list")
    return tuple(map(_answer, entries))


def _answer(entry: Any) -> Answer:
    """An answer from its text alone, or from an object."""
    if isinstance(entry, str):
        return Answer(entry)
    text, correct = entry["text"], entry.get("correct")
    if not isinstance(text, str) or not (correct is None or isinstance(correct, bool)):
        raise TypeError("an answer is a text, and perhaps whether it is correct")
    return Answer(text, correct)


def _check_judgements(
    splits: Mapping[str, Qrels],
    sentences: Mapping[str, Document],
    questions: Mapping[str, Question],
) -> None:
    """Refuse judgements of questions that are not there, or of sentences elsewhere."""
    for split, qrels in splits.items():
        for question, grades in qrels.to_dict().items():
            if question not in questions:
                raise InputError(
                    f"split {split!r} judges question {question!r}, which is not there",
                    hint=f"are {QUERIES} and judgements of the same data?",
                )
            paragraph = questions[question].paragraph
            for name in grades:
                found = sentences[name].fields[PARAGRAPH] if name in sentences else None
                if found != paragraph:
                    raise InputError(
                        f"split {split!r} judges sentence {name!r} for question {question!r}, "
                        f"which is not of its paragraph {paragraph!r}",
                        hint="evidence is selected from the question's own paragraph",
                    )
