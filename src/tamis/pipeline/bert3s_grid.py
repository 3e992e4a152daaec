"""The parameters of BERT-3S chosen on judged queries: every point of a grid of 1,331.

Sentences are scored once. A point of the grid then only moves judged documents, so for each it is
counted how many documents of the query stand above each of them, and no ranking is sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.evaluation import Judged, Measure, join, parse_measure
from tamis.pipeline.bert3s import BEST, ThreeSentences, best_three
from tamis.pipeline.rerank import Rerank
from tamis.types import Qrels, Run

STEPS = tuple(n / 10 for n in range(11))
GRID = tuple(ThreeSentences(*point) for point in product(STEPS, repeat=3))
"""Every α, w2 and w3 from {0, 0.1, …, 1}."""
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TunedThreeSentences:
    """The stage with the parameters chosen, and the mean that each point of the grid gave."""

    stage: Rerank
    best_point: ThreeSentences
    values: Mapping[ThreeSentences, float]


def tune_three_sentences(
    stage: Rerank, run: Run, qrels: Qrels, measure: str | Measure = "AP"
) -> TunedThreeSentences:
    """The stage with the α, w2 and w3 that have the best mean on these judgements.

    `stage` is a re-ranker by `bert-3s` with any parameters. Of equal means the fewest sentences
    are taken, then the smallest weights, then the α nearest to the first stage alone. Tune on
    validation queries and report on others.
    """
    measure = parse_measure(measure)
    if not measure.has_formula:
        raise InputError(f"cannot tune for {measure}", hint="tune for AP, nDCG@10, RR@10 or P@20")
    judged_run = run.select(qrels.queries)
    if not len(judged_run):
        raise InputError(
            "no query of the run is judged",
            hint="are run and qrels from the same collection and split?",
        )
    best, scored = _sentences(stage, judged_run)
    means = _means(judged_run, qrels, measure, best, scored)
    values = dict(zip(GRID, means.tolist(), strict=True))
    highest = means.max() - 1e-12
    best_point = min(
        (point for point, mean in values.items() if mean >= highest),
        key=lambda point: (point.w3 > 0, point.w2 > 0, point.w3, point.w2, -point.alpha),
    )
    return TunedThreeSentences(replace(stage, aggregate=best_point), best_point, values)


def _sentences(stage: Rerank, run: Run) -> tuple[Values, NDArray[np.bool_]]:
    """The best scores of every row's sentences, and which rows have any."""
    best, scored = np.zeros((len(run.doc), BEST)), np.zeros(len(run.doc), bool)
    for chunk in stage.passage_scores(run):
        best[chunk.rows], winners = best_three(chunk, stage.scorer.scale)
        scored[chunk.rows] = winners >= 0
    return best, scored


def _means(
    run: Run, qrels: Qrels, measure: Measure, best: Values, scored: NDArray[np.bool_]
) -> Values:
    """The mean of every point of the grid over all judged queries."""
    judged = join(qrels, run)
    place = judged.queries.positions_in(run.queries.ids)[judged.query]
    row = np.where(judged.rank > 0, run.offsets[place] + judged.rank - 1, -1)
    ranks = np.append(_unmoved(run, scored), 0)[row]
    moving = np.flatnonzero(np.append(scored, False)[row])
    where = place[moving], row[moving]
    first = run.score.astype(np.float64)
    means = np.empty(len(GRID))
    for number, point in enumerate(GRID):
        score = np.where(scored, point.combined(first, best), -np.inf).astype(np.float32)
        ranks[moving] = _ranks(run.offsets, run.doc, score, *where)
        means[number] = measure.values(_by_rank(judged, ranks)).mean()
    return means


def _unmoved(run: Run, scored: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rank of every row that has no sentences: below all that have, in the old order."""
    query = np.repeat(np.arange(len(run)), run.sizes())
    above = np.bincount(query[scored], minlength=len(run))
    counted = np.concatenate([[0], np.cumsum(~scored)])
    rank: NDArray[np.int64] = above[query] + counted[1:] - counted[run.offsets[:-1]][query]
    return rank


@jit
def _ranks(
    offsets: NDArray[np.int64],
    doc: NDArray[np.int32],
    score: NDArray[np.float32],
    query: NDArray[np.int32],
    row: NDArray[np.int64],
) -> Any:
    """The rank of each of these rows in its query, in the order of trec_eval; without branches."""
    ranks = np.empty(len(row), np.int32)
    for n in range(len(row)):
        mine, number = score[row[n]], doc[row[n]]
        scores = score[offsets[query[n]] : offsets[query[n] + 1]]
        numbers = doc[offsets[query[n]] : offsets[query[n] + 1]]
        rank = np.int32(1)
        for i in range(len(scores)):
            above = (scores[i] > mine) | ((scores[i] == mine) & (numbers[i] > number))
            rank += np.int32(1) if above else np.int32(0)
        ranks[n] = rank
    return ranks


def _by_rank(judged: Judged, rank: NDArray[np.int64]) -> Judged:
    """The same judgements with other ranks: retrieved ones first, by rank, as measures want."""
    order = np.lexsort((rank, rank == 0, judged.query))
    return replace(
        judged,
        doc=judged.doc[order],
        grade=judged.grade[order],
        rank=rank[order].astype(np.int32),
    )
