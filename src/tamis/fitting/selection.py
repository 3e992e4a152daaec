"""One system is selected on queries that no model was trained on, and then tested on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.fitting.answer_features import feature_names, features, relevant_rows
from tamis.fitting.calibration import Answers, Calibration
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold, all_queries, make_folds
from tamis.fitting.guard import (
    ComparedSystem,
    Decision,
    Selection,
    compare_with,
    decide,
    select,
)
from tamis.fitting.learning_curve import CurvePoint, measure_learning_curve
from tamis.fitting.lexical_scores import with_own_lexical_scores
from tamis.fitting.plan import MIN_QUERIES
from tamis.fitting.planner import trains_on_folds
from tamis.fitting.provisional import (
    MIN_QUERIES_FOR_INTERVAL,
    Estimate,
    Provisional,
    cross_validated,
    provisional,
    selection_folds,
)
from tamis.fitting.query_encoder_export import export_query_encoder
from tamis.fitting.query_splits import sample
from tamis.fitting.reranker_runs import (
    FoldRuns,
    Models,
    score_candidates,
    score_fold,
    seconds_per_query,
    train_rerankers,
)
from tamis.fitting.system import Reranker, System, SystemKind, all_systems, default_system
from tamis.registry import open_source
from tamis.types import Ids, Qrels, Run, Source
from tamis.types.columns import PREVIOUS_SCORE

CALIBRATION_DEPTH = 5
"""How many documents of a query probabilities are fitted to: what matters is whether the first are
right, and those far below would pull all probabilities down."""
NO_ANSWERS = Qrels.from_dict({})
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Selected:
    """What was selected, from what, and what every system makes of test queries."""

    system: System
    model: Path | None
    systems: tuple[System, ...]
    test_runs: Mapping[str, Run]
    """By the name of the system."""
    selection: Selection | None = None
    held_out: Values | None = None
    """The measure of every system on every judged query that is not tested on."""
    decision: Decision | None = None
    calibration: Calibration | None = None
    threshold_test: Answers | None = None
    """What the threshold does to test queries."""
    learning_curve: tuple[CurvePoint, ...] = ()
    required: tuple[str, ...] = ()
    """The baselines that nothing selected may be below."""
    provisional: Provisional | None = None
    """What judged queries say of it where they are too few for a test."""

    @property
    def default_system(self) -> System:
        """What would be selected without judgements."""
        return default_system(self.systems)


def select_system(fit: FitContext, kinds: Sequence[SystemKind]) -> Selected:
    """Train what is planned, then select by judgements; the default system without any."""
    rerankers = [kind for kind in kinds if isinstance(kind, Reranker) and kind.is_planned(fit.plan)]
    folds: list[Fold] = []
    compares = rerankers or len(fit.retrieved.retrievers) > 1
    if len(fit.splits.train) and compares:
        trained = trains_on_folds(fit.plan, kinds)
        folds = make_folds(fit.splits, fit.plan, fit.request.seed, trained=trained)
    if not folds:
        return _select_default(fit, [kind for kind in rerankers if not kind.trainings])
    return _select_by_judgements(fit, folds, rerankers)


def _select_default(fit: FitContext, rerankers: Sequence[Reranker]) -> Selected:
    """There is nothing to select by: the default system, tested where it can be."""
    models = {kind: kind.train_fold(all_queries(fit), fit) for kind in rerankers}
    systems = systems_of(fit, rerankers)
    selected, decision, held_out = default_system(systems), None, None
    runs = _test_runs(fit, models, systems)
    if _has_enough_to_test(fit):
        decision = _test(fit, Selection(selected.name, selected.name, 0), runs, systems)
        selected = _system_named(systems, decision.selected)
    few_queries = _provisional_on_test(fit, selected, systems, runs, decision)
    if len(fit.splits.train) and not _has_enough_to_test(fit):
        judged = sample(fit.splits.train, fit.plan.selection_queries, fit.request.seed)
        fold = Fold("judged", Ids.of([]), judged.queries)
        held_out = score_fold(fit, fold, models).values(systems, fit.request.measure)
        estimate: Estimate = "not_selected_on"
        if worse := worse_than(systems, held_out, selected.name, fit.request.seed):
            means = {system.name: held_out[n].mean() for n, system in enumerate(systems)}
            selected = _system_named(systems, max(worse, key=lambda name: means[name]))
            estimate = "selected_on"
        own = held_out[systems.index(selected)]
        few_queries = _provisional(fit, selected, systems, own, held_out, estimate)
    model = models[selected.reranker] if selected.reranker else None
    return Selected(
        selected, model, tuple(systems), runs, held_out=held_out, decision=decision,
        provisional=few_queries,
    )  # fmt: skip


def _has_enough_to_test(fit: FitContext) -> bool:
    """Whether there are test queries for a paired test; from `MIN_QUERIES` on it verifies."""
    return len(fit.splits.test) >= MIN_QUERIES_FOR_INTERVAL


def _provisional_on_test(
    fit: FitContext,
    selected: System,
    systems: Sequence[System],
    runs: Mapping[str, Run],
    decision: Decision | None,
) -> Provisional | None:
    """What test queries say that are too few to verify; None where there are none, or enough."""
    if not 0 < len(fit.splits.test) < MIN_QUERIES:
        return None
    measure, bm25 = fit.request.measure, bm25_system(systems).name
    evaluation = evaluate(fit.splits.test, runs, [measure])
    values = [evaluation.values(name, measure) for name in (selected.name, bm25)]
    estimate: Estimate = "selected_on" if decision and decision.fell_back else "test"
    return provisional(selected.name, values[0], bm25, values[1], measure, estimate)


def _provisional(
    fit: FitContext,
    selected: System,
    systems: Sequence[System],
    values: Values,
    held_out: Values,
    estimate: Estimate,
) -> Provisional:
    bm25 = bm25_system(systems)
    theirs = held_out[systems.index(bm25)]
    return provisional(selected.name, values, bm25.name, theirs, fit.request.measure, estimate)


def _provisional_on_folds(
    fit: FitContext,
    selected: System,
    systems: Sequence[System],
    results: Sequence[FoldRuns],
    held_out: Values,
) -> Provisional:
    """What the queries say that were selected on: each by the system that the others select."""
    splits, seed = fit.splits, fit.request.seed
    order = [query for fold_runs in results for query in fold_runs.qrels.queries]
    judged = splits.train.select(Ids.of(order))
    folds = selection_folds(splits.queries_of(judged), order, judged, seed)
    if not folds:
        own = held_out[systems.index(selected)]
        return _provisional(fit, selected, systems, own, held_out, "selected_on")
    names = [system.name for system in systems]

    def choose(table: Values) -> int:
        return names.index(select_by_values(systems, table, seed)[0].selected)

    values = cross_validated(held_out, folds, choose)
    return _provisional(fit, selected, systems, values, held_out, "cross_validated")


def select_by_values(
    systems: Sequence[System], table: Values, seed: int
) -> tuple[Selection, list[str]]:
    """Select by held-out values; the selection, and what nothing selected may be below.

    Where the selection is significantly below BM25 or the base model, these are required too.
    """
    compared = [ComparedSystem(system.name, system.complexity) for system in systems]
    required = required_baselines(systems, table.shape[1])
    selection = select(compared, table, required, seed=seed)
    if worse := worse_than(systems, table, selection.selected, seed):
        required = list(dict.fromkeys([*required, *worse]))
        selection = select(compared, table, required, seed=seed)
    return selection, required


def worse_than(systems: Sequence[System], table: Values, name: str, seed: int) -> list[str]:
    """BM25 and the base model, where the system is significantly below one of them."""
    values = {system.name: table[number] for number, system in enumerate(systems)}
    names = [bm25_system(systems).name, *(base.name for base in [base_system(systems)] if base)]
    baselines = {baseline: values[baseline] for baseline in names if baseline != name}
    if not baselines or table.shape[1] < MIN_QUERIES_FOR_INTERVAL:
        return []
    return names if compare_with(values[name], baselines, seed=seed, resamples=1).worse_than else []


def systems_of(fit: FitContext, rerankers: Sequence[Reranker]) -> list[System]:
    """Every system that is compared."""
    retrievers = [runs.kind for runs in fit.retrieved.retrievers]
    return all_systems(retrievers, fit.retrieved.candidates.kind, rerankers)


def bm25_system(systems: Sequence[System]) -> System:
    """BM25 alone."""
    return next(
        system for system in systems if system.retriever.key == "bm25" and system.reranker is None
    )


def base_system(systems: Sequence[System]) -> System | None:
    """The base model alone, if there is one."""
    bases = (system for system in systems if system.reranker and system.reranker.is_default)
    return next((system for system in bases if system.weight is None), None)


def _system_named(systems: Sequence[System], name: str) -> System:
    return next(system for system in systems if system.name == name)


def required_baselines(systems: Sequence[System], judged: int) -> list[str]:
    """What nothing selected may be below: the default system, a retriever of the user's own, and
    BM25 unless very few queries speak for it.
    """
    names = [default_system(systems).name, *_users_own(systems)]
    return [*names, *([bm25_system(systems).name] if judged >= MIN_QUERIES else [])]


def _users_own(systems: Sequence[System]) -> list[str]:
    return [
        system.name
        for system in systems
        if system.retriever.is_users_own and system.reranker is None
    ]


def _test(
    fit: FitContext, selection: Selection, runs: Mapping[str, Run], systems: Sequence[System]
) -> Decision:
    """The test of a selection against the base model, BM25, the default and the user's own run."""
    bm25, base = bm25_system(systems), base_system(systems)
    names = [(base or bm25).name, bm25.name, default_system(systems).name, *_users_own(systems)]
    measure = fit.request.measure
    evaluation = evaluate(fit.splits.test, runs, [measure])
    values = {name: evaluation.values(name, measure) for name in runs}
    return decide(selection, values, names, seed=fit.request.seed)


def _select_by_judgements(
    fit: FitContext, folds: Sequence[Fold], planned: Sequence[Reranker]
) -> Selected:
    splits, request = fit.splits, fit.request
    last = [all_queries(fit)] if len(splits.test) else []
    models = train_rerankers(fit, [*folds, *last], planned)
    rerankers = list(models)
    systems = systems_of(fit, rerankers)
    results = [
        score_fold(fit, fold, {kind: models[kind][number] for kind in rerankers})
        for number, fold in enumerate(folds)
    ]
    held_out = np.concatenate(
        [fold_runs.values(systems, request.measure) for fold_runs in results], 1
    )
    selection, required = select_by_values(systems, held_out, request.seed)
    selected, decision = _system_named(systems, selection.selected), None
    final: dict[Reranker, Path | None] = {}
    if last:
        final = {kind: models[kind][-1] for kind in rerankers}
    elif selected.reranker:
        final = {selected.reranker: selected.reranker.train_fold(all_queries(fit), fit)}
    model = final.get(selected.reranker) if selected.reranker else None
    if model is not None:
        export_query_encoder(fit, model)
    runs = _test_runs(fit, final, systems, selected)
    if _has_enough_to_test(fit):
        decision = _test(fit, selection, runs, systems)
        selected = _system_named(systems, decision.selected)
        few_queries = _provisional_on_test(fit, selected, systems, runs, decision)
    else:
        few_queries = _provisional_on_folds(fit, selected, systems, results, held_out)
    unanswerable = _unanswerable(fit, selected, final)
    calibration = _calibrate(fit, selected, results, unanswerable[0])
    threshold_test = None
    if calibration and len(splits.test):
        tested = (runs[selected.name], splits.test), (unanswerable[1], NO_ANSWERS)
        threshold_test = calibration.answers(*_stacked(tested, _comparable(fit)))
    return Selected(
        selected, final.get(selected.reranker) if selected.reranker else None, tuple(systems),
        runs, selection, held_out, decision, calibration, threshold_test,
        _learning_curve(fit, rerankers, folds, results), tuple(required), few_queries,
    )  # fmt: skip


def _test_runs(
    fit: FitContext,
    models: Models,
    systems: Sequence[System],
    selected: System | None = None,
) -> dict[str, Run]:
    """The rankings of test queries, by system."""
    if not len(fit.splits.test):
        return {}
    candidates = fit.retrieved.candidates.test
    scored: dict[Reranker, Run] = {}
    for kind, model in models.items():
        if kind.is_tested_only_if_selected and (selected is None or selected.reranker is not kind):
            continue
        scored[kind] = score_candidates(fit, kind, model, candidates, "test")
        seconds_per_query(fit, kind, model)
    runs = {}
    for system in systems:
        if system.reranker is None:
            runs[system.name] = fit.retrieved.of(system.retriever).test
        elif system.reranker in scored:
            runs[system.name] = system.rank(candidates, scored[system.reranker])
    return runs


def _unanswerable(fit: FitContext, system: System, models: Models) -> tuple[Run, Run]:
    """What a system makes of queries without an answer: to calibrate on, and to test that on."""
    train, test = fit.retrieved.of(system.retriever).unanswerable
    return (
        _rank_unanswerable(fit, system, models, train, "unanswerable train"),
        _rank_unanswerable(fit, system, models, test, "unanswerable test"),
    )


def _rank_unanswerable(
    fit: FitContext, system: System, models: Models, run: Run, query_set: str
) -> Run:
    if system.reranker is None or not len(run):
        return run
    if fit.work.elapsed > fit.request.max_time:
        return run.select(Ids.of([]))
    scored = score_candidates(fit, system.reranker, models[system.reranker], run, query_set)
    return system.rank(run, scored)


def _learning_curve(
    fit: FitContext,
    rerankers: Sequence[Reranker],
    folds: Sequence[Fold],
    results: Sequence[FoldRuns],
) -> tuple[CurvePoint, ...]:
    base = next((kind for kind in rerankers if kind.is_default), None)
    tuned = next((kind for kind in rerankers if kind.has_learning_curve), None)
    if base is None or tuned is None:
        return ()
    return measure_learning_curve(fit, base, tuned, folds, results)


def _comparable(fit: FitContext) -> bool:
    """Whether the scores of the candidates can be compared from query to query."""
    return fit.retrieved.candidates.kind.has_comparable_scores


def _stacked(
    rankings: Sequence[tuple[Run, Qrels]], comparable: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[Any]]:
    """Features, relevance and query of the rows of several rankings, whose queries differ."""
    filled = [(run, qrels) for run, qrels in rankings if len(run.doc)]
    shifts = np.cumsum([0, *(len(run) for run, _ in filled)])
    query = [
        np.repeat(np.arange(len(run)), run.sizes()) + shift
        for (run, _), shift in zip(filled, shifts, strict=False)
    ]
    return (
        np.concatenate([features(run, comparable) for run, _ in filled]),
        np.concatenate([relevant_rows(run, qrels) for run, qrels in filled]),
        np.concatenate(query),
    )


def _lexical_part(fit: FitContext, system: System) -> Source | None:
    """What gave the system's runs their column of lexical scores, if they have one."""
    if system.retriever.lexical_column is None:
        return None
    spec = fit.retrieved.of(system.retriever).source
    return open_source(spec["of"][0], threads=fit.request.threads)


def _calibrate(
    fit: FitContext, system: System, results: Sequence[FoldRuns], unanswerable: Run
) -> Calibration | None:
    """Probabilities from held-out queries and from those without an answer; None where these are
    too few, or where a retriever alone was selected whose scores cannot be compared.
    """
    if system.reranker is None and not system.retriever.has_comparable_scores:
        return None
    held_out = [(fold_runs.run_of(system), fold_runs.qrels) for fold_runs in results]
    rankings = [*held_out, (unanswerable, NO_ANSWERS)]
    lexical = _lexical_part(fit, system)
    top_rankings = [
        (with_own_lexical_scores(run.top(CALIBRATION_DEPTH), lexical), qrels)
        for run, qrels in rankings
    ]
    if not any(len(run.doc) for run, _ in top_rankings):
        return None
    rows, labels, query = _stacked(top_rankings, _comparable(fit))
    names = feature_names(
        rows.shape[1], any(PREVIOUS_SCORE in run.extra for run, _ in top_rankings)
    )
    try:
        return Calibration.fit(rows, labels, query, names=names)
    except InputError:
        return None
