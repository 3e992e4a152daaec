"""BM25, tuned on judged queries where that gains on held-out folds: always there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tamis.errors import InputError
from tamis.fitting.candidates import RetrieverRuns
from tamis.fitting.context import FitInputs
from tamis.fitting.plan import SIEVE_SECONDS, Budget, Step
from tamis.fitting.query_splits import sample
from tamis.fitting.system import Retriever
from tamis.pages.text_format import signed
from tamis.search.defaults import default_source
from tamis.search.tune import tune
from tamis.types import Spec

MIN_QUERIES_TO_TUNE = 50
MAX_QUERIES_TO_TUNE = 1_500
"""Drawn with the seed: two parameters need no more, and every pair is tried on all."""


class BM25(Retriever):
    """The lexical baseline."""

    key, name = "bm25", "BM25"
    description = "index, tune and search by words; write the sieve"
    has_comparable_scores: ClassVar[bool] = True

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`."""
        seconds = 2 + SIEVE_SECONDS + budget.data.num_documents / 5_000
        budget.require(Step(self.key, self.name, self.description, seconds))

    def prepare(self, fit: FitInputs) -> Spec:
        """See `Retriever.prepare`."""
        self._tuning(fit)
        return default_source(fit.index, "bm25", rm3=False).spec()

    def supplies_candidates(self, fit: FitInputs, runs: Mapping[str, RetrieverRuns]) -> bool:
        """See `Retriever.supplies_candidates`."""
        return True

    def note(self, fit: FitInputs) -> str:
        """See `Retriever.note`."""
        tuning = self._tuning(fit)
        values = ", ".join(f"{name} = {value:g}" for name, value in tuning["parameters"].items())
        gain = tuning["gain"]
        gained = "" if gain is None else f" ({signed(gain)} on held-out folds)"
        if tuning["tuned"]:
            return f"tuned on judged queries: {values}{gained}"
        return f"default parameters, not tuned: {tuning['why']}{gained}"

    def _tuning(self, fit: FitInputs) -> dict[str, Any]:
        record: dict[str, Any] = fit.work.record(
            "tuning", lambda: tune_bm25(fit), self.timing("tune")
        )
        return record


def tune_bm25(fit: FitInputs) -> dict[str, Any]:
    """Tune BM25, and keep the parameters in the index where they gain on held-out folds."""
    splits, request = fit.splits, fit.request
    record: dict[str, Any] = {"tuned": False, "why": "", "parameters": {}, "gain": None}
    if len(splits.train) < MIN_QUERIES_TO_TUNE:
        few = f"{len(splits.train)} judged queries, {MIN_QUERIES_TO_TUNE} are needed"
        return record | {"why": few}
    judged = sample(splits.train, MAX_QUERIES_TO_TUNE, request.seed)
    try:
        tuned = tune(
            fit.index, splits.queries_of(judged), judged, request.measure, seed=request.seed
        )
    except InputError as error:  # queries too alike to make folds of
        return record | {"why": str(error)}
    record |= {"parameters": dict(tuned.parameters), "gain": round(tuned.gain, 4)}
    if tuned.gain <= 0:
        why = "it loses on held-out folds" if tuned.gain < 0 else "nothing is better"
        return record | {"why": why}
    fit.index.record_tuned(tuned.record(), "bm25")
    return record | {"tuned": True}
