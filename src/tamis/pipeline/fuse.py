"""Several runs over the same queries made into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.types import Ids, Qrels, Queries, Run

if TYPE_CHECKING:
    from tamis.evaluation import Measure

Normalisation = Literal["minmax", "z", "filled", "none"]
Points = Callable[[Run], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Each row's points and, a query, the points of a document that is not there."""
FILLED_LIST_SIZE = 50
"""The normalisation `filled` fills shorter lists with zeros."""
WEIGHTS = tuple(round(0.05 * n, 2) for n in range(21))


def reciprocal_rank(runs: Sequence[Run], k: int = 60) -> Run:
    """Fuse by rank alone: the sum over runs of 1 / (k + rank).

    >>> first = Run.from_dict({"q": {"a": 9.0, "b": 5.0}})
    >>> second = Run.from_dict({"q": {"b": 0.2, "c": 0.1}})
    >>> reciprocal_rank([first, second])["q"].ids
    ['b', 'a', 'c']
    """
    if k < 0:
        raise InputError(f"k is {k}", hint="k is 0 or more; 60 is usual")
    points: list[Points] = [lambda run: (1 / (k + run.ranks()), _nothing(run))]
    return _fuse(runs, [1.0] * len(runs), points * len(runs))


def weighted_sum(
    runs: Sequence[Run],
    weights: Sequence[float] | None = None,
    normalisation: Normalisation | tuple[Normalisation, ...] = "minmax",
) -> Run:
    """Fuse by scores, put on one scale within each query and run, then weighted and added.

    `minmax` maps a query's scores to 0..1 (all to 1 where they are equal), `z` to mean 0 and
    deviation 1, `none` leaves them. `filled` is `z` where a list of fewer than fifty documents is
    filled up with scores of 0, which is what other documents have by words: a single hit counts,
    where `z` would make nothing of it. A document that a run did not find counts as 0 for `minmax`
    and as that run's lowest score for the query otherwise, zeros filled in among them. Each run
    can have a normalisation of its own. A run of weight 0 is left out.

    >>> first = Run.from_dict({"q": {"a": 9.0, "b": 5.0}})
    >>> second = Run.from_dict({"q": {"b": 0.2, "c": 0.1}})
    >>> list(weighted_sum([first, second], [0.25, 0.75])["q"])
    [('b', 0.75), ('a', 0.25), ('c', 0.0)]
    """
    weights = [1 / max(len(runs), 1)] * len(runs) if weights is None else list(weights)
    if len(weights) != len(runs):
        raise InputError(f"{len(runs)} runs but {len(weights)} weights", hint="give one a run")
    scales = (normalisation,) * len(runs) if isinstance(normalisation, str) else normalisation
    if len(scales) != len(runs):
        raise InputError(
            f"{len(runs)} runs but {len(scales)} normalisations", hint="give one a run"
        )
    for scale in scales:
        if scale not in ("minmax", "z", "filled", "none"):
            raise InputError(f"no normalisation {scale!r}", hint="minmax, z, filled or none")
    used = [number for number, weight in enumerate(weights) if weight != 0]
    if runs and not used:
        raise InputError("every weight is 0", hint="give one run a weight at least")
    return _fuse(
        [runs[number] for number in used],
        [weights[number] for number in used],
        [partial(_normalised, normalisation=scales[number]) for number in used],
    )


def _nothing(run: Run) -> NDArray[np.float64]:
    return np.zeros(len(run))


def _normalised(
    run: Run, normalisation: Normalisation
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A run's scores on the common scale, and the lowest of each query."""
    if np.isinf(run.score).any():
        raise InputError("a run has a score without end", hint="fuse it by ranks instead")
    score, sizes = run.score.astype(np.float64), run.sizes()
    full = sizes > 0
    starts, ends = run.offsets[:-1][full], run.offsets[1:][full]
    lowest = _nothing(run)
    lowest[full] = score[ends - 1]
    shift, scale = _nothing(run), np.ones(len(run))
    if normalisation == "minmax":
        scale[full] = score[starts] - score[ends - 1]
        shift = np.where(full & (scale == 0), lowest - 1, lowest)
        lowest = shift
    elif normalisation in ("z", "filled") and full.any():
        zeros = np.maximum(FILLED_LIST_SIZE - sizes, 0) if normalisation == "filled" else 0 * sizes
        lowest = np.where(zeros > 0, np.minimum(lowest, 0.0), lowest)
        count = (sizes + zeros)[full]
        shift[full] = np.add.reduceat(score, starts) / count
        spread = (score - np.repeat(shift, sizes)) ** 2
        filling = (zeros * shift**2)[full]
        scale[full] = np.sqrt((np.add.reduceat(spread, starts) + filling) / count)
    scale[scale == 0] = 1.0
    return (score - np.repeat(shift, sizes)) / np.repeat(scale, sizes), (lowest - shift) / scale


def _fuse(
    runs: Sequence[Run],
    weights: Sequence[float],
    points: Sequence[Points],
) -> Run:
    """Add weighted points by query and document."""
    if not runs:
        raise InputError("no runs to fuse", hint="give two or more")
    queries, docs = _common(runs)
    keys, values = [], []
    floor = np.zeros(len(queries))
    for run, weight, pointed in zip(runs, weights, points, strict=True):
        place = run.queries.ids.positions_in(queries.ids).astype(np.int64)
        row_points, absent = pointed(run)
        keys.append(np.repeat(place, run.sizes()) * len(docs) + docs_of(run, docs))
        values.append(weight * (row_points - np.repeat(absent, run.sizes())))
        floor[place] += weight * absent
    key, row = np.unique(np.concatenate(keys), return_inverse=True)
    query, doc = np.divmod(key, max(len(docs), 1))
    score = np.bincount(row, np.concatenate(values), len(key)) + floor[query]
    offsets = np.searchsorted(query, np.arange(len(queries) + 1))
    return Run._sorted_from_distinct(
        queries, docs, offsets, doc.astype(np.int32), score.astype(np.float32)
    )


def docs_of(run: Run, docs: Ids) -> NDArray[np.int32]:
    """The documents of a run as numbers of another table that holds them all."""
    return run.doc if run.docs is docs else run.docs.positions_in(docs)[run.doc]


def scores_in(other: Run, run: Run) -> NDArray[np.float32]:
    """What another run scores every row of a run; where it does not have the document, its lowest
    of the query, and 0 at most where it has fewer than fifty (see `weighted_sum`, `filled`).

    >>> words = Run.from_dict({"q": {"a": 9.0, "b": 5.0}})
    >>> scores_in(words, Run.from_dict({"q": {"b": 0.2, "c": 0.1}})).tolist()
    [5.0, 0.0]
    """
    full, docs = other.sizes() > 0, other.docs.union(run.docs)
    lowest = np.zeros(len(other) + 1, np.float32)
    lowest[:-1][full] = other.score[other.offsets[1:][full] - 1]
    lowest[:-1][other.sizes() < FILLED_LIST_SIZE] = np.minimum(
        lowest[:-1][other.sizes() < FILLED_LIST_SIZE], 0.0
    )
    place = run.queries.ids.positions_in(other.queries.ids).astype(np.int64)
    query_numbers = np.repeat(place, run.sizes())
    pair_keys = np.repeat(np.arange(len(other)), other.sizes()) * len(docs) + docs_of(other, docs)
    order = np.argsort(pair_keys)
    pair_keys_needed = query_numbers * len(docs) + docs_of(run, docs)
    at = np.minimum(
        np.searchsorted(pair_keys, pair_keys_needed, sorter=order), max(len(pair_keys) - 1, 0)
    )
    if not len(pair_keys):
        return lowest[query_numbers]
    in_other = (pair_keys[order[at]] == pair_keys_needed) & (query_numbers >= 0)
    return np.where(in_other, other.score[order[at]], lowest[query_numbers])


def _common(runs: Sequence[Run]) -> tuple[Queries, Ids]:
    """All queries and documents of the runs; texts from the first run that knows them all."""
    ids, docs = runs[0].queries.ids, runs[0].docs
    for run in runs[1:]:
        ids, docs = ids.union(run.queries.ids), docs.union(run.docs)
    for run in runs:
        if run.queries.texts is not None and run.queries.ids == ids:
            return run.queries, docs
    return Queries(ids), docs


@dataclass(frozen=True)
class Tuned:
    """The weight chosen for the second of two runs, and what every weight tried gave."""

    weight: float
    values: dict[float, float]


def tune_weight(
    first: Run,
    second: Run,
    qrels: Qrels,
    measure: str | Measure = "nDCG@10",
    normalisation: Normalisation = "minmax",
) -> Tuned:
    """The weight w of `(1 - w) first + w second` with the best mean on these judgements.

    Of equal means the weight nearest to the first run alone is taken. Tune on training queries
    and report on others.
    """
    from tamis.evaluation import evaluate  # a search, which fuses too, needs none of it

    pair = [run.select(qrels.queries) for run in (first, second)]
    if not any(map(len, pair)):
        raise InputError(
            "no query of the two runs is judged",
            hint="are runs and qrels from the same collection and split?",
        )
    runs = {weight: weighted_sum(pair, [1 - weight, weight], normalisation) for weight in WEIGHTS}
    evaluation = evaluate(qrels, {str(weight): run for weight, run in runs.items()}, [measure])
    values = {weight: evaluation.mean(str(weight), measure) for weight in runs}
    return Tuned(max(values, key=lambda weight: (values[weight], -weight)), values)
