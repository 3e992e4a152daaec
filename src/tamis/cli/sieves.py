"""Sieves where a verb takes one in place of an index or a model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.cli.common import say

if TYPE_CHECKING:
    from tamis.fitting.sieve import RerankSettings, Sieve
    from tamis.types import Run


def is_sieve(folder: str | Path) -> bool:
    """Whether a folder is a sieve."""
    return _kind_of(folder) == "sieve"


def is_searchable(folder: str | Path) -> bool:
    """Whether a folder is a sieve or an index."""
    return _kind_of(folder) in ("sieve", "index")


def _kind_of(folder: str | Path) -> str | None:
    """The kind of a folder that tamis wrote; None of anything else."""
    from tamis.manifest import read_manifest

    path = Path(folder)
    note = read_manifest(path)
    return None if note is None else str(note["kind"])


def opened_sieve(folder: str | Path, threads: int | None = None) -> Sieve:
    """The sieve in a folder."""
    from tamis.fitting.sieve import load_sieve

    return load_sieve(folder, threads=threads)


def settings_of_sieve(folder: str, run: Run, weight: float | None) -> RerankSettings:
    """How the model of a sieve re-ranks a run; what of it was not tested is said."""
    from tamis.fitting.sieve import rerank_settings

    settings = rerank_settings(opened_sieve(folder), run, weight)
    for note in settings.notes:
        say(f"note: {note}")
    return settings


def say_what_was_tested(sieve: Sieve) -> None:
    """Say so where what a sieve does here was not tested."""
    if not sieve.verified:
        say(f"note: not verified: {sieve.manifest['reason']}")


def show_sieve_hits(sieve: Sieve, words: str, top: int, json: bool) -> None:
    """Print what a sieve finds, with probabilities where it was calibrated."""
    from tamis.cli.hits import show_hits

    calibration = sieve.calibration
    say_what_was_tested(sieve)
    threshold = None if calibration is None else calibration.threshold
    show_hits(
        sieve.index, sieve.source, words, top, json,
        probabilities=sieve.probabilities, threshold=threshold,
    )  # fmt: skip


def described(folder: Path) -> dict[str, Any]:
    """What `tamis info` shows of a sieve."""
    result = opened_sieve(folder).result
    facts: dict[str, Any] = {
        "kind": "sieve",
        "verified": result.verified,
        "reason": result.reason,
        "collection": result.collection,
        "base_model": result.base_model,
        "measure": result.measure,
        "selected": result.selected,
        "pipeline_in_words": result.pipeline_in_words,
        "test": result.test_means,
        "threshold_test": asdict(result.threshold_test) if result.threshold_test else None,
        "labels": result.labels,
        "truncation": asdict(result.truncation) if result.truncation else None,
        "versions": result.versions,
        "seed": result.seed,
        "command": result.command,
        **result.data,
    }
    (facts["threshold_test"] or {}).pop("reliability", None)
    return {name: value for name, value in facts.items() if value not in (None, {}, "")}
