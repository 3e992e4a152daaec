"""Losses: how wrong scores are, one number per instance.

Each takes `scores`, one row per text in the order of the instances, the `values` that the texts
should have and the `sizes` of the instances. Losses of one row give one number per row and ignore
`sizes`; the others give one number per instance, 0 where it has nothing to compare. The mean over a
batch is the caller's, because a batch may come in pieces.

A score is a column. Two columns are for `softmax` (not relevant, relevant, as a two-class head has
them) and for `target_words` (relevant, not relevant, as target words are given); one score of them
is the difference of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from tamis.errors import InputError, require
from tamis.training.recipe import Loss, Recipe

Tensor = Any
LossFunction = Callable[[Tensor, Tensor, Sequence[int]], Tensor]
POSITIVE_TARGET = 5.0
"""The target of a positive where classes are learnt by regression (Yadav)."""


def loss_of(recipe: Recipe, word_ids: tuple[int, int] | None = None) -> LossFunction:
    """The loss of a recipe.

    With `word_loss="vocabulary"` the scores are the logits of all tokens and the ids of the two
    words are needed. Where target words are to learn by another loss, their score is the lead of
    the first word over the second.
    """
    if recipe.loss == "target-words" and recipe.word_loss == "vocabulary":
        if word_ids is None:
            raise InputError("the loss over the vocabulary needs the ids of the two words")
        return partial(vocabulary, ids=word_ids)
    loss = LOSSES[recipe.loss]
    if recipe.margin is not None and recipe.loss in WITH_MARGIN:
        loss = partial(WITH_MARGIN[recipe.loss], margin=recipe.margin)
    if recipe.scorer == "target-words" and recipe.loss != "target-words":
        return partial(_of_lead, loss)
    return loss


def softmax(scores: Tensor, values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Cross-entropy of two classes from two outputs: not relevant, relevant.

    With outputs 0 and ln 3 relevant has the probability 3/4.

    >>> import math, torch
    >>> loss = softmax(torch.tensor([[0.0, math.log(3)]]), torch.tensor([1.0]), [1])
    >>> round(loss.item(), 4), round(math.log(4 / 3), 4)
    (0.2877, 0.2877)
    """
    logs = _columns(scores, 2).log_softmax(1)
    return -(values * logs[:, 1] + (1 - values) * logs[:, 0])


def bce(scores: Tensor, values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Cross-entropy of two classes from one output, the logit of relevant.

    >>> import math, torch
    >>> loss = bce(torch.tensor([math.log(3), math.log(3)]), torch.tensor([1.0, 0.0]), [1, 1])
    >>> [round(one, 4) for one in loss.tolist()], round(math.log(4), 4)
    ([0.2877, 1.3863], 1.3863)
    """
    functional = require("torch.nn.functional")
    return functional.binary_cross_entropy_with_logits(
        _single_column(scores), values, reduction="none"
    )


def target_words(scores: Tensor, values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Cross-entropy over the logits of the two words: relevant, not relevant.

    >>> import math, torch
    >>> loss = target_words(torch.tensor([[math.log(3), 0.0]]), torch.tensor([1.0]), [1])
    >>> round(loss.item(), 4)
    0.2877
    """
    return softmax(_columns(scores, 2).flip(1), values, sizes)


def vocabulary(
    scores: Tensor, values: Tensor, sizes: Sequence[int], *, ids: tuple[int, int]
) -> Tensor:
    """Cross-entropy over the logits of all tokens: how a language model learns to write the word.

    Three tokens of equal logits leave the right one a third.

    >>> import math, torch
    >>> loss = vocabulary(torch.zeros(1, 3), torch.tensor([1.0]), [1], ids=(2, 0))
    >>> round(loss.item(), 4), round(math.log(3), 4)
    (1.0986, 1.0986)
    """
    logs = scores.log_softmax(1)
    return -(values * logs[:, ids[0]] + (1 - values) * logs[:, ids[1]])


def squared(scores: Tensor, values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Squared error, on values from 0 to 5 in Yadav.

    >>> import torch
    >>> squared(torch.tensor([3.0, 0.5]), torch.tensor([5.0, 0.0]), [1, 1]).tolist()
    [4.0, 0.25]
    """
    return (_single_column(scores) - values) ** 2


def pairwise_margin(
    scores: Tensor, values: Tensor, sizes: Sequence[int], *, margin: float = 1.0
) -> Tensor:
    """By how much the better of two texts fails to lead by the margin.

    In an instance of more than two it is the mean over all pairs of unequal value.

    >>> import torch
    >>> scores, values = torch.tensor([0.75, 0.5, 3.0, 0.0]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    >>> pairwise_margin(scores, values, [2, 2]).tolist()
    [0.75, 0.0]
    """
    total, pairs = _violations(scores, values, sizes, margin)
    return total / pairs.clamp(min=1)


def listwise_hinge(
    scores: Tensor, values: Tensor, sizes: Sequence[int], *, margin: float = 0.0
) -> Tensor:
    """Equation 5 of You: by how much each negative stands above each positive, summed.

    The paper has no margin, so that equal scores for everything are a perfect answer: the loss is
    0 and so is its gradient. A margin above 0 takes that way out.

    >>> import torch
    >>> scores, values = torch.tensor([0.5, 0.75, 0.25, 1.0]), torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> listwise_hinge(scores, values, [4]).item(), 0.25 + 0.5
    (0.75, 0.75)
    >>> listwise_hinge(torch.ones(4), values, [4]).item()
    0.0
    >>> listwise_hinge(torch.ones(4), values, [4], margin=1.0).item()
    3.0
    """
    return _violations(scores, values, sizes, margin)[0]


def listwise_softmax(scores: Tensor, values: Tensor, sizes: Sequence[int]) -> Tensor:
    """How little of the softmax falls to a positive, among itself and the negatives.

    Several positives do not compete: the loss is the mean over them, each against the negatives
    alone. Values of more than two levels are taken the same way: each text against the texts of
    lower value.

    >>> import math, torch
    >>> scores = torch.tensor([math.log(2), math.log(6), 0.0, 0.0])
    >>> loss = listwise_softmax(scores, torch.tensor([1.0, 1.0, 0.0, 0.0]), [4])
    >>> round(loss.item(), 4), round((math.log(4 / 2) + math.log(8 / 6)) / 2, 4)
    (0.4904, 0.4904)
    """
    torch = require("torch")
    grid, targets = _grid(_single_column(scores), sizes, 0.0), _grid(values, sizes, torch.nan)
    lower = targets[:, :, None] > targets[:, None, :]
    rivals = lower | torch.eye(grid.shape[1], dtype=torch.bool, device=grid.device)
    field = grid[:, None, :].expand(rivals.shape).masked_fill(~rivals, -torch.inf)
    compared = lower.any(2)
    losses = (field.logsumexp(2) - grid) * compared
    return losses.sum(1) / compared.sum(1).clamp(min=1)


def margin_distillation(scores: Tensor, values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Squared error between the leads of texts over each other and the teacher's leads.

    In an instance of more than two it is the mean over all pairs, so that no text is the one that
    all are measured from; it is twice the variance of the differences from the teacher, and is
    computed as that.

    >>> import torch
    >>> scores, teacher = torch.tensor([3.0, 1.0, 0.0]), torch.tensor([9.0, 8.0, 8.0])
    >>> margin_distillation(scores[:2], teacher[:2], [2]).item()
    1.0
    >>> margin_distillation(scores, teacher, [3]).item(), (1**2 + 2**2 + 1**2) / 3
    (2.0, 2.0)
    """
    torch = require("torch")
    error = _grid(_single_column(scores) - values, sizes, 0.0)
    is_present = ~_grid(values, sizes, torch.nan).isnan()
    count = is_present.sum(1)
    mean = error.sum(1, keepdim=True) / count[:, None]
    deviations = ((error - mean) * is_present) ** 2
    return 2 * deviations.sum(1) / (count - 1).clamp(min=1)


LOSSES: Mapping[Loss, LossFunction] = MappingProxyType(
    {
        "softmax": softmax,
        "bce": bce,
        "target-words": target_words,
        "squared": squared,
        "margin": pairwise_margin,
        "listwise-softmax": listwise_softmax,
        "listwise-hinge": listwise_hinge,
        "margin-distillation": margin_distillation,
    }
)
WITH_MARGIN: Mapping[Loss, Callable[..., Tensor]] = MappingProxyType(
    {"margin": pairwise_margin, "listwise-hinge": listwise_hinge}
)
"""The losses that a recipe's margin goes to."""


def _of_lead(loss: LossFunction, scores: Tensor, values: Tensor, sizes: Sequence[int]) -> Tensor:
    return loss(_columns(scores, 2)[:, 0] - scores[:, 1], values, sizes)


def _violations(
    scores: Tensor, values: Tensor, sizes: Sequence[int], margin: float
) -> tuple[Tensor, Tensor]:
    """Per instance: the sum of max(0, margin - lead) over pairs of unequal value, their number."""
    torch = require("torch")
    grid, targets = _grid(_single_column(scores), sizes, 0.0), _grid(values, sizes, torch.nan)
    better = targets[:, :, None] > targets[:, None, :]
    missing = (margin - (grid[:, :, None] - grid[:, None, :])).relu()
    return (missing * better).sum((1, 2)), better.sum((1, 2))


def _grid(column: Tensor, sizes: Sequence[int], fill: float) -> Tensor:
    """One row per instance, filled up at the end; nothing is above or below a nan."""
    pad = require("torch.nn.utils.rnn").pad_sequence
    return pad(column.split(list(sizes)), batch_first=True, padding_value=fill)


def _single_column(scores: Tensor) -> Tensor:
    """One score per row."""
    return scores if scores.ndim == 1 else _columns(scores, 1)[:, 0]


def _columns(scores: Tensor, count: int) -> Tensor:
    if scores.ndim != 2 or scores.shape[1] != count:
        raise InputError(
            f"this loss takes {count} score(s) per text, not scores of shape {tuple(scores.shape)}"
        )
    return scores
