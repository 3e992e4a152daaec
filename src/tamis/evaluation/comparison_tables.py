"""Comparisons of runs, and how alike they rank, as tables for a terminal or a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from tamis.evaluation.agreement import agree
from tamis.evaluation.significance import Comparison
from tamis.types import Run

if TYPE_CHECKING:
    from rich.table import Table

COMPARED = ("run", "measure", "difference", "95% interval", "p (t)", "Holm", "Bonferroni",
            "p (rand.)", "Holm", "win/tie/loss")  # fmt: skip


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Every comparison in full: the difference, both tests raw and corrected, the interval.

    p (t) is the paired t-test, p (rand.) the randomisation test; the interval is a bootstrap.
    """
    from rich.markup import escape
    from rich.table import Table

    baseline = escape(comparisons[0].baseline)
    table = Table(title=f"against {baseline}", title_justify="left")
    for name in COMPARED:
        table.add_column(name, justify="left" if name in COMPARED[:2] else "right")
    for one in comparisons:
        table.add_row(*map(escape, _cells(one)))
    return table


def _cells(one: Comparison) -> list[str]:
    interval = "–"
    if one.interval is not None:
        interval = f"{one.interval.low:+.4f} .. {one.interval.high:+.4f}"
    return [
        one.run,
        str(one.measure),
        f"{round(one.difference, 4) + 0.0:+.4f}",
        interval,
        shown_p(one.t_test.raw),
        shown_p(one.t_test.holm),
        shown_p(one.t_test.bonferroni),
        shown_p(one.randomisation.raw),
        shown_p(one.randomisation.holm),
        f"{one.wins}/{one.ties}/{one.losses}",
    ]


def shown_p(p: float | None) -> str:
    """A p-value for a table.

    >>> shown_p(0.04321), shown_p(0.00001), shown_p(None)
    ('0.0432', '<0.0001', '–')
    """
    if p is None:
        return "–"
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def agreements(runs: Mapping[str, Run], k: int = 10) -> list[dict[str, str | float]]:
    """How alike each two of the runs rank: means over the queries both have."""
    return [
        {"run": first, "other": second, **agree(runs[first], runs[second], k).means()}
        for first, second in combinations(runs, 2)
    ]


def agreement_table(found: Sequence[Mapping[str, str | float]], k: int = 10) -> Table:
    """What `agreements` found, a row a pair."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="agreement, mean over the queries both have", title_justify="left")
    heads = ("run", "and run", f"overlap@{k}", f"Jaccard@{k}", "Kendall's tau", "RBO")
    for number, name in enumerate(heads):
        table.add_column(name, justify="left" if number < 2 else "right")
    for row in found:
        shown = [v if isinstance(v, str) else "–" if v != v else f"{v:.3f}" for v in row.values()]
        table.add_row(*map(escape, shown))
    return table
