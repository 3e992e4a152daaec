"""Which queries are labelled, what a first stage finds for them, and where that ends up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tamis.cli.common import say, say_faults
from tamis.cli.label_inputs import Given, RankingName, open_given
from tamis.cli.rerank_inputs import read_run_file
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.labels.examples import Examples
    from tamis.search import Index
    from tamis.search.sources import IndexSource
    from tamis.types import Ids, Qrels, Queries, Run

SEARCHED = 2000
"""How many queries are searched between two signs of progress."""


def open_to_label(
    name: str,
    index: Path | None,
    queries: str | None,
    qrels: list[str] | None,
    split: str | None,
    on_error: Literal["raise", "skip"],
    ranking: RankingName = "bm25",
) -> Given:
    """Open what is named; queries of a whole collection bring its judgements and splits along."""
    from tamis.collection.look import look
    from tamis.collection.opening import is_id
    from tamis.durable import folder_exists

    is_collection = queries is not None and (is_id(queries) or folder_exists(Path(queries)))
    if is_collection and not is_id(name) and folder_exists(Path(name)) and look(name) == "index":
        given = open_given(str(queries), Path(name), None, qrels, split, on_error)
    else:
        given = open_given(name, index, queries, qrels, split, on_error)
    return replace(given, ranking=ranking)


def split_to_label(given: Given) -> str | None:
    """The split that was asked for, or the only one that is not for testing; none without any."""
    from tamis.splits import is_test

    splits = [name for name in given.splits if not is_test(name)]
    if given.split is not None and is_test(given.split):
        raise InputError(
            f"{given.split} is a test split: its queries are held out and never learnt from",
            hint=f"label another: --split {splits[0] if splits else 'train'}",
        )
    if given.split is not None or not given.splits:
        return given.split
    if len(splits) == 1:
        return splits[0]
    if not splits:
        raise InputError(
            f"{given.name} has judgements of test queries only: {', '.join(given.splits)}",
            hint="name others: --qrels train=FILE",
        )
    raise InputError(
        f"{given.name} has the splits {', '.join(given.splits)}: which may be learnt from?",
        hint=f"--split {'train' if 'train' in splits else splits[0]}",
    )


def judgements(given: Given) -> Qrels:
    """The judgements to label from."""
    split = split_to_label(given)
    if split is None:
        raise InputError(
            f"{given.name} has no judgements",
            hint="name a file of them: --qrels FILE; or label without: tamis label pseudo",
        )
    if split not in given.splits:
        return given.judged()
    return given.splits[split]


def queries_to_label(
    given: Given, run: str | None, judged: Ids | None = None, *, log: bool = False
) -> Queries:
    """The queries to label, without those that are, or repeat, a test query."""
    import numpy as np

    from tamis.collection.notes import counted

    if given.split is not None:
        split_to_label(given)  # an error where a test split was named
    queries, held_out = _queries_named(given, run, judged, log=log), given.held_out
    leaks = queries.ids.positions_in(held_out.leaks(queries)) >= 0
    if leaks.any():
        first = queries.ids[int(leaks.argmax())]
        count = counted(int(leaks.sum()), "query")
        say(f"left out because of the test queries they are or repeat: {count}, such as {first}")
    return queries.select(np.flatnonzero(~leaks))


def _queries_named(
    given: Given, run: str | None, judged: Ids | None = None, *, log: bool = False
) -> Queries:
    """The queries of the file that was named; else the collection's, or those of the run.

    Where a split was named, those that it has judged; with `log` also those that no other split
    has. Else all of a file's, and of a collection's all that no test has.
    """
    import numpy as np

    if judged is None and given.split is not None:
        judged = given.judged().queries
    known = given.known_queries
    if log and judged is not None and known is not None and len(known):
        others = _other_splits(given, judged)
        return known.select(np.flatnonzero(known.ids.positions_in(others) < 0))
    if given.queries is not None:
        return given.queries if given.split is None else among(given.queries, judged)
    if known is None or not len(known):
        if run is None:
            raise InputError(
                f"{given.name} has no queries",
                hint="name a file of queries: --queries FILE; or none: --from-documents of pseudo",
            )
        return read_run_file(run, given.skip).queries
    if judged is None:
        split_to_label(given)  # an error where there is a choice
    return among(known, judged)


def _other_splits(given: Given, judged: Ids) -> Ids:
    """The queries that only splits beside the one to label have judged."""
    import numpy as np

    others = given.held_out.ids
    for qrels in (*given.splits.values(), *given.own.values()):
        others = others.union(qrels.queries)
    return others.select(np.flatnonzero(others.positions_in(judged) < 0))


def among(queries: Queries, judged: Ids | None) -> Queries:
    """Those of the queries that were judged."""
    import numpy as np

    wanted = queries.ids if judged is None else judged
    return queries.select(np.flatnonzero(queries.ids.positions_in(wanted) >= 0))


def searchable(given: Given) -> Index:
    """The index to search."""
    if given.index is None:
        raise InputError(
            f"{given.name} is no index, so nothing can be searched",
            hint="tamis index, then --index INDEX; or search first, then --run RUN",
        )
    return given.index


def choose_ranking(
    ranking: RankingName | None, run: str | None, default: RankingName
) -> RankingName:
    """What searches for candidates; a run that brings them is not searched for."""
    if ranking and run:
        raise typer.BadParameter("--ranking searches for candidates: leave it out, or --run")
    return ranking or default


def source_of(given: Given, threads: int | None = None) -> IndexSource:
    """The index by the ranking that was asked for, with the parameters that were tuned on it."""
    from tamis.search import chosen_source

    return chosen_source(searchable(given), given.ranking, False, {}, threads)


def first_stage(
    given: Given, queries: Queries, run: str | None, depth: int, threads: int | None
) -> Run:
    """What a run has for these queries, or what the ranking finds."""
    if run is None:
        return search(source_of(given, threads), queries, depth)
    found = read_run_file(run, given.skip).select(queries.ids)
    if not len(found):
        raise InputError(
            f"{run} has none of the {len(queries):,} queries to label",
            hint="are run, queries and split of the same collection?",
        )
    lost = len(queries) - len(found)
    if lost:
        say(f"note: {lost:,} of {len(queries):,} queries are not in {run}")
    return found if queries.texts is None else found.with_queries(queries)


def search(source: IndexSource, queries: Queries, depth: int) -> Run:
    """Search with signs of progress."""
    import numpy as np

    from tamis.durable import Progress
    from tamis.types import join_runs

    parts = []
    with Progress("searching", len(queries), "queries") as progress:
        for begin in range(0, max(len(queries), 1), SEARCHED):
            some = np.arange(begin, min(begin + SEARCHED, len(queries)))
            parts.append(source.search(queries.select(some), depth))
            progress.advance(len(some))
    return parts[0] if len(parts) == 1 else join_runs(parts)


def say_held_out(given: Given) -> None:
    """Say which splits were held out."""
    from tamis.collection.notes import counted

    if given.held_out.splits:
        queries = counted(len(given.held_out.ids), "query")
        say(f"held out: {queries} of {', '.join(given.held_out.splits)}")


def document_ids(given: Given) -> Ids:
    """The ids of all documents."""
    import numpy as np

    from tamis.collection.store import DocumentStore
    from tamis.durable import Progress
    from tamis.types import Ids

    if given.index is not None:
        snapshot = given.index.snapshot
        return snapshot.ids.select(np.flatnonzero(snapshot.places[0] >= 0))
    assert given.collection is not None
    if isinstance(given.collection.documents, DocumentStore):
        return given.collection.documents.ids
    names = []
    with Progress("reading documents", unit="documents") as progress:
        for document in given.collection.documents:
            names.append(document.id)
            progress.advance()
    return Ids.of(names)


def end(
    made: Examples,
    given: Given,
    output: Path,
    run: str | None,
    sample: int | None,
    seed: int,
    show: int | None,
    json: bool,
    force: bool,
    *,
    searched: bool = True,
) -> None:
    """Leave out copies, take a sample if one is asked for, write the examples, show them."""
    from tamis.cli.first_stage import describe
    from tamis.cli.label_show import finish
    from tamis.labels._groups import sample_queries
    from tamis.labels.copies import without_copies
    from tamis.labels.examples import TEST_HASHES

    made = without_copies(made, given.documents)
    made = sample_queries(made, sample, seed=seed) if sample else made
    found_by = ""
    if given.index and searched:
        found_by = f"{describe(source_of(given))} of {given.index.path.name}"
    told = {
        "collection": Path(given.name).name,
        "split": given.split,
        "sample of queries": sample,
        "first stage": run or found_by,
        TEST_HASHES: sorted(given.held_out.hashes),
    }
    finish(made, given.documents, output, told, show, json, force)
    say_held_out(given)
    say_faults(given.faults)
