"""A stage that fuses the scores of a re-ranker with those that the candidates had before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.errors import InputError
from tamis.pipeline.fuse import scores_in
from tamis.pipeline.score_merge import interpolate_scores, place_unscored_below
from tamis.registry import NUMBER, Opening, check_keys
from tamis.types import Run, Spec, Stage
from tamis.types.columns import MODEL_SCORE, PREVIOUS_SCORE
from tamis.types.pipeline import SPEC_VERSION


@dataclass(frozen=True)
class Interpolate(Stage):
    """`weight` times the score of a stage and 1 - `weight` times the score before it.

    Both are put on 0 to 1 within each query, over the documents that the stage scored; the others
    keep their order below. `column` names the column of the run with the score before, where that
    is not the score of the run. With a weight of 0 the order before is kept.
    """

    stage: Stage
    weight: float
    column: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise InputError(f"a fusion weight of {self.weight:g}", hint="give one from 0 to 1")

    def __call__(self, run: Run) -> Run:
        return fuse_scores(run, self.stage(run), self.weight, self.column)

    def spec(self) -> Spec:
        """See `Stage.spec`."""
        return interpolate_spec(self.stage.spec(), self.weight, self.column)


def fuse_scores(before: Run, after: Run, weight: float, column: str | None = None) -> Run:
    """What a stage made of a run, fused with the scores of that run; see `Interpolate`.

    The column `previous_score` of the result has the score before, `model_score` that of the stage.

    >>> run = Run.from_dict({"q": {"a": 9.0, "b": 7.0, "c": 5.0}})
    >>> after = Run.from_dict({"q": {"a": 0.1, "b": 0.9, "c": 0.5}})
    >>> list(fuse_scores(run, after, 0.5)["q"])  # b: (.5 + 1) / 2
    [('b', 0.75), ('a', 0.5), ('c', 0.25)]
    """
    if column is not None and column not in after.extra:
        raise InputError(
            f"the run has no column {column!r}",
            hint=f"it has {', '.join(after.extra) or 'none'}; name one of these, or none",
        )
    previous = scores_in(before, after)
    passage = after.extra.get("passage", np.zeros(len(after.doc), np.int32))
    model = np.where(passage >= 0, after.score, np.float32(-np.inf))
    columns = {**after.extra, "passage": passage, PREVIOUS_SCORE: previous, MODEL_SCORE: model}
    run = Run(after.queries, after.docs, after.offsets, after.doc, previous, columns)
    scored = run.extra["passage"] >= 0
    mixed = interpolate_scores(
        run, scored, run.extra[MODEL_SCORE], weight, column if weight else None
    )
    score = place_unscored_below(run, scored, mixed)
    return Run(run.queries, run.docs, run.offsets, run.doc, score, run.extra)


def interpolate_spec(of: Spec, weight: float, column: str | None = None) -> Spec:
    """The spec of an `Interpolate` around the stage with the spec `of`."""
    column_spec = {} if column is None else {"column": column}
    return {
        "stage": "interpolate",
        "version": SPEC_VERSION,
        "weight": weight,
        **column_spec,
        "of": of,
    }


def open_stage(values: Spec, opening: Opening) -> Interpolate:
    """See `registry.OPENERS`."""
    check_keys("an interpolation", values, {"weight": NUMBER, "of": dict}, {"column": str})
    return Interpolate(opening.stage(values["of"]), values["weight"], values.get("column"))
