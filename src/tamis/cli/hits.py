"""Search results for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tamis.cli.common import say, show, show_json
from tamis.terminal import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tamis.search import Index
    from tamis.search.hits import Hit
    from tamis.text.analysis import Analyzer

MAX_FIELD_CHARACTERS = 60
"""A longer value of a field is cut off in a terminal."""


def show_hits(
    hits: Sequence[Hit],
    words: str,
    index: Index,
    as_json: bool,
    *,
    raw_scores: bool = False,
    threshold: float | None = None,
    where: Sequence[str] = (),
) -> None:
    """Print the hits of a query, matched words marked; below the threshold none is an answer.

    `raw_scores` shows what the ranking went by in place of the score from 0 to 1.
    """
    analyzer = index.analyzer
    terms = analyzer.terms(words)
    if as_json:
        rows = [_json_hit(hit) for hit in hits]
        show_json("search", {"query": words, "terms": terms, "hits": rows})
        return
    if not hits:
        say(f"nothing found: {_why_nothing(index, terms, where)}")
    if hits and threshold is not None and hits[0].score < threshold:
        best = f"{hits[0].score:.0%}"
        say(f"note: probably no good answer: best match {best}, threshold {threshold:.0%}")
    for hit in hits:
        value = f"{hit.raw_score:.4f}" if raw_scores else f"{hit.score:.2f}"
        score = _percent(hit.score) if hit.calibrated else value
        show(_heading(hit, score), *_fields(hit), _body(_untitled(hit), terms, analyzer), "")


def _why_nothing(index: Index, terms: Sequence[str], where: Sequence[str]) -> str:
    from tamis.collection.loss_notes import counted
    from tamis.search.filters import values_in_other_case
    from tamis.types.conditions import as_conditions

    conditions, segments = as_conditions(where), index.snapshot.segments
    included = index.snapshot.included(conditions)
    sizes = zip(segments, included, strict=True)
    matching = sum(segment.size - filtered.excluded for segment, filtered in sizes)
    if conditions and not matching:
        columns = [segment.columns for segment in segments]
        values = [v for condition in conditions for v in values_in_other_case(condition, columns)]
        hint = f"; there is {', '.join(map(repr, values))}" if values else ""
        return f"no document matches --where{hint}"
    if not terms:
        return "it has no terms to search for"
    among = f" among {counted(matching, 'document')} that --where admits" if conditions else ""
    return f"no document{among} has one of its terms"


def _percent(probability: float) -> str:
    """A probability for a person: none is 0 or 100%.

    >>> _percent(0.28), _percent(0.002), _percent(0.999)
    ('28%', '<1%', '>99%')
    """
    if probability < 0.005:
        return "<1%"
    return ">99%" if probability >= 0.995 else f"{probability:.0%}"


def _json_hit(hit: Hit) -> dict[str, Any]:
    """A hit without the whole text, which may be long."""
    values = asdict(hit)
    del values["text"]
    return {**values, "score": round(hit.score, 6)}


def _heading(hit: Hit, score: str) -> RenderableType:
    from rich.text import Text

    heading = Text(f"{hit.rank:>2}. ")
    heading.append(visible(" ".join(hit.title.split()) or hit.id), style="bold")
    identifier = f"  {hit.id}" if hit.title and hit.title != hit.id else ""
    heading.append(visible(f"{identifier}  {score}"), style="dim")
    return heading


def _fields(hit: Hit) -> list[RenderableType]:
    """The document's fields and where the passage lies, where it is not the whole document."""
    from rich.padding import Padding
    from rich.text import Text

    values = {name: _joined(value) for name, value in hit.fields.items()}
    facts = [f"{name}: {_short(value)}" for name, value in values.items() if value.strip()]
    if hit.passage and hit.passage != hit.text.strip() and hit.end:
        facts.append(f"characters {hit.start:,} to {hit.end:,}")
    if not facts:
        return []
    return [Padding(Text(visible(" · ".join(facts)), style="dim"), (0, 0, 0, 4), expand=False)]


def _untitled(hit: Hit) -> str:
    """The passage without a first line that is the title, which stands above it."""
    first, _, more = hit.passage.partition("\n")
    return more.lstrip() or hit.passage if hit.title and first.strip() == hit.title else hit.passage


def _short(value: str) -> str:
    flat = " ".join(value.split())
    return flat if len(flat) <= MAX_FIELD_CHARACTERS else f"{flat[:MAX_FIELD_CHARACTERS]}…"


def _joined(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _body(passage: str, terms: Sequence[str], analyzer: Analyzer) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    from tamis.search.snippets import snippet

    shown = snippet(passage, terms, analyzer)
    body = Text(visible(shown.text))
    for start, end in shown.matches:
        body.stylize("bold yellow", start, end)
    return Padding(body, (0, 0, 0, 4), expand=False)
