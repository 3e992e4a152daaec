"""What a model learns for multiple choice, and its training, one or two steps of it.

Each of a choice's k pairs (question and choice, fact) carries the same target. In the first step
it is the mean of the choice's k scores by BM25 or alignment, put on 0 to 5 over the choices of its
question; in the second 5 for the right choice and 0 for the others (Yadav, Bethard and Surdeanu,
section 3.2). The training itself is that of `tamis train`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import __version__
from tamis.collection.loss_notes import counted
from tamis.errors import InputError
from tamis.labels.candidates import same_role
from tamis.labels.examples import (
    LABEL_SOURCES,
    LABEL_TYPES,
    ROLES,
    TEST_HASHES,
    TO_THE_END,
    Examples,
    LabelSource,
    LabelType,
)
from tamis.labels.inputs import open_inputs
from tamis.labels.weak import scale_scores
from tamis.models.model_lookup import Ranker
from tamis.search import Index
from tamis.splits import HeldOut
from tamis.tasks.choice import FACTS_PER_CHOICE, mean_scores, retrieve_facts, score_facts
from tamis.tasks.choice_questions import ChoiceQueries, Question
from tamis.text.near import query_hash
from tamis.training.api import train_stages
from tamis.training.model_writer import Trained
from tamis.types import Queries, Query, Run

GOLD = "gold"
RECIPES: Mapping[tuple[bool, bool], str] = {
    (True, False): "infuse-scores",
    (False, True): "infuse-gold",
    (True, True): "infuse",
}
"""The recipe by whether scores are learnt, and whether gold answers are."""
_log = logging.getLogger(__name__)


def score_examples(choices: ChoiceQueries, facts: Run, scorer: str) -> Examples:
    """The first step: every pair of a choice has the choice's mean score, put on 0 to 5.

    `facts` are the facts of every choice with the scores that are to be learnt. A choice without
    a fact gives no pair and has no part in the scaling.
    """
    means, question = mean_scores(choices, facts), choices.question
    target = np.zeros(len(means), np.float32)
    found = np.isfinite(means)
    target[found], equal = scale_scores(question[found], means[found].astype(np.float32))
    made = {"labelled_by": "weak", "scorer": scorer}
    return _examples(
        choices,
        facts,
        target,
        None,
        "weak",
        "scaled",
        {**made, "questions_with_all_scores_equal": equal},
    )


def gold_examples(choices: ChoiceQueries, facts: Run) -> Examples:
    """The second step: the pairs of a right choice are positive, which regression learns as 5."""
    unkeyed = next((q for q in choices.questions if q.answer is None), None)
    if unkeyed is not None:
        raise InputError(
            f"question {unkeyed.id!r} has no answer to learn", hint='add "answer", or leave it out'
        )
    right = choices.is_right
    return _examples(
        choices, facts, right.astype(np.float32), right, "gold", "class", {"labelled_by": "gold"}
    )


def _examples(
    choices: ChoiceQueries,
    facts: Run,
    target: NDArray[np.float32],
    right: NDArray[np.bool_] | None,
    source: LabelSource,
    kind: LabelType,
    made: Mapping[str, Any],
) -> Examples:
    """The pairs of all choices, a group a choice, each with its choice's target."""
    facts = facts.with_queries(choices.queries)
    row_of = np.empty(len(choices.query), np.int64)
    row_of[choices.query] = np.arange(len(choices.query))
    choice = row_of[facts.queries.ids.positions_in(choices.queries.ids)]
    choice = np.repeat(choice, facts.sizes())
    queries, group = np.unique(np.repeat(np.arange(len(facts)), facts.sizes()), return_inverse=True)
    used, doc = np.unique(facts.doc, return_inverse=True)
    count = len(group)
    role = same_role(count, "pool")
    if right is not None:
        positive, negative = ROLES.index("positive"), ROLES.index("negative")
        role = np.where(right[choice], positive, negative).astype(np.int8)
    return Examples(
        facts.queries.select(queries),
        facts.docs.select(used),
        group.astype(np.int32),
        group.astype(np.int32),
        doc.astype(np.int32),
        np.zeros(count, np.int32),
        np.full(count, TO_THE_END, np.int32),
        np.ones(count, bool),
        target[choice],
        role,
        np.full(count, LABEL_SOURCES.index(source), np.int8),
        np.full(count, LABEL_TYPES.index(kind), np.int8),
        facts={
            **made,
            "questions": len(choices.questions),
            "choices_without_facts": int(len(choices.query) - len(queries)),
            "tamis": __version__,
        },
    )


def label_choices(
    questions: Sequence[Question],
    index: Index,
    labels: Sequence[str],
    scorers: Mapping[str, Ranker | None],
    k: int = FACTS_PER_CHOICE,
    *,
    test: Sequence[Question] = (),
    threads: int | None = None,
) -> list[Examples]:
    """The examples of each kind of label, over the same facts: `gold`, or the name of a scorer.

    A scorer that is None is BM25. The examples carry the hashes of the test questions.
    """
    choices = ChoiceQueries.of(questions)
    facts = retrieve_facts(choices, index, k, threads)
    made = []
    for name in labels:
        ranker = None if name == GOLD else scorers[name]
        scored = facts if ranker is None else score_facts(facts, ranker, index)
        examples = (
            gold_examples(choices, facts) if name == GOLD else score_examples(choices, scored, name)
        )
        made.append(mark_test(examples, test))
    return made


def without_test(questions: Sequence[Question], test: Sequence[Question]) -> list[Question]:
    """The questions that are not among the test questions, nor ask nearly the same.

    >>> from tamis.tasks.choice_questions import Choice
    >>> ab = (Choice("A", "a"), Choice("B", "b"))
    >>> learn = [Question("q1", "What sorts grain?", ab), Question("q2", "What beats cream?", ab)]
    >>> [one.id for one in without_test(learn, [Question("t", "what sorts grain", ab)])]
    ['q2']
    """
    if not test:
        return list(questions)
    texts = _as_queries(test)
    held_out = HeldOut.of_queries(texts.ids, texts)
    leaks = {*held_out.leaks(_as_queries(questions))}
    if leaks:
        _log.warning(
            "%s not learnt from: a held-out question, or nearly the same as one, such as %s",
            counted(len(leaks), "question"), min(leaks),
        )  # fmt: skip
    return [question for question in questions if question.id not in leaks]


def _as_queries(questions: Sequence[Question]) -> Queries:
    return Queries.of(Query(question.id, question.text) for question in questions)


def mark_test(examples: Examples, test: Sequence[Question]) -> Examples:
    """The examples with the hashes of the test queries, by which every training leaves them out."""
    if not test:
        return examples
    queries = ChoiceQueries.of(test).queries
    hashes = sorted({query_hash(query.text) for query in queries})
    return replace(examples, facts={**examples.facts, TEST_HASHES: hashes})


def draw_questions(questions: Sequence[Question], count: int | None, seed: int) -> list[Question]:
    """A random sample of so many questions, in their order; all where there are no more."""
    if count is None or count >= len(questions):
        return list(questions)
    chosen = np.random.default_rng(seed).choice(len(questions), count, replace=False)
    return [questions[n] for n in np.sort(chosen).tolist()]


def train_choice(
    example_sets: Sequence[Examples],
    index: Index,
    *,
    base: str | Path,
    out: Path,
    recipe: str | None = None,
    settings: Mapping[str, str] | None = None,
    **options: Any,
) -> Trained:
    """Train a model on scores, on gold answers, or on the one and then the other.

    `recipe` is by default the paper's for what the examples hold. Further options are those of
    `train_stages`. Nothing is held out: the pairs of a choice have one target, so there is no
    order among them to validate on, and the last state is kept.
    """
    gold = [bool((one.kind == LABEL_TYPES.index("class")).all()) for one in example_sets]
    texts = _joined(example_sets)
    return train_stages(
        example_sets,
        open_inputs(index, queries=texts),
        base=base,
        recipe=recipe or RECIPES[not all(gold), any(gold)],
        out=out,
        settings=settings or {},
        validate=False,
        **options,
    )


def _joined(example_sets: Sequence[Examples]) -> Queries:
    """The queries of all examples, once each."""
    records = {query.id: query for examples in example_sets for query in examples.queries}
    return Queries.of(records.values())
