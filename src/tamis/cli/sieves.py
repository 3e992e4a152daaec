"""Sieves where a verb takes one in place of an index or a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.cli.common import say

if TYPE_CHECKING:
    from tamis.fit.sieve import Pipeline, Sieve
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
    from tamis.fit.sieve import load_sieve

    return load_sieve(folder, threads=threads)


def stage_of_sieve(folder: str, interpolate: float | None) -> tuple[Pipeline, str]:
    """How a sieve re-ranks, unless told how much its model counts, and the folder of that."""
    from tamis.errors import InputError
    from tamis.fit.options import PREFERRED

    sieve = opened_sieve(folder)
    if not sieve.pipeline.model:
        raise InputError(
            f"{folder} ranks by {sieve.note['chosen']} alone: it has no model",
            hint="there is nothing to re-rank with",
        )
    if not sieve.verified:
        say(f"note: verified: no ({sieve.note['why']})")
    how = sieve.pipeline
    if interpolate is not None:
        how = replace(how, interpolate=interpolate)
    elif how.interpolate == 0:
        how = replace(how, interpolate=PREFERRED)
        say(
            f"note: {folder} puts what it finds itself in order by words and vectors; here its "
            f"model re-ranks your run and counts {PREFERRED:g}, which was not tested"
        )
    return how, str(sieve.path / "model")


def fused_beside(how: Pipeline, run: Run) -> str | None:
    """The column of a run that the model of a sieve is fused with, if not the run's score."""
    from tamis.fit.sieve import HYBRID
    from tamis.pipeline.hybrid import WORDS

    if how.first != HYBRID or not how.interpolate:
        return None
    if WORDS in run.extra:
        return how.lexical_column
    own = "BM25" if how.lexical_column else "BM25 and vectors"
    say(f"note: fused with the scores of your run; the sieve itself fuses with those of {own}")
    return None


def say_what_was_tested(sieve: Sieve) -> None:
    """Say so where what a sieve does here was not tested."""
    if not sieve.verified:
        say(f"note: verified: no ({sieve.note['why']})")
    elif not sieve.is_own:
        say("note: found by BM25 in place of your own first stage, which was tested")


def show_sieve_hits(sieve: Sieve, words: str, top: int, json: bool) -> None:
    """Print what a sieve finds, with probabilities where it was calibrated."""
    from tamis.cli.hits import show_hits

    calibration = sieve.calibration
    say_what_was_tested(sieve)
    threshold = None if calibration is None else calibration.threshold
    show_hits(
        sieve.index, sieve.source, words, top, json,
        chances=sieve.probabilities, threshold=threshold,
    )  # fmt: skip


def described(folder: Path) -> dict[str, Any]:
    """A sieve in words and numbers."""
    note = opened_sieve(folder).note
    kept = ("verified", "why", "collection", "base", "measure", "chosen", "pipeline", "test")
    more = ("threshold on test queries", "labels", "cut", "versions", "seed", "command")
    found = {name: note[name] for name in (*kept, *more) if note.get(name) not in (None, {}, "")}
    found.get("threshold on test queries", {}).pop("reliability", None)
    counts = ("documents", "documents without a term", "files left out")
    there = {name: note["look"][name] for name in counts if name in note.get("look", {})}
    return {"kind": "sieve", **found, **there}
