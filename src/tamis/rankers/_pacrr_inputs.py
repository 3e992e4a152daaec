"""From rows of candidates to what the network of PACRR-DRMM reads, and to its scores."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from tamis.errors import require
from tamis.rankers._best_windows import highest_cells, highest_windows
from tamis.rankers.term_texts import CandidateTerms, Floats, Longs

NUMBERS_PER_BATCH = 1 << 20
"""How many numbers the vectors of a batch's documents have when it is scored, one pair at least."""
PAIRS_PER_THREAD = 16
"""Fewer are not given to a thread of their own."""
Module = Any


def score_rows(network: Module, terms: CandidateTerms) -> Floats:
    """The score of every row; documents of like length are scored together."""
    scores = np.zeros(len(terms), np.float32)
    lengths = terms.document_lengths[terms.document]
    order, start = np.argsort(-lengths, kind="stable"), 0
    with require("torch").no_grad(), kernel_threads() as pool:
        while start < len(order):
            numbers = max(int(lengths[order[start]]), 1) * terms.vectors.shape[1]
            rows = order[start : start + max(1, NUMBERS_PER_BATCH // numbers)]
            scores[rows] = network(*network_inputs(network, terms, rows, pool)).numpy()
            start += len(rows)
    return scores


@contextmanager
def kernel_threads() -> Iterator[ThreadPoolExecutor]:
    """As many threads as torch uses."""
    with ThreadPoolExecutor(require("torch").get_num_threads()) as pool:
        yield pool


def network_inputs(
    network: Module, terms: CandidateTerms, rows: Longs, pool: ThreadPoolExecutor
) -> tuple[Any, list[Any], Any, Any, Any]:
    """What the network reads of some rows: cells, windows, idf, lengths of queries, features."""
    as_tensor = require("torch").from_numpy
    cells, *windows = best_parts(network, terms, rows, pool)
    query = terms.query[rows]
    return (
        as_tensor(cells),
        [as_tensor(part) for part in windows],
        as_tensor(terms.query_idf[query]),
        as_tensor(terms.query_lengths[query]),
        as_tensor(terms.features[rows]),
    )


def best_parts(
    network: Module, terms: CandidateTerms, rows: Longs, pool: ThreadPoolExecutor
) -> list[Floats]:
    """The best cells of each row's similarities, and the best windows of each convolution."""
    similarity = similarities(terms, rows)
    query, document = terms.query[rows], terms.document[rows]
    lengths = terms.query_lengths[query], terms.document_lengths[document]
    shape = (len(rows), terms.query_terms.shape[1], network.kmax)
    kernels = [
        (one.weight.detach().numpy()[:, 0], one.bias.detach().numpy())
        for one in network.convolutions
    ]
    parts = [np.zeros(shape, np.float32)]
    parts += [np.zeros((*shape, kernel[0].size), np.float32) for kernel, _ in kernels]

    def fill(some: slice) -> None:
        given = similarity[some], lengths[0][some], lengths[1][some], network.max_document_terms
        highest_cells(*given, parts[0][some])
        for (kernel, bias), windows in zip(kernels, parts[1:], strict=True):
            highest_windows(*given, kernel, bias, windows[some])

    list(pool.map(fill, slices(len(rows), require("torch").get_num_threads())))
    return parts


def slices(count: int, most: int) -> list[slice]:
    """So many rows in like parts, one a thread, where each is worth a thread.

    >>> slices(40, 8)
    [slice(0, 20, None), slice(20, 40, None)]
    """
    parts = max(1, min(most, count // PAIRS_PER_THREAD))
    bounds = np.linspace(0, count, parts + 1).astype(int).tolist()
    return [slice(*pair) for pair in pairwise(bounds)]


def similarities(terms: CandidateTerms, rows: Longs) -> Floats:
    """The cosines of the terms of each row's query with those of its document, 0 after either."""
    torch = require("torch")
    query = terms.query[rows]
    longest = int(terms.query_lengths[query].max(initial=0))
    vectors = torch.from_numpy(terms.vectors)
    of_query = vectors[torch.from_numpy(terms.query_terms[query, :longest])]
    of_document = vectors[torch.from_numpy(terms.documents(rows))]
    values: Floats = torch.bmm(of_query, of_document.transpose(1, 2)).numpy()
    return values
