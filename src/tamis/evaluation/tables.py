"""An evaluation as a table with its small print: text, terminal, HTML, JSON, LaTeX, Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.measures import Measure
from tamis.evaluation.significance import Comparison
from tamis.pages.render import render
from tamis.pages.text_format import counted
from tamis.terminal import plain_table, visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

ABOVE, BELOW = "▲", "▼"
LATEX_MARKS = {ABOVE: r"$^{\uparrow}$", BELOW: r"$^{\downarrow}$", "": ""}
LATEX_SPECIAL = str.maketrans(
    {c: "\\" + c for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A number as a table shows it: its mark of significance, and whether none is better."""

    text: str
    mark: str = ""
    best: bool = False


def rich_table(
    evaluation: Evaluation, comparisons: Sequence[Comparison] = (), level: float = 0.05
) -> Table:
    """The table for a terminal; `footnotes` are its small print."""
    from rich.text import Text

    table = plain_table()
    table.add_column("run")
    for measure in evaluation.measures:
        table.add_column(Text(str(measure)), justify="right")
    for run, cells in run_rows(evaluation, comparisons, level):
        table.add_row(Text(run), *[_rich_cell(cell) for cell in cells])
    return table


def plain_text(
    evaluation: Evaluation, comparisons: Sequence[Comparison] = (), level: float = 0.05
) -> str:
    """Aligned columns for `print`, and the small print below them."""
    no_mark = " " if comparisons else ""
    rows = [["run", *[f"{measure}{no_mark}" for measure in evaluation.measures]]]
    for run, cells in run_rows(evaluation, comparisons, level):
        rows.append([run, *[cell.text + (cell.mark or no_mark) for cell in cells]])
    return "\n".join([align(rows), "", *map(visible, footnotes(evaluation, comparisons, level))])


def html_table(
    evaluation: Evaluation, comparisons: Sequence[Comparison] = (), level: float = 0.05
) -> str:
    """A table for a notebook, and the small print below it."""
    return render(
        "notebook.html",
        title="",
        heads=["run", *map(str, evaluation.measures)],
        rows=[[run, *cells] for run, cells in run_rows(evaluation, comparisons, level)],
        text_columns=1,
        notes=footnotes(evaluation, comparisons, level),
    )


def markdown(
    evaluation: Evaluation, comparisons: Sequence[Comparison] = (), level: float = 0.05
) -> str:
    """A pipe table, aligned also as plain text, and the small print below it."""
    table_rows = [["run", *map(str, evaluation.measures)]]
    for run, cells in run_rows(evaluation, comparisons, level):
        table_rows.append([run, *[_markdown_cell(cell) for cell in cells]])
    table_rows = [[text.replace("|", r"\|") for text in line] for line in table_rows]
    widths = [max(3, *map(len, column)) for column in zip(*table_rows, strict=True)]
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    lines = [padded_line(line, widths) for line in (table_rows[0], rule, *table_rows[1:])]
    notes = footnotes(evaluation, comparisons, level)
    return "\n".join(lines) + "\n\n" + "  \n".join(notes) + "\n"


def latex(
    evaluation: Evaluation, comparisons: Sequence[Comparison] = (), level: float = 0.05
) -> str:
    """A tabular with booktabs rules; the small print is a comment above it, for your caption."""
    head = " & ".join(["run", *[escape_latex(str(measure)) for measure in evaluation.measures]])
    lines = [f"% {note}" for note in footnotes(evaluation, comparisons, level)]
    lines += [r"\begin{tabular}{l" + "r" * len(evaluation.measures) + "}", r"\toprule"]
    lines += [head + r" \\", r"\midrule"]
    for run, cells in run_rows(evaluation, comparisons, level):
        lines.append(" & ".join([escape_latex(run), *map(_latex_cell, cells)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_json(
    evaluation: Evaluation, comparisons: Sequence[Comparison] = (), level: float = 0.05
) -> dict[str, Any]:
    """Plain data: summaries and counts a run, every comparison in full, the small print."""
    return {
        "queries": len(evaluation.queries),
        "measures": [str(measure) for measure in evaluation.measures],
        "runs": {run: _run_json(evaluation, run) for run in evaluation.runs},
        "level": level,
        "comparisons": [_comparison_json(comparison, level) for comparison in comparisons],
        "notes": footnotes(evaluation, comparisons, level),
    }


def footnotes(
    evaluation: Evaluation, comparisons: Sequence[Comparison] = (), level: float = 0.05
) -> list[str]:
    """What a reader must know about the table: how many queries, what was tested and how."""
    count = len(evaluation.queries)
    notes = [f"{count:,} judged {'query' if count == 1 else 'queries'}; the mean over all of them."]
    if any(measure.summed for measure in evaluation.measures):
        summed = ", ".join(str(measure) for measure in evaluation.measures if measure.summed)
        notes.append(f"{summed}: the total over queries.")
    for run in evaluation.runs:
        if missing := len(evaluation.missing[run]):
            notes.append(f"{run}: {counted(missing)} missing from the run, counted as zero.")
        if unjudged := len(evaluation.unjudged[run]):
            notes.append(f"{run}: {counted(unjudged)} of the run not judged, left out.")
    if comparisons:
        tests = comparisons[0].tests
        corrected = f"Holm-corrected for {tests} tests" if tests > 1 else "one test"
        notes.append(
            f"{ABOVE} above, {BELOW} below {comparisons[0].baseline} at the level {level:g}: "
            f"two-sided paired t-test over {counted(comparisons[0].queries)}, {corrected}."
        )
    return notes


def run_rows(
    evaluation: Evaluation, comparisons: Sequence[Comparison], level: float
) -> list[tuple[str, list[Cell]]]:
    """Every run with a cell for each measure."""
    marks = {(c.run, c.measure): ("", ABOVE, BELOW)[c.verdict(level)] for c in comparisons}
    texts = {
        (run, measure): _number(evaluation, run, measure)
        for run in evaluation.runs
        for measure in evaluation.measures
    }
    best = {
        m: _best(evaluation, m) if len(evaluation.runs) > 1 else "" for m in evaluation.measures
    }
    return [
        (
            run,
            [
                Cell(texts[run, m], marks.get((run, m), ""), texts[run, m] == best[m])
                for m in evaluation.measures
            ],
        )
        for run in evaluation.runs
    ]


def _best(evaluation: Evaluation, measure: Measure) -> str:
    """The best number as it is shown, so that numbers that look alike are marked alike."""
    run = max(evaluation.runs, key=lambda run: evaluation.summary(run, measure))
    return _number(evaluation, run, measure) if measure.says_better else ""


def _number(evaluation: Evaluation, run: str, measure: Measure) -> str:
    value = evaluation.summary(run, measure)
    return f"{value:.0f}" if measure.summed else f"{value:.4f}"


def _rich_cell(cell: Cell) -> Text:
    from rich.text import Text

    number = Text(cell.text, style="bold" if cell.best else "")
    return Text.assemble(number, cell.mark or " ")


def _markdown_cell(cell: Cell) -> str:
    return (f"**{cell.text}**" if cell.best else cell.text) + cell.mark


def _latex_cell(cell: Cell) -> str:
    number = rf"\textbf{{{cell.text}}}" if cell.best else cell.text
    return number + LATEX_MARKS[cell.mark]


def padded_line(line: Sequence[str], widths: Sequence[int]) -> str:
    """A line of a pipe table: the first cell to the left, the others to the right."""
    first = line[0].ljust(widths[0])
    other_cells = [text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)]
    return "| " + " | ".join([first, *other_cells]) + " |"


def align(rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """Rows in columns: the first `text_columns` of them to the left, the others to the right.

    >>> print(align([["run", "AP"], ["bm25", "0.5000"]]))
    run       AP
    bm25  0.5000
    """
    cells = [[visible(text).replace("\n", " ") for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            text.ljust(width) if number < text_columns else text.rjust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def escape_latex(text: str) -> str:
    """Text as LaTeX prints it."""
    return text.translate(LATEX_SPECIAL)


def _run_json(evaluation: Evaluation, run: str) -> dict[str, Any]:
    values = {str(m): evaluation.summary(run, m) for m in evaluation.measures}
    counts = {
        "missing": len(evaluation.missing[run]),
        "not_judged": len(evaluation.unjudged[run]),
    }
    return {"values": values, **counts}


def _comparison_json(comparison: Comparison, level: float) -> dict[str, Any]:
    plain = asdict(comparison)
    plain["measure"] = str(comparison.measure)
    plain["verdict"] = {1: "above", -1: "below", 0: "undecided"}[comparison.verdict(level)]
    return plain
