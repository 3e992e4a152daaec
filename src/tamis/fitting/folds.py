"""The folds of a fit: queries to train on, and others to compare what came of it on."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from tamis.errors import InputError
from tamis.fitting.context import FitInputs
from tamis.fitting.plan import HELD_OUT_SHARE, MAX_SELECTION_QUERIES, Plan
from tamis.fitting.query_splits import QuerySplits, sample
from tamis.splits import folds, split
from tamis.types import Ids

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Fold:
    """Queries to train on, and queries held out."""

    key: str
    """Names it in files."""
    train: Ids
    held_out: Ids
    share: float = 1.0
    """The share of its training queries that is used: below 1 for a learning curve."""

    def with_share(self, share: float, seed: int) -> Fold:
        """The same fold with fewer queries to train on."""
        numbers = np.random.default_rng(seed).permutation(len(self.train))
        some = self.train.select(np.sort(numbers[: round(share * len(numbers))]))
        return Fold(f"{self.key} {len(some)} queries", some, self.held_out, share)


def make_folds(splits: QuerySplits, plan: Plan, seed: int, *, trained: bool) -> list[Fold]:
    """The folds in which systems are compared; none where queries are too alike to make any.

    Where nothing is `trained` on judged queries, none has to be held out: one fold has them all.
    """
    judged = splits.train
    if not trained:
        most = MAX_SELECTION_QUERIES if plan.has("hybrid") else plan.selection_queries
        return [Fold("judged", Ids.of([]), sample(judged, most, seed).queries)]
    queries = splits.queries_of(judged)
    try:
        if plan.folds > 1:
            most = -(-plan.selection_queries // plan.folds)
            return [
                Fold(
                    f"fold {number}", train, sample(judged.select(held_out_ids), most, seed).queries
                )
                for number, (train, held_out_ids) in enumerate(
                    folds(queries, plan.folds, seed=seed, answers=judged), 1
                )
            ]
        held_out = min(HELD_OUT_SHARE, plan.selection_queries / len(judged))
        shares = {"train": 1 - held_out, "held out": held_out}
        split_ids = split(queries, shares, seed=seed, answers=judged)
    except InputError as error:
        _log.info("no queries are held out: %s", error)
        return []
    return [Fold("one part", split_ids["train"], split_ids["held out"])]


def all_queries(fit: FitInputs) -> Fold:
    """All judged queries to train on: the fold of the models that are tested and kept."""
    return Fold("all", fit.splits.train.queries, Ids.of([]))
