"""The result of a fit: typed records for the manifest, the report, the terminal and Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from tamis import __version__
from tamis.collection.describe import ByName
from tamis.evaluation import Comparison, Evaluation, compare, evaluate, parse_measures
from tamis.evaluation.power import Power, power_of, power_of_interval
from tamis.fitting.calibration import Answers, Calibration
from tamis.fitting.candidate_models import LEARNING_CURVE
from tamis.fitting.comparison_family import correct_by_family, family_of
from tamis.fitting.context import FitContext, FitInputs
from tamis.fitting.guard import BaselineTest, Decision, Selection
from tamis.fitting.json_records import from_json, to_json
from tamis.fitting.learning_curve import CurvePoint
from tamis.fitting.plan import MIN_QUERIES, Plan
from tamis.fitting.provisional import Provisional
from tamis.fitting.query_cost import QueryCost
from tamis.fitting.query_splits import MIN_JUDGED_TO_SPLIT, QuerySplits, average_words
from tamis.fitting.request import FitRequest
from tamis.fitting.reranker_runs import seconds_per_query
from tamis.fitting.selection import Selected, base_system, bm25_system
from tamis.fitting.system import System
from tamis.fitting.workspace import Timing
from tamis.scorers.model_manifest import find_model_manifest
from tamis.search.dense import truncated_by_encoder
from tamis.types import Ids, Qrels, Run

MORE_MEASURES = ("nDCG@10", "R@10")
"""Measures beside the one that systems are selected by."""
TRUNCATION_BOUNDS = (0, 50, 100, 200, 500, 1000)
"""At most so many tokens were truncated; the last bin of a histogram has all above."""
VERSIONS_OF = ("numpy", "torch", "transformers", "onnxruntime")


@dataclass(frozen=True)
class SystemResult:
    """One system, what it scored and what it costs."""

    name: str
    retriever: str
    """The key of its retriever."""
    reranker: str | None
    """The key of its re-ranker, if it has one."""
    weight: float | None
    """The fusion weight of the re-ranker; see `System`."""
    complexity: int
    group: str
    """The name of its re-ranker; empty where it has none that decides on the order."""
    description: str
    held_out: float | None
    """The mean measure on queries that were selected on, by models not trained on them."""
    test: float | None
    selected: bool
    rejected_because: str
    milliseconds: float | None
    """What a query costs, retrieval included; None where that was not measured."""
    training_minutes: float


@dataclass(frozen=True)
class QueryCounts:
    """How many queries there were."""

    all: int
    train: int
    """Judged, to train and select on."""
    test: int
    unjudged: int


@dataclass(frozen=True)
class Truncation:
    """What did not fit the selected model, on test queries."""

    documents: int
    truncated_documents: int
    truncated_tokens: int
    histogram: tuple[int, ...] = ()
    """How many documents lost so many tokens, see `TRUNCATION_BOUNDS`."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """Everything the report shows."""

    collection: str
    base_model: str
    """What the base model is called, or why there is none."""
    measure: str
    selected: str
    pipeline_in_words: str
    """The selected system in a sentence."""
    verified: bool
    reason: str
    """On what it was tested; else what is known provisionally, and what a test needs."""
    data: Mapping[str, Any]
    """What there was to train and to test on."""
    queries: QueryCounts
    systems: tuple[SystemResult, ...]
    baseline: str
    """The name of BM25 among the systems."""
    base_system: str | None
    """The name of the base model alone among them."""
    default_system: str
    candidates: str
    """The key of the retriever whose documents were re-ranked."""
    retriever_notes: Mapping[str, str]
    required: tuple[str, ...]
    """The baselines that nothing selected may be below."""
    trained_on_folds: bool
    plan: Plan
    selection: Selection | None
    decision: Decision | None
    family: BaselineTest | None
    """The tests on test queries that p-values are corrected for together."""
    calibration: Calibration | None
    threshold_test: Answers | None
    learning_curve: tuple[CurvePoint, ...]
    labels: Mapping[str, Any]
    """How many labels of each source and role the selected model was trained on."""
    truncation: Truncation | None
    timings: tuple[Timing, ...]
    versions: Mapping[str, str]
    seed: int
    command: str
    path: str
    """The sieve."""
    user_run: str | None
    provisional: Provisional | None = None
    """What judged queries say of it where they are too few for a test."""
    more_judged_queries_needed: int = 0
    """How many for a test; 0 where there was one."""
    cost: QueryCost | None = None
    """What a query costs in the sieve; None where that was not measured."""
    evaluation: Evaluation | None = field(default=None)
    """Every tested system on test queries; None where there were none."""

    @property
    def selected_system(self) -> SystemResult:
        """The system that was selected."""
        return next(system for system in self.systems if system.selected)

    @cached_property
    def power(self) -> Power | None:
        """What the queries can show of the selected system against BM25; None without any."""
        few = self.provisional
        if few is not None and few.interval is not None and few.queries > 1:
            return power_of_interval(few.queries, few.difference, few.interval)
        if self.evaluation is None or self.selected == self.baseline:
            return None
        values = [self.evaluation.values(n, self.measure) for n in (self.selected, self.baseline)]
        return power_of(values[0] - values[1])

    @cached_property
    def against_baseline(self) -> tuple[Comparison, ...]:
        """Every tested system against BM25, on every measure."""
        return self._against(self.baseline)

    @cached_property
    def against_base(self) -> tuple[Comparison, ...]:
        """Every tested system against the base model; nothing where there is none."""
        return self._against(self.base_system) if self.base_system else ()

    def _against(self, baseline: str) -> tuple[Comparison, ...]:
        if self.evaluation is None or baseline not in self.evaluation.runs:
            return ()
        raw = compare(self.evaluation, baseline, seed=self.seed)
        if self.family is None:
            return tuple(raw)
        return correct_by_family(raw, self.family, self.measure)

    @property
    def test_means(self) -> dict[str, dict[str, float]]:
        """The mean of every measure of every tested system."""
        if self.evaluation is None:
            return {}
        evaluation = self.evaluation
        return ByName(
            {
                run: ByName(
                    {str(m): round(evaluation.mean(run, m), 4) for m in evaluation.measures}
                )
                for run in evaluation.runs
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, but for the evaluation, which has a file of its own."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        del plain["evaluation"]
        nested = to_json(_Nested(**{name: plain[name] for name in _NESTED}))
        return {**plain, **nested, "test": self.test_means}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], evaluation: Evaluation | None) -> FitResult:
        """What `to_json` wrote."""
        nested = vars(from_json(_Nested, data))
        names = [field.name for field in fields(cls) if field.name not in (*_NESTED, "evaluation")]
        plain = {name: data[name] for name in names}
        plain["required"] = tuple(plain["required"])
        return cls(**plain, **nested, evaluation=evaluation)


@dataclass(frozen=True)
class _Nested:
    """The fields of a result that are records themselves, or that a sieve may lack."""

    queries: QueryCounts
    systems: tuple[SystemResult, ...]
    plan: Plan
    selection: Selection | None
    decision: Decision | None
    family: BaselineTest | None
    calibration: Calibration | None
    threshold_test: Answers | None
    learning_curve: tuple[CurvePoint, ...]
    truncation: Truncation | None
    timings: tuple[Timing, ...]
    provisional: Provisional | None = None
    more_judged_queries_needed: int = 0
    cost: QueryCost | None = None


_NESTED = tuple(nested_field.name for nested_field in fields(_Nested))


def evaluation_to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Every value of an evaluation, and the judgements behind them."""
    qrels = evaluation.qrels
    return {
        "queries": list(evaluation.queries),
        "measures": [str(measure) for measure in evaluation.measures],
        "per_query": {run: table.tolist() for run, table in evaluation.per_query.items()},
        "missing": {run: list(ids) for run, ids in evaluation.missing.items()},
        "unjudged": {run: list(ids) for run, ids in evaluation.unjudged.items()},
        "qrels": {query: qrels[query] for query in qrels} if qrels is not None else None,
    }


def evaluation_from_json(data: Mapping[str, Any], runs: Mapping[str, Run]) -> Evaluation:
    """What `evaluation_to_json` wrote, of these runs."""
    return Evaluation(
        Ids.of(data["queries"]),
        tuple(parse_measures(data["measures"])),
        {run: np.array(table, np.float64) for run, table in data["per_query"].items()},
        {run: Ids.of(ids) for run, ids in data["missing"].items()},
        {run: Ids.of(ids) for run, ids in data["unjudged"].items()},
        Qrels.from_dict(data["qrels"]) if data.get("qrels") else None,
        runs,
    )


def make_result(fit: FitContext, selected: Selected, *, trained_on_folds: bool) -> FitResult:
    """Gather what the steps have left."""
    request, splits = fit.request, fit.splits
    evaluation: Evaluation | None = None
    if len(splits.test):
        measures = dict.fromkeys((request.measure, *MORE_MEASURES))
        evaluation = evaluate(splits.test, dict(selected.test_runs), list(measures))
    bm25, base = bm25_system(selected.systems), base_system(selected.systems)
    system, baselines = selected.system, [bm25.name, *([base.name] if base else [])]
    family = family_of(
        selected.decision, evaluation, system.name, baselines, request.measure, request.seed
    )
    more_needed = judged_queries_needed(splits)
    reason = verification(splits, selected)
    return FitResult(
        collection=fit.collection.name,
        base_model=fit.base_name,
        measure=request.measure,
        selected=system.name,
        pipeline_in_words=pipeline_in_words(fit, selected),
        verified=not more_needed,
        reason=reason,
        data={**data_facts(fit), **truncated_by_encoder(fit.index)},
        queries=QueryCounts(
            len(splits.queries),
            len(splits.train),
            len(splits.test),
            len(splits.queries) - len(splits.judged),
        ),
        systems=tuple(
            _system_result(fit, selected, number, evaluation)
            for number in range(len(selected.systems))
        ),
        baseline=bm25.name,
        base_system=base.name if base else None,
        default_system=selected.default_system.name,
        candidates=fit.retrieved.candidates.kind.key,
        retriever_notes={
            runs.kind.name: note
            for runs in fit.retrieved.retrievers
            if (note := runs.kind.note(fit))
        },
        required=selected.required,
        trained_on_folds=trained_on_folds,
        plan=fit.plan,
        selection=selected.selection,
        decision=selected.decision,
        family=family,
        calibration=selected.calibration,
        threshold_test=selected.threshold_test,
        learning_curve=selected.learning_curve,
        labels=_labels(selected),
        truncation=_truncation(selected),
        timings=tuple(fit.work.timings),
        versions=_versions(),
        seed=request.seed,
        command=request.command,
        path=str(request.out),
        user_run=_user_run(request),
        provisional=selected.provisional,
        more_judged_queries_needed=more_needed,
        evaluation=evaluation,
    )


def _user_run(request: FitRequest) -> str | None:
    """The file of the user's run, or that it was handed in."""
    if request.user_run is None or isinstance(request.user_run, str):
        return request.user_run
    return "a run handed in from Python"


def judged_queries_needed(splits: QuerySplits) -> int:
    """How many more judged queries a test needs; 0 where there are enough test queries.

    Without test queries so many that some can be set aside; where the judged ones are enough but
    too alike to be split, so many others.
    """
    if len(splits.test) or len(splits.train) >= MIN_JUDGED_TO_SPLIT:
        return max(0, MIN_QUERIES - len(splits.test))
    return MIN_JUDGED_TO_SPLIT - len(splits.train)


def verification(splits: QuerySplits, selected: Selected) -> str:
    """On what the selected system was tested; else what is known, and what a test needs."""
    test, more = len(splits.test), judged_queries_needed(splits)
    if selected.provisional is not None:
        kind = "judged" if not test and len(splits.train) < MIN_JUDGED_TO_SPLIT else "test"
        queries = "query" if more == 1 else "queries"
        return f"{selected.provisional}; a test needs {more} more {kind} {queries}"
    if more:
        unusable = any("judge" in what for what in splits.left_out)
        none = "no judgement can be used" if unusable else "there are no judgements"
        return f"{none}: nothing was tested"
    if selected.decision and selected.decision.fell_back:
        failed = selected.decision.selection.selected
        return f"tested on {test:,} queries, on which {failed} had failed"
    if selected.selection is None:
        return f"tested on {test:,} queries; nothing was selected by judgements"
    return f"tested on {test:,} queries that were used neither to train nor to select"


def data_facts(fit: FitInputs) -> dict[str, Any]:
    """What there is to train and to test on."""
    documents: dict[str, Any] = {"documents": fit.index.num_documents}
    if empty := fit.index.num_documents_without_terms:
        documents["documents_without_terms"] = empty
    if left_out := fit.collection.faults.left_out:
        documents["files_left_out"] = dict(left_out)
    words = round(average_words(fit.index), 1)
    lengths = {"average_words_without_stop_words": words}
    return {**documents, **lengths, **fit.splits.facts(), "passages": fit.passages}


def pipeline_in_words(fit: FitContext, selected: Selected) -> str:
    """The selected system in a sentence."""
    system, depth = selected.system, fit.request.depth
    kind = system.retriever
    start = kind.in_words or f"{kind.name} finds documents"
    if system.reranker is None:
        return f"{start}; no model re-ranks them."
    if system.weight == 0:
        return (
            f"{start}, ranked by both scores. The base model gives every hit its score and its "
            "passage, not its rank."
        )
    by = "" if fit.passages == "whole" else f", by passages ({fit.passages})"
    again = f"{system.reranker.name} re-ranks the top {depth}{by}"
    if system.weight is None:
        return f"{start}; {again}."
    other = "BM25's" if system.fusion_column else f"{kind.name}'s"
    return f"{start}; {again}; its score has the fusion weight {system.weight:g}, {other} the rest."


def _system_result(
    fit: FitContext, selected: Selected, number: int, evaluation: Evaluation | None
) -> SystemResult:
    system, measure = selected.systems[number], fit.request.measure
    held_out = selected.held_out
    test = None
    if evaluation is not None and system.name in evaluation.runs:
        test = round(evaluation.mean(system.name, measure), 4)
    reason = selected.selection.rejections.get(system.name, "") if selected.selection else ""
    decision = selected.decision
    if decision and decision.fell_back and system.name == decision.selection.selected:
        reason = str(decision)
    reranker = system.reranker
    return SystemResult(
        name=system.name,
        retriever=system.retriever.key,
        reranker=reranker.key if reranker else None,
        weight=system.weight,
        complexity=system.complexity,
        group=reranker.name if reranker and system.reorders else "",
        description=reranker.description if reranker and system.reorders else "",
        held_out=None if held_out is None else round(float(held_out[number].mean()), 4),
        test=test,
        selected=system is selected.system,
        rejected_because=reason,
        milliseconds=_milliseconds(fit, selected, system, test is not None),
        training_minutes=round(_training_seconds(fit, system) / 60, 1),
    )


def _milliseconds(
    fit: FitContext, selected: Selected, system: System, tested: bool
) -> float | None:
    """What a query costs on test queries; None where that was not measured."""
    queries = len(fit.splits.test)
    if not queries or not tested:
        return None
    searches = [
        timing.seconds
        for timing in fit.work.timings
        if (timing.activity, timing.system, timing.fold) == ("search", system.retriever.key, "test")
    ]
    used = system.weight != 0 or system is selected.system
    if system.reranker is None or not used:
        return round(1000 * sum(searches) / queries, 2) if searches else None
    again = seconds_per_query(fit, system.reranker, None)
    return round(1000 * (sum(searches) / queries + again), 2)


def _training_seconds(fit: FitContext, system: System) -> float:
    """How long the trainings behind a system took, and labelling for them."""
    if system.reranker is None or not system.reorders:
        return 0.0
    return sum(
        timing.seconds
        for timing in fit.work.timings
        if timing.activity in ("label", "train")
        and timing.system in system.reranker.trainings
        and timing.step != LEARNING_CURVE
    )


def _labels(selected: Selected) -> dict[str, Any]:
    """How many labels of each source and role all trainings of the model had."""
    manifest = find_model_manifest(selected.model) if selected.model else None
    counts: dict[str, dict[str, int]] = {}
    for step in manifest.facts.get("chain", []) if manifest else []:
        for source, roles in step.get("labels", {}).items():
            of_source = counts.setdefault(source, {})
            for role, count in roles.items():
                of_source[role] = of_source.get(role, 0) + count
    return counts


def _truncation(selected: Selected) -> Truncation | None:
    run = selected.test_runs.get(selected.system.name)
    if run is None or "truncated_tokens" not in run.extra:
        return None
    tokens = run.extra["truncated_tokens"]
    tokens = np.asarray(tokens).clip(min=0)
    bins = np.bincount(
        np.searchsorted(TRUNCATION_BOUNDS, tokens), minlength=len(TRUNCATION_BOUNDS) + 1
    )
    return Truncation(len(tokens), int((tokens > 0).sum()), int(tokens.sum()), tuple(bins.tolist()))


def _versions() -> dict[str, str]:
    versions = {"tamis": __version__}
    for name in VERSIONS_OF:
        try:
            versions[name] = version(name)
        except ModuleNotFoundError:
            continue
    return versions
