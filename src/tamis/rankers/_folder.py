"""The folder of a ranker: its weights, and a manifest with settings, features and digests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tamis import manifest
from tamis.backends.weight_digests import sha256_of
from tamis.durable import new_folder
from tamis.errors import DamagedError
from tamis.rankers.features import FeatureSource, Floats
from tamis.registry import absolute, python_spec
from tamis.types import Run, Spec
from tamis.types.columns import PREVIOUS_SCORE
from tamis.types.pipeline import SPEC_VERSION

LAYOUT = 1
DIGESTS = "weights_sha256"


def save_ranker(
    folder: Path | str, kind: str, force: bool, write: Callable[[Path], None], **facts: Any
) -> Path:
    """Write a ranker's folder, whole or not at all; `write` puts its files there."""
    path = Path(folder)
    with new_folder(path, force=force) as unfinished:
        write(unfinished)
        files = sorted(file for file in unfinished.rglob("*") if file.is_file())
        digests = {file.relative_to(unfinished).as_posix(): sha256_of(file) for file in files}
        manifest.write_manifest(unfinished, kind, LAYOUT, **facts, **{DIGESTS: digests})
    return absolute(path)


def read_ranker(folder: Path | str, kind: str) -> manifest.Manifest:
    """The manifest of a ranker's folder, whose files are those that were written."""
    path = Path(folder)
    facts = manifest.expect(path, kind, LAYOUT)
    digests = facts.get(DIGESTS)
    if not isinstance(digests, dict) or not digests:
        raise DamagedError(f"{path / manifest.NAME} records no weights", hint="train it again")
    for name, expected in digests.items():
        file = path / name
        if not file.is_file() or sha256_of(file) != expected:
            state = "is not what was written" if file.is_file() else "is missing"
            raise DamagedError(f"{file} {state}", hint="copy the ranker again, or train it again")
    return facts


def ranker_spec(
    stage: object, kind: str, path: Path | None, features: FeatureSource | None, **more: Any
) -> Spec:
    """The spec of a ranker; of kind `python` where it is not saved."""
    if path is None:
        return python_spec("stage", stage)
    described = {} if features is None else {"features": features.spec()}
    return {
        "stage": kind,
        "version": SPEC_VERSION,
        "path": str(absolute(path)),
        **described,
        **more,
    }


def rescored(run: Run, score: Floats, **columns: Any) -> Run:
    """The run by new scores; the score before is the column `previous_score`."""
    extra = {**run.extra, PREVIOUS_SCORE: run.score, **columns}
    return Run(run.queries, run.docs, run.offsets, run.doc, np.asarray(score, np.float32), extra)
