"""Batches hold every sequence once, within the budget, and results come back in order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.backends.batches import Numbers, Rows, batches, chunks, groups, run_batches
from tamis.backends.tokens import share_room
from tamis.scorers.template import Template
from tamis.types import Pairs

LENGTHS = st.lists(st.integers(1, 40), max_size=60)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 100))
def test_every_sequence_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    found = batches(lengths, budget)
    assert sorted(n for batch in found for n in batch.tolist()) == list(range(len(lengths)))
    for batch in found:
        sizes = [lengths[n] for n in batch.tolist()]
        assert sizes == sorted(sizes)
        assert len(sizes) == 1 or sum(sizes) <= budget


@settings(deadline=None)
@given(LENGTHS)
def test_groups_are_neighbours_of_one_length(lengths: list[int]) -> None:
    assert [length for count, length in groups(lengths) for _ in range(count)] == lengths
    named = [length for _, length in groups(lengths)]
    assert all(first != second for first, second in pairwise(named))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=30), st.integers(1, 9))
def test_chunks_hold_the_same_pairs(index: list[tuple[int, int]], size: int) -> None:
    queries, texts = [f"q{n}" for n in range(5)], [f"t{n}" for n in range(10)]
    pairs = Pairs(queries, texts, np.array(index, np.int32).reshape(-1, 2))
    found = []
    for part, piece in chunks(pairs, size):
        assert part.stop - part.start == len(piece) <= size
        assert len(set(piece.texts)) == len(piece.texts) <= size
        found += [(piece.queries[q], piece.texts[t]) for q, t in piece.index.tolist()]
    assert found == [(queries[q], texts[t]) for q, t in index]


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(2, 200))
def test_room_is_shared_so_that_nothing_is_cut_without_need(
    query: int, document: int, room: int
) -> None:
    of_query, of_document = share_room(query, document, room)
    assert of_query <= query
    assert of_document <= document
    assert of_query + of_document == min(query + document, room)
    assert of_query == query or of_query >= room // 2
    assert of_query <= room // 2 or of_query + document <= room


@pytest.mark.parametrize("threads", [1, 4])
def test_results_come_back_in_order(threads: int) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    lengths = [7, 3, 9, 3, 1]

    def forward(batch: Numbers) -> Rows:
        return np.stack([batch, batch * 10], 1).astype(np.float32)

    rows = run_batches(forward, lengths, width=2, budget=8, threads=threads)
    assert rows.tolist() == [[n, n * 10] for n in range(5)]
    assert run_batches(forward, [], width=2, threads=threads).shape == (0, 2)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_template_knows_where_query_and_document_stand(query: str, document: str) -> None:
    text, asked, found = Template("{document} <- {query}!").fill(query, document)
    assert text == f"{document} <- {query}!"
    assert (text[slice(*asked)], text[slice(*found)]) == (query, document)
