"""The losses of a run as tables of text, for the terminal, and as a page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tamis.durable import new_file
from tamis.explain.losses import Losses
from tamis.explain.page import shown_table
from tamis.explain.tables import Table
from tamis.pages.render import render
from tamis.pages.text_format import counted, percent, shorten, signed

MAX_QUERIES = 100
"""How many of the worse queries a page lists."""


def finding(losses: Losses) -> str:
    """The result in a sentence or two."""
    if not losses.worse:
        return f"No query of {losses.run} is below {losses.baseline} on {losses.measure}"
    worse = f"{counted(losses.worse)} of {losses.queries:,} below {losses.baseline}"
    ran = [cause for cause in losses.causes if cause.was_run]
    best = max(ran, key=lambda cause: cause.restored, default=None)
    if best is None or not best.restored:
        return f"{worse}: no cause that was undone restores any"
    return (
        f"{worse}: undoing “{best.name}” restores {best.restored:,} ({best.share:.0%}), "
        f"{losses.unexplained:,} ({losses.unexplained_share:.0%}) stay unexplained"
    )


def means_line(losses: Losses) -> str:
    """What both runs have on average."""
    difference = signed(losses.run_mean - losses.baseline_mean)
    return (
        f"{losses.measure}: {losses.run} {losses.run_mean:.4f}, {losses.baseline} "
        f"{losses.baseline_mean:.4f} ({difference}); {losses.better:,} better, "
        f"{losses.worse:,} worse, {losses.queries:,} queries"
    )


def cause_table(losses: Losses) -> Table:
    """A row a cause, those that were not run too."""
    heads = ("cause", "remedy", "applies", "restored", "share", "recovered")
    rows = [
        (
            cause.name,
            cause.undone_by if cause.was_run else f"not run: {cause.why_not}",
            *(
                (
                    f"{cause.applies:,}",
                    f"{cause.restored:,}",
                    f"{cause.share:.0%}",
                    percent(cause.recovered),
                )
                if cause.was_run
                else ("–",) * 4
            ),
        )
        for cause in losses.causes
    ]
    rows.append(
        ("unexplained", "", "", f"{losses.unexplained:,}", f"{losses.unexplained_share:.0%}", "")
    )
    shares = [cause.share for cause in losses.causes]
    dim = tuple(not cause.was_run for cause in losses.causes)
    return Table(
        "Causes", heads, tuple(rows), 2,
        "a query counts under a cause if its value without it is at least the baseline's; it may "
        "count under several. Recovered: how much of the gap to the baseline closes",
        (*shares, losses.unexplained_share), (*dim, False),
    )  # fmt: skip


def query_table(losses: Losses, most: int, text_length: int = 40) -> Table:
    """The worse queries, the largest loss first."""
    shown = losses.per_query[:most]
    rows = tuple(
        (
            shorten(query.id, 24),
            shorten(query.text, text_length),
            ", ".join(query.restored_by) or "–",
            f"{query.baseline:.4f}",
            f"{query.run:.4f}",
            signed(query.run - query.baseline),
        )
        for query in shown
    )
    heads = ("query", "text", "restored by", losses.baseline, losses.run, "difference")
    hidden = len(losses.per_query) - len(shown)
    note = f"and {hidden:,} more" if hidden else ""
    bars = tuple(query.run - query.baseline for query in shown)
    return Table("Worse queries", heads, rows, 3, note, bars)


def losses_page(losses: Losses, *, command: str = "", date: datetime | None = None) -> str:
    """The page as HTML; it needs nothing else."""
    tables = [cause_table(losses), query_table(losses, MAX_QUERIES, 120)]
    return render(
        "losses.html",
        heading=finding(losses),
        means=means_line(losses),
        tables=[shown_table(table) for table in tables],
        notes=[f"{note[:1].upper()}{note[1:]}." for note in losses.notes],
        command=command,
        date=date or datetime.now(UTC),
    )


def write_losses(path: Path, losses: Losses, *, command: str = "", force: bool = False) -> None:
    """Write the page; an existing file is refused without `force`."""
    page = losses_page(losses, command=command)
    with new_file(path, force=force) as file:
        file.write_text(page, "utf-8")
