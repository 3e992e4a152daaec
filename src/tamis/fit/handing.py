"""The end of a fit: the folder that is handed over, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tamis.collection.runs import write_run
from tamis.durable import new_folder
from tamis.fit.outcome import Outcome
from tamis.fit.page import write_page
from tamis.fit.sieve import ENCODER, HYBRID, INDEX, KIND, LAYOUT, MODEL, QUERIES, REPORT
from tamis.fit.work import request_digest
from tamis.manifest import write_manifest
from tamis.scorers.note import documents_of
from tamis.types import Queries

if TYPE_CHECKING:
    from tamis.fit.job import Fitting


def hand_over(fitting: Fitting, outcome: Outcome, *, force: bool) -> None:
    """Write the sieve."""
    with new_folder(fitting.request.out, force=force) as part:
        shutil.copytree(fitting.work.path("index"), part / INDEX, copy_function=_linked)
        if outcome.chosen.model is not None:
            shutil.copytree(outcome.chosen.model, part / MODEL)
        start, model = fitting.start, outcome.chosen.model
        if outcome.pipeline.first == HYBRID and start and not _brings(model, start):
            shutil.copytree(start, part / ENCODER)
        (part / "runs").mkdir()
        for name, run in outcome.chosen.test_runs.items():
            write_run(run, part / "runs" / f"{name}.parquet")
        _write_queries(fitting, part / QUERIES)
        write_page(part / REPORT, outcome, fitting.index.document)
        digest = request_digest(fitting.request.record())
        write_manifest(part, KIND, LAYOUT, **outcome.record(), request=digest)
        fitting.work.record_sieve(part)


def _brings(model: Path | None, start: Path) -> bool:
    """Whether the start is in a model's folder: it is the model, or what encodes its documents."""
    if model is None or documents_of(start) != start:
        return False
    return model == start or documents_of(model) != model


def _linked(source: str, target: str) -> None:
    """The same file under a second name where the disk can, since its first will be removed."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _write_queries(fitting: Fitting, path: Path) -> None:
    """The queries that nobody has judged, for `tamis judge`."""
    parts = fitting.parts
    left: Queries = parts.queries.select(
        np.flatnonzero(parts.queries.ids.positions_in(parts.judged) < 0)
    )
    if len(left):
        lines = [json.dumps({"_id": each.id, "text": each.text}) for each in left]
        path.write_text("\n".join(lines) + "\n", "utf-8")
