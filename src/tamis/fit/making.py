"""The models of a fit: each is made when it is asked for, and scores its candidates once.

With few judgements every fold has models of its own, trained without it; with many, one part is
held out; where nothing is trained, nothing has to be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, TrainingError
from tamis.evaluation.drawing import counted
from tamis.fit.finding import Found
from tamis.fit.learning import (
    NEGATIVES,
    WEIGHTS,
    between,
    is_trained,
    judged_examples,
    pseudo_examples,
    recipe_for,
    trained,
)
from tamis.fit.look import sampled
from tamis.fit.options import BM25, HALFWAY, POINTS, START, Way, ranked, trained_as, values
from tamis.fit.plan import (
    CHOSEN,
    CROSS,
    CURVE,
    DISTILLED,
    HELD_OUT,
    INFUSED,
    LEAST_DRAWN,
    LINE,
    SHARES,
    TRAINED,
    TUNED,
    UNJUDGED,
    Plan,
    folds_drawn,
)
from tamis.fit.sieve import first_stage
from tamis.labels.teacher import teacher
from tamis.labels.transfer import qa_docrank
from tamis.labels.weak import weak
from tamis.models.folder import open_scorer
from tamis.models.rankers import ALIGNMENT, open_ranker
from tamis.pipeline.rerank import rerank
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.remembering import Remembering
from tamis.splits import folds, split
from tamis.types import Ids, Qrels, Run, Scorer

if TYPE_CHECKING:
    from tamis.fit.job import Fitting
    from tamis.labels.examples import Examples

TIMED = 3
"""On how many test queries the cost of a query is measured."""
LISTED = 10
"""How many candidates of a query a teacher or word vectors score."""


@dataclass(frozen=True, eq=False)
class Round:
    """Queries to train on, and queries to see what came of it."""

    name: str
    learn: Ids
    held: Ids


@dataclass(frozen=True, eq=False)
class Tried:
    """What every model of a round makes of the queries held out."""

    first: Run
    scored: Mapping[str, Run]
    qrels: Qrels

    def values(self, everything: Sequence[Way], measure: str) -> NDArray[np.float64]:
        """The measure of every way on every query held out."""
        return values(everything, self.first, self.scored, self.qrels, measure)


@dataclass(eq=False)
class Making:
    """The models of a fit, each made when it is asked for."""

    fitting: Fitting
    plan: Plan
    found: Found
    _start: Scorer | None = None
    """Opened, with the vectors it made."""

    @property
    def start(self) -> Path:
        """The model that everything starts from."""
        assert self.fitting.start is not None
        return self.fitting.start

    @property
    def kind(self) -> str:
        """What kind of model that is."""
        assert self.fitting.note is not None
        return self.fitting.note.scorer

    @cached_property
    def rounds(self) -> list[Round]:
        """The rounds in which models are compared."""
        parts, seed = self.fitting.parts, self.fitting.request.seed
        learn = parts.learn
        if not any(self.plan.has(name) for name in TRAINED):
            most = CHOSEN if self.plan.has("vectors") else self.plan.choosing
            return [Round("judged", Ids.of([]), sampled(learn, most, seed).queries)]
        try:
            if self.plan.folds > 1:
                turns = folds(parts.asked(learn), self.plan.folds, seed=seed, answers=learn)
                most = -(-self.plan.choosing // self.plan.folds)
                return [
                    Round(
                        f"fold {number + 1}",
                        taught,
                        sampled(learn.select(held), most, seed).queries,
                    )
                    for number, (taught, held) in enumerate(turns)
                ]
            held = min(HELD_OUT, self.plan.choosing / len(learn))
            shares = {"learn": 1 - held, "held": held}
            both = split(parts.asked(learn), shares, seed=seed, answers=learn)
        except InputError as error:
            self.fitting.work.said(f"nothing is held out: {error}")
            return []
        return [Round("held out", both["learn"], both["held"])]

    @property
    def last(self) -> Round:
        """The round whose models are handed over: trained on all that was compared on too."""
        return Round("all", self.fitting.parts.learn.queries, Ids.of([]))

    def models(self) -> dict[str, Callable[[Round], Path]]:
        """What there is to compare, the simplest first."""
        found: dict[str, Callable[[Round], Path]] = {START: lambda turn: self.start}
        if self.plan.has(TUNED):
            names = POINTS if self.plan.has(LINE) else [HALFWAY]
            found |= {name: partial(self.between, name) for name in names}
            found[TUNED] = self.tuned
        more = {
            DISTILLED: self.distilled,
            UNJUDGED: self.pseudo_labelled,
            CROSS: self.cross_encoder,
            INFUSED: self.infused,
        }
        found |= {name: make for name, make in more.items() if self.plan.has(name)}
        return {name: make for name, make in found.items() if self._can_be_made(name, make)}

    def _can_be_made(self, name: str, make: Callable[[Round], Path]) -> bool:
        """Whether there is time for a model and training it works; if not, that is said.

        What is trained already costs nothing, and the start is always there.
        """
        turns = [*self.rounds, self.last] if len(self.fitting.parts.test) else self.rounds
        work, limit = self.fitting.work, self.fitting.request.max_time
        family = trained_as(name)
        share = self.plan.cost(family) / len(turns)
        try:
            for turn in turns:
                there = any(work.folder.glob(f"models/{family} {turn.name}/{WEIGHTS}"))
                there |= (work.folder / "models" / name / WEIGHTS).exists()
                if name != START and not there and work.taken("") + share > limit:
                    work.said(f"{name} is left out: there is no time left for it")
                    return False
                make(turn)
        except (TrainingError, InputError) as error:
            work.said(f"{name} is left out: {error}")
            return False
        return True

    def tried(self, turn: Round, models: Mapping[str, Callable[[Round], Path]]) -> Tried:
        """Every model of a round on the queries it did not learn from."""
        first = self.found.learn.select(turn.held)
        scored = {
            name: self.scored(name, make(turn), first, turn.name) for name, make in models.items()
        }
        for name, (learn, _) in self.found.others.items():
            scored[name] = learn.select(turn.held)
        return Tried(first, scored, self.fitting.parts.learn.select(turn.held))

    def test_runs(
        self,
        models: Mapping[str, Callable[[Round], Path]],
        everything: Sequence[Way],
        chosen: Way,
    ) -> dict[str, Run]:
        """The rankings of test queries; models between two are only tested if chosen."""
        if not len(self.fitting.parts.test):
            return {}
        used = [name for name in models if name not in POINTS or chosen.model == name]
        scored = {
            name: self.scored(name, models[name](self.last), self.found.test, "test")
            for name in used
        }
        for name in used:
            self.seconds_a_query(name, models[name](self.last))
        scored |= {name: test for name, (_, test) in self.found.others.items()}
        return {
            way.name: ranked(way, self.found.test, scored)
            for way in everything
            if way.model is None or way.model in scored
        }

    def unanswered(
        self, way: Way, models: Mapping[str, Callable[[Round], Path]]
    ) -> tuple[Run, Run]:
        """What a way makes of queries that have no answer, to calibrate on and to test that on."""
        found = self.found
        learn, test = found.unanswered[way.name if way.name in found.others else found.name]
        return (
            self._unanswered(way, models, learn, "no answer"),
            self._unanswered(way, models, test, "no answer test"),
        )

    def _unanswered(
        self, way: Way, models: Mapping[str, Callable[[Round], Path]], run: Run, part: str
    ) -> Run:
        if way.model is None or way.model not in models or not len(run):  # a first stage alone
            return run
        if self.fitting.work.taken("") > self.fitting.request.max_time:
            return run.select(Ids.of([]))
        scored = self.scored(way.model, models[way.model](self.last), run, part)
        return ranked(way, run, {way.model: scored})

    def scored(self, name: str, folder: Path, run: Run, part: str) -> Run:
        """Candidates as a model scores them."""

        def make() -> Run:
            if len(run):
                self.fitting.work.said(f"scoring {counted(len(run))} with {name} ({part})")
            scorer = self._opened(folder)
            passages, depth = self.fitting.passages, self.fitting.request.depth
            stage = rerank(
                scorer, self.fitting.index, passages=passages, depth=depth, missing="skip"
            )
            return stage(run)

        return self.fitting.work.run(f"{name} {part}", make)

    def _opened(self, folder: Path) -> Scorer:
        """A model; the vectors of the one that all start from are kept from call to call."""
        if folder == self.start and self._start is not None:
            return self._start
        opened = open_scorer(folder, threads=self.fitting.request.threads)
        if not isinstance(opened, BiEncoder):
            return opened
        if folder != self.start:
            return Remembering(opened, documents=self.texts if opened.documents else None)
        self._start = Remembering(opened)
        return self._start

    @property
    def texts(self) -> Remembering | None:
        """Who knows the vectors of texts, where the start makes some: all that learn to read
        queries share them.
        """
        start = self._opened(self.start)
        return start.documents or start if isinstance(start, Remembering) else None

    def seconds_a_query(self, name: str, folder: Path) -> float:
        """What a query costs when a model is opened anew: nothing is remembered."""
        run = self.found.test.top(self.fitting.request.depth)
        some = run.select(run.queries.ids.select(np.arange(min(TIMED, len(run)))))

        def make() -> dict[str, float]:
            scorer = open_scorer(folder, threads=self.fitting.request.threads)
            passages, depth = self.fitting.passages, self.fitting.request.depth
            stage = rerank(scorer, self.fitting.index, passages=passages, depth=depth,
                           missing="skip")  # fmt: skip
            stage(some.top(1))  # what is only done once is done before the clock starts
            began = time.perf_counter()
            stage(some)
            return {"seconds": (time.perf_counter() - began) / max(1, len(some))}

        return float(self.fitting.work.note(f"cost {name}", make)["seconds"])

    def curve(self, tried: Sequence[Tried]) -> list[tuple[int, float]]:
        """The measure of the trained base on queries held out, by how many others it learnt from:
        without any, with all, and with some of them where that is planned.
        """
        tried = tried[: len(self._drawn)]
        points = [(0, self._mean(START, tried)), (self._learnt(1.0), self._mean(TUNED, tried))]
        for share in SHARES[len(SHARES) - self.plan.size(CURVE) :]:
            value = self._with_fewer(share) if self._learnt(share) >= LEAST_DRAWN else None
            points += [] if value is None else [(self._learnt(share), value)]
        return sorted(points)

    def _with_fewer(self, share: float) -> float | None:
        """The measure where only a share is learnt from; None without the time, or where so few
        queries cannot be learnt from: nothing depends on it.
        """
        work, turns = self.fitting.work, [self._part(turn, share) for turn in self._drawn]
        try:
            if work.taken("") > self.fitting.request.max_time:
                raise TrainingError("there is no time left for it")
            return self._mean(TUNED, [self.tried(turn, {TUNED: self.tuned}) for turn in turns])
        except (TrainingError, InputError) as error:
            work.said(f"the learning curve has no point at {self._learnt(share)} queries: {error}")
            return None

    @property
    def _drawn(self) -> list[Round]:
        """The rounds in which the learning curve is measured."""
        return self.rounds[: folds_drawn(len(self.rounds), len(self.fitting.parts.learn))]

    def _learnt(self, share: float) -> int:
        """How many queries a share of those that are learnt from is, on average over rounds."""
        return round(share * float(np.mean([len(turn.learn) for turn in self._drawn])))

    def _mean(self, name: str, tried: Sequence[Tried]) -> float:
        alone, measure = [Way(name, name, None, 0)], self.fitting.request.measure
        values = np.concatenate([each.values(alone, measure) for each in tried], 1)
        return round(float(values.mean()), 4)

    def _part(self, turn: Round, share: float) -> Round:
        """The same round with fewer queries to learn from."""
        drawn = np.random.default_rng(self.fitting.request.seed).permutation(len(turn.learn))
        some = turn.learn.select(np.sort(drawn[: round(share * len(drawn))]))
        return Round(f"on {len(some)} of {turn.name}", some, turn.held)

    def tuned(self, turn: Round) -> Path:
        """The base, trained on the judgements of a round."""
        name = f"{TUNED} {turn.name}"
        return self._trained(name, lambda: self.examples(turn), self.start, self.kind, TUNED)

    def between(self, name: str, turn: Round) -> Path:
        """A model between the base and the trained one."""
        out = self.fitting.work.path(f"models/{name} {turn.name}")
        return between(self.start, self.tuned(turn), POINTS[name], out)

    def pseudo_labelled(self, turn: Round) -> Path:
        """A cross-encoder on labels of the first stage; judgements play no part."""
        seed, step = self.fitting.request.seed, CROSS if self.plan.has(CROSS) else UNJUDGED
        return self._trained(
            UNJUDGED, lambda: pseudo_examples(self.log(), seed), self.start, CROSS, step
        )

    def cross_encoder(self, turn: Round) -> Path:
        """The same, then on judgements."""
        first, name = self.pseudo_labelled(turn), f"{CROSS} {turn.name}"
        return self._trained(name, lambda: self.examples(turn), first, CROSS, CROSS)

    def distilled(self, turn: Round) -> Path:
        """The base, trained to order candidates as a teacher does; judgements play no part."""

        def labels() -> Examples:
            name = self.fitting.request.teacher or ""
            return self._scores(name, teacher, DISTILLED)

        return self._trained(DISTILLED, labels, self.start, self.kind, DISTILLED)

    def infused(self, turn: Round) -> Path:
        """A cross-encoder on alignment scores of word vectors, then on judgements."""

        def labels() -> Examples:
            name = f"{ALIGNMENT}{self.fitting.request.vectors}"
            return self._scores(name, weak, INFUSED)

        first, name = self._trained("aligned", labels, self.start, "aligned", INFUSED), turn.name
        return self._trained(
            f"{INFUSED} {name}", lambda: self.examples(turn), first, INFUSED, INFUSED
        )

    def _scores(self, name: str, label: Callable[..., Examples], step: str) -> Examples:
        """What another ranker thinks of the first candidates of some queries."""
        fitting = self.fitting
        ranker = open_ranker(name, threads=fitting.request.threads, documents=fitting.index)
        run = self.log(max(1, self.plan.size(step) // LISTED))
        seed = fitting.request.seed
        return label(
            run, ranker.scorer, fitting.index, depth=LISTED, missing="skip", model=name, seed=seed
        )

    def log(self, most: int | None = None) -> Run:
        """What BM25 finds for queries whose judgements are not looked at."""
        fitting = self.fitting
        log = fitting.parts.log
        if most is not None and len(log) > most:
            drawn = np.random.default_rng(fitting.request.seed).permutation(len(log))[:most]
            log = log.select(np.sort(drawn))
        source = first_stage(fitting.index, BM25, threads=fitting.request.threads)
        return source.search(log, NEGATIVES)

    def examples(self, turn: Round) -> Examples:
        """The judgements of a round as examples; of long documents their best passages."""
        fitting = self.fitting
        qrels = fitting.parts.learn.select(turn.learn)
        run = self.found.learn.select(turn.learn)
        if fitting.passages == "whole":
            return judged_examples(qrels, fitting.parts.asked(qrels), run, fitting.request.seed)
        return qa_docrank(
            run, qrels, fitting.index, self._opened(self.start), test=fitting.parts.test.queries,
            threshold=np.inf, keep_best=True, least_negatives=NEGATIVES,
            passages=fitting.passages, missing="skip", seed=fitting.request.seed,
        )  # fmt: skip

    def _trained(
        self, name: str, labels: Callable[[], Examples], base: Path, kind: str, step: str
    ) -> Path:
        fitting, seed = self.fitting, self.fitting.request.seed
        out = fitting.work.path(f"models/{name}")
        if is_trained(out):
            return out
        with fitting.work.timed(f"label {name}"):
            made = labels()
        recipe = recipe_for(kind, self.plan.size(step), made, seed)
        return trained(
            name, made, base, recipe, fitting.index, fitting.work, fitting.request.threads,
            self.texts if recipe.fixed_documents else None,
        )  # fmt: skip
