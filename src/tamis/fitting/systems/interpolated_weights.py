"""Models between the base and the fine-tuned one: their weights, interpolated."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tamis.fitting.candidate_models import interpolate_weights, model_folder
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.plan import Budget, Plan
from tamis.fitting.system import Reranker
from tamis.fitting.systems.fine_tuned import INTERPOLATION_STEP, FineTuned

ALWAYS_PLANNED_SHARE = 0.5
"""This one costs no more than scoring, which is planned with fine-tuning; others if time allows."""


class InterpolatedWeights(Reranker):
    """So much of the way from the base model's weights to the fine-tuned ones."""

    has_embeddings: ClassVar[bool] = True
    trainings = (FineTuned.key,)
    is_tested_only_if_selected: ClassVar[bool] = True

    def __init__(self, share: float) -> None:
        self.share = share
        self.key = f"interpolated_weights_{share * 100:.0f}"
        self.name = f"interpolated weights {share:.0%}"
        self.description = f"weights {share:.0%} of the way from the base model to the fine-tuned"

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`: fine-tuning plans it."""

    def is_planned(self, plan: Plan) -> bool:
        """See `SystemKind.is_planned`."""
        alone = self.share == ALWAYS_PLANNED_SHARE
        return plan.has(FineTuned.key) and (alone or plan.has(INTERPOLATION_STEP))

    def train_fold(self, fold: Fold, fit: FitContext) -> Path:
        """See `Reranker.train_fold`."""
        assert fit.base is not None
        tuned = FineTuned().train_fold(fold, fit)
        out = model_folder(fit, self.key, fold)
        return interpolate_weights(fit.base.folder, tuned, self.share, out)
