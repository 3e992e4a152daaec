"""The documents found for some words, as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tamis.cli.common import say, show, show_json
from tamis.cli.dense import search_saying

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tamis.search import Index
    from tamis.types import Source


def show_hits(opened: Index, source: Source, words: str, top: int, json: bool) -> None:
    """Print the documents found for some words, the matched words marked."""
    from tamis.search.snippets import snippet
    from tamis.types import Queries, Query

    ranking = search_saying(source, Queries.of([Query("words", words)]), top)["words"]
    terms = opened.analyzer.terms(words)
    hits = []
    for doc_id, score in ranking:
        document = opened.document(doc_id)
        hits.append((doc_id, score, document.title, snippet(document.text, terms, opened.analyzer)))
    if json:
        found = [{"id": i, "score": s, "title": t, "text": x.text} for i, s, t, x in hits]
        show_json({"query": words, "terms": terms, "hits": found})
        return
    if not hits:
        reason = "no document has one of its terms" if terms else "it has no terms to search for"
        say(f"nothing found: {reason}")
    for rank, (doc_id, score, title, found_text) in enumerate(hits, 1):
        show(_heading(rank, doc_id, score, title), _body(found_text.text, found_text.matches), "")


def _heading(rank: int, doc_id: str, score: float, title: str) -> RenderableType:
    from rich.text import Text

    heading = Text(f"{rank:>2}. ")
    heading.append(title or doc_id, style="bold")
    named = f"  {doc_id}" if title and title != doc_id else ""
    heading.append(f"{named}  {score:.4f}", style="dim")
    return heading


def _body(text: str, matches: tuple[tuple[int, int], ...]) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    body = Text(text)
    for start, end in matches:
        body.stylize("bold yellow", start, end)
    return Padding(body, (0, 0, 0, 4), expand=False)
