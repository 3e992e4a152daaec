"""Choices are scored by the mean of their facts: by hand, with ties and without facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.labels.weak import LUCENE_BM25
from tamis.models.model_lookup import Ranker
from tamis.scorers.lexical import Lexical
from tamis.search import Index
from tamis.tasks.choice import (
    NO_FACT,
    Answered,
    accuracies,
    answer,
    mean_scores,
    measure_choice,
    rank_evidence,
    retrieve_facts,
    score_facts,
)
from tamis.tasks.choice_questions import Choice, ChoiceQueries, Question
from tamis.types import Document, Pairs, Run, Scores
from tamis.types.pipeline import Scale

FACTS = [
    Document("f1", "a sieve sorts grain"),
    Document("f2", "a sieve is a kind of tool"),
    Document("f3", "a drum makes noise"),
    Document("f4", "a net catches fish"),
    Document("f5", "grain is ground by a mill"),
]
SORTS = Question(
    "q1", "What sorts grain?", (Choice("A", "a drum"), Choice("B", "a sieve")), "B", "Easy",
    ("f1", "f2"),
)  # fmt: skip
CATCHES = Question(
    "q2", "Which catches fish?", (Choice("A", "net"), Choice("B", "mill"), Choice("C", "tool")),
    "A", "Challenge",
)  # fmt: skip


@dataclass
class Lengths:
    """The length of a text; every pair is kept to look at."""

    scale: Scale = "regression"
    seen: list[tuple[str, str]] = field(default_factory=list)

    def score(self, pairs: Pairs) -> Scores:
        asked = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        self.seen.extend(asked)
        return Scores(
            np.array([len(text) for _, text in asked], np.float32), np.zeros(len(pairs), np.int32)
        )


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.build(FACTS, tmp_path / "index")


def test_a_choice_has_the_first_k_facts_of_bm25(index: Index) -> None:
    choices = ChoiceQueries.of([SORTS])
    run = retrieve_facts(choices, index, 2)
    deep = index.bm25(k1=1.2, b=0.75).search(choices.queries, 100)
    assert deep["q1#1"].ids[:2] == run["q1#1"].ids == ["f1", "f3"]
    assert run["q1#2"].ids == deep["q1#2"].ids[:2]
    assert run.score.tolist() == deep.top(2).score.tolist()


def test_a_choices_score_is_the_mean_of_its_k(index: Index) -> None:
    choices = ChoiceQueries.of([SORTS, CATCHES])
    run = Run.from_dict({
        "q1#1": {"f1": 4.0, "f2": 1.0, "f3": 1.0},
        "q1#2": {"f1": 1.5},
        "q2#1": {"f4": -2.0, "f1": -4.0},
        "q2#3": {"f2": 0.0},
    })  # fmt: skip
    means = mean_scores(choices, run)
    assert means.tolist() == [(4 + 1 + 1) / 3, 1.5, (-2 - 4) / 2, NO_FACT, 0.0]
    first, second = answer(choices, means)
    assert (first.best, first.points) == (("A",), 0.0)
    assert (second.best, second.points) == (("C",), 0.0)


def test_a_model_scores_exactly_the_facts_of_bm25(index: Index) -> None:
    choices, scorer = ChoiceQueries.of([SORTS]), Lengths()
    facts = retrieve_facts(choices, index, 2)
    scored = score_facts(facts, Ranker(scorer, "lengths", None), index)
    texts = {document.id: document.text for document in FACTS}
    asked = {
        (choices.queries[query].text, texts[fact]) for query in facts for fact in facts[query].ids
    }
    assert {*scorer.seen} == asked and len(scorer.seen) == 4
    expected = np.mean([len(texts[fact]) for fact in facts["q1#1"].ids])
    assert mean_scores(choices, scored)[0] == pytest.approx(expected)


def test_the_mean_of_bm25s_own_scores_is_that_of_the_lexical_scorer(index: Index) -> None:
    choices = ChoiceQueries.of([SORTS, CATCHES])
    facts = retrieve_facts(choices, index, 3)
    lexical = Ranker(Lexical(index, LUCENE_BM25), "lexical", None)
    own = mean_scores(choices, score_facts(facts, lexical, index))
    assert own == pytest.approx(mean_scores(choices, facts))


def test_equal_best_choices_share_the_point() -> None:
    choices = ChoiceQueries.of([CATCHES])
    (one,) = answer(choices, np.array([2.0, 2.0, 1.0]))
    assert (one.best, one.points) == (("A", "B"), 1 / 2)
    (one,) = answer(choices, np.array([1.0, 2.0, 2.0]))
    assert one.points == 0.0
    (one,) = answer(choices, np.array([1.0, 1.0, 1.0]))
    assert one.points == 1 / 3


def test_a_choice_without_any_fact_is_below_all_others() -> None:
    choices = ChoiceQueries.of([CATCHES])
    (one,) = answer(choices, np.array([NO_FACT, -7.0, NO_FACT]))
    assert one.best == ("B",)
    (one,) = answer(choices, np.full(3, NO_FACT))
    assert (one.best, one.points) == (("A", "B", "C"), 1 / 3)


def test_words_that_no_fact_has_find_none(index: Index) -> None:
    odd = Question("q3", "Zyx?", (Choice("A", "qwv"), Choice("B", "sieve")), "B")
    result = measure_choice([odd], index, None)
    assert (result.choices_without_facts, result.answered[0].best) == (1, ("B",))
    nothing = Question("q4", "Zyx?", (Choice("A", "qwv"), Choice("B", "wvq")), "B")
    ranker = Ranker(Lengths(), "lengths", None)
    result = measure_choice([nothing], index, ranker, evidence_depth=5)
    assert result.answered[0].points == 1 / 2
    assert result.to_json()["accuracy"]["All"]["value"] == 1 / 2


def test_accuracy_by_partition() -> None:
    answered = [
        Answered(SORTS, (0.0, 1.0), ("B",)),
        Answered(SORTS, (1.0, 1.0), ("A", "B")),
        Answered(CATCHES, (0.0, 1.0, 0.0), ("B",)),
        Answered(Question("q5", "?", SORTS.choices), (0.0, 1.0), ("B",)),  # no key: not measured
    ]
    measured = accuracies(answered)
    assert list(measured) == ["All", "Challenge", "Easy"]
    assert measured["All"].value == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert measured["All"].chance == pytest.approx((1 / 2 + 1 / 2 + 1 / 3) / 3)
    assert measured["Easy"].value == pytest.approx((1 + 1 / 2) / 2)
    assert (measured["Challenge"].value, measured["Challenge"].questions) == (0.0, 1)


def test_questions_without_any_key_cannot_be_measured() -> None:
    with pytest.raises(InputError, match="none of the questions"):
        accuracies([Answered(Question("q", "?", SORTS.choices), (0.0, 1.0), ("B",))])


def test_evidence_is_ranked_for_question_and_right_choice(index: Index) -> None:
    asked = Question(SORTS.id, SORTS.text, SORTS.choices, "B", "", ("f2", "f5", "absent"))
    evidence = rank_evidence([asked, CATCHES], index, None, 10)
    assert evidence is not None
    query = ChoiceQueries.of([asked]).queries.select(np.array([1]))
    ids = index.bm25(k1=1.2, b=0.75).search(query, 10)["q1#2"].ids
    ranks = sorted(ids.index(fact) + 1 for fact in ("f2", "f5"))
    assert evidence.value == pytest.approx((1 / ranks[0] + 2 / ranks[1]) / 3)
    assert (evidence.questions, evidence.facts_not_in_the_collection) == (1, 1)


def test_evidence_of_a_model_re_ranks_the_first_facts_only(index: Index) -> None:
    ranker = Ranker(Lengths(), "lengths", None)
    evidence = rank_evidence([SORTS], index, ranker, 2)
    query = ChoiceQueries.of([SORTS]).queries.select(np.array([1]))
    first = index.bm25(k1=1.2, b=0.75).search(query, 2)["q1#2"].ids
    texts = {document.id: document.text for document in FACTS}
    order = sorted(first, key=lambda fact: -len(texts[fact]))
    ranks = [n for n, fact in enumerate(order, 1) if fact in SORTS.explanation]
    expected = sum(n / rank for n, rank in enumerate(ranks, 1)) / 2
    assert evidence is not None and evidence.value == pytest.approx(expected)


def test_no_explanation_no_evidence(index: Index) -> None:
    assert rank_evidence([CATCHES], index, None) is None


def test_a_choice_has_one_fact_at_least(index: Index) -> None:
    with pytest.raises(InputError, match="cannot have 0 facts"):
        retrieve_facts(ChoiceQueries.of([SORTS]), index, 0)
