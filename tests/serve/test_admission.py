"""When a request that is not let in may come back, by hand."""

from __future__ import annotations

import pytest

from tamis.serve.admission import FIRST_PACE, MAX_RETRY_AFTER, MEMORY, Admission, Progress
from tamis.serve.errors import OverloadedError
from tamis.serve.observer import Observer


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def queue(max_requests: int = 9, max_tokens: int = 1000) -> tuple[Admission, Clock]:
    clock = Clock()
    return Admission("m", max_requests, max_tokens, clock=clock), clock


def seconds_to_wait(queue: Admission, tokens: int) -> float:
    with pytest.raises(OverloadedError) as refused:
        queue.enter(tokens)
    return refused.value.retry_after


def test_it_falls_while_the_queue_drains() -> None:
    admission, clock = queue()
    for tokens in (600, 300):
        admission.enter(tokens)
    # 900 + 200 is 100 too many; the oldest has to leave
    assert seconds_to_wait(admission, 200) == 600 / FIRST_PACE
    # 900 + 800 is 700 too many: both
    assert seconds_to_wait(admission, 800) == 900 / FIRST_PACE
    clock.now += 1
    admission.progress(200)
    assert seconds_to_wait(admission, 200) == (600 - 200) / 200
    clock.now += 1
    admission.progress(300)
    pace = MEMORY * 200 + (1 - MEMORY) * 300
    assert seconds_to_wait(admission, 200) == pytest.approx((600 - 500) / pace)
    assert seconds_to_wait(admission, 800) == pytest.approx((900 - 500) / pace)


def test_a_queue_of_too_many_requests_waits_for_the_oldest() -> None:
    admission, clock = queue(max_requests=2)
    admission.enter(300)
    admission.enter(100)
    assert seconds_to_wait(admission, 1) == 300 / FIRST_PACE
    clock.now += 2
    admission.progress(300)
    admission.leave(300)
    admission.enter(50)
    assert (admission.pace, admission.tokens) == (150, 150)
    assert seconds_to_wait(admission, 1) == 100 / 150


def test_what_no_batch_reads_is_measured_as_it_leaves() -> None:
    admission, clock = queue()
    admission.enter(500)
    admission.enter(500)
    clock.now += 5
    admission.leave(500)
    assert admission.pace == 500 / 5
    assert seconds_to_wait(admission, 501) == 500 / 100
    clock.now += 5
    admission.leave(500, done=False)
    assert (admission.pace, admission.tokens, admission.requests) == (100, 0, 0)


def test_it_is_neither_nothing_nor_for_ever() -> None:
    admission, _ = queue(max_tokens=10**9)
    admission.enter(10**9)
    assert seconds_to_wait(admission, 1) == MAX_RETRY_AFTER
    admission.progress(2 * 10**9)  # the estimate was too low
    assert seconds_to_wait(admission, 1) == 1 / FIRST_PACE


def test_batches_tell_the_queue_and_everyone_else() -> None:
    class Listener(Observer):
        def __init__(self) -> None:
            self.heard: list[object] = []

        def batch(self, model: str, pairs: int, tokens: int, seconds: float) -> None:
            self.heard.append((model, pairs, tokens, seconds))

        def dropped(self, model: str) -> None:
            self.heard.append(model)

    listener = Listener()
    admission = Admission("m", 1, 1000, listener)
    admission.enter(600)
    progress = Progress(admission)
    progress.batch("m", 2, 100, 0.1)
    progress.dropped("m")
    assert listener.heard == [("m", 2, 100, 0.1), "m"]
    assert seconds_to_wait(admission, 1) == 500 / FIRST_PACE
