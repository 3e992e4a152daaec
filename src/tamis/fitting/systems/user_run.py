"""The results of the user's own retriever: re-ranked in place of ours, and a baseline."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from tamis.collection.runs import read_run
from tamis.errors import InputError
from tamis.fitting.candidates import RetrieverRuns
from tamis.fitting.context import FitInputs
from tamis.fitting.plan import DataSizes
from tamis.fitting.system import Retriever
from tamis.search.defaults import default_source
from tamis.types import Queries, Run, Spec

_log = logging.getLogger(__name__)


class UserRun(Retriever):
    """What the user's retriever found; a sieve searches by BM25 in its place."""

    key, name = "user_run", "your run"
    description = "the results that you brought"
    in_words: ClassVar[str] = "your own retriever finds documents"
    is_users_own: ClassVar[bool] = True

    def is_possible(self, data: DataSizes) -> bool:
        """See `SystemKind.is_possible`."""
        return data.user_run

    def prepare(self, fit: FitInputs) -> Spec:
        """The source that stands in its place."""
        return default_source(fit.index, "bm25", rm3=False).spec()

    def retrieve(self, source: Spec, fit: FitInputs) -> dict[str, Run]:
        """The part of the run that is about each set of queries."""
        run = self._known_documents(fit)
        return {
            name: run.select(queries.ids).with_queries(queries).top(fit.request.depth)
            for name, queries in fit.query_sets.items()
        }

    def supplies_candidates(self, fit: FitInputs, runs: Mapping[str, RetrieverRuns]) -> bool:
        """See `Retriever.supplies_candidates`."""
        return True

    def note(self, fit: FitInputs) -> str:
        """See `Retriever.note`."""
        return "its results were re-ranked"

    def _known_documents(self, fit: FitInputs) -> Run:
        """The run without documents that are not in the collection."""
        user_run, snapshot = fit.request.user_run, fit.index.snapshot
        assert user_run is not None
        name = user_run if isinstance(user_run, str) else "the run"
        run = open_user_run(user_run, fit.splits.queries)
        # other columns were computed by another retriever
        run = Run._unchecked(run.queries, run.docs, run.offsets, run.doc, run.score)
        is_present = (
            np.append(snapshot.places[0], -1)[run.docs.positions_in(snapshot.ids)][run.doc] >= 0
        )
        if not is_present.any():
            raise InputError(
                f"{name} has no document of this collection", hint="was it made of another one?"
            )
        if not is_present.all():
            unknown = int((~is_present).sum())
            _log.warning(
                "%s of %s candidates in %s are not in the collection: they are left out",
                f"{unknown:,}", f"{len(is_present):,}", name,
            )  # fmt: skip
            run = run.rows(is_present)
        judged = fit.splits.train.queries.union(fit.splits.test.queries)
        missing = int((judged.positions_in(run.queries.ids) < 0).sum())
        if missing:
            _log.warning(
                "%s has nothing for %s of %s judged queries: they count as zero for it",
                name, f"{missing:,}", f"{len(judged):,}",
            )  # fmt: skip
        return run


def open_user_run(user_run: str | Run, queries: Queries) -> Run:
    """A user's run, which must have a query of the collection and finite scores."""
    run, name = (
        (user_run, "the run") if isinstance(user_run, Run) else (read_run(Path(user_run)), user_run)
    )
    if not (run.queries.ids.positions_in(queries.ids) >= 0).any():
        raise InputError(
            f"{name} has no query of this collection", hint="was it made for other queries?"
        )
    infinite = np.flatnonzero(np.isinf(run.score))
    if len(infinite):
        query = run.queries.ids[int(np.searchsorted(run.offsets, infinite[0], "right")) - 1]
        raise InputError(
            f"{name} has a score of {run.score[infinite[0]]:g} for query {query!r}",
            hint="scores are fused: give finite ones, or ranks turned into such",
        )
    return run
