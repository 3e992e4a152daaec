"""One process that serves: uvicorn with our signals, limits of time and logs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tamis.errors import InputError
from tamis.serve.app import create_app
from tamis.serve.auth import Keys
from tamis.serve.engine import Engine
from tamis.serve.metrics import Metrics
from tamis.serve.service import Service
from tamis.serve.settings import ServeSettings

FIRST_REQUEST_SECONDS = 30.0
"""How long a connection may take to say what it wants."""
LINGER_SECONDS = 1.0
"""How long an idle connection is kept when the service ends: a request may be on its way."""
ACCEPT_SECONDS = 0.05
"""How long a connection that was taken just before the end may need to become one."""
BACKLOG = 2048
TAKEN_AT_ONCE = 1
"""Connections that a worker takes before it looks at others: with more it takes all that wait."""
_log = logging.getLogger(__name__)


class TimedProtocol(H11Protocol):
    """HTTP/1.1, where a connection that does not come to the point is closed.

    When the service ends an idle connection is kept for a while: `Gate` closes it with its answer.
    """

    _clock: asyncio.TimerHandle | None = None
    """Runs while a request is on its way whose headers are not all there."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._clock = self.loop.call_later(FIRST_REQUEST_SECONDS, self._close)

    def data_received(self, data: bytes) -> None:
        """Stop the clock once the headers are there; start it with the first byte of the next."""
        super().data_received(data)
        is_served = self.cycle is not None and not self.cycle.response_complete
        if is_served and self._clock is not None:
            self._clock.cancel()
            self._clock = None
        elif not is_served and self._clock is None:
            self._clock = self.loop.call_later(FIRST_REQUEST_SECONDS, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        super().connection_lost(exc)
        if self._clock is not None:
            self._clock.cancel()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def shutdown(self) -> None:
        """Close after the next answer, or after a while without a request."""
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LINGER_SECONDS, self._close_unless_busy)
        else:
            super().shutdown()

    def _close_unless_busy(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()


class Server(uvicorn.Server):
    """Ends on SIGTERM and SIGINT once all in flight is answered; reloads on SIGHUP."""

    def __init__(
        self, config: uvicorn.Config, service: Service, on_started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.service, self.on_started = service, on_started
        self._reloads: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Our own, so that the process ends with 0."""
        loop = asyncio.get_running_loop()
        signals: dict[int, Callable[[], Any]] = {
            signal.SIGTERM: self._end,
            signal.SIGINT: self._end,
            signal.SIGHUP: self._reload,
        }
        for number, handler in signals.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self.force_exit = self.should_exit and self.service.is_ending
        self.service.is_ending = self.should_exit = True

    def _reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._take_up_anew())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _take_up_anew(self) -> None:
        try:
            names = await self.service.take_up_anew()
            _log.info("reloaded %s", ", ".join(names))
        except Exception as error:  # the old is served on
            _log.error("the reload failed, all stays as it is: %s", error)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say so once requests are taken."""
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)
        self.on_started()

    async def on_tick(self, counter: int) -> bool:
        """End too where the process that looks after this one has gone."""
        parent = self.service.parent
        if parent is not None and os.getppid() != parent and not self.should_exit:
            _log.error("the parent of this worker has gone: it ends")
            self._end()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, then end those that there are."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(ACCEPT_SECONDS)
        await super().shutdown(sockets)


def serve(
    settings: ServeSettings,
    listener: socket.socket,
    on_started: Callable[[], None],
    parent: int | None = None,
) -> None:
    """Open everything, then answer requests on a socket until a signal ends it."""
    metrics = Metrics()
    keys = Keys.read(settings.api_key_file) if settings.api_key_file else None
    engine = Engine.open(settings, metrics)
    service = Service(engine, settings, keys, metrics, parent)
    config = uvicorn.Config(
        create_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        http=TimedProtocol,
        ws="none",
        backlog=TAKEN_AT_ONCE,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=round(settings.shutdown_seconds),
    )
    try:
        Server(config, service, on_started).run([listener])
    finally:
        engine.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen at {host}, port {port}: {error.strerror}",
            hint="name another --port (0: any free one) or an address of this machine as --host",
        ) from error
    listener.set_inheritable(True)
    return listener


def address(listener: socket.socket) -> str:
    """The URL of a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
