"""The base model, fine-tuned on judgements; the learning curve is measured with it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from tamis.fitting.candidate_models import (
    FINE_TUNING,
    judged_examples,
    train_model,
)
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.learning_curve import plan_learning_curve
from tamis.fitting.plan import (
    MAX_TRAINING_TEXTS,
    QUERY_TRAINING_COST,
    TRAINING_COST,
    Budget,
    DataSizes,
    Step,
    TrainingCost,
)
from tamis.fitting.system import Reranker
from tamis.training.recipes import RECIPES

MIN_TEXTS, MIN_QUERY_TEXTS = 320, 80
"""How many texts are trained on at least, and how many queries where only these are encoded."""
QUERY_ENCODER = RECIPES["query-encoder"]
INTERPOLATION_STEP = "interpolated_weights"


class FineTuned(Reranker):
    """Goes on training the base by the recipe for its kind."""

    key, name = "fine_tuned", "fine-tuned"
    description = "fine-tune the base model on judgements"
    needs_folds: ClassVar[bool] = True
    has_embeddings: ClassVar[bool] = True
    has_learning_curve: ClassVar[bool] = True
    trainings = (key,)

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`."""
        data = budget.data
        if not budget.folds or not budget.has_base:
            return
        per_query = data.query_seconds if data.trains_queries_only else budget.base_seconds
        # interpolated weights are scored on selection queries, not on test queries
        scored = (2 * budget.selection_queries + budget.test_queries) * per_query
        trainings = budget.folds + 1
        text = self._text_seconds(budget, trainings)
        num_texts = wanted_texts(data)
        least = MIN_QUERY_TEXTS if data.trains_queries_only else MIN_TEXTS
        what = f"{self.description}{': how it encodes queries' * data.trains_queries_only}"
        cost = TrainingCost(text, scored, least, num_texts)
        step = budget.add_training(self.key, self.name, what, cost)
        budget.steps[-1] = replace(budget.steps[-1], wanted_size=num_texts)
        if step is None:
            return
        more = 2 * budget.selection_queries * per_query
        line = "more points between the base model and the fine-tuned one"
        budget.add(Step(INTERPOLATION_STEP, "interpolated weights", line, more))
        scoring = budget.selection_queries * per_query
        plan_learning_curve(budget, step.size, scoring, text / trainings, wanted_texts)

    def _text_seconds(self, budget: Budget, trainings: int) -> float:
        data = budget.data
        if not data.trains_queries_only:
            return TRAINING_COST * budget.pace * trainings
        seconds = QUERY_TRAINING_COST * data.query_seconds * trainings
        if budget.has_embeddings:
            return seconds
        # documents of queries that nothing was compared on have to be encoded, once
        new = max(0, data.judged - budget.selection_queries) / max(1, data.judged)
        listed = min(QUERY_ENCODER.list_size or 0, data.depth)
        return seconds + new * listed * data.passages * budget.pace

    def train_fold(self, fold: Fold, fit: FitContext) -> Path:
        """See `Reranker.train_fold`."""
        assert fit.base is not None
        return train_model(
            fit,
            self.key,
            partial(judged_examples, fold, fit),
            fit.base.folder,
            FINE_TUNING[fit.base.kind],
            self.key,
            fold,
        )


def wanted_texts(data: DataSizes) -> int:
    """How many texts fine-tuning takes if there is time: the recipe's own number."""
    if not data.trains_queries_only:
        return MAX_TRAINING_TEXTS
    queries = max(1, data.judged)
    in_epoch = -(-queries // QUERY_ENCODER.effective_batch_size)
    return QUERY_ENCODER.total_steps(in_epoch, queries) * QUERY_ENCODER.effective_batch_size
