"""The base model, trained to order candidates as a teacher does; judgements play no part."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from tamis.fitting.candidate_models import (
    FINE_TUNING,
    scored_examples,
    train_model,
)
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.plan import QUERY_TRAINING_COST, TRAINING_COST, Budget, DataSizes, TrainingCost
from tamis.fitting.system import Reranker
from tamis.labels.teacher import teacher

MIN_TEXTS = 1_000
SHARE_OF_TIME = 0.6


class Distilled(Reranker):
    """Learns the order of a teacher."""

    key, name = "distilled", "distilled"
    description = "train the base model on the scores of a teacher"
    needs_folds: ClassVar[bool] = True
    has_embeddings: ClassVar[bool] = True
    trains_on_judgements: ClassVar[bool] = False
    trainings = (key,)

    def is_possible(self, data: DataSizes) -> bool:
        """See `SystemKind.is_possible`."""
        return bool(data.teacher_seconds)

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`."""
        data = budget.data
        if not budget.folds or not budget.has_base or not self.is_possible(data):
            return
        queries_only = data.trains_queries_only
        per_query = data.query_seconds if queries_only else budget.base_seconds
        text = (
            QUERY_TRAINING_COST * data.query_seconds
            if queries_only
            else (TRAINING_COST * budget.pace)
        )
        text += budget.pace if queries_only and not budget.has_embeddings else 0.0
        scoring = (budget.selection_queries + budget.test_queries) * per_query
        cost = TrainingCost(text + data.teacher_seconds, scoring, MIN_TEXTS, share=SHARE_OF_TIME)
        budget.add_training(self.key, self.name, self.description, cost)

    def train_fold(self, fold: Fold, fit: FitContext) -> Path:
        """See `Reranker.train_fold`: one model serves all folds."""
        assert fit.base is not None
        labels = partial(scored_examples, fit, fit.request.teacher or "", teacher, self.key)
        recipe = FINE_TUNING[fit.base.kind]
        return train_model(fit, self.key, labels, fit.base.folder, recipe, self.key)
