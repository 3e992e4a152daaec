"""Comparisons of runs, and how alike they rank, as plain tables that any medium can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from tamis.evaluation.agreement import agree
from tamis.evaluation.significance import Comparison
from tamis.evaluation.tables import align, escape_latex, padded_line
from tamis.pages.render import render
from tamis.pages.text_format import p_value
from tamis.terminal import plain_table, visible
from tamis.types import Run

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Plain:
    """A table of strings; the first two columns are words, the others numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rich(self) -> Table:
        """For a terminal."""
        from rich.text import Text

        table = plain_table(title=Text(self.title), title_justify="left")
        for number, name in enumerate(self.heads):
            table.add_column(name, justify="left" if number < 2 else "right")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def text(self) -> str:
        """For `print`, in aligned columns."""
        return f"{visible(self.title)}\n{align([self.heads, *self.rows], text_columns=2)}"

    def html(self) -> str:
        """For a notebook."""
        table = {"title": self.title, "heads": self.heads, "rows": self.rows}
        return render("notebook.html", **table, text_columns=2, notes=())

    def markdown(self) -> str:
        """For a page."""
        lines = [self.heads, *self.rows]
        cells = [[text.replace("|", r"\|") for text in line] for line in lines]
        widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
        rule = ["-" * w if n < 2 else "-" * (w - 1) + ":" for n, w in enumerate(widths)]
        table_lines = [padded_line(line, widths) for line in (cells[0], rule, *cells[1:])]
        return f"{self.title}\n\n" + "\n".join(table_lines) + "\n"

    def latex(self) -> str:
        """For a paper, with booktabs rules."""
        lines = [" & ".join(map(escape_latex, line)) + r" \\" for line in (self.heads, *self.rows)]
        begin = r"\begin{tabular}{ll" + "r" * (len(self.heads) - 2) + "}"
        end = [r"\bottomrule", r"\end{tabular}", ""]
        return "\n".join(
            [f"% {self.title}", begin, r"\toprule", lines[0], r"\midrule", *lines[1:], *end]
        )


def comparison_table(comparisons: Sequence[Comparison]) -> Plain:
    """Every comparison in full: the difference, both tests raw and corrected, the interval.

    p (t) is the paired t-test, p (rand.) the randomisation test; the interval is a bootstrap.
    """
    heads = ("run", "measure", "difference", "95% interval", "p (t)", "p (t, Holm)",
             "p (t, Bonferroni)", "p (rand.)", "p (rand., Holm)", "win/tie/loss")  # fmt: skip
    rows = tuple(_cells(comparison) for comparison in comparisons)
    return Plain(f"against {comparisons[0].baseline}", heads, rows)


def _cells(comparison: Comparison) -> tuple[str, ...]:
    interval = "–"
    if comparison.interval is not None:
        interval = f"{comparison.interval.low:+.4f} .. {comparison.interval.high:+.4f}"
    return (
        comparison.run,
        str(comparison.measure),
        f"{round(comparison.difference, 4) + 0.0:+.4f}",
        interval,
        p_value(comparison.t_test.raw),
        p_value(comparison.t_test.holm),
        p_value(comparison.t_test.bonferroni),
        p_value(comparison.randomisation.raw),
        p_value(comparison.randomisation.holm),
        f"{comparison.wins}/{comparison.ties}/{comparison.losses}",
    )


def agreements(runs: Mapping[str, Run], k: int = 10) -> list[dict[str, str | float]]:
    """How alike each two of the runs rank: means over the queries both have."""
    return [
        {"run": first, "other": second, **agree(runs[first], runs[second], k).means()}
        for first, second in combinations(runs, 2)
    ]


def agreement_table(pairs: Sequence[Mapping[str, str | float]], k: int = 10) -> Plain:
    """What `agreements` found, a row a pair."""
    heads = ("run", "and run", f"overlap@{k}", f"Jaccard@{k}", "Kendall's tau", "RBO")
    rows = tuple(tuple(map(_cell_text, row.values())) for row in pairs)
    return Plain("agreement, mean over the queries both have", heads, rows)


def _cell_text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return "–" if value != value else f"{value:.3f}"
