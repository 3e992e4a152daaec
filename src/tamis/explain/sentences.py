"""What the score before BERT-3S and the three best sentences bring to its score."""

from __future__ import annotations

import numpy as np

from tamis.explain.fusion import SCORE_BEFORE
from tamis.explain.trace import Step, row_of
from tamis.pipeline.bert3s import ThreeSentences, best_three
from tamis.pipeline.rerank import Rerank
from tamis.types.columns import PASSAGE, PREVIOUS_SCORE
from tamis.types.explanation import FusionPart

NAMES = ("best sentence", "second sentence", "third sentence")


def sentence_parts(step: Step, doc_id: str) -> list[FusionPart]:
    """The parts of one candidate, which add up to its score; nothing where it was not scored."""
    stage, run, row = step.of, step.run, row_of(step.run, doc_id)
    assert isinstance(stage, Rerank) and isinstance(stage.aggregate, ThreeSentences)
    if row is None or run.extra[PASSAGE][row] < 0:
        return []
    how, before = stage.aggregate, float(run.extra[PREVIOUS_SCORE][row])
    best = np.zeros(len(NAMES))
    for scores in stage.passage_scores(run.rows(np.arange(len(run.doc)) == row)):
        best = best_three(scores, stage.scorer.scale)[0][0]
    weights = [(1 - how.alpha) * weight for weight in (1.0, how.w2, how.w3)]
    return [
        FusionPart(step.name, SCORE_BEFORE, None, before, before, how.alpha, how.alpha * before),
        *(
            FusionPart(step.name, name, None, score, score, weight, weight * score)
            for name, score, weight in zip(NAMES, best.tolist(), weights, strict=True)
        ),
    ]
