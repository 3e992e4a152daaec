"""Precision at levels of recall, as trec_eval interpolates it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.types import Qrels, Run

RECALL_LEVELS = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


def precision_recall(qrels: Qrels, run: Run, relevant: int = 1) -> NDArray[np.float64]:
    """For each judged query the interpolated precision at recall 0.0, 0.1, … 1.0.

    A row a query of `qrels`; zeros where the run has no documents for the query or nothing is
    relevant. The curve of a run is the mean of the rows.

    >>> qrels = Qrels.from_dict({"q1": {"d1": 1, "d2": 1}})
    >>> run = Run.from_dict({"q1": {"d1": 3.0, "d3": 2.0, "d2": 1.0}})
    >>> precision_recall(qrels, run).round(2).tolist()[0]
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.67, 0.67, 0.67, 0.67, 0.67]
    """
    table = np.zeros((len(qrels), len(RECALL_LEVELS)))
    number_in_qrels = run.docs.positions_in(qrels.docs)
    number_in_run = qrels.queries.positions_in(run.queries.ids)
    for row, number in enumerate(number_in_run.tolist()):
        judged = slice(int(qrels.offsets[row]), int(qrels.offsets[row + 1]))
        relevant_docs = qrels.doc[judged][qrels.grade[judged] >= relevant]
        if number >= 0 and len(relevant_docs):
            is_relevant = np.isin(number_in_qrels[run.ranking(number).doc], relevant_docs)
            table[row] = _interpolated(is_relevant, len(relevant_docs))
    return table


def _interpolated(is_relevant: NDArray[np.bool_], num_relevant: int) -> NDArray[np.float64]:
    """The best precision at or after the rank where each level of recall is reached."""
    ranks = np.flatnonzero(is_relevant) + 1
    precision = np.arange(1, len(ranks) + 1) / ranks
    best = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    needed = (RECALL_LEVELS * num_relevant + 0.9).astype(np.int64)  # trec_eval's rounding up
    return best[np.minimum(np.maximum(needed - 1, 0), len(ranks))]
