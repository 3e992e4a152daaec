"""`tamis demo`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tamis.cli.common import say, show, show_facts

SEARCH = "how do I stop a loop early"


def demo() -> None:
    """Index Python's own documentation, search it, and measure that on questions we wrote.

    Example: tamis demo
    """
    from tamis.cli.first_stage import show_hits
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
