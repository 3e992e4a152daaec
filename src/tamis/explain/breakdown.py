"""A document's score as a sum over what the whole pipeline fused.

Where a fusion takes the score before it, that score is taken apart in turn: the min-max of a fusion
is linear, so each of its parts counts as much as the fusion lets it. So two documents differ by
BM25 and by embeddings, not by "the score before".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tamis.explain.fusion import SCORE_BEFORE, stage_scales
from tamis.explain.trace import Step
from tamis.pipeline.bert3s import ThreeSentences
from tamis.pipeline.rerank import Rerank
from tamis.rankers.lambdamart import LambdaMART
from tamis.types import Stage
from tamis.types.explanation import FeatureContribution, FusionPart
from tamis.types.pipeline import Top

ZERO_OF_SCALE = "zero of the scale"
"""What the lowest score before a fusion takes off: the same for every document of a query."""
NEGLIGIBLE = 1e-9


def breakdown(
    steps: Sequence[Step],
    scores: Sequence[float | None],
    parts: Sequence[FusionPart],
    features: Sequence[FeatureContribution] = (),
    number: int = -1,
) -> dict[str, float]:
    """What adds up to the score of a document after a step (the last by default), by name.

    `scores` are its scores after each step, `parts` what each fusion among them put together.
    """
    number %= len(steps)
    step, score = steps[number], scores[number] or 0.0
    own = [part for part in parts if part.stage == step.name]
    if isinstance(step.of, Top) and number:
        return breakdown(steps, scores, parts, features, number - 1)
    if isinstance(step.of, LambdaMART) and features:
        return {feature.name: feature.contribution for feature in features}
    if not own:
        return {f"order below {step.name}" if stage_scales(step) else step.name: score}
    found: dict[str, float] = {}
    for part in own:
        if part.name == SCORE_BEFORE and part.weight and isinstance(step.of, Stage):
            before = next(n for n, other in enumerate(steps) if other.run is step.before)
            inner = breakdown(steps, scores, parts, features, before)
            _add_scaled(found, inner, part.contribution, _slope(step))
        else:
            found[part.name] = found.get(part.name, 0.0) + part.contribution
    return found


def _add_scaled(
    found: dict[str, float], inner: Mapping[str, float], contribution: float, slope: float
) -> None:
    """Add the parts of a score before, each as much as the fusion lets it count."""
    for name, value in inner.items():
        found[name] = found.get(name, 0.0) + slope * value
    rest = contribution - slope * sum(inner.values())
    if abs(rest) > NEGLIGIBLE:
        found[ZERO_OF_SCALE] = found.get(ZERO_OF_SCALE, 0.0) + rest


def _slope(step: Step) -> float:
    """How much a contribution changes with the score before."""
    scales = stage_scales(step)
    if scales:
        return scales[0].weight / scales[0].scale
    assert isinstance(step.of, Rerank) and isinstance(step.of.aggregate, ThreeSentences)
    return step.of.aggregate.alpha
