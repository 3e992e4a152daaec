"""Parameters of a ranking chosen on judged queries, with an honest estimate of what that gains.

Every candidate is measured on every query once. The choice is the candidate with the best mean;
what choosing is worth is cross-validated: each fold's queries are scored with the candidate that
is best on the other folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.durable import Progress
from tamis.errors import InputError
from tamis.evaluation import Interval, Measure, bootstrap_interval, evaluate, parse_measure, t_test
from tamis.search.rankings import BM25, QueryLikelihood
from tamis.search.rm3 import RM3
from tamis.search.sources import IndexSource
from tamis.splits import folds
from tamis.types import Qrels, Queries

if TYPE_CHECKING:
    from tamis.search.index import Index

What = Literal["bm25", "ql", "rm3"]
Values = NDArray[np.float64]

GRIDS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "bm25": {
        "k1": (0.2, 0.4, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.5, 3.0, 4.0),
        "b": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0),
    },
    "ql": {"mu": (50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 2500, 3000, 4000, 5000)},
    "rm3": {
        "documents": (5, 10, 20),
        "terms": (5, 10, 20, 40),
        "weight": (0.2, 0.35, 0.5, 0.65, 0.8),
    },
}
"""What is tried, parameter by parameter: ours, around Anserini's defaults and common tunings."""

DEFAULTS = {
    "bm25": {"k1": 0.9, "b": 0.4},
    "ql": {"mu": 1000},
    "rm3": {"documents": 10, "terms": 10, "weight": 0.5},
}


@dataclass(frozen=True, eq=False)
class Tuning:
    """What every candidate gave on every query, and what follows from it."""

    what: What
    measure: Measure
    grid: Mapping[str, tuple[float, ...]]
    candidates: tuple[Mapping[str, float], ...]
    values: Values
    """One row per candidate, one column per query."""
    held_out: Values
    """A query's value with the candidate chosen without its fold."""

    @property
    def default(self) -> int:
        """The number of the candidate that is the default."""
        return self.candidates.index(DEFAULTS[self.what])

    @property
    def best(self) -> int:
        """The number of the best candidate; of equal ones the first nearest to the default."""
        means = self.values.mean(1)
        best = np.flatnonzero(means >= means.max() - 1e-12).tolist()
        return min(best, key=lambda number: (abs(number - self.default), number))

    @property
    def parameters(self) -> Mapping[str, float]:
        """The chosen parameters."""
        return self.candidates[self.best]

    def mean(self, number: int) -> float:
        """A candidate's mean over all queries."""
        return float(self.values[number].mean())

    @property
    def gain(self) -> float:
        """What choosing is worth on queries not chosen on: held-out mean less the default's."""
        return float(self.held_out.mean()) - self.mean(self.default)

    @property
    def p_value(self) -> float | None:
        """The paired t-test of that gain."""
        return t_test(self.held_out - self.values[self.default])

    @property
    def interval(self) -> Interval | None:
        """The bootstrap interval of that gain."""
        return bootstrap_interval(self.held_out - self.values[self.default])

    def within_noise(self, level: float = 0.05) -> bool:
        """Whether the gain could as well be none."""
        return self.p_value is None or self.p_value >= level or self.gain <= 0

    def surface(self) -> tuple[list[str], list[str], Values]:
        """The means as rows and columns: the last parameter across, the others down."""
        *down, across = self.grid
        rows = [
            ", ".join(f"{name} {value:g}" for name, value in zip(down, values, strict=True))
            for values in product(*(self.grid[name] for name in down))
        ]
        columns = [f"{value:g}" for value in self.grid[across]]
        return rows or [across], columns, self.values.mean(1).reshape(-1, len(columns))

    def record(self) -> dict[str, Any]:
        """What an index keeps of it."""
        return {
            "ranking": self.what,
            "parameters": dict(self.parameters),
            "measure": str(self.measure),
            "queries": self.values.shape[1],
            "mean": self.mean(self.best),
            "default_mean": self.mean(self.default),
            "held_out_gain": self.gain,
            "p_value": self.p_value,
        }


def tune(
    index: Index,
    queries: Queries,
    qrels: Qrels,
    measure: str | Measure = "RR@10",
    what: What = "bm25",
    *,
    start: IndexSource | None = None,
    k: int = 5,
    sample: int | None = 1000,
    seed: int = 0,
) -> Tuning:
    """Try every candidate of a grid on the judged queries (`sample` of them, seeded, at most).

    `rm3` is tuned on top of `start`, the ranking it refines; default: BM25 with its defaults.
    """
    measure = parse_measure(measure)
    tuning_queries = judged_queries(queries, qrels, sample, seed)
    judged = qrels.select(tuning_queries.ids)
    if len(tuning_queries) < 2 * k:
        raise InputError(
            f"{len(tuning_queries)} judged queries are too few to tune on with {k} folds",
            hint=f"judge {2 * k} queries at least, or keep the defaults",
        )
    grid = GRIDS[what]
    candidates = tuple(dict(zip(grid, values, strict=True)) for values in product(*grid.values()))
    base = start or index.bm25()
    top = int(measure.cutoff or 1000)
    rows = []
    warm_up = configured(base, what, candidates[0]).search(tuning_queries.select(np.arange(1)), top)
    evaluate(judged, {"run": warm_up}, [measure])  # what is only done once, before the clock starts
    with Progress(f"tuning {what}", len(candidates), "candidates") as progress:
        for candidate in candidates:
            run = configured(base, what, candidate).search(tuning_queries, top)
            rows.append(evaluate(judged, {"run": run}, [measure]).values("run", measure))
            progress.advance()
    values = np.array(rows)
    return Tuning(
        what, measure, grid, candidates, values, _held_out(values, tuning_queries, k, seed)
    )


def judged_queries(queries: Queries, qrels: Qrels, sample: int | None, seed: int) -> Queries:
    """The queries that have judgements, or a seeded sample of them."""
    numbers = qrels.queries.positions_in(queries.ids)
    numbers = numbers[numbers >= 0]
    if sample is not None and len(numbers) > sample:
        numbers = np.random.default_rng(seed).choice(numbers, sample, replace=False)
    return queries.select(np.sort(numbers))


def configured(source: IndexSource, what: What, parameters: Mapping[str, float]) -> IndexSource:
    """The source with other parameters of its ranking, or of RM3 on top of it."""
    if what == "bm25":
        return replace(source, ranking=BM25(**parameters))
    if what == "ql":
        return replace(source, ranking=QueryLikelihood(**parameters))
    terms, documents = int(parameters["terms"]), int(parameters["documents"])
    return replace(source, feedback=RM3(terms, documents, parameters["weight"]))


def _held_out(values: Values, queries: Queries, k: int, seed: int) -> Values:
    """Each query's value with the candidate that is best on the folds without it."""
    held_out_values = np.empty(values.shape[1])
    for learn, held_out in folds(queries, k, seed=seed):
        best = int(values[:, learn.positions_in(queries.ids)].mean(1).argmax())
        where = held_out.positions_in(queries.ids)
        held_out_values[where] = values[best, where]
    return held_out_values
