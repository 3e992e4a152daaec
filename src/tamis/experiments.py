"""Evaluation as one calls it from Python: inputs of any kind are made ours here, then measured."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tamis.collection.objects import AnyQueries, as_queries
from tamis.collection.run_objects import AnyQrels, AnyRun, as_qrels, as_run, as_runs, check_name
from tamis.errors import InputError
from tamis.evaluation import Evaluation, Measure, parse_measures
from tamis.evaluation import evaluate as evaluate_runs
from tamis.types import Qrels, Queries, Query, Run, Source, Stage

_log = logging.getLogger(__name__)
Measures = str | Measure | Iterable[str | Measure]


def evaluate(qrels: AnyQrels, runs: AnyRun, measures: Measures) -> Evaluation:
    """Measure one run, or runs by name, on every query of the qrels.

    Both may be our types, nested dictionaries, DataFrames (`query_id`, `doc_id` and `relevance` or
    `score`) or paths. A run that shares no query with the qrels is an error.

    >>> qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
    >>> run = {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d1": 2.0, "d2": 1.0}}
    >>> print(evaluate(qrels, {"bm25": run}, ["mrr@10", "P_1"]))
    run    RR@10     P@1
    bm25  0.7500  0.5000
    <BLANKLINE>
    2 judged queries; the mean over all of them.
    """
    return evaluate_runs(as_qrels(qrels), as_runs(runs), parse_measures(measures))


def experiment(
    systems: Mapping[str, Any],
    queries: AnyQueries,
    qrels: AnyQrels,
    measures: Measures,
    baseline: str | None = None,
) -> Evaluation:
    """Search with every system, evaluate what it finds, and compare with the baseline, if any.

    A system is a `Source`, a pipeline (`source >> stage`), a sieve, or a run that is there
    already. Only judged queries among `queries` are searched and counted. A query that is a
    string alone is judged under its text, or under the id it has in a query log.

    >>> systems = {"a": {"q1": {"d1": 2.0}}, "b": {"q1": {"d2": 2.0, "d1": 1.0}}}
    >>> done = experiment(systems, {"q1": "sieve"}, {"q1": {"d1": 1}}, ["RR"], baseline="a")
    >>> done.mean("b", "RR"), done.comparisons.baseline
    (0.5, 'a')
    """
    parsed = parse_measures(measures)
    _check_systems(systems, baseline)
    judged = as_qrels(qrels)
    judged, searched = _judged_queries(judged, _named_as_judged(queries, judged))
    rankers = {name: _source_of(system) or as_run(system, name) for name, system in systems.items()}
    runs = {name: _rank(name, system, searched) for name, system in rankers.items()}
    evaluation = evaluate_runs(judged, runs, parsed)
    if baseline is None:
        return evaluation
    return replace(evaluation, comparisons=evaluation.compare(baseline))


def _check_systems(systems: object, baseline: str | None) -> None:
    """Refuse what cannot be compared, before anything is searched."""
    if not isinstance(systems, Mapping) or not systems:
        raise InputError("no systems by name", hint='such as {"bm25": index.bm25()}')
    for name, system in systems.items():
        _check_system(check_name(name), system)
    if baseline is not None and baseline not in systems:
        names = ", ".join(systems)
        raise InputError(
            f"the baseline {baseline!r} is none of the systems", hint=f"one of {names}"
        )
    if baseline is not None and len(systems) < 2:
        raise InputError(f"only the baseline {baseline!r}", hint="name another system to compare")


def _check_system(name: str, system: Any) -> None:
    if isinstance(system, Stage):
        raise InputError(
            f"system {name!r} is a stage, which finds nothing by itself",
            hint="put it behind a source: index.bm25() >> stage",
        )
    if _source_of(system) is None and hasattr(system, "bm25"):
        raise InputError(f"system {name!r} is an index", hint="choose a ranking: index.bm25()")


def _source_of(system: Any) -> Source | None:
    """What finds documents: the system itself, or the whole pipeline of a sieve."""
    source = system if isinstance(system, Source) else getattr(system, "source", None)
    return source if isinstance(source, Source) else None


def _named_as_judged(queries: AnyQueries, qrels: Qrels) -> Queries:
    """Queries, of which those that are strings alone are named by their text if that is judged."""
    if not isinstance(queries, list | tuple):
        return as_queries(queries)
    judged = set(qrels)
    return as_queries([Query(q, q) if isinstance(q, str) and q in judged else q for q in queries])


def _judged_queries(qrels: Qrels, queries: Queries) -> tuple[Qrels, Queries]:
    """The judgements of these queries, and those of the queries that are judged."""
    numbers = qrels.queries.positions_in(queries.ids)
    shared = queries.select(numbers[numbers >= 0])
    if not len(shared):
        first = [repr(ids[0]) if len(ids) else "none" for ids in (queries.ids, qrels.queries)]
        raise InputError(
            f"no query is judged: the queries have {first[0]}, the qrels have {first[1]}",
            hint="are queries and qrels from the same collection and split?",
        )
    if len(shared) < len(qrels):
        _log.warning(
            "%s judged queries are not among the queries and are left out",
            f"{len(qrels) - len(shared):,}",
        )
    if len(shared) < len(queries):
        _log.info("%s queries without judgements are left out", f"{len(queries) - len(shared):,}")
    return qrels.select(shared.ids), shared


def _rank(name: str, system: Source | Run, queries: Queries) -> Run:
    if isinstance(system, Run):
        return system
    if queries.texts is None:
        raise InputError(f"no texts to search {name!r} with", hint="hand in queries with texts")
    _log.info("searching %s queries with %s", f"{len(queries):,}", name)
    return system(queries)
