"""The measures tamis computes itself, each from the columns of `Judged` for all queries at once.

They agree with trec_eval: a document not judged is not relevant, a grade below zero gains
nothing, average precision divides by all relevant documents, precision at k by k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.evaluation.judged_ranks import Judged

if TYPE_CHECKING:
    from tamis.evaluation.measures import Measure

Values = NDArray[np.float64]
Rows = NDArray[np.bool_]


def ratio(above: NDArray[Any], below: NDArray[Any]) -> Values:
    """Division in which something by nothing is zero."""
    out = np.zeros(len(above))
    np.divide(above, below, out=out, where=below > 0)
    return out


def relevant(judged: Judged, measure: Measure) -> Rows:
    """Rows whose grade counts as relevant: `rel`, or 1."""
    rows: Rows = judged.grade >= measure.param("rel", 1)
    return rows


def within(judged: Judged, cutoff: float | None) -> Rows:
    """Rows retrieved, down to the cutoff."""
    retrieved: Rows = judged.rank > 0
    return retrieved if cutoff is None else retrieved & (judged.rank <= cutoff)


def hits(judged: Judged, measure: Measure) -> Rows:
    """Rows that are relevant and retrieved within the measure's cutoff."""
    return relevant(judged, measure) & within(judged, measure.cutoff)


def reciprocal_rank(judged: Judged, measure: Measure) -> Values:
    """One over the rank of the first relevant document."""
    hit = hits(judged, measure)
    first = hit & (judged.so_far(hit) == 1)
    return judged.total(ratio(first, judged.rank))


def precisions(judged: Judged, measure: Measure) -> Values:
    """The sum of the precision at each relevant document retrieved."""
    hit = hits(judged, measure)
    return judged.total(ratio(np.where(hit, judged.so_far(hit), 0), judged.rank))


def average_precision(judged: Judged, measure: Measure) -> Values:
    """Precision at each relevant document retrieved, over all relevant documents."""
    return ratio(precisions(judged, measure), number_relevant(judged, measure))


def average_precision_found(judged: Judged, measure: Measure) -> Values:
    """Precision at each relevant document retrieved, over those retrieved within the cutoff.

    Not trec_eval's: finding one of ten relevant documents, first, gives 1.
    """
    return ratio(precisions(judged, measure), judged.total(hits(judged, measure)))


def precision(judged: Judged, measure: Measure) -> Values:
    """The share of the first k places that hold relevant documents."""
    return judged.total(hits(judged, measure)) / float(measure.cutoff or 1)


def recall(judged: Judged, measure: Measure) -> Values:
    """The share of the relevant documents that are retrieved within the cutoff."""
    return ratio(judged.total(hits(judged, measure)), number_relevant(judged, measure))


def success(judged: Judged, measure: Measure) -> Values:
    """1 where a relevant document is retrieved within the cutoff."""
    return np.minimum(judged.total(hits(judged, measure)), 1.0)


def r_precision(judged: Judged, measure: Measure) -> Values:
    """Precision at as many places as there are relevant documents."""
    number = number_relevant(judged, measure)
    hit = hits(judged, measure) & (judged.rank <= number[judged.query])
    return ratio(judged.total(hit), number)


def judged_share(judged: Judged, measure: Measure) -> Values:
    """The share of the documents retrieved within the cutoff that are judged."""
    places = judged.retrieved
    if measure.cutoff is not None:
        places = np.minimum(places, int(measure.cutoff))
    return ratio(judged.total(within(judged, measure.cutoff)), places)


def set_precision(judged: Judged, measure: Measure) -> Values:
    """The share of all documents retrieved that are relevant; `relative` to the best possible."""
    places = judged.retrieved.astype(np.float64)
    if measure.param("relative", False):
        places = np.minimum(places, number_relevant(judged, measure))
    return ratio(judged.total(hits(judged, measure)), places)


def set_f(judged: Judged, measure: Measure) -> Values:
    """(beta + 1) P R / (R + beta P), trec_eval's form: beta is not squared."""
    beta = measure.param("beta", 1.0)
    p, r = set_precision(judged, measure), recall(judged, measure)
    return ratio((beta + 1) * p * r, r + beta * p)


def set_average_precision(judged: Judged, measure: Measure) -> Values:
    """Set precision times set recall."""
    return set_precision(judged, measure) * recall(judged, measure)


def number_retrieved(judged: Judged, measure: Measure) -> Values:
    """How many documents are retrieved; with `rel`, how many of at least that grade."""
    if measure.param("rel", None) is None:
        return judged.retrieved.astype(np.float64)
    return judged.total(hits(judged, measure))


def number_relevant(judged: Judged, measure: Measure) -> Values:
    """How many relevant documents the qrels have, retrieved or not."""
    return judged.total(relevant(judged, measure))


def ndcg(judged: Judged, measure: Measure) -> Values:
    """Discounted gain over that of the best ranking, both cut at k.

    The gain is the grade (`dcg='log2'`), 2 ** grade - 1 (`'exp-log2'`), or as `gains` maps it.
    """
    gain = _gain(judged, measure)
    place = np.arange(1, len(gain) + 1) - judged.offsets[:-1][judged.query]
    counted = place <= (np.inf if measure.cutoff is None else measure.cutoff)
    best = np.where(counted, _descending(judged.offsets, gain) / np.log2(place + 1.0), 0)
    return ratio(_discounted(judged, gain, measure.cutoff), judged.total(best))


def ndcg_uncut(judged: Judged, measure: Measure) -> Values:
    """Discounted binary gain down to k over that of all relevant documents retrieved, put first.

    The ideal is cut neither at k nor completed with relevant documents that were not retrieved:
    sum over r = 1 … |R| of 1 / log(r + 1), where R is what the whole ranking found.
    """
    gain = relevant(judged, measure).astype(np.float64)
    num_found = judged.total(gain * (judged.rank > 0)).astype(np.int64)
    best = np.cumsum(1 / np.log2(np.arange(2, num_found.max(initial=0) + 2)))
    ideal = np.concatenate([[0.0], best])[num_found]
    return ratio(_discounted(judged, gain, measure.cutoff), ideal)


def _discounted(judged: Judged, gain: Values, cutoff: float | None) -> Values:
    discount = np.log2(np.maximum(judged.rank, 1) + 1.0)
    return judged.total(np.where(within(judged, cutoff), gain / discount, 0))


def _gain(judged: Judged, measure: Measure) -> Values:
    grade = judged.grade.astype(np.float64)
    for grade_value, mapped in measure.param("gains", ()):
        grade[judged.grade == grade_value] = mapped
    gain = np.maximum(grade, 0)
    return np.exp2(gain) - 1 if measure.param("dcg", "log2") == "exp-log2" else gain


@jit
def _descending(offsets: NDArray[np.int64], values: Values) -> Values:
    """Each query's values, largest first."""
    out = np.empty(len(values), np.float64)
    for q in range(len(offsets) - 1):
        out[offsets[q] : offsets[q + 1]] = np.sort(values[offsets[q] : offsets[q + 1]])[::-1]
    return out


FORMULAS: dict[str, Callable[[Judged, Measure], Values]] = {
    "AP": average_precision,
    "AP_found": average_precision_found,
    "Judged": judged_share,
    "nDCG": ndcg,
    "nDCG_uncut": ndcg_uncut,
    "NumRel": number_relevant,
    "NumRet": number_retrieved,
    "P": precision,
    "R": recall,
    "Rprec": r_precision,
    "RR": reciprocal_rank,
    "SetAP": set_average_precision,
    "SetF": set_f,
    "SetP": set_precision,
    "SetR": recall,
    "Success": success,
}
