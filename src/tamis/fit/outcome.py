"""What came of a fit, as records: for the manifest, the report and the screen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from tamis import __version__
from tamis.evaluation import Comparison, Evaluation, compare, evaluate
from tamis.fit.choosing import Chosen
from tamis.fit.family import correct_by_family, family_of
from tamis.fit.finding import Found
from tamis.fit.guard import Verdict
from tamis.fit.look import Parts, average_words
from tamis.fit.options import BM25, START, Way, trained_as
from tamis.fit.plan import CROSS, CROSS_ENCODERS, INFUSED, LEAST_QUERIES, Plan
from tamis.fit.sieve import GIVEN, HYBRID, Pipeline
from tamis.pipeline.hybrid import VECTORS
from tamis.scorers.note import note_if_any

if TYPE_CHECKING:
    from tamis.fit.job import Fitting

MORE = ("nDCG@10", "R@10")
"""Measures beside the one that is chosen by."""


@dataclass(frozen=True)
class Row:
    """One way to rank in the table of all candidates."""

    name: str
    held_out: float | None
    """The mean measure on queries that were chosen on, by models that did not learn from them."""
    tested: float | None
    chosen: bool
    refused: str
    """Why it was not taken."""
    milliseconds: float | None
    """What a query costs, the first stage included."""
    minutes: float
    """What training it took."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything there is to tell."""

    name: str
    base: str
    measure: str
    look: Mapping[str, Any]
    parts: Parts
    plan: Plan
    found: Found
    chosen: Chosen
    pipeline: Pipeline
    rows: tuple[Row, ...]
    evaluation: Evaluation | None
    """Of test queries: every way that was tested."""
    against_bm25: tuple[Comparison, ...]
    against_start: tuple[Comparison, ...]
    verified: bool
    why: str
    """Why it is not verified, or what was tested."""
    labels: Mapping[str, Any]
    cut: Mapping[str, Any]
    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    seed: int
    command: str
    path: str
    """The sieve."""
    candidates_run: str | None
    """The user's own first stage's results."""
    family: Verdict | None = None
    """The tests on test queries that p-values are corrected for, here and in all comparisons."""

    @classmethod
    def of(cls, fitting: Fitting, plan: Plan, found: Found, chosen: Chosen) -> Outcome:
        """Gather what the steps have left."""
        request, parts = fitting.request, fitting.parts
        runs = dict(chosen.test_runs)
        evaluation: Evaluation | None = None
        bm25: tuple[Comparison, ...] = ()
        start: tuple[Comparison, ...] = ()
        if len(parts.test):
            measures = dict.fromkeys((request.measure, *MORE))
            evaluation = evaluate(parts.test, runs, list(measures))
            bm25 = tuple(compare(evaluation, BM25, seed=request.seed))
            start = tuple(compare(evaluation, START, seed=request.seed)) if START in runs else ()
        family = family_of(
            chosen.settled, evaluation, chosen.way.name, request.measure, request.seed
        )
        if family is not None:
            bm25 = correct_by_family(bm25, family, request.measure)
            start = correct_by_family(start, family, request.measure)
        verified, why = _verified(fitting, chosen)
        return cls(
            fitting.collection.name,
            base_name(fitting),
            request.measure,
            look(fitting),
            parts,
            plan,
            found,
            chosen,
            _pipeline(fitting, found, chosen.way),
            tuple(
                _row(fitting, found, chosen, number, evaluation)
                for number in range(len(chosen.ways))
            ),
            evaluation,
            bm25,
            start,
            verified,
            why,
            _labels(chosen),
            _cut(chosen) if _scores(chosen, found, chosen.way) else {},
            dict(fitting.work.seconds),
            _versions(),
            request.seed,
            request.command,
            str(request.out),
            None if request.candidates is None else str(request.candidates),
            family,
        )

    def record(self) -> dict[str, Any]:
        """What the manifest of the sieve says."""
        chosen = self.chosen
        tested = None
        if self.evaluation is not None:
            tested = {
                row.name: {
                    str(measure): round(self.evaluation.mean(row.name, measure), 4)
                    for measure in self.evaluation.measures
                }
                for row in self.rows
                if row.tested is not None
            }
        return {
            "verified": "yes" if self.verified else "no",
            "why": self.why,
            "collection": self.name,
            "base": self.base,
            "measure": self.measure,
            "chosen": chosen.way.name,
            "pipeline": self.pipeline.spec(),
            "look": dict(self.look),
            "candidates": [vars(row) for row in self.rows],
            "test": tested,
            "guard": chosen.settled.record() if chosen.settled else None,
            "calibration": chosen.calibration.record() if chosen.calibration else None,
            "threshold on test queries": dict(chosen.answers) if chosen.answers else None,
            "first stage": dict(self.found.facts),
            "learning curve": [list(point) for point in chosen.curve],
            "labels": dict(self.labels),
            "cut": dict(self.cut),
            "plan": self.plan.record(),
            "seconds": dict(self.seconds),
            "versions": dict(self.versions),
            "seed": self.seed,
            "command": self.command,
            "candidates_run": self.candidates_run,
        }


def _verified(fitting: Fitting, chosen: Chosen) -> tuple[bool, str]:
    parts = fitting.parts
    if not len(parts.test) and not len(parts.learn):
        unusable = any("judge" in what for what in parts.left_out)
        none = "no judgement can be used" if unusable else "there are no judgements"
        return False, f"{none}: nothing was tested"
    if len(parts.test) < LEAST_QUERIES:
        few = f"{len(parts.test)} judged quer{'y' if len(parts.test) == 1 else 'ies'} to test on"
        return False, f"{few if len(parts.test) else 'no judged queries to test on'}: too few"
    if chosen.settled and chosen.settled.fell_back:
        failed = chosen.settled.choice.chosen
        return True, f"tested on {len(parts.test):,} queries, on which {failed} had failed"
    if chosen.choice is None:
        return True, f"tested on {len(parts.test):,} queries; nothing was chosen by judgements"
    return True, f"tested on {len(parts.test):,} queries that nothing was learnt or chosen on"


def base_name(fitting: Fitting) -> str:
    """What the model that everything starts from is called, or why there is none."""
    if fitting.note is None or fitting.start is None:
        return fitting.why_no_model
    return fitting.note.base.name if fitting.note.base else str(fitting.request.base)


def look(fitting: Fitting) -> dict[str, Any]:
    """What there is to learn from and to test with."""
    documents: dict[str, Any] = {"documents": fitting.index.documents}
    if empty := fitting.index.documents_without_terms:
        documents["documents without a term"] = empty
    if left_out := fitting.collection.faults.left_out:
        documents["files left out"] = dict(left_out)
    lengths = {"words a document, stop words aside": round(average_words(fitting.index), 1)}
    return {**documents, **lengths, **fitting.parts.facts(), "scored by": fitting.passages}


def _pipeline(fitting: Fitting, found: Found, way: Way) -> Pipeline:
    stage = way.model if way.model in found.others else found.name
    depth, passages = fitting.request.depth, fitting.passages
    model = way.model is not None and way.model not in found.others
    vectors = VECTORS if stage == HYBRID else None
    fused: Literal["lexical", "previous"] = "previous" if way.model in CROSS_ENCODERS else "lexical"
    return Pipeline(
        stage or BM25, depth, model, way.weight, passages, vectors=vectors, fused_score=fused
    )


def _row(
    fitting: Fitting, found: Found, chosen: Chosen, number: int, evaluation: Evaluation | None
) -> Row:
    way, work, measure = chosen.ways[number], fitting.work, fitting.request.measure
    held = None if chosen.held_out is None else round(float(chosen.held_out[number].mean()), 4)
    tested = None
    if evaluation is not None and way.name in evaluation.runs:
        tested = round(evaluation.mean(way.name, measure), 4)
    queries = max(1, len(fitting.parts.test))
    stage = way.model if way.model in found.others else found.name
    first = work.taken(f"{stage}-test") / queries
    alone = not _scores(chosen, found, way) and stage != GIVEN
    cost = work.folder / f"cost {way.model}.json"
    again = 0.0
    if not alone and cost.exists():
        again = float(json.loads(cost.read_text("utf-8"))["seconds"])
    timed = bool(len(fitting.parts.test)) and (alone or again > 0)  # not the user's own first stage
    why = chosen.choice.refused.get(way.name, "") if chosen.choice else ""
    if chosen.settled and chosen.settled.fell_back and way.name == chosen.settled.choice.chosen:
        why = str(chosen.settled)
    return Row(
        way.name,
        held,
        tested,
        way == chosen.way,
        why,
        round(1000 * (first + again), 2) if timed else None,
        round(_training(fitting, way) / 60, 1),
    )


def _scores(chosen: Chosen, found: Found, way: Way) -> bool:
    """Whether a model scores what was found: to rank it, or to tell how sure an answer is."""
    if way.weight == 0.0:
        return way == chosen.way and chosen.calibration is not None
    return way.model is not None and way.model not in found.others


def _training(fitting: Fitting, way: Way) -> float:
    """How many seconds the trainings behind a way took, and making labels for them."""
    named = trained_as(way.model or "")
    if not named:
        return 0.0
    before = {CROSS: ["pseudo"], INFUSED: ["aligned"]}.get(named, [])
    whole = fitting.work.taken(
        *(f"{what} {each}" for what in ("train", "label") for each in (named, *before))
    )
    return whole - fitting.work.taken(f"train {named} on ", f"label {named} on ")  # the curve's


def _labels(chosen: Chosen) -> dict[str, Any]:
    """How many labels of each source and role all trainings of the model had."""
    note = note_if_any(chosen.model) if chosen.model else None
    found: dict[str, dict[str, int]] = {}
    for step in note.facts.get("chain", []) if note else []:
        for source, roles in step.get("labels", {}).items():
            known = found.setdefault(source, {})
            for role, count in roles.items():
                known[role] = known.get(role, 0) + count
    return found


def _cut(chosen: Chosen) -> dict[str, Any]:
    run = chosen.test_runs.get(chosen.way.name)
    if run is None or "cut" not in run.extra:
        return {}
    cut = run.extra["cut"]
    return {
        "documents scored": len(cut),
        "documents cut": int((cut > 0).sum()),
        "tokens cut": int(cut.clip(min=0).sum()),
    }


def _versions() -> dict[str, str]:
    names = ("numpy", "torch", "transformers")
    found = {"tamis": __version__}
    for name in names:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            continue
    return found
