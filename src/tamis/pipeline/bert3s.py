"""BERT-3S (Akkalyoncu Yilmaz and others, EMNLP 2019): a document by its three best sentences.

    α · first + (1 - α) · (s1 + w2 · s2 + w3 · s3)

`first` is the earlier stage's score as it is, s1 to s3 the scores of the best sentences, best
first; a document of fewer sentences has 0 for those it lacks. So that 0 is "not relevant",
logits are turned into probabilities; other scales are taken as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.errors import InputError
from tamis.pipeline.aggregate import Aggregated
from tamis.pipeline.passage_scores import PassageScores
from tamis.types.pipeline import Scale

NAME = "bert-3s"
BEST = 3
_NUMBER = r"(0|1|0?\.\d+|1\.0*)"
_FORM = re.compile(rf"{NAME}:{_NUMBER}:{_NUMBER}:{_NUMBER}")


@dataclass(frozen=True, slots=True)
class ThreeSentences:
    """The share of the first stage and the weights of the second and third sentence; prints as
    itself.

    >>> str(parse_three_sentences("bert-3s:0.4:1:.5"))
    'bert-3s:0.4:1:0.5'
    >>> float(parse_three_sentences("bert-3s:0.5:1:0").combined(8.0, np.array([0.9, 0.5, 0.4])))
    4.7
    """

    alpha: float
    w2: float
    w3: float

    def __post_init__(self) -> None:
        if not all(0 <= value <= 1 for value in (self.alpha, self.w2, self.w3)):
            raise InputError(
                f"{str(self)!r} is outside 0 to 1", hint="α, w2 and w3 are from 0 to 1 each"
            )

    def __str__(self) -> str:
        numbers = (self.alpha, self.w2, self.w3)
        return ":".join([NAME, *(np.format_float_positional(n, trim="-") for n in numbers)])

    def combined(self, first: Any, best: Any) -> Any:
        """The score of documents from the first stage's and the best sentences', best first."""
        return self.alpha * first + (1 - self.alpha) * (
            best[..., 0] + self.w2 * best[..., 1] + self.w3 * best[..., 2]
        )

    def aggregate(
        self, passages: PassageScores, first: NDArray[np.float32], scale: Scale
    ) -> Aggregated:
        """The score and the best sentence of every document; minus infinity and -1 for none."""
        best, winners = best_three(passages, scale)
        scores = np.asarray(self.combined(first.astype(np.float64), best), np.float32)
        return Aggregated(np.where(winners >= 0, scores, np.float32(-np.inf)), winners)


def parse_three_sentences(text: str) -> ThreeSentences:
    """The parameters that print as this text."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(
            f"{text!r} does not give α, w2 and w3, each from 0 to 1",
            hint=f"for example {NAME}:0.4:0.8:0.3, or choose them on judgements with --tune QRELS",
        )
    alpha, w2, w3 = (float(number) for number in form.groups())
    return ThreeSentences(alpha, w2, w3)


def best_three(
    passages: PassageScores, scale: Scale
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """A row a document with its best scores, best first, and the number of its best passage.

    >>> rows, offsets = np.array([7, 8]), np.array([0, 4, 4])
    >>> values = np.float32([0.25, 0.75, 0.5, 0.5])
    >>> nothing = np.zeros(4, np.int32)
    >>> some = PassageScores(rows, offsets, np.int32([0, 1, 2, 3]), values, nothing, nothing, 4)
    >>> [part.tolist() for part in best_three(some, "probability")]
    [[[0.75, 0.5, 0.5], [0.0, 0.0, 0.0]], [1, -1]]
    """
    values = passages.values.astype(np.float64)
    if scale == "logit":
        values = 0.5 * (1 + np.tanh(values / 2))  # the sigmoid, which overflows written plainly
    best, rows = _best(passages.offsets, values)
    return best, np.append(passages.numbers, np.int32(-1))[rows]


@jit
def _best(offsets: NDArray[np.int64], values: NDArray[np.float64]) -> Any:
    best = np.zeros((len(offsets) - 1, BEST))
    rows = np.full(len(offsets) - 1, -1, np.int64)
    for n in range(len(rows)):
        count = 0
        for row in range(offsets[n], offsets[n + 1]):
            place = count
            while place > 0 and values[row] > best[n, place - 1]:
                place -= 1
            if place == 0:
                rows[n] = row
            if place < BEST:
                count = min(count + 1, BEST)
                for later in range(count - 1, place, -1):
                    best[n, later] = best[n, later - 1]
                best[n, place] = values[row]
    return best, rows
