"""`tamis demo`."""

from __future__ import annotations

from tamis.cli.common import say, show, show_facts


def demo() -> None:
    """Rank Python's own documentation for questions we wrote, and measure it.

    Example: tamis demo
    """
    from tamis.collection.describe import describe_collection
    from tamis.evaluation import footnotes, rich_table
    from tamis.fit.demo import run_demo

    say("reading the docstrings and language topics of this Python …")
    done = run_demo()
    facts = describe_collection(done.collection)
    show_facts(facts.facts)
    for warning in facts.warnings:
        say(f"warning: {warning}")
    show("", rich_table(done.evaluation), *footnotes(done.evaluation), "")
    queries = done.run.queries
    for query in list(queries)[:3]:
        best = ", ".join(done.run[query.id].ids[:3])
        show(f"{query.text}\n  found: {best}")
