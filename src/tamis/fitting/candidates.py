"""What the retrievers of a fit find, and whose documents are re-ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from tamis.fitting.context import FitInputs
from tamis.fitting.plan import PACE_SAMPLE, Plan
from tamis.fitting.system import Retriever, SystemKind
from tamis.types import Run, Spec


@dataclass(frozen=True, eq=False)
class RetrieverRuns:
    """What one retriever finds for every set of queries."""

    kind: Retriever
    source: Spec
    train: Run
    test: Run
    unanswerable: tuple[Run, Run]
    """For queries that have no answer: to calibrate on, and to test the threshold on."""


@dataclass(frozen=True, eq=False)
class Retrieved:
    """What every retriever finds; re-rankers score the documents of one of them."""

    retrievers: tuple[RetrieverRuns, ...]
    candidates: RetrieverRuns

    def of(self, kind: Retriever) -> RetrieverRuns:
        """What a retriever found."""
        return next(runs for runs in self.retrievers if runs.kind is kind)


def retrieve(fit: FitInputs, plan: Plan, kinds: Sequence[SystemKind]) -> Retrieved:
    """Search with every planned retriever, for all queries that are selected or tested on."""
    retrievers: dict[str, RetrieverRuns] = {}
    candidates: RetrieverRuns | None = None
    for kind in kinds:
        if not isinstance(kind, Retriever) or not kind.is_planned(plan):
            continue
        source = kind.prepare(fit)
        runs = kind.retrieve(source, fit)
        unanswerable = runs["unanswerable train"], runs["unanswerable test"]
        retrievers[kind.key] = RetrieverRuns(
            kind, source, runs["train"], runs["test"], unanswerable
        )
        if kind.supplies_candidates(fit, retrievers):
            candidates = retrievers[kind.key]
    assert candidates is not None, "BM25 is always planned"
    return Retrieved(tuple(retrievers.values()), candidates)


def sample_texts(fit: FitInputs) -> list[str]:
    """Texts of the collection to measure a pace on."""
    return [document.text for document in islice(fit.index, PACE_SAMPLE)]
