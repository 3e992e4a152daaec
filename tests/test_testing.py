"""The contracts pass what is right and catch what is broken, each part of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.testing import check_scorer, check_source, check_stage
from tamis.types import Ids, Pairs, Queries, Query, Run, Scores, Source, Spec, Stage, Top
from tamis.types.pipeline import Scale


class Overlap:
    """Scores by shared letters; reads `most` characters and counts the other words as truncated."""

    scale: Scale = "regression"

    def __init__(self, most: int = 500) -> None:
        self.most = most

    def value(self, query: str, text: str) -> float:
        shared = set(query.lower().split()) & set(text[: self.most].lower().split())
        return len(shared) + len(text[: self.most]) / 1000

    def score(self, pairs: Pairs) -> Scores:
        rows = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index]
        values = np.array([self.value(*row) for row in rows], np.float32)
        truncated_tokens = np.array([len(text[self.most :].split()) for _, text in rows], np.int32)
        return Scores(values, truncated_tokens)


class Broken(Overlap):
    """The same with something done to its answer."""

    def __init__(
        self, change: Callable[[Pairs, Scores], Scores], scale: str = "regression"
    ) -> None:
        super().__init__()
        self.change = change
        self.scale = scale  # type: ignore[assignment]

    def score(self, pairs: Pairs) -> Scores:
        return self.change(pairs, super().score(pairs))


def test_a_scorer_that_keeps_the_contract() -> None:
    check_scorer(Overlap())
    check_scorer(Overlap(most=10**9))
    check_scorer(Overlap(), Pairs(["a b"], ["a", "b c"], np.array([[0, 1], [0, 0]], np.int32)))


def sized(scores: Scores, values: NDArray[Any]) -> Scores:
    return Scores(values, scores.truncated_tokens)


def refuses_nothing(pairs: Pairs, scores: Scores) -> Scores:
    assert len(pairs), "no pairs"
    return scores


GENERATOR = np.random.default_rng(0)
BROKEN_SCORERS = {
    "the scale is 'stars'": Broken(lambda pairs, scores: scores, "stars"),
    "no pairs": Broken(refuses_nothing),
    "15 pairs but scores of shape": Broken(lambda p, s: sized(s, s.values[:-1])),
    "15 pairs but counts of truncated": Broken(
        lambda p, s: Scores(s.values, s.truncated_tokens[:-1])
    ),
    "scores are float64": Broken(lambda p, s: sized(s, s.values.astype(np.float64))),
    "not a finite number": Broken(lambda p, s: sized(s, s.values * np.float32(np.nan))),
    "is not a whole number": Broken(lambda p, s: Scores(s.values, s.truncated_tokens - 1)),
    "outside 0 to 1": Broken(lambda p, s: s, "probability"),
    "different scores": Broken(
        lambda p, s: sized(s, s.values + GENERATOR.random(len(p), np.float32))
    ),
    "in pair order": Broken(lambda p, s: sized(s, np.sort(s.values))),
    "the numbers of its query and text": Broken(
        lambda p, s: sized(s, s.values + p.index[:, 1].astype(np.float32))
    ),
    "alone and": Broken(lambda p, s: sized(s, s.values + np.float32(len(p) / 100))),
    "no token is counted as truncated": Broken(
        lambda p, s: Scores(s.values, s.truncated_tokens * 0)
    ),
}


@pytest.mark.parametrize("sentence", BROKEN_SCORERS)
def test_a_broken_scorer_is_caught(sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_scorer(BROKEN_SCORERS[sentence])


QUERIES = Queries.of([Query("q1", "drum"), Query("q2", "sieve"), Query("q3", "nothing")])
FOUND = {
    "q1": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0},
    "q2": {"a": 1.0, "e": 0.5, "b": 0.25, "c": 0.125},
    "q3": {},
}


@dataclass
class Fixed(Source):
    """Finds what it is told to find; `change` breaks it."""

    change: Callable[[Run], Run] = lambda run: run
    note: Spec = field(default_factory=lambda: {"source": "fixed"})
    overdraws: int = 0

    def search(self, queries: Queries, top: int) -> Run:
        run = Run.from_dict(FOUND).select(queries.ids).with_queries(queries)
        return self.change(run.top(top + self.overdraws))

    def spec(self) -> Spec:
        return self.note


@dataclass
class Changed(Stage):
    """A stage made of a function."""

    change: Callable[[Run], Run]
    note: Spec = field(default_factory=lambda: {"stage": "changed"})

    def __call__(self, run: Run) -> Run:
        return self.change(run)

    def spec(self) -> Spec:
        return self.note


def columns(run: Run, **changes: object) -> Run:
    names = ("queries", "docs", "offsets", "doc", "score")
    return Run._unchecked(**{name: changes.get(name, getattr(run, name)) for name in names})  # type: ignore[arg-type]


def turned(run: Run) -> Run:
    return columns(run, score=-run.score)


def doubled(run: Run) -> Run:
    return columns(run, doc=run.doc * 0)


def noisy(run: Run) -> Run:
    drawn = GENERATOR.random(len(run.score), np.float32)
    return Run(run.queries, run.docs, run.offsets, run.doc, drawn)


def without_texts(run: Run) -> Run:
    return columns(run, queries=Queries(run.queries.ids))


def growing(run: Run) -> Run:
    return columns(run, score=run.score + np.float32(len(run)))


class Counting(Fixed):
    """Its spec is never the same twice."""

    calls = 0

    def spec(self) -> Spec:
        self.calls += 1
        return {"calls": self.calls}


def test_sources_that_keep_the_contract() -> None:
    check_source(Fixed(), QUERIES)
    check_source(Fixed() % 2, QUERIES)
    check_source(Fixed() >> Top(3), QUERIES)


BROKEN_SOURCES = {
    "ordered by score": Fixed(turned),
    "not whole: .* twice": Fixed(doubled),
    "not those that were asked": Fixed(without_texts),
    "different runs": Fixed(noisy),
    "more than the top 1": Fixed(overdraws=1),
    "a query alone": Fixed(growing),
    "not plain JSON": Fixed(note={"path": {1, 2}}),
    "written as JSON and read back": Fixed(note={"sizes": (1, 2)}),
    "when asked for twice": Counting(),
    "a dict, not a run": Fixed(lambda run: run.to_dict()),  # type: ignore[arg-type,return-value]
}


@pytest.mark.parametrize("sentence", BROKEN_SOURCES)
def test_a_broken_source_is_caught(sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_source(BROKEN_SOURCES[sentence], QUERIES)


def test_a_source_is_checked_with_queries() -> None:
    with pytest.raises(AssertionError, match="one query at least"):
        check_source(Fixed(), QUERIES.select(np.arange(0)))


RUN = Run.from_dict(FOUND)


def test_stages_that_keep_the_contract() -> None:
    check_stage(Top(2), RUN)
    check_stage(Top(2) >> Changed(lambda run: columns(run, score=run.score * 2)), RUN)
    check_stage(Top(9), RUN.with_extra(passage=np.arange(len(RUN.doc))))


def in_place(run: Run) -> Run:
    run.score[:] = 0
    return run


def stranger(run: Run) -> Run:
    docs = Ids.of([*run.docs, "z"])
    return columns(run.with_docs(docs), doc=np.where(run.ranks() == 1, len(docs) - 1, run.doc))


def some_queries(run: Run) -> Run:
    return Run.from_dict(FOUND)


BROKEN_STAGES = {
    "changes the run": Changed(in_place),
    "ordered by score": Changed(turned),
    "not whole: .* twice": Changed(doubled),
    "not those of the run": Changed(lambda run: run.select(Ids.of(["q1"]))),
    "'q1' gets documents it had not: \\['z'\\]": Changed(stranger),
    "different results": Changed(noisy),
    "no queries gives one of some": Changed(some_queries),
    "not plain JSON": Changed(lambda run: run, note={"value": float("nan")}),
}


@pytest.mark.parametrize("sentence", BROKEN_STAGES)
def test_a_broken_stage_is_caught(sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_stage(BROKEN_STAGES[sentence], Run.from_dict(FOUND))
