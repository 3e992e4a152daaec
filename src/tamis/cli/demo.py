"""`tamis demo`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tamis.cli.common import console, say, show, show_facts

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.fit.demo import Demo, RerankedDemo

SEARCH = "how do I stop a loop early"
SHOWN = 3
"""How many of the first documents are shown; right answers further down are shown too."""


def demo() -> None:
    """Index Python's own documentation, search it, re-rank it, and measure that on questions.

    Example: tamis demo
    """
    from tamis.cli.hits import show_hits
    from tamis.collection.describe import describe_collection
    from tamis.evaluation import footnotes, rich_table
    from tamis.fit.demo import run_demo

    say("indexing the docstrings and language topics of this Python …")
    with TemporaryDirectory() as folder:
        done = run_demo(Path(folder))
        facts = describe_collection(done.collection)
        show_facts(facts.facts)
        for warning in facts.warnings:
            say(f"warning: {warning}")
        show("", f"BM25 for: {SEARCH}", "")
        show_hits(done.index, done.index.bm25(), SEARCH, 3, json=False)
        show("on the test questions:", rich_table(done.evaluation), *footnotes(done.evaluation))
        show("In most questions no word occurs in the answer's name or first line: hard for BM25.")
        _rerank(done, Path(folder))


def _rerank(done: Demo, folder: Path) -> None:
    """Re-rank with a small model where one is installed, and show what moved."""
    from rich.markup import escape

    from tamis.evaluation import footnotes, rich_table
    from tamis.fit.demo import DEPTH, MODEL, demo_ranker, rerank_demo

    ranker = demo_ranker()
    if ranker is None:
        show("", escape("To see a small model re-rank this: pip install 'tamis[neural,models]'"))
        return
    say(f"re-ranking the first {DEPTH} documents of every question with {MODEL} …")
    found = rerank_demo(done, ranker, folder)
    for what, query in zip(("gained", "lost"), found.extremes(), strict=True):
        text = done.collection.queries[query].text
        show("", escape(f"The question that {what} most: {text}"), _moves(done, found, query))
    show("", "on the test questions:", rich_table(found.evaluation, found.comparisons))
    show(*footnotes(found.evaluation, found.comparisons), "")
    show(*_verdict(found))


def _moves(done: Demo, found: RerankedDemo, query: str) -> Table:
    """Where the first documents of a question stood before; right answers are marked."""
    from rich.table import Table
    from rich.text import Text

    from tamis.fit.demo import DEPTH

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("now", "before", "", "document"):
        table.add_column(head, justify="left" if head == "document" else "right")
    room = min(console().width, 120) - 20
    run, right = found.reranked.run, done.collection.qrels["test"].to_dict()[query]
    start = int(run.offsets[run.queries.ids.number(query)])
    before = found.reranked.before.ranks()[found.reranked.row[start:]]
    for place, doc_id in enumerate(run[query].ids[:DEPTH]):
        mark = "✓" if right.get(doc_id, 0) > 0 else ""
        if place >= SHOWN and not mark:
            continue
        document = done.index.document(doc_id)
        shown = Text(document.title or doc_id, style="bold")
        shown.append(f"  {' '.join(document.text.split()[:20])}", style="not bold")
        shown.truncate(room, overflow="ellipsis")
        table.add_row(str(place + 1), str(before[place]), mark, shown)
    return table


def _verdict(found: RerankedDemo) -> list[str]:
    """What the numbers say, in sentences."""
    from tamis.evaluation.comparison_tables import shown_p

    lines = []
    for one in found.comparisons:
        if str(one.measure) == "nDCG@10":
            raw, corrected = shown_p(one.t_test.raw), shown_p(one.t_test.holm)
            lines.append(
                f"{one.run}: nDCG@10 {one.difference:+.4f}, better on {one.wins}, worse on "
                f"{one.losses} of {one.queries} questions (p {raw}, corrected {corrected})."
            )
    changes = found.reranked.changes()
    another = changes["queries with another first document"]
    lines.append(f"Another document comes first in {another} of {len(found.reranked.run)} answers.")
    return [
        *lines,
        "half and half: half the model's score, half BM25's, each on 0 to 1 within a question.",
        "Re-ranking cannot bring up what BM25 did not find: see R@100.",
    ]
