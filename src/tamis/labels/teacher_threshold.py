"""From which score on a teacher without classes calls a text relevant.

Chosen on judged examples of the domain it was trained on: the score that gives the best balanced
accuracy, the mean of the shares of relevant and of other texts that it tells right. That is what
p > .5 is to a teacher with classes trained on as many of one as of the other, and unlike F1 it
does not depend on how many negatives the examples happen to have.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.durable import Progress
from tamis.errors import InputError
from tamis.labels.example_texts import row_texts
from tamis.labels.examples import LABEL_TYPES, Examples
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import Documents, open_lookup
from tamis.types import Pairs, Scorer

EXAMPLES_PER_BATCH = 256


@dataclass(frozen=True)
class Calibration:
    """A score above which texts are relevant, and how well that told the examples apart."""

    threshold: float
    balanced_accuracy: float
    positives: int
    negatives: int
    examples: str = ""
    """What the examples are called."""

    def record(self) -> dict[str, Any]:
        """The facts that examples record."""
        return {
            name.replace("_", " "): value for name, value in asdict(self).items() if value != ""
        }


def calibrate(
    scorer: Scorer,
    examples: Examples,
    documents: Documents,
    *,
    cache: ScoreCache | None = None,
    name: str = "",
) -> Calibration:
    """Choose the threshold of a scorer on examples of classes, whose queries have texts.

    `name` is what the facts call the examples.
    """
    if not len(examples) or (examples.kind != LABEL_TYPES.index("class")).any():
        raise InputError(
            "a threshold is chosen on examples of relevant and other texts",
            hint="make them from judgements: tamis label gold",
        )
    docs = examples.docs.select(np.unique(examples.doc))
    with open_lookup(documents, docs) as lookup:
        absent = np.flatnonzero(~lookup.has(docs))
        if len(absent):
            raise InputError(
                f"document {docs[int(absent[0])]!r} of the examples is not in the collection",
                hint="give the collection that the examples were made from",
            )
        scores = np.empty(len(examples), np.float32)
        with Progress("calibrating", len(examples), "examples") as progress:
            for start in range(0, len(examples), EXAMPLES_PER_BATCH):
                rows = np.arange(start, min(start + EXAMPLES_PER_BATCH, len(examples)))
                scores[rows] = _scores(scorer, *row_texts(examples, rows, lookup), cache)
                progress.advance(len(rows))
    return replace(best_threshold(scores, examples.value > 0.5), examples=name)


def _scores(
    scorer: Scorer, queries: list[str], texts: list[str], cache: ScoreCache | None
) -> NDArray[np.float32]:
    """The score of each query and its text, from the cache where it has it."""
    number = {query: number for number, query in enumerate(dict.fromkeys(queries))}
    index = np.array([[number[query], row] for row, query in enumerate(queries)], np.int32)
    distinct = list(number)
    if cache is None:
        return scorer.score(Pairs(distinct, texts, index)).values
    keys = cache.keys(Pairs(distinct, texts, index))
    scores, is_cached = cache.find(keys)
    new = np.flatnonzero(~is_cached)
    if len(new):
        new_scores = scorer.score(Pairs(distinct, texts, index[new]))
        cache.add(keys[new], new_scores)
        scores.values[new] = new_scores.values
    return scores.values


def best_threshold(scores: NDArray[np.float32], relevant: NDArray[np.bool_]) -> Calibration:
    """The threshold of the best balanced accuracy, midway between two scores; the highest of
    equals.

    >>> calibration = best_threshold(np.float32([4, 3, 2, 1]), np.array([True, True, False, True]))
    >>> calibration.threshold, round(calibration.balanced_accuracy, 3)  # 2 of 3, and 1 of 1
    (2.5, 0.833)
    """
    if not np.isfinite(scores).all():
        raise InputError("a score of the teacher is no number", hint="the model is broken")
    positives, negatives = int(relevant.sum()), int((~relevant).sum())
    if not positives or not negatives:
        raise InputError(
            f"{positives:,} relevant texts and {negatives:,} others cannot choose a threshold",
            hint="give examples of both",
        )
    order = np.argsort(-scores, kind="stable")
    ordered, right = scores[order].astype(np.float64), relevant[order]
    ends = np.flatnonzero(np.diff(ordered))
    # in whole numbers, so that equals are equal: a share of 1 each is twice positives · negatives
    correct = np.cumsum(right)[ends] * negatives + (negatives - np.cumsum(~right)[ends]) * positives
    if not len(ends) or correct.max() <= positives * negatives:
        raise InputError(
            "the teacher scores the relevant examples no higher than the others",
            hint="are they of the domain it was trained on? or give a threshold yourself",
        )
    best = int(np.argmax(correct))
    accuracy = float(correct[best]) / (2 * positives * negatives)
    threshold = (ordered[ends[best]] + ordered[ends[best] + 1]) / 2
    return Calibration(float(threshold), accuracy, positives, negatives)
