"""What each ranking brings to a fused score, and the same arithmetic for texts not among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.explain.trace import Step, name_of, row_of, source_names
from tamis.pipeline.fuse import common_scale
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank
from tamis.types import Run
from tamis.types.columns import LEXICAL_SCORE, MODEL_SCORE, PASSAGE, PREVIOUS_SCORE
from tamis.types.explanation import FusionPart

Values = NDArray[np.float64]
SCORE_BEFORE = "score before"
"""The part of a fusion that is the score before the stage."""
TIE = 1e-6
"""By how much scores differ that are equal but for rounding."""


@dataclass(frozen=True, eq=False)
class PartScale:
    """How one ranking's score becomes a contribution to a fused score of one query."""

    name: str
    weight: float
    shift: float
    scale: float
    absent: float
    """On the common scale, where the ranking has not found the document."""
    run: Run | None = None
    """The ranking itself, where ranks are fused."""
    k: int = 0
    """The constant of reciprocal rank fusion."""

    def normalised(self, score: float | None, doc_id: str = "") -> float:
        """A score on the common scale, as if the document had it among the other candidates."""
        if score is None:
            return self.absent
        if self.run is not None:
            return 1 / (self.k + rank_among_others(self.run, doc_id, score))
        return (float(np.float32(score)) - self.shift) / self.scale

    def part(self, stage: str, rank: int | None, score: float | None, doc_id: str) -> FusionPart:
        """What this ranking brings to a document."""
        value = self.normalised(score, doc_id)
        if self.run is not None and rank is not None:
            value = 1 / (self.k + rank)
        return FusionPart(stage, self.name, rank, score, value, self.weight, self.weight * value)


def rank_among_others(run: Run, doc_id: str, score: float) -> int:
    """The rank of a document with this score among the others of a run of one query; ties as in
    every ranking, the larger id first. A score made anew ties with one that it all but equals.

    >>> run = Run.from_dict({"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    >>> [rank_among_others(run, *own) for own in (("a", 3.0), ("a", 2.0), ("d", 2.0), ("a", 0.5))]
    [1, 2, 2, 3]
    """
    others = run.rows(run.doc != run.docs.number(doc_id)) if doc_id in run.docs else run
    tied = np.isclose(others.score, score, rtol=TIE, atol=TIE)
    larger = sum(others.docs[number] > doc_id for number in others.doc[tied].tolist())
    return 1 + int(((others.score > score) & ~tied).sum()) + larger


def fused_score(
    scales: Sequence[PartScale], scores: Sequence[float | None], doc_id: str = ""
) -> float:
    """The fused score of a document with these scores; None where a ranking has not found it."""
    pairs = zip(scales, scores, strict=True)
    return sum(scale.weight * scale.normalised(score, doc_id) for scale, score in pairs)


def hybrid_scales(hybrid: Hybrid, runs: Sequence[Run]) -> list[PartScale]:
    """How the scores of each source of a hybrid become contributions."""
    names = source_names(hybrid)
    if hybrid.method == "rrf":
        return [
            PartScale(name, 1.0, 0.0, 1.0, 0.0, run, hybrid.k)
            for name, run in zip(names, runs, strict=True)
        ]
    weights = hybrid.weights or (1 / len(runs),) * len(runs)
    how = hybrid.normalisation
    normalisations = (how,) * len(runs) if isinstance(how, str) else how
    scales = []
    for name, run, weight, normalisation in zip(names, runs, weights, normalisations, strict=True):
        shift, scale, lowest = (float(values[0]) for values in common_scale(run, normalisation))
        scales.append(PartScale(name, weight, shift, scale, (lowest - shift) / scale))
    return scales


def hybrid_parts(step: Step, doc_id: str) -> list[FusionPart]:
    """What each source of a hybrid brings to the score of one of its candidates."""
    assert isinstance(step.of, Hybrid)
    parts = []
    for scale, run in zip(hybrid_scales(step.of, step.runs), step.runs, strict=True):
        row = row_of(run, doc_id)
        score = None if row is None else float(run.score[row])
        parts.append(scale.part(step.name, None if row is None else row + 1, score, doc_id))
    return parts


def fusion_settings(step: Step) -> tuple[float, str] | None:
    """The weight of the model and the column it is fused with, where a stage fuses."""
    stage = step.of
    if isinstance(stage, Interpolate):
        weight, column = stage.weight, stage.column
    elif isinstance(stage, Rerank) and stage.interpolate is not None:
        weight, column = stage.interpolate, stage.fuse_with_column
    else:
        return None
    return weight, column if column and weight else PREVIOUS_SCORE


def names_of_fusion(step: Step) -> tuple[str, str]:
    """What a stage fuses: the score before it (or that of a column), and its model."""
    settings = fusion_settings(step)
    column = settings[1] if settings else PREVIOUS_SCORE
    inner = step.of.stage if isinstance(step.of, Interpolate) else step.of
    names = {PREVIOUS_SCORE: SCORE_BEFORE, LEXICAL_SCORE: "BM25"}
    return names.get(column, column), name_of(inner)


def stage_scales(step: Step) -> list[PartScale]:
    """How the score before a stage and that of its model become contributions; empty where the
    stage has scored nothing, or fuses nothing.
    """
    settings = fusion_settings(step)
    if settings is None or PASSAGE not in step.run.extra:
        return []
    weight, column = settings
    run, names = step.run, names_of_fusion(step)
    scored = run.extra[PASSAGE] >= 0
    if not scored.any():
        return []
    before, model = run.extra[column][scored], run.extra[MODEL_SCORE][scored]
    return [
        _min_max(names[0], 1 - weight, np.asarray(before, np.float32)),
        _min_max(names[1], weight, np.asarray(model, np.float32)),
    ]


def _min_max(name: str, weight: float, scores: NDArray[np.float32]) -> PartScale:
    low, high = float(scores.min()), float(scores.max())
    shift, scale = (low, high - low) if high > low else (low - 1, 1.0)
    return PartScale(name, weight, shift, scale, 0.0)


def stage_parts(step: Step, doc_id: str) -> list[FusionPart]:
    """What the score before a stage and its model bring to the score of one of its candidates;
    nothing for a candidate that the model did not score.
    """
    scales, row, run = stage_scales(step), row_of(step.run, doc_id), step.run
    if not scales or row is None or run.extra[PASSAGE][row] < 0:
        return []
    settings = fusion_settings(step)
    assert settings is not None
    columns = run.extra[settings[1]], run.extra[MODEL_SCORE]
    return [
        scale.part(step.name, _rank_by(run, column, row), float(column[row]), doc_id)
        for scale, column in zip(scales, columns, strict=True)
    ]


def _rank_by(run: Run, column: NDArray[Any], row: int) -> int:
    """The rank of a row among those that a model scored, by a column; ties as in every ranking,
    the larger id first.
    """
    above = (column > column[row]) | ((column == column[row]) & (run.doc > run.doc[row]))
    return 1 + int((above & (run.extra[PASSAGE] >= 0)).sum())
