"""The network of PACRR-DRMM and PACRR, and their two losses.

Imported only where torch is known to be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from tamis.rankers.term_texts import NUM_FEATURES

NUM_DENSE = 2
"""Hidden layers, with ReLU, of the MLP over a term or, in PACRR, over all terms."""


class Network(nn.Module):
    """Scores of pairs from the best windows of their cosines, the idf of terms and 4 features.

    Convolutions are applied to the windows that k-max pooling selects and nowhere else: the
    same values and gradients as convolving the whole matrix, of which pooling drops the rest.
    """

    def __init__(
        self, max_query_terms: int, max_document_terms: int, window: int, filters: int, kmax: int,
        hidden: int, combine: str,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_document_terms, self.kmax, self.combine = max_document_terms, kmax, combine
        self.convolutions = nn.ModuleList(
            nn.Conv2d(1, filters, n, padding="same") for n in range(2, window + 1)
        )
        width = 1 + kmax * window
        if combine == "pacrr":
            self.dense = _mlp(max_query_terms * width + NUM_FEATURES, hidden)
        else:
            self.term = _mlp(width, hidden)
            num_scores = max_query_terms if combine == "positions" else 1
            self.dense = nn.Sequential(nn.Linear(num_scores + NUM_FEATURES, 1))

    def forward(
        self, cells: Tensor, windows: Sequence[Tensor], idf: Tensor, lengths: Tensor,
        features: Tensor,
    ) -> Tensor:  # fmt: skip
        """From cells (pairs, q, k), windows of n = 2, 3, … (pairs, q, k, n * n), idf (pairs, q),
        how many terms queries have (pairs) and features (pairs, 4) to a score a pair."""
        gate = torch.softmax(idf, 1)
        signals = [gate[:, :, None], cells]
        for convolution, parts in zip(self.convolutions, windows, strict=True):
            convolution = cast(nn.Conv2d, convolution)
            signals.append(values_of(parts, convolution.weight, convolution.bias))
        terms = torch.cat(signals, 2)
        if self.combine == "pacrr":
            return self.dense(torch.cat([terms.flatten(1), features], 1))[:, 0]  # type: ignore[no-any-return]
        scores = self.term(terms)[:, :, 0]
        if self.combine == "gated_sum":
            scores = gated_sum(scores, idf, lengths)[:, None]
        return self.dense(torch.cat([scores, features], 1))[:, 0]  # type: ignore[no-any-return]


def _mlp(size: int, hidden: int) -> nn.Sequential:
    sizes = (size, *[hidden] * NUM_DENSE)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, 1))


def values_of(windows: Tensor, kernels: Tensor, biases: Tensor | None) -> Tensor:
    """The maximum over filters of ReLU(kernel · window + bias).

    >>> kernels = torch.tensor([[[[1.0, 0], [0, 1]]], [[[0, 1.0], [1, 0]]]])
    >>> values_of(torch.tensor([0.5, 0.25, 1, 0.5]), kernels, torch.tensor([0.0, 1.0])).item()
    2.25
    """
    return functional.relu(functional.linear(windows, kernels.flatten(1), biases)).amax(-1)


def gated_sum(scores: Tensor, idf: Tensor, lengths: Tensor) -> Tensor:
    """The sum of terms' scores weighted by the softmax of their idf; padding has no part in it.

    >>> gated_sum(torch.tensor([[3.0, 1.0, 9.0]]), torch.zeros(1, 3), torch.tensor([2])).item()
    2.0
    """
    real = torch.arange(idf.shape[1]) < lengths[:, None]
    gate = torch.softmax(idf.masked_fill(~real, -1e9), 1) * real
    return (gate * scores).sum(1)


def margin_loss(relevant: Tensor, other: Tensor, margin: float = 1.0) -> Tensor:
    """The mean of max(0, margin - score of the relevant document + score of the other).

    >>> margin_loss(torch.tensor([2.0, 0.0]), torch.tensor([0.5, 0.5])).item()
    0.75
    """
    return functional.relu(margin - relevant + other).mean()


def softmax_loss(relevant: Tensor, other: Tensor) -> Tensor:
    """The mean of -log(e^r / (e^r + e^o)), r being the score of the relevant document.

    >>> round(softmax_loss(torch.log(torch.tensor([3.0])), torch.zeros(1)).exp().item(), 4)
    1.3333
    """
    return functional.softplus(other - relevant).mean()
