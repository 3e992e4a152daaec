"""What each feature of a boosted ranker adds to the score of a candidate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.errors import require
from tamis.explain.trace import Step, row_of
from tamis.rankers.features import Features
from tamis.rankers.lambdamart import LambdaMART
from tamis.types.explanation import FeatureContribution


def feature_contributions(steps: Sequence[Step], doc_id: str) -> tuple[FeatureContribution, ...]:
    """The contributions to the score of the last LambdaMART of a pipeline, the largest first and
    the bias last; none where there is no such ranker, or where it did not see the document.

    They add up to its score. The numbers of an embedding are added to one contribution.
    """
    for step in reversed(steps):
        if isinstance(step.of, LambdaMART) and step.before is not None:
            row = row_of(step.before, doc_id)
            if row is None:
                return ()
            features = step.of.features.of(step.before)
            values = features.rows(np.array([row]))
            matrix = require("xgboost").DMatrix(values)
            contributions = step.of.booster.predict(matrix, pred_contribs=True)[0]
            return _named(features, step.of.features.columns, values[0], contributions)
    return ()


def _named(
    features: Features,
    columns: tuple[str, ...],
    values: NDArray[np.float32],
    contributions: NDArray[np.float32],
) -> tuple[FeatureContribution, ...]:
    size = features.dimension
    named = [
        FeatureContribution(name, float(values[2 * size + n]), float(contributions[2 * size + n]))
        for n, name in enumerate(columns)
    ]
    if size:
        parts = {"query embedding": contributions[:size]}
        parts["passage embedding"] = contributions[size : 2 * size]
        named += [
            FeatureContribution(name, None, float(part.sum(dtype=np.float64)))
            for name, part in parts.items()
        ]
    named.sort(key=lambda feature: -abs(feature.contribution))
    return (*named, FeatureContribution("bias", None, float(contributions[-1])))
