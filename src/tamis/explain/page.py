"""An explanation as a page: what the template shows, and the file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tamis.durable import new_file
from tamis.explain.tables import Table, facts_of, passage_line, tables_of
from tamis.pages.bars import value_bars
from tamis.pages.render import render
from tamis.pages.text_format import shorten
from tamis.types.explanation import Explanation

MAX_TITLE = 80


def write_explanation(
    path: Path,
    found: Explanation,
    *,
    command: str = "",
    date: datetime | None = None,
    force: bool = False,
) -> None:
    """Write the page; an existing file is refused without `force`."""
    page = explanation_page(found, command=command, date=date)
    with new_file(path, force=force) as file:
        file.write_text(page, "utf-8")


def explanation_page(found: Explanation, *, command: str = "", date: datetime | None = None) -> str:
    """The page as HTML; it needs nothing else."""
    return render(
        "explanation.html",
        heading=heading_of(found),
        facts=facts_of(found),
        notes=[f"{note[:1].upper()}{note[1:]}." for note in found.notes],
        passage={"line": passage_line(found), "pieces": list(pieces(found))},
        tables=[shown_table(table) for table in tables_of(found)],
        command=command,
        date=date or datetime.now(UTC),
    )


def heading_of(found: Explanation) -> str:
    """The question that is answered."""
    name = shorten(found.title or found.id, MAX_TITLE)
    query = shorten(found.query, MAX_TITLE)
    if found.rank is None:
        return f"Why {name} is not among the candidates for “{query}”"
    return f"Why {name} stands at rank {found.rank:,} for “{query}”"


def pieces(found: Explanation) -> Iterator[tuple[str, bool]]:
    """The winning passage in pieces, and whether each is a word of the query."""
    passage, at = found.passage, 0
    if passage is None:
        return
    for start, end in passage.matches:
        yield passage.text[at:start], False
        yield passage.text[start:end], True
        at = end
    yield passage.text[at:], False


def shown_table(table: Table) -> dict[str, Any]:
    """A table as the template shows it."""
    bars = value_bars(table.bars) if table.bars else [""] * len(table.rows)
    dim = table.dim or (False,) * len(table.rows)
    rows = zip(table.rows, bars, dim, strict=True)
    return {
        "heading": table.heading,
        "heads": table.heads,
        "text_columns": table.text_columns,
        "note": table.note and f"{table.note[0].upper()}{table.note[1:]}.",
        "bars": bool(table.bars),
        "rows": [{"cells": cells, "bar": bar, "dim": is_dim} for cells, bar, is_dim in rows],
    }
