"""The family of tests of a fit: which comparisons on test queries are corrected together, and their
p-values wherever they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tamis.evaluation import Comparison, Evaluation, parse_measure
from tamis.evaluation.significance import PValue
from tamis.fitting.guard import BaselineTest, Decision, compare_with


def family_of(
    decision: Decision | None,
    evaluation: Evaluation | None,
    system: str,
    baselines: Iterable[str],
    measure: str,
    seed: int,
) -> BaselineTest | None:
    """The tests of the guard; where it made none, those of the selected system against baselines.

    None where nothing was tested.
    """
    if decision is not None:
        return decision.test
    if evaluation is None:
        return None
    values = {run: evaluation.values(run, measure) for run in evaluation.runs}
    baseline_values = {
        name: values[name] for name in baselines if name in values and name != system
    }
    return compare_with(values[system], baseline_values, system=system, seed=seed)


def correct_by_family(
    comparisons: Iterable[Comparison], family: BaselineTest, measure: str
) -> tuple[Comparison, ...]:
    """Comparisons whose p-values are corrected for the family; others keep only the raw ones."""
    by_pair = {
        frozenset((family.system, comparison.baseline)): comparison.p_value
        for comparison in family.comparisons
    }
    tested, count = parse_measure(measure), len(family.comparisons)

    def correct_one(comparison: Comparison) -> Comparison:
        pair = frozenset((comparison.run, comparison.baseline))
        holm = by_pair.get(pair) if comparison.measure == tested else None
        raw = comparison.t_test.raw
        bonferroni = None if raw is None or holm is None else min(1.0, raw * count)
        signs = PValue(comparison.randomisation.raw, None, None)
        return replace(
            comparison, t_test=PValue(raw, holm, bonferroni), randomisation=signs, tests=count
        )

    return tuple(map(correct_one, comparisons))
