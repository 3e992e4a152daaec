"""The documents found for some words, as a person reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tamis.cli.common import say, show, show_json
from tamis.cli.dense import search_saying
from tamis.terminal import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tamis.search import Index
    from tamis.types import Run, Source


def show_hits(
    opened: Index,
    source: Source,
    words: str,
    top: int,
    json: bool,
    chances: Callable[[Run], list[float] | None] = lambda run: None,
    threshold: float | None = None,
) -> None:
    """Print the documents found for some words, the matched words marked.

    `chances` says how likely each row of the run is an answer; under the threshold none is good.
    """
    from tamis.search.snippets import snippet
    from tamis.types import Queries, Query

    run = search_saying(source, Queries.of([Query("words", words)]), top)
    ranking, likely = run["words"], chances(run)
    terms = opened.analyzer.terms(words)
    hits = []
    for doc_id, score in ranking:
        document = opened.document(doc_id)
        hits.append((doc_id, score, document.title, snippet(document.text, terms, opened.analyzer)))
    if json:
        found = [{"id": i, "score": s, "title": t, "text": x.text} for i, s, t, x in hits]
        for number, chance in enumerate(likely or []):
            found[number]["probability"] = round(chance, 4)
        show_json({"query": words, "terms": terms, "hits": found})
        return
    if not hits:
        reason = "no document has one of its terms" if terms else "it has no terms to search for"
        say(f"nothing found: {reason}")
    if likely and threshold is not None and likely[0] < threshold:
        say(f"note: probably no good answer ({likely[0]:.0%}, a good one has {threshold:.0%})")
    for rank, (doc_id, score, title, found_text) in enumerate(hits, 1):
        shown = f"{score:.4f}" if likely is None else f"{likely[rank - 1]:.0%}"
        show(_heading(rank, doc_id, shown, title), _body(found_text.text, found_text.matches), "")


def _heading(rank: int, doc_id: str, score: str, title: str) -> RenderableType:
    from rich.text import Text

    heading = Text(f"{rank:>2}. ")
    heading.append(visible(" ".join(title.split()) or doc_id), style="bold")
    named = f"  {doc_id}" if title and title != doc_id else ""
    heading.append(visible(f"{named}  {score}"), style="dim")
    return heading


def _body(text: str, matches: tuple[tuple[int, int], ...]) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    body = Text(visible(text))
    for start, end in matches:
        body.stylize("bold yellow", start, end)
    return Padding(body, (0, 0, 0, 4), expand=False)
