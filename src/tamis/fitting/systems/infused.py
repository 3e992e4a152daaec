"""A cross-encoder infused with alignment scores of word vectors, then trained on judgements."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from tamis.fitting.candidate_models import (
    judged_examples,
    scored_examples,
    train_model,
)
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.plan import TRAINING_COST, Budget, DataSizes, TrainingCost
from tamis.fitting.system import Reranker
from tamis.fitting.systems.cross_encoder import scoring_seconds
from tamis.labels.weak import weak
from tamis.models.model_lookup import ALIGNMENT

MIN_TEXTS = 3_000
ALIGNED = "aligned"
"""The training on alignment scores, before judgements."""


class Infused(Reranker):
    """Learns alignment scores first."""

    key, name = "infused", "infused"
    description = "train a cross-encoder on alignment scores, then on judgements"
    needs_folds: ClassVar[bool] = True
    trainings = (ALIGNED, key)

    def is_possible(self, data: DataSizes) -> bool:
        """See `SystemKind.is_possible`."""
        return data.word_vectors

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`."""
        if not budget.folds or not budget.has_base or not self.is_possible(budget.data):
            return
        text = TRAINING_COST * budget.pair_seconds * (2 + budget.folds)
        cost = TrainingCost(text, scoring_seconds(budget), MIN_TEXTS)
        budget.add_training(self.key, self.name, self.description, cost)

    def train_fold(self, fold: Fold, fit: FitContext) -> Path:
        """See `Reranker.train_fold`."""
        assert fit.base is not None
        ranker = f"{ALIGNMENT}{fit.request.word_vectors}"
        scores = partial(scored_examples, fit, ranker, weak, self.key)
        aligned = train_model(
            fit, ALIGNED, scores, fit.base.folder, "infuse-scores-small", self.key
        )
        labels = partial(judged_examples, fold, fit)
        return train_model(fit, self.key, labels, aligned, "infuse-gold-small", self.key, fold)
