"""What calibration looks at: features of the rows of a run, and which rows are relevant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.types import Qrels, Run, columns
from tamis.types.columns import LEXICAL_SCORE, PREVIOUS_SCORE

MODEL_SCORE, RETRIEVER_SCORE = "model", "retriever"
"""The names of the features."""


def features(run: Run, comparable: bool = True) -> NDArray[np.float64]:
    """One row per document: the model's score and the lexical one, or the retriever's where that
    is `comparable` from query to query, as BM25's is.

    `run` is what a re-ranking gave, fused or not; any other run has only its own scores.
    """
    if PREVIOUS_SCORE not in run.extra:
        return run.score.astype(np.float64)[:, None]
    model = np.asarray(run.extra.get(columns.MODEL_SCORE, run.score), np.float64)
    finite = model[np.isfinite(model)]
    model = np.where(np.isfinite(model), model, finite.min() if len(finite) else 0.0)
    second = LEXICAL_SCORE if LEXICAL_SCORE in run.extra else PREVIOUS_SCORE if comparable else None
    values = [model, run.extra[second]] if second else [model]
    return np.stack(values, 1).astype(np.float64)


def feature_names(columns: int, reranked: bool) -> tuple[str, ...]:
    """The names of so many columns of features."""
    return (MODEL_SCORE, RETRIEVER_SCORE)[:columns] if reranked else (RETRIEVER_SCORE,)


def relevant_rows(run: Run, qrels: Qrels) -> NDArray[np.bool_]:
    """Which rows of a run were judged relevant."""
    relevant = np.zeros(len(run.doc), bool)
    for number, query in enumerate(run.queries.ids):
        if query in qrels:
            rows = slice(int(run.offsets[number]), int(run.offsets[number + 1]))
            grades = qrels[query]
            relevant[rows] = [grades.get(name, 0) > 0 for name in run.docs.take(run.doc[rows])]
    return relevant
