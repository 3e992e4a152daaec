"""Sieves where a verb takes one in place of an index or a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.cli.common import say
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.cli.options import DeviceOptions
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


def opened_sieve(
    folder: str | Path, threads: int | None = None, run: DeviceOptions | None = None
) -> Sieve:
    """The sieve in a folder, on a device, in the precision that it was tested in."""
    from tamis.backends.devices import resolve_device
    from tamis.fitting.sieve import load_sieve

    if run is None:
        return load_sieve(folder, threads=threads)
    if run.dtype != "auto":
        raise InputError(
            f"{folder} runs in the precision that it was tested in", hint="leave --dtype out"
        )
    if run.device != "auto":  # to resolve that imports torch, which a model may not need
        resolve_device(run.device)
    return load_sieve(folder, threads=threads, device=run.device)


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


def show_sieve_hits(sieve: Sieve, words: str, top: int, where: Sequence[str], json: bool) -> None:
    """Print what a sieve finds, with probabilities where it was calibrated."""
    from tamis.cli.dense import search_and_report
    from tamis.cli.hits import show_hits
    from tamis.types import Queries, Query

    say_what_was_tested(sieve)
    source = sieve.source.where(*where) if where else sieve.source
    run = search_and_report(source, Queries.of([Query("words", words)]), top)
    is_tested = sieve.manifest.get("threshold_test") is not None
    calibration = sieve.calibration if is_tested else None
    threshold = None if calibration is None else calibration.threshold
    hits = sieve.hits(run)["words"]
    show_hits(hits, words, sieve.index, json, threshold=threshold, where=where)


def model_backends(spec: object) -> set[str]:
    """What runs the models that a spec names.

    >>> model_backends({"of": [{"scorer": "bi-encoder", "backend": "onnx"}], "k1": 0.9})
    {'onnx'}
    """
    if isinstance(spec, list):
        return set().union(*map(model_backends, spec))
    if not isinstance(spec, dict):
        return set()
    own = {str(spec["backend"])} if "backend" in spec else set()
    return own.union(*map(model_backends, spec.values()))


def described(folder: Path) -> dict[str, Any]:
    """What `tamis info` shows of a sieve."""
    from tamis.search.describe import field_facts

    sieve = opened_sieve(folder)
    result = sieve.result
    facts: dict[str, Any] = {
        "kind": "sieve",
        "verified": result.verified,
        "reason": result.reason,
        "provisional": asdict(result.provisional) if result.provisional else None,
        "more_judged_queries_needed": result.more_judged_queries_needed,
        "collection": result.collection,
        "base_model": result.base_model,
        "measure": result.measure,
        "selected": result.selected,
        "pipeline_in_words": result.pipeline_in_words,
        "model_backend": ", ".join(sorted(model_backends(asdict(sieve.pipeline)))),
        "test": result.test_means,
        "threshold_test": asdict(result.threshold_test) if result.threshold_test else None,
        "labels": result.labels,
        "truncation": asdict(result.truncation) if result.truncation else None,
        "versions": result.versions,
        "seed": result.seed,
        "command": result.command,
        **result.data,
        "fields": field_facts(sieve.index),
        "changed_since_fit": sieve.index.num_changes or None,
        "documents_now": sieve.index.num_documents if sieve.index.num_changes else None,
    }
    (facts["threshold_test"] or {}).pop("reliability", None)
    return {name: value for name, value in facts.items() if value not in (None, {}, "")}
