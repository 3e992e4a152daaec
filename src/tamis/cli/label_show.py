"""Examples written to a file, summarised and shown."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import say, show, show_facts, show_json
from tamis.terminal import plain_table, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from tamis.labels.example_summary import ExampleGroup
    from tamis.labels.examples import Examples
    from tamis.pipeline.document_lookup import Documents

Show = Annotated[
    int | None,
    typer.Option(
        "--show", metavar="N", min=1, help="Print the examples of so many queries with their texts."
    ),
]
SHOWN_CHARACTERS = 100
"""How much of a text is shown where there is no terminal; else what fits."""


def write_and_show(
    examples: Examples,
    documents: Documents,
    output: Path,
    num_shown: int | None,
    json: bool,
    force: bool,
) -> None:
    """Write the examples, and say what they are."""
    from tamis.collection.loss_notes import counted
    from tamis.labels import write_examples
    from tamis.labels.examples import readable_facts

    groups = some_groups(examples, documents, num_shown) if num_shown else []
    write_examples(examples, output, force=force)
    if json:
        more = {"shown": [asdict(group) for group in groups]} if num_shown else {}
        show_json("label", {**examples.facts, **more})
        return
    show_groups(groups)
    show_facts(readable_facts(examples.facts))
    say(f"{output}: {counted(len(examples), 'example')} of {counted(examples.groups, 'group')}")


def some_groups(examples: Examples, documents: Documents, count: int) -> list[ExampleGroup]:
    """Some groups with their texts."""
    from tamis.labels.example_summary import show_examples
    from tamis.pipeline.document_lookup import open_lookup
    from tamis.types import Ids

    origins = Ids.of(origin.doc_id for origin in examples.origins.values())
    with open_lookup(documents, examples.docs.union(origins)) as lookup:
        return show_examples(examples, lookup, count)


def show_groups(groups: Sequence[ExampleGroup]) -> None:
    """Print queries, and below each some of its texts, aligned."""
    for group in groups:
        show(*_lines(group))


def _lines(group: ExampleGroup) -> list[RenderableType]:
    from rich.text import Text

    heading = Text(visible(" ".join(group.text.split())), style="bold")
    heading.append(visible(f"  {group.query}"), style="not bold dim")
    table = plain_table(show_header=False)
    table.add_column(width=10)
    table.add_column(justify="right")
    for _ in range(2):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for row in group.rows:
        start = " ".join(row.text[: 3 * SHOWN_CHARACTERS].split())
        start = start if len(start) <= SHOWN_CHARACTERS else f"{start[:SHOWN_CHARACTERS]}…"
        value = Text(f"{row.value:.4g}")
        document = Text(visible(row.document), style="dim")
        table.add_row(Text(f"  {row.role}"), value, document, Text(visible(start)))
    num_hidden = group.of - len(group.rows)
    more = [Text(f"  and {num_hidden:,} more", style="dim")] if num_hidden else []
    return [heading, table, *more, ""]
