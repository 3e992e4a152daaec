"""Which queries are labelled, what a first stage finds for them, and where that ends up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tamis.cli.common import say, say_faults
from tamis.cli.label_inputs import TEST, Given, open_given
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
) -> Given:
    """Open what is named; queries of a whole collection bring its judgements and splits along."""
    from tamis.collection.look import look
    from tamis.collection.opening import is_id

    is_collection = queries is not None and (is_id(queries) or Path(queries).is_dir())
    if is_collection and not is_id(name) and Path(name).is_dir() and look(name) == "index":
        return open_given(str(queries), Path(name), None, qrels, split, on_error)
    return open_given(name, index, queries, qrels, split, on_error)


def split_to_label(given: Given) -> str | None:
    """The split that was asked for, or the only one that is not for testing; none without any."""
    splits = [name for name in given.splits if TEST not in name.lower()]
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
    """The queries of the file that was named; else the collection's, or those of the run.

    Where a split was named, those that it has judged; with `log` also those that no other split
    has. Else all of a file's, and of a collection's all that no test has.
    """
    import numpy as np

    if judged is None and given.split is not None:
        judged = given.judged().queries
    known = given.queries or (given.collection.queries if given.collection else None)
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
    if judged is not None:
        return among(known, judged)
    split_to_label(given)  # an error where there is a choice
    return known.select(np.flatnonzero(known.ids.positions_in(given.test()) < 0))


def _other_splits(given: Given, judged: Ids) -> Ids:
    """The queries that only splits beside the one to label have judged, and those of tests."""
    import numpy as np

    test = given.test()
    found = test
    for qrels in (*given.splits.values(), *given.own.values()):
        found = found.union(qrels.queries)
    left_out = found.positions_in(judged) < 0
    if given.split is None or TEST not in given.split.lower():
        left_out |= found.positions_in(test) >= 0
    return found.select(np.flatnonzero(left_out))


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


def bm25(index: Index, threads: int | None) -> IndexSource:
    """BM25 over an index, with the parameters that were tuned on it."""
    from tamis.search import chosen_source

    return chosen_source(index, "bm25", False, {}, threads)


def first_stage(
    given: Given, queries: Queries, run: str | None, depth: int, threads: int | None
) -> Run:
    """What a run has for these queries, or what BM25 finds."""
    if run is None:
        return search(bm25(searchable(given), threads), queries, depth)
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

    made = without_copies(made, given.documents)
    made = sample_queries(made, sample, seed=seed) if sample else made
    if (made.queries.ids.positions_in(given.test())[made.query] >= 0).any():
        say("warning: queries of a test split are among them: do not test on those")
    found_by = ""
    if given.index and searched:
        found_by = f"{describe(bm25(given.index, None))} of {given.index.path.name}"
    told = {
        "collection": Path(given.name).name,
        "split": given.split,
        "sample of queries": sample,
        "first stage": run or found_by,
    }
    finish(made, given.documents, output, told, show, json, force)
    say_faults(given.faults)
