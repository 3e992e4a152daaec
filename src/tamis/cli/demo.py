"""`tamis demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import console, say, show

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.fitting.demo import BeforeAndAfter
    from tamis.fitting.sieve import Sieve


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The sieve it makes; replaced if it is there.")
    ] = Path("demo.sieve"),
    quick: Annotated[bool, typer.Option("--quick", help="In two minutes, not ten.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="All, unless told.")] = None,
) -> None:
    """The main job on Python's own documentation: index, learn, choose, test, search.

    Example: tamis demo --quick
    """
    from tamis.cli.fit import show_plan, show_sieve
    from tamis.fitting.demo import has_model, run_demo, searches

    _refuse_other(output)
    say("reading the docstrings and language topics of this Python …")
    sieve = run_demo(output, quick=quick, threads=threads, on_plan=show_plan)
    for found in searches(sieve):
        show("", f"for: {found.words}", _side_by_side(sieve, found))
    show("", "on the test questions:")
    show_sieve(sieve)
    if not has_model():
        show("To see a small model re-rank this: pip install 'tamis[neural,models]'")


def _refuse_other(folder: Path) -> None:
    """Replace a sieve, nothing else."""
    from tamis.cli.sieves import is_sieve
    from tamis.errors import OutputError

    if folder.exists() and not is_sieve(folder):
        raise OutputError(f"{folder} exists and is no sieve", hint="choose another name: -o NAME")


def _side_by_side(sieve: Sieve, found: BeforeAndAfter) -> Table:
    """The first documents before and after."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("", "BM25", sieve.manifest["selected"]):
        table.add_column(head)
    room = max(20, (min(console().width, 120) - 6) // 2)
    for place in range(max(len(found.before), len(found.after))):
        cells = []
        for ids in (found.before, found.after):
            shown = Text(ids[place] if place < len(ids) else "")
            if place < len(ids):
                text = sieve.index.document(ids[place]).text
                shown.stylize("bold")
                shown.append(f"  {' '.join(text.split()[:12])}", style="not bold")
            shown.truncate(room, overflow="ellipsis")
            cells.append(shown)
        table.add_row(str(place + 1), *cells)
    return table
