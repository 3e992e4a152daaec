"""Search results for a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tamis.cli.common import say, show, show_json
from tamis.cli.dense import search_and_report
from tamis.terminal import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tamis.search import Index
    from tamis.types import Run, Source


def show_hits(
    index: Index,
    source: Source,
    words: str,
    top: int,
    json: bool,
    probabilities: Callable[[Run], list[float] | None] = lambda run: None,
    threshold: float | None = None,
) -> None:
    """Print the top documents of a query, matched words marked.

    `probabilities` are those that a row of the run is an answer; below the threshold none is.
    """
    from tamis.search.snippets import snippet
    from tamis.types import Queries, Query

    run = search_and_report(source, Queries.of([Query("words", words)]), top)
    ranking, likely = run["words"], probabilities(run)
    terms = index.analyzer.terms(words)
    hits = []
    for doc_id, score in ranking:
        document = index.document(doc_id)
        hits.append((doc_id, score, document.title, snippet(document.text, terms, index.analyzer)))
    if json:
        rows = [{"id": i, "score": s, "title": t, "text": x.text} for i, s, t, x in hits]
        for row, probability in zip(rows, likely or [], strict=False):
            row["probability"] = round(probability, 4)
        show_json("search", {"query": words, "terms": terms, "hits": rows})
        return
    if not hits:
        reason = "no document has one of its terms" if terms else "it has no terms to search for"
        say(f"nothing found: {reason}")
    if likely and threshold is not None and likely[0] < threshold:
        say(f"note: probably no good answer: best match {likely[0]:.0%}, threshold {threshold:.0%}")
    for rank, (doc_id, score, title, passage) in enumerate(hits, 1):
        value = f"{score:.4f}" if likely is None else f"{likely[rank - 1]:.0%}"
        show(_heading(rank, doc_id, value, title), _body(passage.text, passage.matches), "")


def _heading(rank: int, doc_id: str, score: str, title: str) -> RenderableType:
    from rich.text import Text

    heading = Text(f"{rank:>2}. ")
    heading.append(visible(" ".join(title.split()) or doc_id), style="bold")
    identifier = f"  {doc_id}" if title and title != doc_id else ""
    heading.append(visible(f"{identifier}  {score}"), style="dim")
    return heading


def _body(text: str, matches: tuple[tuple[int, int], ...]) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    body = Text(visible(text))
    for start, end in matches:
        body.stylize("bold yellow", start, end)
    return Padding(body, (0, 0, 0, 4), expand=False)
