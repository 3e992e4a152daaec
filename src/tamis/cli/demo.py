"""`tamis demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import console, say, show
from tamis.cli.options import Threads, Verbose, with_options
from tamis.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.fitting.demo import BeforeAndAfter
    from tamis.fitting.sieve import Sieve


@with_options
def demo(
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="SIEVE", help="Sieve to write; an older one is replaced."
        ),
    ] = Path("demo.sieve"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Take about two minutes instead of ten.")
    ] = False,
    threads: Threads = None,
    verbose: Verbose = False,
) -> None:
    """Try tamis on Python's own documentation: index, train, select, test, search.

    Example: tamis demo --quick
    """
    from tamis.cli.fit import show_plan, show_sieve
    from tamis.errors import install_command
    from tamis.fitting.demo import has_model, run_demo, searches

    _refuse_other(output)
    say("reading the docstrings and language topics of this Python …")
    sieve = run_demo(output, quick=quick, threads=threads, on_plan=show_plan)
    for search in searches(sieve):
        show("", f"query: {search.words}", _side_by_side(sieve, search))
    show("")
    show_sieve(sieve, verbose=verbose)
    if not has_model():
        show(f"To see a small model re-rank this: {install_command('neural', 'models')}")


def _refuse_other(folder: Path) -> None:
    """Replace a sieve, nothing else."""
    from tamis.cli.sieves import is_sieve
    from tamis.errors import OutputError

    if folder.exists() and not is_sieve(folder):
        raise OutputError(f"{folder} exists and is no sieve", hint="choose another name: -o NAME")


def _side_by_side(sieve: Sieve, search: BeforeAndAfter) -> Table:
    """The first documents before and after."""
    from rich.text import Text

    table = plain_table()
    for head in ("", "BM25", sieve.manifest["selected"]):
        table.add_column(head)
    width = max(20, (min(console(width=120).width, 120) - 6) // 2)
    for rank in range(max(len(search.before), len(search.after))):
        cells = []
        for ids in (search.before, search.after):
            cell = Text(ids[rank] if rank < len(ids) else "")
            if rank < len(ids):
                text = sieve.index.document(ids[rank]).text
                cell.stylize("bold")
                cell.append(f"  {' '.join(text.split()[:12])}", style="not bold")
            cell.truncate(width, overflow="ellipsis")
            cells.append(cell)
        table.add_row(str(rank + 1), *cells)
    return table
