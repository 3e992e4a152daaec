"""A cross-encoder on BM25 pseudo-labels, and the same fine-tuned on judgements.

Both are in this file because the second starts from the first and plans it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from tamis.fitting.candidate_models import (
    NEGATIVES_DEPTH,
    judged_examples,
    log_run,
    train_model,
)
from tamis.fitting.context import FitContext
from tamis.fitting.folds import Fold
from tamis.fitting.plan import (
    MAX_TRAINING_TEXTS,
    TRAINING_COST,
    Budget,
    DataSizes,
    Step,
    TrainingCost,
)
from tamis.fitting.system import Reranker
from tamis.labels.examples import Examples
from tamis.labels.pseudo import pseudo

MIN_LOG_QUERIES = 80
"""How many queries there are at least for pseudo-labels."""
MIN_TEXTS = MAX_TRAINING_TEXTS
"""Fewer do not teach what a pair is (docs/explanation/training.md)."""
RECIPE = "monobert-pairwise-small"


def scoring_seconds(budget: Budget) -> float:
    """Seconds in which a cross-encoder scores all candidates."""
    per_query = budget.data.pairs_per_query * budget.pair_seconds
    return (budget.selection_queries + budget.test_queries) * per_query


class PseudoLabelled(Reranker):
    """Learns that BM25's first document is right, and others of its list are not."""

    key, name = "pseudo_labelled", "pseudo-labelled"
    description = "train a cross-encoder on BM25 pseudo-labels"
    trains_on_judgements: ClassVar[bool] = False
    trainings = (key,)

    def is_possible(self, data: DataSizes) -> bool:
        """See `SystemKind.is_possible`."""
        return data.log >= MIN_LOG_QUERIES

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`; where there are folds, `CrossEncoderKind` plans it."""
        data = budget.data
        if budget.folds or not budget.has_base or not data.judged or not self.is_possible(data):
            return
        text = TRAINING_COST * budget.pair_seconds
        cost = TrainingCost(text, scoring_seconds(budget), MIN_TEXTS)
        budget.add_training(self.key, self.name, self.description, cost)

    def train_fold(self, fold: Fold, fit: FitContext) -> Path:
        """See `Reranker.train_fold`: one model serves all folds."""
        assert fit.base is not None
        step = CrossEncoderKind.key if fit.plan.has(CrossEncoderKind.key) else self.key
        labels = partial(pseudo_examples, fit)
        return train_model(fit, self.key, labels, fit.base.folder, RECIPE, step)


class CrossEncoderKind(Reranker):
    """Goes on with what pseudo-labels gave, on judgements."""

    key, name = "cross_encoder", "cross-encoder"
    description = "train a cross-encoder on BM25 pseudo-labels, then on judgements"
    needs_folds: ClassVar[bool] = True
    trainings = (PseudoLabelled.key, key)

    def is_possible(self, data: DataSizes) -> bool:
        """See `SystemKind.is_possible`."""
        return data.log >= MIN_LOG_QUERIES

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`."""
        if not budget.folds or not budget.has_base or not self.is_possible(budget.data):
            return
        text = TRAINING_COST * budget.pair_seconds * (2 + budget.folds)
        scoring = scoring_seconds(budget)
        cost = TrainingCost(text, scoring, MIN_TEXTS)
        if budget.add_training(self.key, self.name, self.description, cost):
            before = PseudoLabelled()
            budget.add(Step(before.key, before.name, "the same before judgements", scoring))

    def train_fold(self, fold: Fold, fit: FitContext) -> Path:
        """See `Reranker.train_fold`."""
        first = PseudoLabelled().train_fold(fold, fit)
        labels = partial(judged_examples, fold, fit)
        return train_model(fit, self.key, labels, first, RECIPE, self.key, fold)


def pseudo_examples(fit: FitContext) -> Examples:
    """The first document of every query against others of its list."""
    run, seed = log_run(fit), fit.request.seed
    return pseudo(run, seed=seed, negatives_per_query=None, depth=NEGATIVES_DEPTH)
