"""A cascade: the re-ranker scores only documents that may still reach the top k.

Some documents of a query are scored, then, a few at a time, those likeliest to be among the best
k by what is known of them (the first stage's score, stored vectors, the scores so far), until
fewer are expected to be missed than the wanted agreement with a full re-ranking allows. Queries
are worked on side by side, so that batches stay full. What was skipped stands below in the order
in which it was expected, and the run says which documents those are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.pipeline.cascade_model import Calibration, Candidates, chances, fit
from tamis.pipeline.cascade_vectors import StoredVectors, VectorSource
from tamis.pipeline.placing import below
from tamis.pipeline.rerank import Rerank
from tamis.pipeline.reranked import Found, changes, rows_before
from tamis.registry import NUMBER, Opening, Types, check_keys
from tamis.search import Index
from tamis.types import Encoder, Run, Spec, Stage, join_runs
from tamis.types.pipeline import SPEC_VERSION

Rows = NDArray[np.int64]
BLOCK = 64
"""How many queries are worked on side by side."""
FIRST = 20
"""How many documents of a query are scored before anything is decided, k at least."""
STEP = 10
"""How many documents of a query are scored at a time after that."""
CALIBRATED = 40
"""How many of its own queries a run is calibrated on."""


@dataclass(frozen=True, eq=False)
class Cascaded:
    """A run re-ranked in part, and how many of each query's top k are expected to be missed."""

    run: Run
    before: Run
    missed: NDArray[np.float64]
    stage: Cascade
    not_scored: Mapping[str, int] = field(default_factory=dict)
    """How many documents and queries could not be scored, by reason."""

    @property
    def spec(self) -> Spec:
        """How the run was made: the spec of the stage."""
        return self.stage.spec()

    def facts(self) -> dict[str, Any]:
        """What there is to tell, by section and name."""
        skipped, scored = self.run.extra["skipped"], self.run.extra["passage"] >= 0
        asked, k = max(int((self.run.sizes() > 0).sum()), 1), self.stage.k
        candidates = max(int((skipped | scored).sum()), 1)
        found = 1 - float(self.missed.sum()) / (asked * k)
        return {
            "queries": len(self.run),
            "documents scored": int(scored.sum()),
            "documents skipped": int(skipped.sum()),
            "share skipped": round(float(skipped.sum()) / candidates, 3),
            "queries of which some were skipped": _queries_with(self.run, skipped),
            "tokens cut": int(self.run.extra["cut"].sum()),
            f"expected agreement of the top {k}": round(found, 3),
            **({"not re-ranked": dict(self.not_scored)} if self.not_scored else {}),
            "order": changes(self.before, self.run, rows_before(self.before, self.run)),
        }


@dataclass(frozen=True, eq=False)
class Cascade(Stage):
    """Re-ranks what may reach the top k; made by `cascade`."""

    full: Rerank
    vectors: VectorSource
    calibration: Calibration
    agreement: float = 0.9
    k: int = 10

    def __post_init__(self) -> None:
        _check_stage(self.full)
        if self.k < 1:
            raise InputError(f"there is no top {self.k}", hint="k is 1 or more; 10 is usual")
        if not 0 < self.agreement <= 1:
            raise InputError(
                f"the agreement cannot be {self.agreement:g}", hint="above 0 and 1 at most"
            )

    def __call__(self, run: Run) -> Run:
        return self.cascade(run).run

    def spec(self) -> Spec:
        """See `Stage.spec`."""
        return {
            "stage": "cascade",
            "version": SPEC_VERSION,
            "full": self.full.spec(),
            "vectors": self.vectors.spec(),
            "calibration": self.calibration.record(),
            "agreement": self.agreement,
            "k": self.k,
        }

    def cascade(self, run: Run) -> Cascaded:
        """The run re-ranked, and what was skipped."""
        found = _Found.of(run)
        for start in range(0, len(run), BLOCK):
            block = list(_candidates(self.full, self.vectors, run, start))
            for rows, candidates in block:
                found.expected[rows] = self.calibration.mean(candidates)
                found.candidate[rows] = True
            while chosen := [self._next(*query, found) for query in block]:
                rows = np.sort(np.concatenate(chosen))
                if not len(rows):
                    break
                found.enter(self.full, run, rows)
        missed = np.zeros(len(run))
        np.add.at(missed, np.repeat(np.arange(len(run)), run.sizes()), found.chance)
        found.left.update(_left_out(self.full, run, found.candidate))
        return Cascaded(found.placed(run), run, missed, self, dict(found.left))

    def _next(self, rows: Rows, candidates: Candidates, found: _Found) -> Rows:
        """Which documents of a query are to be scored now; none when enough are."""
        left = np.flatnonzero(~found.tried[rows])
        if len(left) == len(rows):
            order = np.argsort(-found.expected[rows], kind="stable")
            return rows[order[: max(FIRST, self.k)]]
        known = np.flatnonzero(found.passage[rows] >= 0)
        scores = found.score[rows[known]].astype(np.float64)
        guessed, deviation = self.calibration.guess(candidates, known, scores, left)
        chance = np.ones(len(left))
        if len(known) >= self.k:
            chance = chances(guessed, deviation, float(np.sort(scores)[-self.k]))
        found.expected[rows[left]], found.chance[rows[left]] = guessed, chance
        if chance.sum() <= self.k * (1 - self.agreement):
            return rows[:0]
        return rows[left[np.lexsort((-guessed, -chance))[:STEP]]]


@dataclass(frozen=True, eq=False)
class _Found:
    """What is known of every row of a run while it is being scored."""

    candidate: NDArray[np.bool_]
    tried: NDArray[np.bool_]
    score: NDArray[np.float32]
    passage: NDArray[np.int32]
    cut: NDArray[np.int32]
    expected: NDArray[np.float32]
    chance: NDArray[np.float64]
    """How likely a row that was not scored would have been among the best."""
    left: Counter[str] = field(default_factory=Counter)
    """What could not be scored, by reason."""

    @classmethod
    def of(cls, run: Run) -> _Found:
        rows = len(run.doc)
        no, nothing = np.zeros(rows, bool), np.zeros(rows, np.int32)
        worst = np.full(rows, -np.inf, np.float32)
        passage = np.full(rows, -1, np.int32)
        return cls(no, no.copy(), worst, passage, nothing, worst.copy(), np.zeros(rows))

    def enter(self, full: Rerank, run: Run, rows: Rows) -> None:
        """Score some rows, in ascending order."""
        made = full.rerank(_part(run, rows)).found
        self.score[rows], self.passage[rows], self.cut[rows] = made.score, made.passage, made.cut
        self.tried[rows], self.chance[rows] = True, 0.0
        self.left.update(made.not_scored().get("not re-ranked", {}))

    def placed(self, run: Run) -> Run:
        """The run with what was scored first, then what was skipped, then what lay too deep."""
        columns = {
            **run.extra,
            "first": run.score,
            "passage": self.passage,
            "cut": self.cut,
            "skipped": self.candidate & ~self.tried,
            "scored": self.score,
        }
        expected = below(run, self.candidate, self.expected)
        ordered = Run(run.queries, run.docs, run.offsets, run.doc, expected, columns)
        extra = dict(ordered.extra)
        score = below(ordered, extra["passage"] >= 0, extra.pop("scored"))
        return Run(run.queries, run.docs, run.offsets, ordered.doc, score, extra)


def cascade(
    full: Rerank,
    index: Index,
    encoder: Encoder,
    calibration: Calibration,
    *,
    agreement: float = 0.9,
    k: int = 10,
) -> Cascade:
    """A stage that has the top k of `full` for the most part, and scores only what it needs to.

    `agreement` is the share of the full top k that is expected to be found: 1 scores everything.
    The vectors of the `index` (made by `encoder`) say what is alike; `calibration` is made by
    `calibrate`, on other queries than those that are to be ranked and without judgements.

    The run has the columns of `rerank` and `skipped`: whether a document was passed over.
    """
    return Cascade(full, StoredVectors.of(index, encoder), calibration, agreement, k)


def open_stage(values: Spec, opening: Opening) -> Cascade:
    """See `registry.OPENERS`."""
    keys: dict[str, Types] = {
        "full": dict,
        "vectors": dict,
        "calibration": dict,
        "agreement": NUMBER,
        "k": int,
    }
    check_keys("a cascade", values, keys)
    full = opening.stage(values["full"])
    if not isinstance(full, Rerank):
        raise InputError(
            "the spec of a cascade has another stage for 'full'", hint="it is a re-ranking"
        )
    numbers = dict.fromkeys(Calibration.__dataclass_fields__, NUMBER)
    check_keys("a calibration", values["calibration"], {**numbers, "queries": int})
    vectors: VectorSource = opening.open("vectors", values["vectors"])
    learned = Calibration(**values["calibration"])
    return Cascade(full, vectors, learned, values["agreement"], values["k"])


def calibrate(full: Rerank, index: Index, encoder: Encoder, run: Run) -> Calibration:
    """What a re-ranker's scores have to do with first-stage scores and vectors.

    All candidates of the run are scored; no judgements are needed. Some 40 queries like those to
    come are good; their documents must be in the index.
    """
    return calibrate_with(full, StoredVectors.of(index, encoder), run)


def calibrate_with(full: Rerank, vectors: VectorSource, run: Run) -> Calibration:
    """The same with vectors from anywhere."""
    _check_stage(full)
    return _fitted(full, vectors, run, full.rerank(run).found)


def _fitted(full: Rerank, vectors: VectorSource, run: Run, found: Found) -> Calibration:
    """The calibration from what was found for the rows of a run."""
    queries = []
    for start in range(0, len(run), BLOCK):
        for rows, candidates in _candidates(full, vectors, run, start):
            scored = np.flatnonzero(found.passage[rows] >= 0)
            scores = found.score[rows[scored]].astype(np.float64)
            queries.append((candidates.take(scored), scores))
    return fit(queries)


def cascade_and_calibrate(
    full: Rerank, index: Index, encoder: Encoder, run: Run, *, agreement: float = 0.9, k: int = 10
) -> Cascaded:
    """A cascade over a run, calibrated on some of the run's own queries.

    Those are spread over the run and scored wholly: nothing of them is skipped.
    """
    if len(run) < 2 * CALIBRATED:
        raise InputError(
            f"{len(run)} queries are too few to calibrate a cascade on {CALIBRATED} of them",
            hint="re-rank fully, or calibrate on a run of other queries: --calibrate RUN, or "
            "tamis.pipeline.cascade.calibrate",
        )
    _check_stage(full)
    chosen = np.unique(np.linspace(0, len(run) - 1, CALIBRATED).astype(np.int64))
    rest = np.setdiff1d(np.arange(len(run)), chosen)
    first, second = (run.select(run.queries.ids.select(part)) for part in (chosen, rest))
    vectors, whole = StoredVectors.of(index, encoder), full.rerank(first)
    stage = Cascade(full, vectors, _fitted(full, vectors, first, whole.found), agreement, k)
    done = stage.cascade(second)
    missed = np.zeros(len(run))
    missed[rest] = done.missed
    nothing = np.zeros(len(whole.run.doc), bool)
    joined = join_runs([whole.run.with_extra(skipped=nothing), done.run])
    left = Counter(done.not_scored) + Counter(whole.found.not_scored().get("not re-ranked", {}))
    return Cascaded(joined, run, missed, stage, dict(left))


def _candidates(
    full: Rerank, vectors: VectorSource, run: Run, start: int
) -> Iterator[tuple[Rows, Candidates]]:
    """The rows that may be re-ranked of each query of a block, and what is known of them."""
    if run.queries.texts is None:
        raise InputError(
            "the queries of the run have no texts", hint="add them: run.with_queries(queries)"
        )
    sizes, texts = run.sizes(), run.queries.texts
    numbers = range(start, min(start + BLOCK, len(run)))
    asked = [number for number in numbers if sizes[number] and texts[number].strip()]
    encoded = vectors.queries([texts[number] for number in asked]) if asked else ()
    for number, query in zip(asked, encoded, strict=True):
        rows = run.offsets[number] + np.arange(min(int(sizes[number]), full.depth))
        if full.missing == "skip":
            rows = rows[vectors.has(run.docs.take(run.doc[rows]))]
        documents = vectors.documents(query, run.docs.take(run.doc[rows]))
        yield rows, Candidates.of(run.score[rows].astype(np.float64), query, documents)


def _left_out(full: Rerank, run: Run, candidate: NDArray[np.bool_]) -> Counter[str]:
    """How many documents have no vector and how many queries no text, where there are any."""
    asked = np.array([bool(text.strip()) for text in run.queries.texts or ()], bool)
    wanted = (run.ranks() <= full.depth) & np.repeat(asked, run.sizes())
    counts = {
        "documents not in the collection": int((wanted & ~candidate).sum()),
        "queries without text": int((~asked & (run.sizes() > 0)).sum()),
    }
    return Counter({name: count for name, count in counts.items() if count})


def _part(run: Run, rows: Rows) -> Run:
    """Some rows of a run, in the order they have there."""
    offsets = np.searchsorted(rows, run.offsets)
    extra = {name: column[rows] for name, column in run.extra.items()}
    return Run.trusted(run.queries, run.docs, offsets, run.doc[rows], run.score[rows], extra)


def _queries_with(run: Run, marked: NDArray[Any]) -> int:
    counted = np.concatenate([[0], np.cumsum(marked)])
    return int((np.diff(counted[run.offsets]) > 0).sum())


def _check_stage(full: Rerank) -> None:
    if full.interpolate is not None or full.latency is not None:
        raise InputError(
            "a cascade needs scores that do not depend on what else is scored, nor on time",
            hint="re-rank without interpolate and latency; fuse the run with the first stage after",
        )
