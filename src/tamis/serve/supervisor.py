"""The parent of several workers: starts them, replaces those that die, and all for a reload.

All workers take connections from one socket, which the parent holds open: while one is replaced,
the others answer, and what is not taken yet waits.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from tamis.cores import usable_cores
from tamis.errors import InputError, TamisError
from tamis.serve.settings import ServeSettings
from tamis.serve.worker import FAILED, READY

SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
START_SECONDS = 600.0
"""How long a worker may take to open everything."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a worker that died is replaced, doubled each time it dies early."""
EARLY = 10.0
TICK = 0.2
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Worker:
    """A process that serves, and the pipe on which it says so."""

    process: subprocess.Popen[bytes]
    pipe: int
    started: float = field(default_factory=monotonic)
    is_ready: bool = False
    message: bytes = b""

    def read(self, seconds: float) -> None:
        """Take up what the worker says within this time."""
        if self.pipe < 0 or not select.select([self.pipe], [], [], seconds)[0]:
            return
        piece = os.read(self.pipe, 4096)
        self.message += piece
        self.is_ready = self.message.startswith(READY)
        if not piece or self.is_ready:
            os.close(self.pipe)
            self.pipe = -1

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    @property
    def error(self) -> TamisError:
        """Why it did not come up."""
        if not self.message.startswith(FAILED):
            return InputError("a worker did not come up", hint="see the log above")
        problem, _, hint = self.message[len(FAILED) :].decode("utf-8", "replace").partition("\n")
        return InputError(problem, hint=hint)


class Supervisor:
    """Workers, as many as were asked for."""

    def __init__(self, settings: ServeSettings, listener: socket.socket) -> None:
        self.settings, self.listener = settings, listener
        self.workers: list[Worker] = []
        self.is_ending = self.wants_reload = False
        self._pause, self._next_start = FIRST_PAUSE, 0.0

    def run(self, on_started: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT."""
        with self._signals(), shared_metrics():
            try:
                self._start_all()
                if not self.is_ending:
                    on_started()
                while not self.is_ending:
                    self._tick()
            finally:
                self._end_all()

    def _start_all(self) -> None:
        self.workers = [self._start() for _ in range(self.settings.workers)]
        for worker in self.workers:
            if not self._wait_until_ready(worker) and not self.is_ending:
                raise worker.error

    def _start(self) -> Worker:
        reading, writing = os.pipe()
        settings = json.dumps({**self.settings.to_json(), "threads": self._threads()})
        handles = (self.listener.fileno(), writing)
        command = [sys.executable, "-m", "tamis.serve.worker", settings, *map(str, handles)]
        process = subprocess.Popen(command, pass_fds=handles, start_new_session=True)
        os.close(writing)
        return Worker(process, reading)

    def _threads(self) -> int:
        """Of one worker: the cores shared out, unless said otherwise."""
        return self.settings.threads or max(1, usable_cores() // self.settings.workers)

    def _wait_until_ready(self, worker: Worker) -> bool:
        """Whether a worker has come up; meanwhile signals are heard."""
        while not self.is_ending and monotonic() < worker.started + START_SECONDS:
            worker.read(TICK)
            if worker.is_ready or not worker.is_alive:
                break
        worker.read(0)
        return worker.is_ready

    def _tick(self) -> None:
        """Look after the workers once."""
        if self.wants_reload:
            self.wants_reload = False
            self._restart_all()
        select.select([], [], [], TICK)
        for worker in self.workers:
            worker.read(0)
            if not worker.is_alive:
                self._replace_dead(worker)

    def _replace_dead(self, worker: Worker) -> None:
        if monotonic() < self._next_start:
            return
        code = worker.process.returncode
        _log.error("worker %d ended with %s; another takes its place", worker.process.pid, code)
        forget_gauges(worker.process.pid)
        early = monotonic() - worker.started < EARLY
        self._pause = min(LONGEST_PAUSE, self._pause * 2) if early else FIRST_PAUSE
        self._next_start = monotonic() + self._pause
        self.workers = [each for each in self.workers if each is not worker] + [self._start()]

    def _restart_all(self) -> None:
        """New workers, one after the other, and then the end of the old.

        Where one does not come up the new ones end and all the old stay: no two sieves are served
        side by side for longer than this takes.
        """
        started: list[Worker] = []
        for _ in self.workers:
            started.append(self._start())
            if not self._wait_until_ready(started[-1]):
                if started[-1].is_alive:
                    started[-1].process.kill()
                self._end(*started)
                if not self.is_ending:
                    error = started[-1].error
                    _log.error("the reload failed, all stays as it is: %s", error)
                return
        old, self.workers = self.workers, started
        for worker in old:
            self._end(worker)
        _log.info("reloaded: %d workers are new", len(self.workers))

    def _end(self, *workers: Worker) -> None:
        """Have workers end, once what they have in flight is answered."""
        for worker in workers:
            if worker.is_alive:
                worker.process.send_signal(signal.SIGTERM)
        limit = monotonic() + self.settings.shutdown_seconds + 5
        for worker in workers:
            try:
                worker.process.wait(max(0.1, limit - monotonic()))
            except subprocess.TimeoutExpired:
                _log.error("worker %d does not end; it is killed", worker.process.pid)
                worker.process.kill()
                worker.process.wait()
            forget_gauges(worker.process.pid)

    def _end_all(self) -> None:
        self.listener.close()
        self._end(*self.workers)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        handlers: Mapping[int, Callable[[int, FrameType | None], Any]] = {
            signal.SIGTERM: self._wish_to_end,
            signal.SIGINT: self._wish_to_end,
            signal.SIGHUP: self._wish_to_reload,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wish_to_end(self, number: int, frame: FrameType | None) -> None:
        self.is_ending = True

    def _wish_to_reload(self, number: int, frame: FrameType | None) -> None:
        self.wants_reload = True


@contextmanager
def shared_metrics() -> Iterator[None]:
    """A folder in which workers write their metrics, so that each can tell the sum."""
    with tempfile.TemporaryDirectory(prefix="tamis-metrics-") as folder:
        os.environ[SHARED_METRICS] = folder
        try:
            yield
        finally:
            del os.environ[SHARED_METRICS]


def forget_gauges(process: int) -> None:
    """Remove what a process that has ended says of now; its counts stay."""
    for path in Path(os.environ[SHARED_METRICS]).glob(f"gauge_live*_{process}.db"):
        path.unlink(missing_ok=True)


def supervise(
    settings: ServeSettings, listener: socket.socket, on_started: Callable[[], None]
) -> None:
    """Serve in several processes until a signal ends it."""
    Supervisor(settings, listener).run(on_started)
