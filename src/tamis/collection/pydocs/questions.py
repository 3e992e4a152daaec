"""The questions we wrote about Python's documentation, with graded answers, and a log of queries.

Judgements name documents of the running interpreter; those it lacks are left out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

_STOPWORDS = frozenset(
    "a about after again all also always am an and another any anyone anything are as at back "
    "be because been before being both but by can cannot could did do does doing don done each "
    "either else ever every everything find for from get give given gives go got had has have "
    "having he her here him his how however i if in instead into is isn it its just let like "
    "make makes many may me might more most much must my need needs neither never no nor not "
    "nothing now of off on once one only onto or other others our out over own per please "
    "python really same she should so some someone something still such sure take than that the "
    "their them then there these they thing things this those though through to too try under "
    "until up upon us use used using very want wants was way we were what when where whether "
    "which while who whole whose why will with within without won would yet you your".split()
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")
_SUFFIXES = (
    "ations",
    "ation",
    "ingly",
    "ities",
    "ings",
    "ing",
    "ies",
    "ied",
    "ers",
    "ed",
    "er",
    "es",
    "ly",
    "s",
    "e",
)


@dataclass(frozen=True)
class Question:
    """A question and the grades of the documents that answer it: 2 squarely, 1 partly.

    `refused` were judged too, and do not answer it.

    >>> Question("1", "walk two lists in step", "test", {"zip": 2}, ("wave",)).grades
    {'zip': 2, 'wave': 0}
    """

    id: str
    text: str
    split: str
    answers: Mapping[str, int]
    refused: tuple[str, ...] = ()

    @property
    def grades(self) -> dict[str, int]:
        """The grade of every judged document."""
        return {**self.answers, **dict.fromkeys(self.refused, 0)}


@dataclass(frozen=True)
class Questions:
    """Questions the running interpreter's documents answer; `dropped` counts those they do not."""

    answered: tuple[Question, ...]
    dropped: int


def load_questions(document_ids: Iterable[str], name: str = "questions.jsonl") -> Questions:
    """Read the questions, without judgements of documents that are not among `document_ids`.

    A question that loses its last answer of grade 2 is dropped.
    """
    present_ids = set(document_ids)
    refused = {line["id"]: line["refused"] for line in map(json.loads, _lines("refused.jsonl"))}
    records = map(json.loads, _lines(name))
    questions = [
        _question(record, refused.get(record["id"], ()), present_ids) for record in records
    ]
    answered = tuple(question for question in questions if 2 in question.answers.values())
    return Questions(answered, len(questions) - len(answered))


def load_log(name: str = "log.txt") -> tuple[str, ...]:
    """Queries nobody has judged, in the order of the log."""
    return tuple(_lines(name))


def lexical_gap(questions: Iterable[Question], documents: Iterable[tuple[str, str, str]]) -> float:
    r"""The share of questions with no word from the names or first lines of their answers.

    >>> documents = [("zip", "zip", "zip(*iterables)\n\nYield tuples until an input is exhausted.")]
    >>> asked = [Question("1", "walk two lists in step", "test", {"zip": 2}),
    ...          Question("2", "loop until the shorter input ends", "test", {"zip": 2})]
    >>> lexical_gap(asked, documents)
    0.5
    """
    texts = {name: text for name, _, text in documents}
    shared = [words_shared(question, texts) for question in questions]
    return sum(not words for words in shared) / len(shared)


def words_shared(question: Question, texts: Mapping[str, str]) -> set[str]:
    """Stems of the question's content words that also stand in an answer's name or first lines."""
    answers: set[str] = set()
    for name in question.answers:
        lines = [line for line in texts[name].splitlines() if line.strip()]
        answers |= _stems(" ".join([name, *lines[:2]]))
    return _stems(question.text) & answers


def _lines(name: str) -> list[str]:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()


def _question(
    record: Mapping[str, object], refused: Iterable[str], present_ids: set[str]
) -> Question:
    answers = record["answers"]
    if not isinstance(answers, dict):
        raise TypeError(f"{record['id']}: answers must be an object, not {answers!r}")
    present = {str(name): int(grade) for name, grade in answers.items() if name in present_ids}
    return Question(
        str(record["id"]),
        str(record["text"]),
        str(record["split"]),
        present,
        tuple(name for name in refused if name in present_ids),
    )


def _stems(text: str) -> set[str]:
    """Content words, crudely stemmed; identifiers fall apart at dots, underscores and capitals.

    >>> sorted(_stems("the TextWrapper wraps lines"))
    ['lin', 'text', 'wrap', 'wrapp']
    """
    words = (word.lower() for word in _WORD.findall(text))
    return {_stem(word) for word in words if len(word) > 2 and word not in _STOPWORDS}


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word
