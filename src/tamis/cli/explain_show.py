"""An explanation for a person in a terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tamis.cli.common import show
from tamis.terminal import plain_table, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tamis.explain.losses import Losses
    from tamis.explain.tables import Table
    from tamis.types.explanation import Explanation

PASSAGE_CHARACTERS = 400
"""How much of the winning passage is printed."""
SHOWN_QUERIES = 10
"""How many of the worse queries are printed."""


def show_explanation(found: Explanation) -> None:
    """Print an explanation: the facts, the passage, then table after table."""
    from tamis.explain.tables import facts_of, passage_line, tables_of

    show(_facts(facts_of(found)), "")
    for note in found.notes:
        show(f"note: {note}", "")
    show(_heading("Passage", passage_line(found)), _passage(found), "")
    for table in tables_of(found):
        show(_heading(table.heading, table.note), _table(table), "")


def show_losses(losses: Losses) -> None:
    """Print why queries got worse: the finding, cause after cause, the worst queries."""
    from tamis.explain.losses_page import cause_table, finding, means_line, query_table

    show(f"{finding(losses)}.", means_line(losses), "")
    for note in losses.notes:
        show(f"note: {note}", "")
    causes = cause_table(losses)
    short = replace(
        causes,
        heads=(causes.heads[0], *causes.heads[2:]),
        rows=tuple((row[0], *row[2:]) for row in causes.rows),
        text_columns=1,
    )
    show(_heading(short.heading, short.note), _table(short), "")
    for cause in losses.causes:
        how = f"undone by {cause.undone_by}" if cause.was_run else f"not run: {cause.why_not}"
        show(f"{cause.name}: {how}")
    if losses.per_query:
        table = query_table(losses, SHOWN_QUERIES, 24)
        show("", _heading(table.heading, ""), _table(table))
        if table.note:
            show(table.note)


def _heading(heading: str, note: str) -> RenderableType:
    from rich.text import Text

    line = Text(visible(heading), style="bold")
    if note:
        line.append(visible(f"\n{note}"), style="not bold dim")
    return line


def _facts(facts: dict[str, str]) -> RenderableType:
    """Name and value side by side, a long query on several lines."""
    from rich.padding import Padding
    from rich.text import Text

    table = plain_table(show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(visible(value), style="bold" if name == "document" else ""))
    return Padding(table, 0)


def _passage(found: Explanation) -> RenderableType:
    """The winning passage on its own lines from its first words of the query on, these marked."""
    from rich.text import Text

    from tamis.explain.page import pieces

    hidden, room = _hidden_before(found), PASSAGE_CHARACTERS
    text = Text("…" if hidden else "")
    for piece, is_match in pieces(found):
        shown, hidden = piece[hidden:], max(0, hidden - len(piece))
        flat = visible("".join(" " if char.isspace() else char for char in shown))[:room]
        text.append(flat, style="bold yellow" if is_match else "")
        room -= len(flat)
    if not room:
        text.append("…")
    return text


def _hidden_before(found: Explanation) -> int:
    """How many characters of the passage are left out so that its first match is among those
    shown.
    """
    passage = found.passage
    if passage is None or not passage.matches:
        return 0
    start, end = passage.matches[0]
    if end <= PASSAGE_CHARACTERS:
        return 0
    return passage.text.rfind(" ", 0, start - PASSAGE_CHARACTERS // 4) + 1


def _table(table: Table) -> RenderableType:
    from rich.text import Text

    shown = plain_table()
    for place, head in enumerate(table.heads):
        is_text = place < table.text_columns
        shown.add_column(head, justify="left" if is_text else "right", header_style="dim")
    for place, cells in enumerate(table.rows):
        style = "dim" if table.dim and table.dim[place] else ""
        styles = [_style(head, cell, style) for head, cell in zip(table.heads, cells, strict=True)]
        shown.add_row(*map(Text, map(visible, cells), styles))
    return shown


def _style(head: str, cell: str, style: str) -> str:
    """Differences in colour: what helps green, what harms red."""
    if head not in ("change", "difference"):
        return style
    if cell.startswith("+"):
        return "green"
    return "red" if cell.startswith("−") else style
