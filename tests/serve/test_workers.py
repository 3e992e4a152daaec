"""Several processes behind one address."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.serve.running import Running, Start

from tamis.serve.settings import ModelPlace, ServeSettings
from tamis.serve.supervisor import Supervisor

KEY = "a-key-that-is-long-enough"
HEADERS = {"authorization": f"Bearer {KEY}"}
RANK = {"query": "drum", "documents": ["a drum", "a net", "fish"]}


@pytest.fixture(scope="module")
def service(
    start: Start, tiny_cross_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(KEY)
    with start(f"tiny={tiny_cross_encoder}", "--workers", 2, "--api-key-file", keys) as running:
        yield running


def ask(service: Running, path: str = "/v1/rerank") -> httpx.Response:
    """On a connection of its own, so that any worker may answer."""
    if path == "/metrics":
        return httpx.get(f"{service.url}{path}", headers=HEADERS, timeout=60)
    return httpx.post(f"{service.url}{path}", json=RANK, headers=HEADERS, timeout=60)


def answering(service: Running, since: int = 0) -> set[int]:
    """The processes that have answered."""
    return {line["process"] for line in service.lines()[since:] if line.get("status") == 200}


def count(service: Running) -> float:
    name = 'tamis_request_success_total{method="rerank"} '
    lines = ask(service, "/metrics").text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def ask_until_all_answer(service: Running, workers: int = 2) -> set[int]:
    since, end = len(service.lines()), monotonic() + 120
    while len(answering(service, since)) < workers:
        assert monotonic() < end
        with ThreadPoolExecutor(8) as pool:
            assert {each.status_code for each in pool.map(lambda _: ask(service), range(16))} == {
                200
            }
        sleep(0.1)
    return answering(service, since)


def test_metrics_are_summed(service: Running) -> None:
    before = count(service)
    since = len(service.lines())
    ask_until_all_answer(service)
    sleep(0.2)
    answered = [line for line in service.lines()[since:] if line.get("path") == "/v1/rerank"]
    assert count(service) - before == len(answered) > 2


def test_a_worker_that_is_killed_is_replaced(service: Running) -> None:
    old = ask_until_all_answer(service)
    before = count(service)
    killed = min(old)
    os.kill(killed, signal.SIGKILL)
    end = monotonic() + 120
    while not any("another takes its place" in line["message"] for line in service.lines()):
        assert ask(service).status_code == 200  # the other one goes on
        assert monotonic() < end
    new = ask_until_all_answer(service)
    assert killed not in new and new & old and new - old
    assert count(service) > before  # what the killed one counted is kept


class Rehearsal(Supervisor):
    """Starts and ends workers on paper; those of `broken` do not come up."""

    def __init__(self, broken: set[str]) -> None:
        places = (ModelPlace("m", "m"),)
        super().__init__(ServeSettings(places, workers=2), socket.socket())
        self.listener.close()
        self.broken, self.events = broken, list[str]()
        self.workers = [self._start(), self._start()]
        self.events.clear()

    def _start(self) -> Any:
        name = f"w{len([event for event in self.events if event.startswith('start')])}"
        name = name if not self.workers else name.replace("w", "new")
        self.events.append(f"start {name}")
        return SimpleNamespace(
            name=name, is_alive=name not in self.broken, error="it does not come up"
        )

    def _wait_until_ready(self, worker: Any) -> bool:
        return worker.name not in self.broken

    def _end(self, *workers: Any) -> None:
        self.events += [f"end {worker.name}" for worker in workers]


@pytest.mark.parametrize("broken", ["new0", "new1"])
def test_a_reload_that_fails_half_way_leaves_the_old_workers_alone(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Rehearsal({broken})
    old = list(supervisor.workers)
    supervisor._restart_all()
    assert supervisor.workers == old
    new = [event.removeprefix("start ") for event in supervisor.events if "start" in event]
    assert new[-1] == broken
    assert supervisor.events[len(new) :] == [f"end {name}" for name in new]
    assert "all stays as it is: it does not come up" in caplog.text


def test_a_reload_ends_no_worker_before_all_new_ones_answer() -> None:
    supervisor = Rehearsal(set())
    supervisor._restart_all()
    assert supervisor.events == ["start new0", "start new1", "end w0", "end w1"]
    assert [worker.name for worker in supervisor.workers] == ["new0", "new1"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["signal", "request"])
def test_a_reload_replaces_the_workers(way: str, service: Running) -> None:
    old = ask_until_all_answer(service)
    since = len(service.lines())
    if way == "signal":
        service.process.send_signal(signal.SIGHUP)
    else:
        response = httpx.post(f"{service.url}/admin/reload", headers=HEADERS, timeout=60)
        assert response.status_code == 202
    end = monotonic() + 180
    while not any("workers are new" in line["message"] for line in service.lines()[since:]):
        assert ask(service).status_code == 200  # there is always one that answers
        assert monotonic() < end
    assert not ask_until_all_answer(service) & old


def test_it_ends_with_all_its_workers(service: Running) -> None:
    workers = ask_until_all_answer(service)
    assert service.end() == 0
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_workers_end_with_a_parent_that_is_killed(start: Start, tiny_cross_encoder: Path) -> None:
    with start(f"tiny={tiny_cross_encoder}", "--workers", 2) as service:
        workers = ask_until_all_answer(service)
        service.process.kill()
        end = monotonic() + 60
        while any(map(is_running, workers)):
            assert monotonic() < end
            sleep(0.1)
        with pytest.raises(httpx.ConnectError):
            ask(service)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return " Z " not in Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
