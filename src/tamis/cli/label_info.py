"""`tamis info` of examples."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.cli.common import STDIO, by_split, say, show_facts, show_json
from tamis.cli.label_options import open_named
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.cli.options import ReadOptions
    from tamis.labels.examples import Examples
    from tamis.labels.inputs import LabelInputs
    from tamis.types import Ids, Qrels, Queries, Run

SCORE_DEPTH = 1000


def is_examples(path: str) -> bool:
    """Whether this names a file of examples."""
    from tamis.collection.detection import detect_format
    from tamis.collection.readers import is_id

    if path == STDIO or is_id(path) or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == b"PAR1" and detect_format(path) == "examples"


def describe_examples(
    path: str,
    collection: str | None,
    run: str | None,
    queries: str | None,
    qrels: list[str] | None,
    num_shown: int | None,
    read: ReadOptions,
    json: bool,
) -> None:
    """Print what is in a file of examples; with a collection, an index or a run more of it."""
    from tamis.cli.label_show import show_groups, some_groups
    from tamis.labels import example_summary, read_examples
    from tamis.pipeline.document_lookup import open_lookup

    examples = read_examples(path)
    inputs = open_named(collection, read) if collection else None
    if num_shown and inputs is None:
        raise InputError("texts to show are in no collection", hint="name it: -c COLLECTION")
    examples = _with_texts(examples, inputs, queries)
    scores = _scores(examples, inputs, run)
    with ExitStack() as stack:
        texts = None
        if inputs is not None:
            texts = stack.enter_context(open_lookup(inputs.documents, _document_ids(examples)))
        facts = example_summary.describe_examples(examples, texts, scores, _judged(inputs, qrels))
    groups = some_groups(examples, inputs.documents, num_shown) if num_shown and inputs else []
    if json:
        more = {"shown": [asdict(group) for group in groups]} if num_shown else {}
        show_json("examples", {**facts.facts, "warnings": list(facts.warnings), **more})
        return
    show_groups(groups)
    show_facts(facts.facts)
    for warning in facts.warnings:
        say(f"warning: {warning}")
    if scores is None:
        say("note: to find negatives that may be relevant, give --candidates RUN or -c INDEX")


def _document_ids(examples: Examples) -> Ids:
    """The documents that rows or queries are of."""
    from tamis.types import Ids

    return examples.docs.union(Ids.of(origin.doc_id for origin in examples.origins.values()))


def _with_texts(examples: Examples, inputs: LabelInputs | None, queries: str | None) -> Examples:
    """The examples with the queries' texts, where those are to be had."""
    from tamis.collection.readers import read_queries

    query_texts: Queries | None = None
    if queries is not None:
        query_texts = read_queries(queries)
    elif inputs is not None and inputs.collection is not None:
        query_texts = inputs.collection.queries
    return (
        examples
        if query_texts is None or not len(query_texts)
        else examples.with_queries(query_texts)
    )


def _scores(examples: Examples, inputs: LabelInputs | None, run: str | None) -> Run | None:
    """The scores of a run, or those of BM25 over an index; none without either."""
    import numpy as np

    from tamis.collection.runs import read_run
    from tamis.labels.example_texts import row_texts
    from tamis.labels.selection import search, source_of
    from tamis.pipeline.document_lookup import open_lookup
    from tamis.types import Queries

    if run is not None:
        return read_run(run)
    used, rows = np.unique(examples.query, return_index=True)
    has_texts = examples.queries.texts is not None or all(n in examples.origins for n in used)
    if inputs is None or inputs.index is None or not has_texts:
        return None
    with open_lookup(inputs.index, _document_ids(examples)) as lookup:
        texts = row_texts(examples, rows, lookup)[0]
    scored = Queries(examples.queries.ids.select(used), tuple(texts))
    return search(source_of(inputs), scored, SCORE_DEPTH)


def _judged(inputs: LabelInputs | None, files: list[str] | None) -> list[Qrels]:
    """The judgements of files, or else all that the collection has."""
    from tamis.collection.judgements import read_qrels

    files_by_split = by_split(files)
    if files_by_split is not None:
        return [read_qrels(file) for file in files_by_split.values()]
    return [] if inputs is None else list(inputs.splits.values())
