"""The gradient of one batch: in micro-batches of so many tokens, side by side, always the same.

A micro-batch holds whole instances, so that a loss sees all texts it compares. Each runs on its own
threads with random numbers of its own, and gradients are added in order: the sum does not depend on
which is done first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tamis.backends._dropout import generator_of
from tamis.backends.batches import single_threaded_torch, usable_threads
from tamis.backends.weights import Tensor
from tamis.errors import require

if TYPE_CHECKING:
    from tamis.training.trainable import Tokenised, Trainable

TOKENS_PER_MICRO_BATCH = 1024
"""An instance that has more is a micro-batch of its own."""
BY_ROWS = "gradient_names_rows"
"""An attribute of parameters whose gradients name only the rows that were used."""
Values = NDArray[np.float32]
Loss = Callable[[Tensor, Tensor, Sequence[int]], Tensor]
"""Scores and values of the texts, and how many texts each instance has: one loss each."""


def accumulate(
    model: Trainable,
    instances: Sequence[Sequence[Tokenised]],
    values: Sequence[Values],
    loss: Loss,
    *,
    num_instances: int | None = None,
    budget: int = TOKENS_PER_MICRO_BATCH,
    threads: int | None = None,
    loss_scale: float = 1.0,
) -> float:
    """Add the gradient of a batch's loss to the model's; return the loss summed over instances.

    The gradient is of that sum divided by `num_instances`, by default the number of instances, and
    times `loss_scale`.
    """
    torch = require("torch")
    parameters = list(model.parameters())
    share = loss_scale / (num_instances or len(instances))
    batches = micro_batches([sum(map(len, instance)) for instance in instances], budget)
    seeds = torch.randint(2**62, (len(batches),)).tolist()

    def gradient(numbers: Sequence[int], seed: int) -> tuple[float, tuple[Tensor, ...]]:
        device = parameters[0].device
        texts = [text for number in numbers for text in instances[number]]
        scores = model(texts, generator_of(seed, device))
        targets = np.concatenate([values[number] for number in numbers])
        sizes = [len(instances[number]) for number in numbers]
        losses = loss(scores.squeeze(1), torch.from_numpy(targets).to(device), sizes).sum()
        gradients = torch.autograd.grad(losses * share, parameters, allow_unused=True)
        return losses.item(), gradients

    total = 0.0
    runs = _side_by_side if model.is_parallel else _one_by_one
    for loss_sum, gradients in runs(gradient, batches, seeds, threads):
        total += loss_sum
        _add(parameters, gradients)
    return total


def micro_batches(tokens: Sequence[int], budget: int = TOKENS_PER_MICRO_BATCH) -> list[list[int]]:
    """The numbers of the instances in each micro-batch: an even count of batches, of like size.

    >>> micro_batches([5, 1, 2, 4], budget=6), micro_batches([5, 1, 2, 4], budget=3)
    ([[0, 1], [3, 2]], [[0], [3], [2], [1]])
    """
    count = min(len(tokens), 2 * math.ceil(sum(tokens) / budget / 2))
    numbers_by_batch: list[list[int]] = [[] for _ in range(count)]
    weights = [0] * count
    for number in sorted(range(len(tokens)), key=lambda number: -tokens[number]):
        lightest = weights.index(min(weights))
        numbers_by_batch[lightest].append(number)
        weights[lightest] += tokens[number]
    return numbers_by_batch


def _side_by_side(
    gradient: Callable[[Sequence[int], int], tuple[float, tuple[Tensor, ...]]],
    batches: list[list[int]],
    seeds: list[int],
    threads: int | None,
) -> Iterator[tuple[float, tuple[Tensor, ...]]]:
    torch, num_threads = require("torch"), usable_threads(threads)
    workers = min(num_threads, len(batches))
    with single_threaded_torch(torch):
        threads_per_worker = (num_threads // workers,)
        with ThreadPoolExecutor(
            workers, initializer=torch.set_num_threads, initargs=threads_per_worker
        ) as pool:
            yield from pool.map(gradient, batches, seeds)


def _one_by_one(
    gradient: Callable[[Sequence[int], int], tuple[float, tuple[Tensor, ...]]],
    batches: list[list[int]],
    seeds: list[int],
    threads: int | None,
) -> Iterator[tuple[float, tuple[Tensor, ...]]]:
    """Each on all threads: torch's own random numbers are those of one batch at a time."""
    torch = require("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(usable_threads(threads))
    try:
        yield from map(gradient, batches, seeds)
    finally:
        torch.set_num_threads(before)


def _add(parameters: list[Tensor], gradients: tuple[Tensor, ...]) -> None:
    """Add gradients to those there are; an embedding's names only the rows it used."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if parameter.grad is not None:
            parameter.grad.add_(gradient)
        elif gradient.is_sparse:
            parameter.grad = gradient.to_dense()
            setattr(parameter, BY_ROWS, True)
        else:
            parameter.grad = gradient


def clear_gradients(parameters: Iterable[Tensor]) -> None:
    """Forget the gradients; that of an embedding stays where it is, as zeros.

    It has a row for every word, and fresh memory for it would take a quarter of a short step.
    """
    for parameter in parameters:
        if getattr(parameter, BY_ROWS, False):
            parameter.grad.zero_()
        else:
            parameter.grad = None
