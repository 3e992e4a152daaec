"""The network of the neural ranker, and its loss.

Imported only where torch is known to be installed.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

QUERY_SIZES = (128, 256, 512)
FILTERS = (16, 32, 64)
KERNEL_SIZE = 3
"""Of a convolution; the study gives none."""
POOLING = 2
ENCODED_SIZE = 512
PASSAGE_DROPOUT = 0.1


class QueryEncoder(nn.Sequential):
    """Three linear layers of 128, 256 and 512 units, a LeakyReLU after each."""

    def __init__(self, dimension: int) -> None:
        layers: list[nn.Module] = []
        for before, after in zip((dimension, *QUERY_SIZES), QUERY_SIZES, strict=False):
            layers += [nn.Linear(before, after), nn.LeakyReLU()]
        super().__init__(*layers)


class PassageEncoder(nn.Module):
    """Three convolutions over the numbers of an embedding, then a dense layer of 512 units.

    16, 32 and 64 filters, batch normalisation and LeakyReLU after each, the maximum of two
    neighbours after the first two; the dense layer has a sigmoid and dropout of .1.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(zip((1, *FILTERS), FILTERS, strict=False)):
            padding = KERNEL_SIZE // 2
            layers += [
                nn.Conv1d(before, after, KERNEL_SIZE, padding=padding),
                nn.BatchNorm1d(after),
                nn.LeakyReLU(),
            ]
            if number < 2:
                layers.append(nn.MaxPool1d(POOLING))
        self.convolutions = nn.Sequential(*layers)
        length = dimension // POOLING // POOLING
        self.dense = nn.Linear(FILTERS[-1] * length, ENCODED_SIZE)
        self.dropout = nn.Dropout(PASSAGE_DROPOUT)

    def forward(self, passages: Tensor) -> Tensor:
        """From (n, dimension) to (n, 512)."""
        maps = self.convolutions(passages[:, None, :])
        return cast(Tensor, self.dropout(torch.sigmoid(self.dense(maps.flatten(1)))))


class Network(nn.Module):
    """Scores of a query's candidates from embeddings, by a Transformer over the candidates.

    Columns of a candidate, where there are any, stand beside the product of query and passage.
    """

    def __init__(
        self, dimension: int, num_columns: int, layers: int, heads: int, feed_forward: int,
        dropout: float, scorer_size: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.query_encoder = QueryEncoder(dimension)
        self.transformer = nn.ModuleList(
            nn.TransformerEncoderLayer(dimension, heads, feed_forward, dropout, batch_first=True)
            for _ in range(layers)
        )
        self.passage_encoder = PassageEncoder(dimension)
        self.scorer = nn.Sequential(
            nn.Linear(ENCODED_SIZE + num_columns, scorer_size),
            nn.LeakyReLU(),
            nn.Linear(scorer_size, 1),
            nn.Sigmoid(),
        )

    def forward(self, queries: Tensor, passages: Tensor, columns: Tensor, real: Tensor) -> Tensor:
        """Of n lists: queries (n, d), passages (n, p, d), columns (n, p, c), which are real (n, p).

        Scores are (n, p), 0 where there is no candidate. Only real candidates reach the passage
        encoder, so that padding does not enter its batch normalisation.
        """
        context = passages
        for layer in self.transformer:
            context = layer(context, src_key_padding_mask=~real)
        product = self.query_encoder(queries)[:, None, :].expand(-1, real.shape[1], -1)[real]
        product = product * self.passage_encoder(context[real])
        values = self.scorer(torch.cat([product, columns[real]], 1))[:, 0]
        return passages.new_zeros(real.shape).masked_scatter(real, values)


def listwise_hinge(scores: Tensor, relevant: Tensor, real: Tensor, margin: float = 0.0) -> Tensor:
    """Σ max(0, margin + score of another - score of a relevant one) a list, then the mean of lists.

    With the margin of 0 that the study prints, equal scores cost nothing.

    >>> scores, relevant = torch.tensor([[0.5, 0.75, 0.25]]), torch.tensor([[True, False, False]])
    >>> [listwise_hinge(scores, relevant, torch.ones(1, 3).bool(), m).item() for m in (0.0, 0.5)]
    [0.25, 1.0]
    """
    lead = scores[:, :, None] - scores[:, None, :] + margin  # of j over k
    pairs = (real & ~relevant)[:, :, None] & (real & relevant)[:, None, :]
    return (lead.clamp(min=0) * pairs).sum((1, 2)).mean()
