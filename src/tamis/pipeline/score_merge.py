"""Where documents stand once some of them have new scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.pipeline.fuse import weighted_sum
from tamis.types import Run

Scores = NDArray[np.float32]


def place_unscored_below(run: Run, scored: NDArray[np.bool_], score: Scores) -> Scores:
    """The scores of all rows: new where there are new ones, else below the lowest of the query.

    Rows without a new score get the lowest less 1, 2, 3 and so on, in their order (by larger
    steps where so large a number has no room for 1). A query without new scores keeps its own.

    >>> run = Run.from_dict({"q": {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0}})
    >>> new = np.array([True, False, True, False])
    >>> place_unscored_below(run, new, np.float32([0.5, 0, 0.75, 0])).tolist()
    [0.5, -0.5, 0.75, -1.5]
    """
    query = np.repeat(np.arange(len(run)), run.sizes())
    lowest = np.full(len(run), np.inf)
    np.minimum.at(lowest, query[scored], score[scored])
    counted = np.concatenate([[0], np.cumsum(~scored)])
    place = counted[1:] - counted[run.offsets[:-1]][query]
    reach = np.where(np.isinf(lowest), 0, np.abs(lowest) + run.sizes())
    step = np.maximum(1.0, 4.0 * np.spacing(reach.astype(np.float32)))
    under = (lowest[query] - place * step[query]).astype(np.float32)
    return np.where(scored, score, np.where(np.isinf(lowest)[query], run.score, under))


def interpolate_scores(
    run: Run,
    scored: NDArray[np.bool_],
    score: Scores,
    weight: float,
    fuse_with_column: str | None = None,
) -> Scores:
    """`weight` times the new score and the rest the old one, for rows that have a new one.

    Both are put on 0 to 1 within each query, over its rows with new scores. `fuse_with_column`
    names the column that has the old score, where that is not the score of the run.
    """
    before = run.score if fuse_with_column is None else run.extra[fuse_with_column]
    counted = np.concatenate([[0], np.cumsum(scored)])
    offsets, doc = counted[run.offsets], run.doc[scored]
    old = Run._sorted_from_distinct(run.queries, run.docs, offsets, doc, before[scored])
    new = Run._sorted_from_distinct(run.queries, run.docs, offsets, doc, score[scored])
    both = weighted_sum([old, new], [1 - weight, weight], "minmax")
    query = np.repeat(np.arange(len(run)), np.diff(offsets))
    mixed = np.empty(len(doc), np.float32)
    mixed[np.lexsort((doc, query))] = both.score[np.lexsort((both.doc, query))]
    result = score.copy()
    result[scored] = mixed
    return result
