"""The base model as it is, before any training."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.plan import BASE_SCORING_SHARE, MIN_QUERIES, Budget, DataSizes, Step
from tamis.fitting.system import Reranker


class BaseModelKind(Reranker):
    """Scores candidates with the base model; how many queries it can score sets how many systems
    are compared and tested on.
    """

    key, name = "base_model", "base model"
    description = "score the candidates with the base model"
    has_embeddings: ClassVar[bool] = True
    is_default: ClassVar[bool] = True

    def is_possible(self, data: DataSizes) -> bool:
        """See `SystemKind.is_possible`."""
        return bool(data.base_kind)

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`."""
        data = budget.data
        if not self.is_possible(data):
            return
        encoded = budget.has_embeddings or data.encoded
        per_query = data.query_seconds if encoded else budget.base_seconds
        share = BASE_SCORING_SHARE if budget.folds else 1.0
        affordable = max(0, int(share * budget.left / max(per_query, 1e-9)))
        queries = max(1, budget.compared), data.test
        test = min(data.test, affordable * queries[1] // sum(queries))
        selection = min(budget.compared, max(MIN_QUERIES, affordable - test))
        least_test = min(data.test, MIN_QUERIES)
        if data.test and test < least_test:
            seconds = (selection + least_test) * per_query
            budget.steps.append(Step(self.key, self.name, self.description, seconds, planned=False))
            return
        seconds = (selection + test) * per_query
        budget.require(Step(self.key, self.name, self.description, seconds, size=test))
        budget.selection_queries, budget.test_queries, budget.has_base = selection, test, True

    def train_fold(self, fold: Fold, fit: FitContext) -> Path:
        """See `Reranker.train_fold`: there is nothing to train."""
        assert fit.base is not None
        return fit.base.folder
