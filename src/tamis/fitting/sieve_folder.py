"""Writes the folder of a sieve, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.collection.runs import write_run
from tamis.durable import new_folder
from tamis.evaluation import t_interval
from tamis.evaluation.significance import Interval
from tamis.fitting.context import FitContext
from tamis.fitting.log_queries import compare_on_log, sample_of_log
from tamis.fitting.query_cost import measure_query_cost
from tamis.fitting.report import RankedQueries, write_report
from tamis.fitting.report_failures import (
    DEEPER,
    Failures,
    find_failures,
    no_common_word,
    queries_with_missing,
)
from tamis.fitting.result import FitResult, evaluation_to_json
from tamis.fitting.score_scale import ScoreScale, score_scale
from tamis.fitting.selection import Selected, bm25_system
from tamis.fitting.sieve import (
    ENCODER,
    EVALUATION,
    INDEX,
    KIND,
    MODEL,
    QUERIES,
    REPORT,
    RUNS,
    Pipeline,
    run_file,
)
from tamis.fitting.sieve_layout import SIEVE_LAYOUT
from tamis.fitting.workspace import request_digest
from tamis.manifest import write_manifest
from tamis.models.licences import licence_of
from tamis.models.model_card import Quality, QualityTable, write_model_card
from tamis.registry import NO_OPENERS, absolute, moved_spec, open_source
from tamis.scorers.model_manifest import documents_of, read_model_manifest, write_model_manifest
from tamis.search import Index
from tamis.search.hits import matching_passage
from tamis.types import Document, Qrels, Queries, Query, Run, Source, Spec, Stage

MEASURED_QUERIES = 100
"""How many queries the scale of scores is measured on at most."""
TIMED_QUERIES = 20
"""How many queries the cost of one is measured on."""
WORDS_OF_TEXT = 8
"""How many words of an untitled document stand in for a query."""


def write_sieve(fit: FitContext, selected: Selected, result: FitResult, *, force: bool) -> None:
    """Write the sieve of a fit."""
    system = selected.system
    source = fit.retrieved.of(system.retriever).source
    stage = system.stage(selected.model, fit)
    retriever = open_source(source, threads=fit.request.threads, openers=system.retriever.openers)
    opened = None
    if stage is not None:
        opened = fit.open_stage(stage, system.reranker.openers if system.reranker else NO_OPENERS)
    with new_folder(fit.request.out, force=force) as unfinished:
        shutil.copytree(fit.index.path, unfinished / INDEX, copy_function=_link)
        places = {
            fit.index.path: INDEX,
            **_copy_models(fit, selected.model, [source, stage], unfinished),
        }
        pipeline = Pipeline(
            system.retriever.key,
            moved_spec(source, places),
            None if stage is None else moved_spec(stage, places),
            fit.request.depth,
            fit.passages,
            fit.retrieved.candidates.kind.has_comparable_scores,
            measure_score_scale(fit, retriever, opened),
        )
        _write_card(fit, result, unfinished / MODEL)
        (unfinished / RUNS).mkdir()
        for name, run in selected.test_runs.items():
            write_run(run, run_file(unfinished / RUNS, name))
        _write_unjudged(fit, unfinished / QUERIES)
        if result.evaluation is not None:
            values = json.dumps(evaluation_to_json(result.evaluation))
            (unfinished / EVALUATION).write_text(values, "utf-8")
        digest = request_digest(fit.request.to_json())
        facts = {"pipeline": asdict(pipeline), "request": digest}
        write_manifest(unfinished, KIND, SIEVE_LAYOUT, **result.to_json(), **facts)
        if not (system.retriever.openers or (system.reranker and system.reranker.openers)):
            texts = list(_sample_queries(fit).texts or ())[:TIMED_QUERIES]
            cost = measure_query_cost(unfinished, texts, fit.request.threads)
            result = replace(result, cost=cost)
        write_manifest(unfinished, KIND, SIEVE_LAYOUT, **result.to_json(), **facts)
        ranked = rank_for_report(fit, selected, retriever, opened)
        write_report(unfinished / REPORT, result, ranked, fit.index.document)
        fit.work.record_sieve(unfinished)


def measure_score_scale(fit: FitContext, retriever: Source, stage: Stage | None) -> ScoreScale:
    """The constants of the scale of scores, measured on some queries."""
    ranked = _search(fit, retriever, stage, _sample_queries(fit))
    return score_scale(
        retriever, stage, ranked, fit.retrieved.candidates.kind.has_comparable_scores
    )


def _search(fit: FitContext, retriever: Source, stage: Stage | None, queries: Queries) -> Run:
    run = retriever.search(queries, fit.request.depth)
    return run if stage is None else stage(run)


def rank_for_report(
    fit: FitContext, selected: Selected, retriever: Source, stage: Stage | None
) -> RankedQueries:
    """The rankings that the report shows: of test queries, and of the log side by side."""
    splits, system = fit.splits, selected.system
    failures = comparison = None
    if len(splits.test):
        failures = _failures(fit, retriever, splits.test, selected.test_runs[system.name])
    elif selected.provisional is not None:
        candidates = retriever.search(splits.queries_of(splits.train), fit.request.depth)
        failures = _failures(fit, retriever, splits.train, candidates)
        failures = replace(failures, value=selected.provisional.mean)
    log = sample_of_log(_unjudged(fit))
    bm25 = bm25_system(selected.systems)
    if len(log) and system is not bm25:
        spec = fit.retrieved.of(bm25.retriever).source
        lexical = open_source(spec, threads=fit.request.threads, openers=bm25.retriever.openers)
        runs = lexical.search(log, fit.request.depth), _search(fit, retriever, stage, log)
        comparison = compare_on_log(*runs, fit.index.document, partial(_best_passage, fit.index))
    return RankedQueries(
        splits.queries, splits.test, selected.test_runs, fit.passages, failures, comparison
    )


def _failures(fit: FitContext, retriever: Source, qrels: Qrels, run: Run) -> Failures:
    """Where the selected system fails on judged queries, looked for further down than it ranks."""
    queries, depth = fit.splits.queries, fit.request.depth
    lacking = queries_with_missing(qrels, run, queries)
    deeper = retriever.search(lacking, max(DEEPER, depth)) if len(lacking) else None
    texts = {query.id: query.text for query in lacking}

    def explain(query: str, doc_id: str) -> str:
        document = fit.index.document(doc_id)
        return no_common_word(texts[query], document, fit.index.analyzer.terms)

    measure = fit.request.measure
    return find_failures(qrels, run, measure, depth=depth, deeper=deeper, explain=explain)


def _best_passage(index: Index, document: Document, query: str) -> str:
    passage = matching_passage(document, index.analyzer.terms(query), index.analyzer)
    return document.text if passage is None else document.text[passage.start : passage.end]


def _sample_queries(fit: FitContext) -> Queries:
    """Some of the queries; without any the titles of documents, or how their texts begin."""
    queries = fit.splits.queries
    if len(queries):
        return queries.select(_spread(len(queries)))
    ids = fit.index.snapshot.ids
    live = [ids[number] for number in _spread(len(ids)).tolist() if ids[number] in fit.index]
    texts = []
    for document in map(fit.index.document, live):
        texts.append(document.title or " ".join(document.text.split()[:WORDS_OF_TEXT]))
    return Queries.of([Query(str(number), text) for number, text in enumerate(texts)])


def _spread(count: int) -> NDArray[np.int64]:
    """So many numbers at most of 0 to `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, MEASURED_QUERIES)).astype(np.int64))


def _copy_models(
    fit: FitContext, model: Path | None, specs: list[Spec | None], unfinished: Path
) -> dict[Path, str]:
    """Copy the models that the pipeline names; where each lies in the sieve."""
    model_paths = {path for spec in specs for path in spec_paths(spec)}
    places: dict[Path, str] = {}
    if model is not None and absolute(model) in model_paths:
        _copy_model(model, unfinished / MODEL)
        places[model] = MODEL
    base = fit.base.folder if fit.base else None
    if base is None or base == model or absolute(base) not in model_paths:
        return places
    documents = documents_of(model) if model else None
    if model and documents != model and documents and documents_of(base) == base:
        return {**places, base: f"{MODEL}/{documents.name}"}
    _copy_model(base, unfinished / ENCODER)
    return {**places, base: ENCODER}


def _write_card(fit: FitContext, result: FitResult, model: Path) -> None:
    """Write the card of a model that the fit trained, with what its test said."""
    if not model.is_dir() or "recipe" not in read_model_manifest(model).facts:
        return
    licence = licence_of(fit.base.folder) if fit.base else None
    name = f"{fit.request.out.name}/{MODEL}"
    write_model_card(model, name=name, licence=licence, tested=list(quality_rows(result)))


def quality_rows(result: FitResult) -> Iterator[QualityTable]:
    """What the test of a fit, or few judged queries, said of the selected system and of BM25."""
    if (few := result.provisional) is not None and result.evaluation is None:
        rows = (
            Quality(few.system, few.measure, few.mean),
            Quality(few.baseline, few.measure, few.baseline_mean),
        )
        yield QualityTable("judged queries, provisionally", few.queries, rows)
    if result.evaluation is None:
        return
    evaluation, tested = result.evaluation, []
    against = {(row.run, str(row.measure)): row for row in result.against_baseline}
    for system in dict.fromkeys((result.selected, result.base_system, result.baseline)):
        if system is None or system not in evaluation.runs:
            continue
        for measure in evaluation.measures:
            values = evaluation.values(system, measure)
            interval = t_interval(values) if len(values) > 1 else None
            low, high = (interval.low, interval.high) if interval else (None, None)
            row = against.get((system, str(measure)))
            note = "" if row is None else f"{row.difference:+.4f}{_bounds_in_words(row.interval)}"
            tested.append(Quality(system, str(measure), float(values.mean()), low, high, note))
    yield QualityTable(
        f"test queries of {result.collection}", len(evaluation.queries), tuple(tested)
    )


def _bounds_in_words(interval: Interval | None) -> str:
    return "" if interval is None else f" ({interval.low:+.4f} to {interval.high:+.4f})"


def _copy_model(folder: Path, target: Path) -> None:
    """Copy a model, and let its manifests know the ONNX files that the fit wrote."""
    shutil.copytree(folder, target)
    for part in {target, documents_of(target)}:
        write_model_manifest(part, read_model_manifest(part))


def spec_paths(value: Any, key: str = "") -> Iterator[Path]:
    """Every path that a spec names.

    >>> list(spec_paths({"of": [{"path": "/a"}], "k": 3}))
    [PosixPath('/a')]
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from spec_paths(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from spec_paths(inner)
    elif key == "path" and isinstance(value, str):
        yield Path(value)


def _link(source: str, target: str) -> None:
    """The same file under a second name where the disk can, since its first will be removed."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _write_unjudged(fit: FitContext, path: Path) -> None:
    """The queries that nobody has judged, for `tamis judge`."""
    unjudged = _unjudged(fit)
    if len(unjudged):
        lines = [json.dumps({"_id": query.id, "text": query.text}) for query in unjudged]
        path.write_text("\n".join(lines) + "\n", "utf-8")


def _unjudged(fit: FitContext) -> Queries:
    splits = fit.splits
    return splits.queries.select(np.flatnonzero(splits.queries.ids.positions_in(splits.judged) < 0))
