"""All comparisons of an evaluation with its baseline, as one object that shows as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from tamis.errors import InputError
from tamis.evaluation.comparison_tables import Plain, comparison_table
from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.significance import Comparison, compare
from tamis.types.frames import make_frame


@dataclass(frozen=True, slots=True)
class Comparisons(Sequence[Comparison]):
    """A `Comparison` a run and measure, all against the same baseline.

    >>> from tamis.evaluation import evaluate
    >>> from tamis.types import Qrels, Run
    >>> qrels = Qrels.from_dict({"q1": {"d1": 1}, "q2": {"d2": 1}})
    >>> runs = {"a": Run.from_dict({"q1": {"d1": 1.0}}), "b": Run.from_dict({"q2": {"d2": 1.0}})}
    >>> [comparison] = evaluate(qrels, runs, ["RR"]).compare("a")
    >>> comparison.run, comparison.wins, comparison.losses
    ('b', 1, 1)
    """

    rows: tuple[Comparison, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, number: int) -> Comparison: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Comparison, ...]: ...

    def __getitem__(self, number: int | slice) -> Comparison | tuple[Comparison, ...]:
        return self.rows[number]

    @property
    def baseline(self) -> str:
        """The run that the others are compared with."""
        return self.rows[0].baseline

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def to_latex(self) -> str:
        """A tabular with booktabs rules."""
        return self._table().latex()

    def to_pandas(self) -> Any:
        """A DataFrame with one row per comparison: the difference, its interval, p-values, wins."""
        rows = self.rows
        bounds = [(row.interval.low, row.interval.high) if row.interval else None for row in rows]
        return make_frame(
            {
                "run": [row.run for row in rows],
                "baseline": [row.baseline for row in rows],
                "measure": [str(row.measure) for row in rows],
                "difference": [row.difference for row in rows],
                "interval_low": _floats([bound and bound[0] for bound in bounds]),
                "interval_high": _floats([bound and bound[1] for bound in bounds]),
                "p_t_test": _floats([row.t_test.raw for row in rows]),
                "p_t_test_holm": _floats([row.t_test.holm for row in rows]),
                "p_t_test_bonferroni": _floats([row.t_test.bonferroni for row in rows]),
                "p_randomisation": _floats([row.randomisation.raw for row in rows]),
                "p_randomisation_holm": _floats([row.randomisation.holm for row in rows]),
                "wins": [row.wins for row in rows],
                "ties": [row.ties for row in rows],
                "losses": [row.losses for row in rows],
                "queries": [row.queries for row in rows],
            }
        )

    def _table(self) -> Plain:
        return comparison_table(self.rows)


def compare_all(evaluation: Evaluation, baseline: str, seed: int = 0) -> Comparisons:
    """Every other run against the baseline; an error where there is nothing to compare."""
    rows = compare(evaluation, baseline, seed=seed)
    if not rows and len(evaluation.runs) < 2:
        raise InputError(
            f"only the baseline {baseline!r} to compare", hint="evaluate another run beside it"
        )
    if not rows:
        names = ", ".join(map(str, evaluation.measures))
        raise InputError(f"{names}: says of no run that it is better", hint="measure nDCG@10 too")
    return Comparisons(tuple(rows))


def _floats(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]
