"""What a model that selects evidence learns from: a teacher's scores, then judgements.

Both are `Examples` that the one training loop learns from: scores put on 0 to 5 within a question
(equation 3 of Yadav, Bethard and Surdeanu; `labels.weak`) and judged sentences, 5 or 0
(`labels.gold`, trained by a regression). Queries of tested splits, and what repeats one, are left
out by the library's one rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import InputError
from tamis.evaluation.agreement import agree
from tamis.labels.examples import Examples
from tamis.labels.gold import gold
from tamis.labels.inputs import LabelInputs, open_inputs
from tamis.labels.weak import weak
from tamis.splits import is_test
from tamis.tasks.evidence_data import EvidenceData, QueryForm, Question
from tamis.training.api import train_stages
from tamis.training.model_writer import Trained
from tamis.training.settings import as_texts
from tamis.types import Qrels, Queries, Query, Run, Scorer

QUESTION = "question"
"""The field of a query that says which question it asks."""


def queries_of(questions: Sequence[Question], form: QueryForm) -> Queries:
    """What is asked, with the question's id in a field: one query a question, or one an answer.

    >>> from tamis.tasks.evidence_data import Answer
    >>> question = Question("q", "Who sieves?", "p", (Answer("Ada"), Answer("Bob")))
    >>> queries_of([question], "question+answer").texts
    ('Who sieves? Ada', 'Who sieves? Bob')
    >>> list(queries_of([question], "question").ids)
    ['q']
    """
    queries = []
    for question in questions:
        names = question.answer_ids if form == "question+answer" else [question.id]
        for name, text in zip(names, question.query_texts(form), strict=True):
            queries.append(Query(name, text, {QUESTION: question.id}))
    return Queries.of(queries)


def candidates_of(data: EvidenceData, questions: Sequence[Question], form: QueryForm) -> Run:
    """Each query with the sentences of its question's paragraph, in their order there."""
    queries = queries_of(questions, form)
    sentences = {
        query.id: data.paragraphs[data.questions[query.fields[QUESTION]].paragraph]
        for query in queries
    }
    orders = {
        query: {name: -float(place) for place, name in enumerate(names)}
        for query, names in sentences.items()
    }
    return Run.from_dict(orders).with_queries(queries)


def teacher_examples(
    data: EvidenceData, questions: Sequence[Question], teacher: Scorer, form: QueryForm
) -> Examples:
    """Every sentence with the teacher's score, put on 0 to 5 among those of its query."""
    run = candidates_of(data, questions, form)
    return weak(run, teacher, data.sentences, depth=_depth(run)).with_queries(run.queries)


def gold_examples(
    data: EvidenceData, questions: Sequence[Question], split: str, form: QueryForm
) -> Examples:
    """Every sentence as a class: judged relevant, or another of the paragraph."""
    run = candidates_of(data, questions, form)
    grades = data.qrels[split].to_dict()
    judged = Qrels.from_dict({query.id: grades[query.fields[QUESTION]] for query in run.queries})
    return gold(judged, run.queries, run, depth=_depth(run)).with_queries(run.queries)


def _depth(run: Run) -> int:
    """All candidates of every query."""
    return max(1, int(run.sizes().max(initial=1)))


def training_inputs(
    data: EvidenceData, split: str, form: QueryForm, tested: Sequence[str]
) -> LabelInputs:
    """The sentences, and the queries of tested splits, which are not learnt from.

    A tested split counts as a test split whatever it is called.
    """
    if split in tested or is_test(split):
        raise InputError(f"{split!r} is tested on", hint="learn from another split")
    queries, qrels = held_out_queries(data, form, tested)
    return open_inputs(list(data.sentences.values()), queries=queries, qrels=qrels)


def held_out_queries(
    data: EvidenceData, form: QueryForm, tested: Sequence[str]
) -> tuple[Queries, dict[str, Qrels]]:
    """The queries of tested splits, and judgements that say they are held out."""
    questions = {
        name: data.questions_of(name) for name in data.qrels if is_test(name) or name in tested
    }
    listed = {question.id: question for some in questions.values() for question in some}
    qrels = {
        name if is_test(name) else f"{name} (test)": Qrels.from_dict(
            {query.id: {} for query in queries_of(some, form)}
        )
        for name, some in questions.items()
    }
    return queries_of(list(listed.values()), form), qrels


def train_selector(
    examples: Examples,
    inputs: LabelInputs,
    *,
    base: str | Path,
    recipe: str,
    out: Path,
    threads: int | None = None,
    resume: bool = False,
    **settings: Any,
) -> Trained:
    """One training of a selector: scores or judgements in, a model folder out.

    Nothing is validated: the number of epochs is the recipe's, and the last state is kept.
    """
    assert examples.queries.texts is not None
    own = Queries(examples.queries.ids, examples.queries.texts)
    both = {query.id: query for queries in (inputs.queries, own) for query in queries or ()}
    return train_stages(
        [examples], replace(inputs, queries=Queries.of(both.values())), base=base, recipe=recipe,
        out=out, settings=as_texts(settings), validate=False, threads=threads, resume=resume,
    )  # fmt: skip


@dataclass(frozen=True)
class TeacherCheck:
    """Whether a model ranks sentences as its teacher does, on questions it did not learn from."""

    tau: float
    """Kendall's rank correlation with the teacher, a mean over questions."""
    same_first: float
    """The share of questions for which both have the same first sentence."""
    first_relevant: float
    teacher_first_relevant: float
    """The share of questions whose first sentence is judged relevant (P@1)."""
    questions: int


def check_against_teacher(
    run: Run, teacher_run: Run, relevant: dict[str, frozenset[str]]
) -> TeacherCheck:
    """Compare two rankings of the same questions.

    >>> ours, teacher = {"q": {"a": 3.0, "b": 2.0}}, {"q": {"a": 9.0, "b": 1.0}}
    >>> wanted = {"q": frozenset(["b"])}
    >>> check_against_teacher(Run.from_dict(ours), Run.from_dict(teacher), wanted).tau
    1.0
    """
    first = [(run[q].ids[0], teacher_run[q].ids[0], relevant[q]) for q in run]
    return TeacherCheck(
        agree(run, teacher_run).means()["tau"],
        float(np.mean([ours == theirs for ours, theirs, _ in first])),
        float(np.mean([ours in wanted for ours, _, wanted in first])),
        float(np.mean([theirs in wanted for _, theirs, wanted in first])),
        len(first),
    )
