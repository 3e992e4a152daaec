"""The gradient of one batch: in micro-batches of so many tokens, side by side, always the same.

A micro-batch holds whole units, so that a loss sees all texts it compares. Each runs on its own
threads with random numbers of its own, and gradients are added in order: the sum does not depend on
which is done first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tamis.errors import require
from tamis.scorers._dropout import generator_of
from tamis.scorers.batches import one_thread_each, usable_threads
from tamis.scorers.weights import Tensor

if TYPE_CHECKING:
    from tamis.training.trainable import Tokenised, Trainable

BUDGET = 1024
"""How many tokens a micro-batch holds, unless one unit alone has more."""
Values = NDArray[np.float32]
Loss = Callable[[Tensor, Tensor, Sequence[int]], Tensor]
"""Scores and values of the texts, and how many texts each unit has: a loss a unit."""


def accumulate(
    model: Trainable,
    units: Sequence[Sequence[Tokenised]],
    values: Sequence[Values],
    loss: Loss,
    *,
    over: int | None = None,
    budget: int = BUDGET,
    threads: int | None = None,
) -> float:
    """Add the gradient of a batch's loss to the model's, and say the loss summed over its units.

    The gradient is of that sum divided by `over`, the number of units unless told otherwise.
    """
    torch = require("torch")
    parameters = list(model.parameters())
    share = 1 / (over or len(units))
    parts = micro_batches([sum(map(len, unit)) for unit in units], budget)
    seeds = torch.randint(2**62, (len(parts),)).tolist()

    def gradient(part: Sequence[int], seed: int) -> tuple[float, tuple[Tensor, ...]]:
        device = parameters[0].device
        texts = [text for number in part for text in units[number]]
        scores = model(texts, generator_of(seed, device))
        wanted = np.concatenate([values[number] for number in part])
        sizes = [len(units[number]) for number in part]
        losses = loss(scores.squeeze(1), torch.from_numpy(wanted).to(device), sizes).sum()
        found = torch.autograd.grad(losses * share, parameters, allow_unused=True)
        return losses.item(), found

    total = 0.0
    for lost, found in _side_by_side(gradient, parts, seeds, threads):
        total += lost
        _add(parameters, found)
    return total


def micro_batches(tokens: Sequence[int], budget: int = BUDGET) -> list[list[int]]:
    """The numbers of the units in each micro-batch: an even count of them, of like weight.

    >>> micro_batches([5, 1, 2, 4], budget=6), micro_batches([5, 1, 2, 4], budget=3)
    ([[0, 1], [3, 2]], [[0], [3], [2], [1]])
    """
    count = min(len(tokens), 2 * math.ceil(sum(tokens) / budget / 2))
    parts: list[list[int]] = [[] for _ in range(count)]
    weights = [0] * count
    for number in sorted(range(len(tokens)), key=lambda number: -tokens[number]):
        lightest = weights.index(min(weights))
        parts[lightest].append(number)
        weights[lightest] += tokens[number]
    return parts


def _side_by_side(
    gradient: Callable[[Sequence[int], int], tuple[float, tuple[Tensor, ...]]],
    parts: list[list[int]],
    seeds: list[int],
    threads: int | None,
) -> Iterator[tuple[float, tuple[Tensor, ...]]]:
    torch, many = require("torch"), usable_threads(threads)
    workers = min(many, len(parts))
    with one_thread_each(torch):
        each = (many // workers,)
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=each) as pool:
            yield from pool.map(gradient, parts, seeds)


def _add(parameters: list[Tensor], gradients: tuple[Tensor, ...]) -> None:
    """Add gradients to those there are; an embedding's names only the rows it used."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if parameter.grad is None:
            parameter.grad = gradient.to_dense() if gradient.is_sparse else gradient
        else:
            parameter.grad.add_(gradient)
