"""Resampling kernels behind the tests: random signs and random queries, many differences at once.

All rows of a matrix (a comparison each, a query a column) share the same random numbers, and
these are drawn in chunks, so neither time nor memory grows with comparisons times samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit

Values = NDArray[np.float64]

MAX_EXACT_DIFFERENCES = 16
"""Up to so many every choice of signs is tried."""
VALUE_TOLERANCE = 1e-12
"""Differences and sums closer than this are the same number, computed in another order."""
RANDOM_NUMBERS_PER_CHUNK = 1 << 22


def sign_flips(differences: Values, samples: int, seed: int) -> Values:
    """For each row the share of sign choices with a sum as far from zero as the one observed."""
    packed = [row[row != 0] for row in differences]
    p = np.ones(len(packed))
    sampled = []
    for number, row in enumerate(packed):
        if len(row) > MAX_EXACT_DIFFERENCES:
            sampled.append(number)
        elif len(row):
            p[number] = _every_sign(row)
    if sampled:
        p[sampled] = _random_signs([packed[number] for number in sampled], samples, seed)
    return p


def _every_sign(row: Values) -> float:
    choices = np.arange(1 << len(row))[:, np.newaxis] >> np.arange(len(row)) & 1
    sums = np.abs((1 - 2 * choices) @ row)
    return float(np.mean(sums >= abs(row.sum()) - VALUE_TOLERANCE * len(row)))


def _random_signs(rows: list[Values], samples: int, seed: int) -> Values:
    tables = [_signed_sums(row) for row in rows]
    bounds = [abs(row.sum()) - VALUE_TOLERANCE * len(row) for row in rows]
    width = max(len(table) for table in tables)
    generator = np.random.default_rng(seed)
    extreme = np.zeros(len(rows))
    for count in _chunks(samples, width):
        signs = np.frombuffer(generator.bytes(count * width), np.uint8).reshape(count, width)
        for number, table in enumerate(tables):
            extreme[number] += _as_extreme(table, signs, bounds[number])
    return (extreme + 1) / (samples + 1)


def _signed_sums(row: Values) -> Values:
    """For every eight differences the 256 sums their signs can give, by the byte of signs."""
    padded = np.zeros(-(-len(row) // 8) * 8)
    padded[: len(row)] = row
    signs = 1.0 - 2.0 * (np.arange(256)[:, np.newaxis] >> np.arange(8) & 1)
    return np.ascontiguousarray(padded.reshape(-1, 8) @ signs.T)


@jit
def _as_extreme(table: Values, signs: NDArray[np.uint8], bound: float) -> int:
    """How many lines of signs give a sum at least as far from zero as the bound."""
    extreme = 0
    for line in range(len(signs)):
        total = 0.0
        for group in range(len(table)):
            total += table[group, signs[line, group]]
        if abs(total) >= bound:
            extreme += 1
    return extreme


def bootstrap(
    differences: Values, samples: int, seed: int, level: float = 0.95
) -> NDArray[np.float64]:
    """For each row the percentile interval of its mean over resampled queries: low and high."""
    rows, queries = differences.shape
    by_query = np.ascontiguousarray(differences.T)
    generator = np.random.default_rng(seed)
    means = np.concatenate(
        [
            _resampled_means(by_query, generator.integers(0, queries, (count, queries), np.int32))
            for count in _chunks(samples, queries)
        ]
    )
    tails = [(1 - level) / 2, (1 + level) / 2]
    bounds: NDArray[np.float64] = np.quantile(means, tails, axis=0).T.reshape(rows, 2)
    return bounds


@jit
def _resampled_means(by_query: Values, samples: NDArray[np.int32]) -> Values:
    """The mean of every comparison over each line of chosen queries."""
    means: Values = np.zeros((len(samples), by_query.shape[1]), np.float64)
    for line in range(len(samples)):
        for query in samples[line]:
            for number in range(by_query.shape[1]):
                means[line, number] += by_query[query, number]
    means /= samples.shape[1]
    return means


def _chunks(samples: int, width: int) -> list[int]:
    size = max(1, RANDOM_NUMBERS_PER_CHUNK // width)
    return [min(size, samples - start) for start in range(0, samples, size)]
