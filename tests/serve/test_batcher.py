"""How deep time allows, by hand: with a clock that moves only while a model reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.scorers.tokenized import TokenizedPairs
from tamis.serve import batcher
from tamis.serve.batcher import CAUTION, FIRST_PACE, Batcher, Work, fill
from tamis.types import Pairs


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Reader:
    """Reads at the first pace; an item is the number of its tokens, and scores so much."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.batches = clock, list[list[int]]()

    def tokenize(self, pairs: Pairs) -> TokenizedPairs:
        raise NotImplementedError

    def score_tokenized(self, items: Sequence[int]) -> NDArray[np.float32]:
        self.batches.append([*items])
        self.clock.now += sum(items) / FIRST_PACE
        return np.array(items, np.float32)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(batcher, "perf_counter", clock)
    yield clock


def pairs(*lengths: int) -> TokenizedPairs:
    return TokenizedPairs(lengths, np.array(lengths), np.zeros(len(lengths), np.int32))


def test_a_request_is_scored_as_deep_as_time_allows(clock: Clock) -> None:
    assert (FIRST_PACE, CAUTION) == (5000, 0.8)
    reader = Reader(clock)
    with closing(Batcher(reader, 8192)) as batches:
        scored = batches.submit(pairs(*[100] * 10), deadline=0.1).result(60)
    # .1 s are 500 tokens, planned are 400 of them; then .02 s are left: 80 tokens, no pair
    assert (scored.count, scored.tokens, reader.batches) == (4, 400, [[100] * 4])
    assert np.isnan(scored.values).tolist() == [False] * 4 + [True] * 6


def test_what_is_left_of_the_time_is_used_again(clock: Clock) -> None:
    reader = Reader(clock)
    with closing(Batcher(reader, 8192)) as batches:
        scored = batches.submit(pairs(300, 60, 30, 10, 100), deadline=0.1).result(60)
    # 400 tokens are planned: 300 + 60 + 30 + 10; then 100 are left, 80 of them planned: no pair
    assert (scored.count, reader.batches) == (4, [[300, 60, 30, 10]])
    reader, clock.now = Reader(clock), 0.0
    with closing(Batcher(reader, 8192)) as batches:
        scored = batches.submit(pairs(300, 60, 60, 60), deadline=0.1).result(60)
    # 360 fit; of 140 tokens left 112 are planned: one more; then 64 of 80: one more
    assert (scored.count, reader.batches) == (4, [[300, 60], [60], [60]])


def test_a_batch_is_no_longer_than_the_deadline_of_any_in_it(clock: Clock) -> None:
    def parts(*works: Work) -> list[tuple[int, int]]:
        return [(works.index(work), end - first) for work, first, end in fill(works, 1000, 5000)]

    free, bound = Work(pairs(*[100] * 6), None), Work(pairs(*[100] * 6), 0.2)
    assert parts(free) == [(0, 6)] and parts(bound) == [(0, 6)]
    assert parts(bound, free) == [(0, 6), (1, 2)]  # 800 tokens in .2 s
    assert parts(free, bound) == [(0, 6), (1, 2)]
    late = Work(pairs(*[100] * 6), 0.05)
    assert parts(late, free) == [(0, 2)]  # 200 tokens in .05 s
    assert parts(free, late) == [(0, 6)]
    assert parts(Work(pairs(300), 0.05)) == [(0, 1)]  # one in any case
