"""Which candidates of a run a re-ranking table has: queries with something relevant among theirs.

Writing the table is left to `candidate_table_writer`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.collection.loss_notes import counted
from tamis.errors import InputError
from tamis.types import Qrels, Run

RELEVANCY = "relevancy"
"""The column of a run with the grades of its documents; one not judged has 0."""


@dataclass(frozen=True)
class Selection:
    """What of a run goes into a table; whatever is drawn at random is drawn with the seed."""

    depth: int | None = None
    """Candidates per query; all of the run by default."""
    sample: int | None = None
    """How many queries are drawn; all by default."""
    short_queries: int = 0
    """How many of them keep at most `short_depth` candidates: the relevant, then the first."""
    short_depth: int = 50
    seed: int = 0


@dataclass(frozen=True, eq=False)
class SelectedCandidates:
    """The candidates with their `relevancy`, and how many queries were left out or shortened."""

    run: Run
    num_not_judged: int
    """Queries of the run without judgements."""
    num_none_relevant: int
    """Judged queries with no relevant document among their candidates."""
    num_not_drawn: int
    num_short: int
    selection: Selection

    def notes(self) -> list[str]:
        """Sentences on what is in the table and what was left out."""
        seed, relevancy = self.selection.seed, self.run.extra[RELEVANCY]
        share = (relevancy > 0).mean() if len(relevancy) else 0
        queries = counted(len(self.run), "query")
        notes = [f"{queries}, {counted(len(relevancy), 'pair')}, {share:.3%} relevant"]
        left_out = {
            "without a relevant document among their candidates": self.num_none_relevant,
            "without judgements": self.num_not_judged,
            f"not drawn (seed {seed})": self.num_not_drawn,
        }
        notes += [
            f"{counted(count, 'query')} left out: {reason}"
            for reason, count in left_out.items()
            if count
        ]
        if self.num_short:
            notes.append(
                f"{counted(self.num_short, 'query')} cut to at most "
                f"{counted(self.selection.short_depth, 'candidate')} (seed {seed})"
            )
        return notes


def select_candidates(
    run: Run, qrels: Qrels, selection: Selection | None = None
) -> SelectedCandidates:
    """The candidates of those queries that have a relevant document among them.

    >>> run = Run.from_dict({"q1": {"a": 3.0, "b": 2.0}, "q2": {"a": 1.0}, "q3": {"a": 1.0}})
    >>> qrels = Qrels.from_dict({"q1": {"b": 1}, "q2": {"b": 1}})
    >>> selected = select_candidates(run, qrels)
    >>> list(selected.run), selected.run.extra["relevancy"].tolist()
    (['q1'], [0, 1])
    >>> selected.num_none_relevant, selected.num_not_judged
    (1, 1)
    """
    selection = selection or Selection()
    _check(selection)
    run = run.top(selection.depth) if selection.depth else run
    run = run.with_extra(**{RELEVANCY: relevancy_of(run, qrels)})
    has_relevant = np.add.reduceat(
        np.append(run.extra[RELEVANCY] > 0, False), run.offsets[:-1], dtype=np.int64
    )
    has_relevant[run.sizes() == 0] = 0
    is_judged = run.queries.ids.positions_in(qrels.queries) >= 0
    usable = np.flatnonzero(has_relevant > 0)
    random = np.random.default_rng(selection.seed)
    drawn = _draw(random, usable, selection.sample, "with a relevant candidate")
    numbers = run.queries.ids.select(drawn)
    selected = run.select(numbers)
    shortened = _shorten(selected, selection, random)
    return SelectedCandidates(
        shortened,
        num_not_judged=int((~is_judged).sum()),
        num_none_relevant=len(qrels) - len(usable),
        num_not_drawn=len(usable) - len(drawn),
        num_short=selection.short_queries,
        selection=selection,
    )


def relevancy_of(run: Run, qrels: Qrels) -> NDArray[np.int32]:
    """The grade of every row of a run; 0 where it is not judged."""
    width = len(run.docs) + 1
    query_number = qrels.queries.positions_in(run.queries.ids).astype(np.int64)
    judged_query = np.repeat(query_number, np.diff(qrels.offsets))
    judged_doc = qrels.docs.positions_in(run.docs)[qrels.doc].astype(np.int64)
    in_run = (judged_query >= 0) & (judged_doc >= 0)
    keys = judged_query[in_run] * width + judged_doc[in_run]
    order = np.argsort(keys)
    keys, grades = np.append(keys[order], -1), np.append(qrels.grade[in_run][order], 0)
    rows = np.repeat(np.arange(len(run), dtype=np.int64), run.sizes()) * width + run.doc
    place = np.searchsorted(keys[:-1], rows)
    return np.where(keys[place] == rows, grades[place], 0).astype(np.int32)


def _draw(
    random: np.random.Generator, numbers: NDArray[np.int64], count: int | None, what: str
) -> NDArray[np.int64]:
    if count is None:
        return numbers
    if count > len(numbers):
        raise InputError(
            f"{counted(count, 'query')} asked for, but {len(numbers):,} {what}",
            hint=f"ask for at most {len(numbers):,}",
        )
    return np.sort(random.choice(numbers, count, replace=False))


def _shorten(run: Run, selection: Selection, random: np.random.Generator) -> Run:
    """The run with some of its longer queries cut: relevant documents first, then by rank."""
    if not selection.short_queries:
        return run
    longer = np.flatnonzero(run.sizes() > selection.short_depth)
    what = f"have more than {counted(selection.short_depth, 'candidate')}"
    short = _draw(random, longer, selection.short_queries, what)
    keep = np.ones(len(run.doc), bool)
    for number in short.tolist():
        rows = np.arange(run.offsets[number], run.offsets[number + 1])
        order = np.argsort(run.extra[RELEVANCY][rows] <= 0, kind="stable")
        keep[rows[order[selection.short_depth :]]] = False
    return run.rows(keep)


def _check(selection: Selection) -> None:
    for name in ("depth", "sample", "short_depth"):
        value = getattr(selection, name)
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}", hint="it is 1 at least")
    if selection.short_queries < 0:
        raise InputError(f"short_queries is {selection.short_queries}", hint="it is 0 at least")
