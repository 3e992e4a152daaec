"""The family of tests of a fit: which comparisons are tested together, and their p-values wherever
they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from html import escape

from tamis.evaluation import Comparison, Evaluation, parse_measure
from tamis.evaluation.report_subject import linked
from tamis.evaluation.significance import PValue
from tamis.fit.guard import Settled, Verdict, verdict
from tamis.fit.options import BM25, START


def family_of(
    settled: Settled | None, evaluation: Evaluation | None, name: str, measure: str, seed: int
) -> Verdict | None:
    """The guard's tests of what it selected; where it made none, those of what is handed over
    against BM25 and the base model. None where nothing was tested.
    """
    if settled is not None:
        return settled.verdict
    if evaluation is None:
        return None
    values = {run: evaluation.values(run, measure) for run in evaluation.runs}
    others = {run: values[run] for run in (BM25, START) if run in values and run != name}
    return verdict(values[name], others, system=name, seed=seed)


def correct_by_family(
    comparisons: Iterable[Comparison], family: Verdict, measure: str
) -> tuple[Comparison, ...]:
    """Comparisons whose p-values are corrected for the family; those outside of it keep only the
    raw ones.
    """
    known = {frozenset((family.system, one.name)): one.p for one in family.against}
    tested, count = parse_measure(measure), len(family.against)

    def correct_one(one: Comparison) -> Comparison:
        pair = frozenset((one.run, one.baseline))
        holm = known.get(pair) if one.measure == tested else None
        raw = one.t_test.raw
        bonferroni = None if raw is None or holm is None else min(1.0, raw * count)
        flips = PValue(one.randomisation.raw, None, None)
        return replace(one, t_test=PValue(raw, holm, bonferroni), randomisation=flips, tests=count)

    return tuple(map(correct_one, comparisons))


def family_note(family: Verdict | None, measure: str) -> str:
    """Which tests were made together, in a sentence of HTML; empty where there were none."""
    if family is None or not family.against:
        return ""
    count = len(family.against)
    tests = "one test was" if count == 1 else f"{count} tests were"
    how = "" if count == 1 else f", corrected by Holm for these {count}"
    return (
        f"On these queries {tests} made: {escape(family.system)} against "
        f"{linked([one.name for one in family.against])}, by {escape(measure)} (paired t-test, "
        f"two-sided{how}). Every other p-value is not corrected, and no more than a hint."
    )
