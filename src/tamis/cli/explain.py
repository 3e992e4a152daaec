"""`tamis explain`: one result of a search, and why a run is worse than another."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import say, show_json
from tamis.cli.options import OUTPUT_PANEL, Force, Json, Threads, with_options
from tamis.cli.sieves import is_searchable, is_sieve, opened_sieve, say_what_was_tested
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.types.explanation import Explanation

app = typer.Typer(
    help="Explain one result of a search, or why a run is worse than another.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write it as a page that needs nothing else.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]


@app.command("result")
@with_options
def result(
    sieve: Annotated[
        Path,
        typer.Argument(metavar="SIEVE", help="A sieve, or an index that is searched by words."),
    ],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The words searched for.")],
    document: Annotated[
        str | None,
        typer.Argument(metavar="DOC", help="The id of the document. Default: the first hit."),
    ] = None,
    other: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="The id of a document to compare with."),
    ] = None,
    html: Html = None,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Say why a document stands where it stands for a query, part by part.

    Example: tamis explain result my.sieve "sort a list"
    """
    from tamis.cli.explain_show import show_explanation
    from tamis.explain.page import write_explanation

    found = _explained(sieve, query, document, other, threads)
    if html is not None:
        write_explanation(html, found, command=shlex.join(["tamis", *sys.argv[1:]]), force=force)
    if json:
        show_json("explanation", found.to_json())
    else:
        show_explanation(found)
    if html is not None:
        say(f"page: {html}")


def _explained(
    folder: Path, query: str, document: str | None, other: str | None, threads: int | None
) -> Explanation:
    from tamis.search import Index

    if not is_searchable(folder):
        raise InputError(
            f"{folder} is neither a sieve nor an index", hint="tamis fit writes a sieve"
        )
    if not is_sieve(folder):
        return Index.open(folder).explain(query, document, other)
    opened = opened_sieve(folder, threads)
    say_what_was_tested(opened)
    return opened.explain(query, document, other)
