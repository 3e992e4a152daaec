"""Multiple choice: a choice's score is the mean of what its k best facts score.

The facts of a choice are BM25's first k for question and choice, whatever scores them afterwards.
The question answers itself with its best choice. Equal best choices share one point, as in the
ARC data set's own scoring; a choice without any fact is below all that have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.collection.base import Collection
from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.labels.weak import LUCENE_BM25
from tamis.models.model_lookup import Ranker, open_ranker
from tamis.pipeline.rerank import rerank
from tamis.search import Index
from tamis.search.sources import IndexSource
from tamis.tasks.choice_questions import ChoiceQueries, Question
from tamis.types import Qrels, Run

Floats = NDArray[np.float64]
FACTS_PER_CHOICE = 3
EVIDENCE_DEPTH = 100
EVIDENCE_MEASURE = "AP"
BM25 = "bm25"
"""The name of the model that is BM25 itself."""
OVERALL = "All"
NO_FACT = -np.inf
"""The score of a choice for which BM25 finds nothing."""


@dataclass(frozen=True)
class Answered:
    """A question, the scores of its choices in their order, and the labels of the best."""

    question: Question
    scores: tuple[float, ...]
    best: tuple[str, ...]

    @property
    def points(self) -> float | None:
        """1 if the best choice is right; shared among equal ones; None where no key is known."""
        if self.question.answer is None:
            return None
        return 1 / len(self.best) if self.question.answer in self.best else 0.0


@dataclass(frozen=True)
class Accuracy:
    """The mean points of some questions, and what guessing would give."""

    value: float
    chance: float
    questions: int


@dataclass(frozen=True)
class Evidence:
    """How well the facts of the gold explanations are ranked, for question and right choice."""

    value: float
    """The mean of AP over the questions."""
    depth: int
    questions: int
    facts_not_in_the_collection: int


@dataclass(frozen=True, eq=False)
class ChoiceResult:
    """What a model makes of some questions, question by question and in sum."""

    model: str
    facts_per_choice: int
    choices_without_facts: int
    answered: list[Answered]
    evidence: Evidence | None = None

    def to_json(self) -> dict[str, Any]:
        """The sums, as plain JSON."""
        evidence = None if self.evidence is None else asdict(self.evidence)
        return {
            "model": self.model,
            "facts_per_choice": self.facts_per_choice,
            "questions": len(self.answered),
            "questions_with_equal_best_choices": sum(len(one.best) > 1 for one in self.answered),
            "choices_without_facts": self.choices_without_facts,
            "accuracy": {name: asdict(one) for name, one in accuracies(self.answered).items()},
            **({} if evidence is None else {"evidence": {"measure": EVIDENCE_MEASURE, **evidence}}),
        }


@contextmanager
def facts_index(facts: Index | Collection) -> Iterator[Index]:
    """The index of the facts; of a collection one is built, for as long as the block lasts."""
    if isinstance(facts, Index):
        yield facts
        return
    with TemporaryDirectory() as folder:
        yield Index.build(facts, Path(folder) / "index")


def open_model(name: str, index: Index, **options: Any) -> Ranker | None:
    """The model of a name, which may be `alignment:VECTORS`; None for `bm25`, which needs none.

    Options are those of `open_ranker`.
    """
    return None if name == BM25 else open_ranker(name, documents=index, **options)


def measure_choice(
    questions: Sequence[Question],
    index: Index,
    ranker: Ranker | None,
    k: int = FACTS_PER_CHOICE,
    *,
    evidence_depth: int | None = None,
    threads: int | None = None,
) -> ChoiceResult:
    """Answer questions by a model, or by BM25's own scores (None), and measure the answers.

    With `evidence_depth` the ranking of so many facts is measured against gold explanations too.
    """
    choices = ChoiceQueries.of(questions)
    facts = retrieve_facts(choices, index, k, threads)
    scored = facts if ranker is None else score_facts(facts, ranker, index)
    evidence = None
    if evidence_depth:
        evidence = rank_evidence(questions, index, ranker, evidence_depth, threads)
    return ChoiceResult(
        BM25 if ranker is None else ranker.name,
        k,
        int((facts.sizes() == 0).sum()),
        answer(choices, mean_scores(choices, scored)),
        evidence,
    )


def retrieve_facts(
    choices: ChoiceQueries, index: Index, k: int = FACTS_PER_CHOICE, threads: int | None = None
) -> Run:
    """BM25's first k facts of every choice, by Lucene's default parameters.

    >>> from tempfile import mkdtemp
    >>> from tamis.tasks.choice_questions import Choice
    >>> from tamis.types import Document
    >>> facts = [Document("f1", "a sieve sorts grain"), Document("f2", "a drum makes noise")]
    >>> two = Choice("A", "a drum"), Choice("B", "a sieve")
    >>> choices = ChoiceQueries.of([Question("q1", "What sorts grain?", two, "B")])
    >>> run = retrieve_facts(choices, Index.build(facts, mkdtemp() + "/index"), 1)
    >>> [run[query].ids for query in run], answer(choices, mean_scores(choices, run))[0].best
    ([['f1'], ['f1']], ('B',))
    """
    if k < 1:
        raise InputError(f"a choice cannot have {k} facts", hint="give it 3, 4 or 5")
    return IndexSource(index, LUCENE_BM25, threads=threads).search(choices.queries, k)


def score_facts(facts: Run, ranker: Ranker, index: Index) -> Run:
    """The same facts with the scores of a model; nothing is added or left out."""
    if not len(facts.doc):
        return facts
    depth = int(facts.sizes().max())
    return rerank(ranker.scorer, index, depth=depth, model=ranker.name)(facts)


def mean_scores(choices: ChoiceQueries, facts: Run) -> Floats:
    """Of every choice the mean of its facts' scores, in the order of the choices."""
    place = choices.queries.ids.positions_in(facts.queries.ids)[choices.query]
    sizes = facts.sizes()
    sums = np.zeros(len(facts))
    np.add.at(sums, np.repeat(np.arange(len(facts)), sizes), facts.score.astype(np.float64))
    means = np.where(sizes > 0, sums / np.maximum(sizes, 1), NO_FACT)
    return np.where(place >= 0, means[place], NO_FACT)


def answer(choices: ChoiceQueries, scores: Floats) -> list[Answered]:
    """The best choice of every question, or several where their scores are equal."""
    answered = []
    for number, question in enumerate(choices.questions):
        own = scores[choices.offsets[number] : choices.offsets[number + 1]]
        best = tuple(
            choice.label
            for choice, is_best in zip(question.choices, own == own.max(), strict=True)
            if is_best
        )
        answered.append(Answered(question, tuple(own.tolist()), best))
    return answered


def accuracies(answered: Sequence[Answered]) -> dict[str, Accuracy]:
    """The accuracy over all questions with a key, under `All`, and of each partition.

    >>> from tamis.tasks.choice_questions import Choice
    >>> choices = tuple(Choice(label, label) for label in "ABCD")
    >>> easy = Answered(Question("q1", "?", choices, "A", "Easy"), (1, 1, 0, 0), ("A", "B"))
    >>> hard = Answered(Question("q2", "?", choices, "A", "Challenge"), (0, 1, 0, 0), ("B",))
    >>> {name: one.value for name, one in accuracies([easy, hard]).items()}
    {'All': 0.25, 'Challenge': 0.0, 'Easy': 0.5}
    """
    keyed = [one for one in answered if one.points is not None]
    if not keyed:
        raise InputError(
            "none of the questions has an answer to measure by", hint='add "answer": "B"'
        )
    partitions = sorted({one.question.partition for one in keyed} - {""})
    groups = {name: [one for one in keyed if one.question.partition == name] for name in partitions}
    return {name: _accuracy(group) for name, group in {OVERALL: keyed, **groups}.items()}


def _accuracy(answered: Sequence[Answered]) -> Accuracy:
    points = [one.points or 0.0 for one in answered]
    chance = [1 / len(one.question.choices) for one in answered]
    return Accuracy(float(np.mean(points)), float(np.mean(chance)), len(answered))


def rank_evidence(
    questions: Sequence[Question],
    index: Index,
    ranker: Ranker | None,
    depth: int = EVIDENCE_DEPTH,
    threads: int | None = None,
) -> Evidence | None:
    """How well a model, or BM25, ranks the facts of the gold explanations.

    The query is the question with its right choice, which is what the explanations explain; the
    candidates are BM25's first `depth` facts. None where no question has an explanation.
    """
    explained = [q for q in questions if q.answer is not None and q.explanation]
    if not explained:
        return None
    choices = ChoiceQueries.of(explained)
    right = choices.query[choices.is_right]
    ids = choices.queries.ids.take(right)
    queries = choices.queries.select(np.sort(right))
    run = IndexSource(index, LUCENE_BM25, threads=threads).search(queries, depth)
    run = run if ranker is None else score_facts(run, ranker, index)
    judged = {name: dict.fromkeys(q.explanation, 1) for name, q in zip(ids, explained, strict=True)}
    evaluation = evaluate(Qrels.from_dict(judged), {"model": run}, [EVIDENCE_MEASURE])
    absent = sum(fact not in index for question in explained for fact in question.explanation)
    return Evidence(evaluation.mean("model", EVIDENCE_MEASURE), depth, len(explained), absent)
