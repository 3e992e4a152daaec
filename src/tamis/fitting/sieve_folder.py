"""Writes the folder of a sieve, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tamis.collection.runs import write_run
from tamis.durable import new_folder
from tamis.fitting.context import FitContext
from tamis.fitting.report import RankedQueries, write_report
from tamis.fitting.request import SIEVE_LAYOUT
from tamis.fitting.result import FitResult, evaluation_to_json
from tamis.fitting.selection import Selected
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
from tamis.fitting.workspace import request_digest
from tamis.manifest import write_manifest
from tamis.registry import absolute, moved_spec
from tamis.scorers.model_manifest import documents_of
from tamis.types import Queries, Spec


def write_sieve(fit: FitContext, selected: Selected, result: FitResult, *, force: bool) -> None:
    """Write the sieve of a fit."""
    system, test = selected.system, fit.splits.test
    source = fit.retrieved.of(system.retriever).source
    stage = system.stage(selected.model, fit)
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
        )
        (unfinished / RUNS).mkdir()
        for name, run in selected.test_runs.items():
            write_run(run, run_file(unfinished / RUNS, name))
        _write_unjudged(fit, unfinished / QUERIES)
        if result.evaluation is not None:
            values = json.dumps(evaluation_to_json(result.evaluation))
            (unfinished / EVALUATION).write_text(values, "utf-8")
        tested = RankedQueries(fit.splits.queries, test, selected.test_runs, fit.passages)
        write_report(unfinished / REPORT, result, tested, fit.index.document)
        digest = request_digest(fit.request.to_json())
        facts = {**result.to_json(), "pipeline": asdict(pipeline), "request": digest}
        write_manifest(unfinished, KIND, SIEVE_LAYOUT, **facts)
        fit.work.record_sieve(unfinished)


def _copy_models(
    fit: FitContext, model: Path | None, specs: list[Spec | None], unfinished: Path
) -> dict[Path, str]:
    """Copy the models that the pipeline names; where each lies in the sieve."""
    model_paths = {path for spec in specs for path in spec_paths(spec)}
    places: dict[Path, str] = {}
    if model is not None and absolute(model) in model_paths:
        shutil.copytree(model, unfinished / MODEL)
        places[model] = MODEL
    base = fit.base.folder if fit.base else None
    if base is None or base == model or absolute(base) not in model_paths:
        return places
    documents = documents_of(model) if model else None
    if model and documents != model and documents and documents_of(base) == base:
        return {**places, base: f"{MODEL}/{documents.name}"}
    shutil.copytree(base, unfinished / ENCODER)
    return {**places, base: ENCODER}


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
    splits = fit.splits
    unjudged: Queries = splits.queries.select(
        np.flatnonzero(splits.queries.ids.positions_in(splits.judged) < 0)
    )
    if len(unjudged):
        lines = [json.dumps({"_id": query.id, "text": query.text}) for query in unjudged]
        path.write_text("\n".join(lines) + "\n", "utf-8")
