"""What will be done and how long it takes, cut to fit the time.

A few real texts are scored first; everything else is reckoned from that pace. What must be done
comes first, then what may bring something, in the order of how often it does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tamis.training.recipes import RECIPES
from tamis.types import Scorer
from tamis.types.pipeline import score_texts

TUNED, CROSS, DISTILLED, INFUSED = "tuned", "cross-encoder", "distilled", "infused"
CURVE, LINE, UNJUDGED = "curve", "line", "pseudo-labelled"
TRAINED = (TUNED, CROSS, DISTILLED, INFUSED)
CROSS_ENCODERS = (CROSS, UNJUDGED, INFUSED)
"""The models that read query and text together, whatever the base is."""
SHARES = (0.25, 0.5)
"""Of the queries that are learnt from, for points of the learning curve before the last."""
DRAWN, LEAST_DRAWN = 100, 10
"""On about how many queries the learning curve is measured, and from how many at least each of its
points was learnt."""
TRAINING = 3.5
"""How many times as long as scoring a text takes to learn from it."""
READING = 7.0
"""The same of a query, where only these are run: a step of the optimizer counts as much as they."""
SAMPLE = 48
"""How many texts are scored to measure the pace."""
SPARED = 0.9
"""The share of the time that is planned for: the rest is for what was not foreseen."""
CHOSEN, ENOUGH = 600, 300
"""On how many queries models are compared at most where there is time to train as well as can be,
and where there is not."""
FOLDS = 3
FEW, MANY = 150, 600
"""Fewer judged queries than the first are always compared on in folds; of as many as the second or
more one part is held out; between them folds are taken where there is that time."""
HELD_OUT = 1 / 3
"""The share of the judged queries that is held out, where one part is."""
MOST_PAIRS = 8_000
"""How many texts a cross-encoder learns from: 250 steps of 16 pairs."""
LEAST_LEARNT = {
    TUNED: 320, DISTILLED: 1_000, CROSS: MOST_PAIRS, UNJUDGED: MOST_PAIRS, INFUSED: 3_000
}  # fmt: skip
"""How many texts a training sees at least: fewer are not worth the evaluation of the model, least
of all where it has to learn what a pair is (docs/explanation/training.md)."""
LEAST_READ = 80
"""The same where only queries are run."""
LISTED = RECIPES["query-encoder"].list_size or 0
"""How many documents a query is set against then: their vectors may have to be made."""
SCORED = 0.6
"""The share of the time in which candidates may be scored with the base, where some are trained."""
SHARE = {TUNED: 0.8, DISTILLED: 0.6, CROSS: 0.8, UNJUDGED: 0.8, INFUSED: 0.8}
"""The share of the time left that a training, and scoring with what came of it, may take."""


@dataclass(frozen=True)
class Step:
    """A step: its name, what it is for, how long it should take, and whether it is done."""

    name: str
    what: str
    seconds: float
    planned: bool = True
    size: int = 0
    """How many texts are learnt from (queries, where documents keep their vectors), queries asked,
    or points measured."""


@dataclass(frozen=True)
class Plan:
    """The steps in order, and the number of queries on which models are chosen and tested."""

    steps: tuple[Step, ...]
    folds: int
    """In how many parts the judged queries are held out in turn: all, or one; 0 where nothing can
    be trained."""
    choosing: int
    testing: int
    pace: float
    """Seconds a text."""

    def has(self, name: str) -> bool:
        """Whether a step is planned."""
        return any(step.name == name and step.planned for step in self.steps)

    def cost(self, name: str) -> float:
        """How many seconds a step should take, if it is one."""
        return next((step.seconds for step in self.steps if step.name == name), 0.0)

    def size(self, name: str) -> int:
        """The size of a planned step."""
        return next((step.size for step in self.steps if step.name == name and step.planned), 0)

    @property
    def seconds(self) -> float:
        """How long all that is planned should take."""
        return sum(step.seconds for step in self.steps if step.planned)

    def record(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Plan:
        """The plan that was made before."""
        steps = tuple(Step(**step) for step in record["steps"])
        return cls(**{**record, "steps": steps})


def measured_pace(scorer: Scorer, query: str, texts: Sequence[str]) -> float:
    """Seconds that a text takes to score, on texts of the collection."""
    some = list(texts[:SAMPLE])
    score_texts(scorer, query, some[:4])  # what is only done once is done before the clock starts
    began = time.perf_counter()
    score_texts(scorer, query, some)
    return (time.perf_counter() - began) / max(1, len(some))


@dataclass(frozen=True)
class Sizes:
    """What a plan depends on."""

    documents: int
    learn: int
    test: int
    log: int
    depth: int
    passages: float
    """How many passages a document has on average."""
    kind: str
    """What kind of model the base is; empty where there is none."""
    teacher: float = 0.0
    """Seconds that a teacher takes to score a text; 0 where there is none."""
    vectors: bool = False
    encoded: bool = False
    """Whether the documents have vectors already."""
    curve: bool = True
    """Whether the learning curve is wanted."""
    given: bool = False
    """Whether a first stage of the user's own finds documents."""
    asking: float = 0.0
    """Seconds that a query takes to be run alone."""

    @property
    def reads(self) -> bool:
        """Whether the base only learns to read queries: then documents keep their vectors."""
        return self.kind == "bi-encoder"

    @property
    def pairs_a_query(self) -> float:
        """How many texts a cross-encoder runs for a query: every candidate, anew each time."""
        return self.depth * self.passages

    def texts_a_query(self, compared: int) -> float:
        """How many texts the base runs for a query; a bi-encoder runs those that several share
        once.
        """
        if self.kind != "bi-encoder":
            return self.pairs_a_query
        asked = max(1, min(self.test, ENOUGH), compared)
        return 1 + min(self.pairs_a_query, self.documents * self.passages / asked)


class Planner:
    """Adds steps while they fit."""

    def __init__(self, seconds: float, spent: float) -> None:
        self.left = seconds * SPARED - spent
        self.steps: list[Step] = []

    def must(self, step: Step) -> None:
        """A step that is done in any case."""
        self.steps.append(step)
        self.left -= step.seconds

    def may(self, step: Step) -> bool:
        """A step that is done if it fits."""
        fits = step.seconds <= self.left
        self.steps.append(Step(step.name, step.what, step.seconds, fits, step.size))
        self.left -= step.seconds if fits else 0
        return fits


def make_plan(sizes: Sizes, pace: float, seconds: float, spent: float = 0.0) -> Plan:
    """The steps that fit into so many seconds, of which some are spent.

    >>> sizes = Sizes(1000, 100, 100, 100, 50, 1.0, "bi-encoder")
    >>> [step.name for step in make_plan(sizes, 0.01, 1200).steps if step.planned]
    ['first', 'vectors', 'start', 'tuned', 'line', 'curve']
    >>> [step.name for step in make_plan(sizes, 0.01, 5).steps if step.planned]
    ['first']
    """
    judged, part = sizes.learn, round(HELD_OUT * sizes.learn)
    folds = 0 if judged < LEAST_QUERIES else FOLDS if judged < MANY else 1
    compared = min(CHOSEN, part if folds == 1 else judged)
    plan = _planned(sizes, folds, compared, pace, Planner(seconds, spent))
    if judged < FEW or plan.size(TUNED) >= _wanted(sizes, TUNED):
        return plan
    held = _planned(sizes, 1, min(ENOUGH, part), pace, Planner(seconds, spent))
    if any(held.has(name) for name in TRAINED):
        return held
    untrained = _planned(sizes, 0, min(CHOSEN, judged), pace, Planner(seconds, spent))
    left_out = tuple(step for step in held.steps if step.name in TRAINED)
    return replace(untrained, steps=untrained.steps + left_out)


def _planned(sizes: Sizes, folds: int, compared: int, pace: float, planner: Planner) -> Plan:
    planner.must(Step("first", "index, tune and search by words", 2 + sizes.documents / 5_000))
    vectors = _vectors(sizes, pace)
    known = vectors is not None and planner.may(vectors)
    a_query = sizes.texts_a_query(compared) * pace
    # of the base only queries are left to be run where documents have vectors
    first = sizes.asking if known or sizes.encoded else a_query
    share = SCORED if folds else 1.0
    affordable = max(0, int(share * planner.left / max(first, 1e-9)))
    wanted = max(1, compared), sizes.test
    testing = min(sizes.test, affordable * wanted[1] // sum(wanted))
    choosing = min(compared, max(LEAST_QUERIES, affordable - testing))
    what = "score the candidates with the base"
    if sizes.kind and sizes.test and testing < min(sizes.test, LEAST_QUERIES):
        least = (choosing + min(sizes.test, LEAST_QUERIES)) * first
        planner.steps.append(Step("start", what, least, planned=False))
    if not sizes.kind or planner.steps[-1].name == "start":
        return Plan(tuple(planner.steps), folds, sizes.learn, sizes.test, pace)
    pair = pace + (sizes.asking if sizes.reads else 0.0)  # a cross-encoder reads the query as well
    planner.must(Step("start", what, (choosing + testing) * first, size=testing))
    for name, what, rounds in _trainings(sizes, folds):
        reads = sizes.reads and name in (TUNED, DISTILLED)
        crosses = name in CROSS_ENCODERS
        each = sizes.asking if reads else sizes.pairs_a_query * pair if crosses else a_query
        scored = (choosing + testing) * each
        scored += choosing * each if name == TUNED else 0.0  # half tuned is not tested
        text = TRAINING * (pair if crosses else pace)
        a_text = (READING * sizes.asking if reads else text) * rounds
        if reads and not known and name == TUNED:  # what is compared on has been encoded before
            new = max(0, sizes.learn - choosing) / max(1, sizes.learn)
            a_text += new * min(LISTED, sizes.depth) * sizes.passages * pace
        elif reads and not known:
            a_text += pace
        a_text += sizes.teacher if name == DISTILLED else 0.0
        texts = (SHARE[name] * planner.left - scored) / max(a_text, 1e-9)
        least = LEAST_READ if name == TUNED and sizes.reads else LEAST_LEARNT[name]
        size = max(least, min(int(texts), _wanted(sizes, name)))
        cost = a_text * size + scored
        if not planner.may(Step(name, what, cost, size=size)):
            continue
        if name == TUNED:
            more = 2 * choosing * each
            planner.may(Step(LINE, "more points between the base and the trained", more))
            a_text /= rounds  # what is encoded for one training is known to the next
            if curve := _curve(sizes, size, folds, choosing * each, a_text, planner.left):
                planner.may(curve)
        if name == CROSS:
            planner.may(Step(UNJUDGED, "the same before it saw judgements", scored))
    return Plan(tuple(planner.steps), folds, choosing, testing, pace)


def _vectors(sizes: Sizes, pace: float) -> Step | None:
    """Encoding all documents, where the base can; beside a first stage of the user's own only
    where the two can be compared.
    """
    if sizes.kind != "bi-encoder" or (sizes.given and sizes.learn < LEAST_QUERIES):
        return None
    whole = 0.0 if sizes.encoded else sizes.documents * sizes.passages * pace
    return Step("vectors", "encode all documents, to find more", whole)


def folds_drawn(folds: int, judged: int) -> int:
    """In how many folds a learning curve is measured, so that it is on a hundred queries or so.

    >>> [folds_drawn(3, judged) for judged in (60, 150, 400)], folds_drawn(1, 2_000)
    ([3, 2, 1], 1)
    """
    return min(folds, -(-DRAWN // max(1, judged // FOLDS)))


def _curve(
    sizes: Sizes, texts: int, folds: int, scored: float, a_text: float, left: float
) -> Step | None:
    """Training on fewer queries: two points where they fit the time, else one; None where half of
    those that are learnt from are too few.
    """
    if not sizes.curve or sizes.learn * HELD_OUT < LEAST_DRAWN:
        return None
    found = None
    for points in range(len(SHARES), 0, -1):
        fewer = [replace(sizes, learn=round(share * sizes.learn)) for share in SHARES[-points:]]
        learnt = sum(min(texts, _wanted(each, TUNED)) for each in fewer)
        drawn = folds_drawn(folds, sizes.learn)
        cost = a_text * learnt * drawn + points * scored * drawn / folds
        found = Step(CURVE, "what fewer judgements give", cost, size=points)
        if cost <= left:
            break
    return found


LEAST_QUERIES = 10
"""On fewer queries nothing is learnt or tested."""


def _trainings(sizes: Sizes, folds: int) -> list[tuple[str, str, int]]:
    """What may be trained: name, what it is, how many trainings: to be compared, and at last on
    all judged queries. Without folds judgements only compare, and pseudo-labels need none.
    """
    if not folds:
        what = "a cross-encoder trained on labels of the first stage"
        return [(UNJUDGED, what, 1)] if sizes.learn and sizes.log >= PSEUDO else []
    learns = "the base, reading queries," if sizes.reads else "the base,"
    found = [(TUNED, f"{learns} trained on judgements", folds + 1)]
    if sizes.teacher:
        found.append((DISTILLED, f"{learns} trained on a teacher's scores", 1))
    if sizes.log >= PSEUDO:
        found.append((CROSS, "labels of the first stage, then judgements", 2 + folds))
    if sizes.vectors:
        found.append((INFUSED, "alignment scores, then judgements", 2 + folds))
    return found


def _wanted(sizes: Sizes, name: str) -> int:
    """How many texts a training would take if there were time: the recipes' own numbers."""
    queries = max(1, sizes.learn)
    if name == TUNED and sizes.reads:
        recipe = RECIPES["query-encoder"]
        in_epoch = -(-queries // recipe.units_a_step)
        return recipe.total_steps(in_epoch, queries) * recipe.units_a_step
    return MOST_PAIRS


PSEUDO = 80
"""How many queries there are at least for labels of the first stage."""
