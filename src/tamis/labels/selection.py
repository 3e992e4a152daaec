"""Which split and which queries are labelled, their candidates, and the facts recorded of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.collection.loss_notes import counted
from tamis.collection.store import DocumentStore
from tamis.durable import Progress
from tamis.errors import InputError
from tamis.labels.examples import TEST_HASHES, Examples
from tamis.labels.inputs import LabelInputs
from tamis.search import Index, default_source
from tamis.search.sources import IndexSource
from tamis.splits import is_test
from tamis.types import Ids, Qrels, Queries, Run, join_runs

QUERIES_PER_SEARCH = 2000
_log = logging.getLogger(__name__)


def split_to_label(inputs: LabelInputs) -> str | None:
    """The split that was named, or the only one that is not for testing; none without any."""
    splits = [name for name in inputs.splits if not is_test(name)]
    if inputs.split is not None and is_test(inputs.split):
        raise InputError(
            f"{inputs.split} is a test split: its queries are held out and never learnt from",
            hint=f"label another: --split {splits[0] if splits else 'train'}",
        )
    if inputs.split is not None or not inputs.splits:
        return inputs.split
    if len(splits) == 1:
        return splits[0]
    if not splits:
        raise InputError(
            f"{inputs.name} has judgements of test queries only: {', '.join(inputs.splits)}",
            hint="name others: --qrels train=FILE",
        )
    raise InputError(
        f"{inputs.name} has the splits {', '.join(inputs.splits)}: which may be learnt from?",
        hint=f"--split {'train' if 'train' in splits else splits[0]}",
    )


def judgements(inputs: LabelInputs) -> Qrels:
    """The judgements to label from."""
    split = split_to_label(inputs)
    if split is None:
        raise InputError(
            f"{inputs.name} has no judgements",
            hint="name a file of them: --qrels FILE; or label without: tamis label pseudo",
        )
    return inputs.splits[split] if split in inputs.splits else inputs.judged()


def queries_to_label(
    inputs: LabelInputs, judged: Ids | None = None, *, log: bool = False
) -> Queries:
    """The queries to label, without those that are, or repeat, a test query."""
    if inputs.split is not None:
        split_to_label(inputs)  # an error where a test split was named
    queries, held_out = _queries_named(inputs, judged, log=log), inputs.held_out
    leaks = queries.ids.positions_in(held_out.leaks(queries)) >= 0
    if leaks.any():
        _log.info(
            "left out because of the test queries they are or repeat: %s, such as %s",
            counted(int(leaks.sum()), "query"), queries.ids[int(leaks.argmax())],
        )  # fmt: skip
    return queries.select(np.flatnonzero(~leaks))


def _queries_named(inputs: LabelInputs, judged: Ids | None, *, log: bool) -> Queries:
    """The queries that were handed in; else the collection's, or those of the run.

    Where a split was named, those that it has judged; with `log` also those that no other split
    has. Else all that were handed in, and of a collection's all that no test has.
    """
    if judged is None and inputs.split is not None:
        judged = inputs.judged().queries
    queries = inputs.available_queries
    if log and judged is not None and queries is not None and len(queries):
        other_queries = _other_splits(inputs, judged)
        return queries.select(np.flatnonzero(queries.ids.positions_in(other_queries) < 0))
    if inputs.queries is not None:
        return inputs.queries if inputs.split is None else select_judged(inputs.queries, judged)
    if queries is None or not len(queries):
        if inputs.run is None:
            raise InputError(
                f"{inputs.name} has no queries",
                hint="name a file of queries: --queries FILE; or none: --from-documents of pseudo",
            )
        return inputs.run.queries
    if judged is None:
        split_to_label(inputs)  # an error where there is a choice
    return select_judged(queries, judged)


def _other_splits(inputs: LabelInputs, judged: Ids) -> Ids:
    """The queries that only splits beside the one to label have judged."""
    queries = inputs.held_out.ids
    for qrels in (*inputs.splits.values(), *inputs.own.values()):
        queries = queries.union(qrels.queries)
    return queries.select(np.flatnonzero(queries.positions_in(judged) < 0))


def select_judged(queries: Queries, judged: Ids | None) -> Queries:
    """Those of the queries that were judged."""
    selected = queries.ids if judged is None else judged
    return queries.select(np.flatnonzero(queries.ids.positions_in(selected) >= 0))


def held_out_queries(inputs: LabelInputs) -> Ids:
    """The queries that are held out for a test."""
    if not len(inputs.held_out.ids):
        _log.info("no split here is a test split, so no query is held out")
    return inputs.held_out.ids


def require_index(inputs: LabelInputs) -> Index:
    """The index to search."""
    if inputs.index is None:
        raise InputError(
            f"{inputs.name} is no index, so nothing can be searched",
            hint="tamis index, then --index INDEX; or search first, then --candidates RUN",
        )
    return inputs.index


def source_of(inputs: LabelInputs, threads: int | None = None) -> IndexSource:
    """The index by the ranking that was named, with the parameters that were tuned on it."""
    return default_source(require_index(inputs), inputs.ranking, False, {}, threads)


def candidates_of(
    inputs: LabelInputs, queries: Queries, depth: int, threads: int | None = None
) -> Run:
    """What the run has for these queries, or what the ranking finds."""
    if inputs.run is None:
        return search(source_of(inputs, threads), queries, depth)
    run = inputs.run.select(queries.ids)
    if not len(run):
        raise InputError(
            f"{inputs.run_name} has none of the {len(queries):,} queries to label",
            hint="are run, queries and split of the same collection?",
        )
    if len(run) < len(queries):
        lost = len(queries) - len(run)
        _log.info("%s of %s queries are not in %s", f"{lost:,}", f"{len(queries):,}",
                  inputs.run_name)  # fmt: skip
    return run if queries.texts is None else run.with_queries(queries)


def sample_candidates(
    inputs: LabelInputs,
    depth: int,
    sample: int | None,
    seed: int,
    threads: int | None,
    judged: Ids | None = None,
) -> Run:
    """The candidates of the queries that are to be labelled, or of a sample of those."""
    queries = select_judged(queries_to_label(inputs, judged), judged)
    if sample is not None and sample < len(queries):
        sampled = np.random.default_rng(seed).permutation(len(queries))[:sample]
        queries = queries.select(np.sort(sampled))
    return candidates_of(inputs, queries, depth, threads)


def search(source: IndexSource, queries: Queries, depth: int) -> Run:
    """Search with signs of progress."""
    runs = []
    with Progress("searching", len(queries), "queries") as progress:
        for begin in range(0, max(len(queries), 1), QUERIES_PER_SEARCH):
            numbers = np.arange(begin, min(begin + QUERIES_PER_SEARCH, len(queries)))
            runs.append(source.search(queries.select(numbers), depth))
            progress.advance(len(numbers))
    return runs[0] if len(runs) == 1 else join_runs(runs)


def document_ids(inputs: LabelInputs) -> Ids:
    """The ids of all documents."""
    if inputs.index is not None:
        snapshot = inputs.index.snapshot
        return snapshot.ids.select(np.flatnonzero(snapshot.places[0] >= 0))
    assert inputs.collection is not None
    if isinstance(inputs.collection.documents, DocumentStore):
        return inputs.collection.documents.ids
    names = []
    with Progress("reading documents", unit="documents") as progress:
        for document in inputs.collection.documents:
            names.append(document.id)
            progress.advance()
    return Ids.of(names)


def log_held_out(inputs: LabelInputs) -> None:
    """Log which splits are held out."""
    if inputs.held_out.splits:
        queries = counted(len(inputs.held_out.ids), "query")
        _log.info("held out: %s of %s", queries, ", ".join(inputs.held_out.splits))


def with_facts(
    examples: Examples, inputs: LabelInputs, sample: int | None = None, *, searched: bool = True
) -> Examples:
    """The examples with what they were made from: the collection, the split, the first stage, and
    the hashes of the test queries, by which training leaves those out.
    """
    found_by = inputs.run_name if inputs.run is not None else ""
    if inputs.run is None and inputs.index and searched:
        found_by = f"{_describe(source_of(inputs))} of {inputs.index.path.name}"
    more = {
        "collection": Path(inputs.name).name,
        "split": inputs.split,
        "sampled_queries": sample,
        "candidates": found_by,
        TEST_HASHES: sorted(inputs.held_out.hashes),
    }
    facts: dict[str, Any] = {
        **examples.facts,
        **{name: value for name, value in more.items() if value},
    }
    for last in ("tamis", "counts"):
        facts[last] = facts.pop(last, {})
    return replace(examples, facts=facts)


def _describe(source: IndexSource) -> str:
    """A ranking and its parameters in one line."""
    spec: Mapping[str, Any] = source.spec()
    numbers = {n: v for n, v in spec.items() if isinstance(v, int | float) and n != "version"}
    return f"{spec['ranking']} {' '.join(f'{name}={value:g}' for name, value in numbers.items())}"
