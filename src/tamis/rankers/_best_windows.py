"""Where a convolution over a matrix of cosines is highest, without the convolution being kept.

Of a convolution, max-pooling over filters and k-max pooling along the document keep k windows a
query term. These kernels find them; what they are worth, and its gradient, is left to the network.
Zeros after query and document are not stored: a kernel pads as it reads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit, jit_helper, jit_with

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


@jit
def highest_cells(
    similarity: Floats, query_lengths: Ints, document_lengths: Ints, max_document_terms: int,
    cells: Floats,
) -> None:  # fmt: skip
    """Write the k highest numbers of each row, the highest first, to `cells` (pairs, rows, k)."""
    k = cells.shape[2]
    row = np.zeros(similarity.shape[2] + k, np.float32)
    chosen = np.empty(k, np.int64)
    for pair in range(len(similarity)):
        length = document_lengths[pair]
        columns = min(length + k, max_document_terms)
        row[length : length + k] = 0
        for term in range(query_lengths[pair]):
            row[:length] = similarity[pair, term, :length]
            choose(row, columns, chosen)
            for rank in range(k):
                cells[pair, term, rank] = row[chosen[rank]]


@jit_with(fastmath={"contract"})
def highest_windows(
    similarity: Floats, query_lengths: Ints, document_lengths: Ints, max_document_terms: int,
    kernels: Floats, biases: Floats, windows: Floats,
) -> None:  # fmt: skip
    """Write the k windows of each row whose value is highest to `windows` (pairs, rows, k, n * n).

    `kernels` are (filters, n, n); a window's value is the maximum over filters of ReLU(kernel ·
    window + bias). A window of n cells begins (n - 1) // 2 before its own. Rows further behind the
    query than a window reaches stay as they are, zeros.
    """
    n, k = kernels.shape[1], windows.shape[2]
    before = (n - 1) // 2
    height, width = similarity.shape[1] + before + n, similarity.shape[2] + before + k + n
    padded = np.zeros((height, width), np.float32)
    sums, best = np.empty(width, np.float32), np.empty(width, np.float32)
    chosen = np.empty(k, np.int64)
    for pair in range(len(similarity)):
        terms, length = query_lengths[pair], document_lengths[pair]
        columns = min(length + before + k, max_document_terms)
        padded[:] = 0
        for term in range(terms):
            padded[term + before, before : before + length] = similarity[pair, term, :length]
        for term in range(min(terms + before, windows.shape[1])):
            best[:columns] = 0
            for number in range(len(kernels)):
                rows = padded[term : term + n]
                convolve(rows, kernels[number], biases[number], sums[:columns], best[:columns])
            choose(best, columns, chosen)
            for rank in range(k):
                for down in range(n):
                    start = chosen[rank]
                    windows[pair, term, rank, down * n : (down + 1) * n] = padded[
                        term + down, start : start + n
                    ]


@jit_helper
def convolve(rows: Floats, kernel: Floats, bias: float, sums: Floats, best: Floats) -> None:
    """Raise the best value of each column to the value of a kernel there, where that is higher."""
    sums[:] = bias
    for down in range(len(kernel)):
        for right in range(len(kernel)):
            weight, values = kernel[down, right], rows[down, right:]
            for column in range(len(sums)):
                sums[column] += weight * values[column]
    for column in range(len(sums)):
        best[column] = best[column] if best[column] >= sums[column] else sums[column]


@jit_helper
def choose(values: Floats, count: int, chosen: NDArray[np.int64]) -> None:
    """Where the highest of the first `count` values stand, the highest first; of equals the first.

    >>> chosen = np.empty(2, np.int64)
    >>> choose(np.float32([1, 3, 2, 3]), 4, chosen); chosen.tolist()
    [1, 3]
    """
    filled, last = 0, len(chosen) - 1
    for column in range(count):
        value = values[column]
        if filled > last and value <= values[chosen[last]]:
            continue
        place = min(filled, last)
        while place > 0 and value > values[chosen[place - 1]]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = column
        filled += 1
