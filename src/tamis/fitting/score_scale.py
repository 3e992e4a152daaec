"""From the scores of a pipeline to 0 to 1, where no judgements allow probabilities.

A fused ranking puts scores on one scale within each query, so what it goes by depends on the other
candidates. Here the scores that were fused are put together again with constants that a fit
measures once and the sieve keeps: the score of a document is the same whatever else is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis.fitting.answer_features import features
from tamis.fitting.lexical_scores import lexical_part, with_own_lexical_scores
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank
from tamis.search.hits import cosine_score, logistic_score
from tamis.types import Run, Source, Stage
from tamis.types.columns import PASSAGE

Values = NDArray[np.float64]
Function = Literal["identity", "cosine", "logistic"]
MEASURED_DEPTH = 10
"""How many documents of a query the constants are measured on."""
FUNCTIONS: dict[str, Callable[[Values], Values]] = {
    "identity": lambda values: np.clip(values, 0.0, 1.0),
    "cosine": cosine_score,
    "logistic": logistic_score,
}
FUNCTION_OF_SCALE: dict[str, Function] = {
    "probability": "identity",
    "cosine": "cosine",
    "logit": "logistic",
}


@dataclass(frozen=True)
class ScoreScale:
    """`function` of the weighted sum of standardised scores: the model's, then the lexical one.

    Of measured constants .5 is the mean of the top ten documents of the queries measured on.

    >>> scale = ScoreScale("logistic", (0.75, 0.25), (0.5, 12.0), (0.1, 4.0), 0.2, 50)
    >>> scale.of_rows(np.array([[0.5, 12.0], [0.7, 16.0]])).round(3).tolist()
    [0.5, 0.852]
    """

    function: Function
    weights: tuple[float, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]
    lowest: float
    """The model's score of a document that it did not score."""
    queries: int
    """How many queries the constants were measured on; 0 where they are fixed."""

    def scores(self, run: Run, comparable: bool) -> Values:
        """The score of every row of a run of the sieve."""
        rows = features(run, comparable)
        if PASSAGE in run.extra:
            rows[run.extra[PASSAGE] < 0, 0] = self.lowest
        return self.of_rows(rows)

    def of_rows(self, rows: Values) -> Values:
        """The score of rows of features."""
        used = rows[:, : len(self.weights)]
        standard = (used - np.array(self.shift)) / np.array(self.scale)
        return FUNCTIONS[self.function](standard @ np.array(self.weights))


def score_scale(source: Source, stage: Stage | None, run: Run, comparable: bool) -> ScoreScale:
    """The scale of a pipeline, from what it made of some queries."""
    inner = stage.stage if isinstance(stage, Interpolate) else stage
    function = FUNCTION_OF_SCALE.get(inner.scorer.scale) if isinstance(inner, Rerank) else None
    if not isinstance(stage, Interpolate) and function is not None:
        lowest = {"cosine": -1.0, "logistic": -20.0}.get(function, 0.0)
        return ScoreScale(function, (1.0,), (0.0,), (1.0,), lowest, 0)
    run = with_own_lexical_scores(run.top(MEASURED_DEPTH), lexical_part(source))
    rows = features(run, comparable)
    if PASSAGE in run.extra:
        rows = rows[run.extra[PASSAGE] >= 0]
    if not len(rows):
        rows = np.zeros((1, rows.shape[1]))
    deviation = rows.std(axis=0)
    weights = _weights(source, stage)[: rows.shape[1]]
    return ScoreScale(
        "logistic",
        weights if rows.shape[1] > 1 else (1.0,),
        tuple(map(float, rows.mean(axis=0))),
        tuple(map(float, np.where(deviation > 0, deviation, 1.0))),
        float(rows[:, 0].min()),
        len(run),
    )


def _weights(source: Source, stage: Stage | None) -> tuple[float, ...]:
    """How much the model's score counts, and the lexical one."""
    model = stage.weight if isinstance(stage, Interpolate) else 1.0
    if not model and isinstance(source, Hybrid) and source.weights is not None:
        model = source.weights[1]
    return model, 1 - model
