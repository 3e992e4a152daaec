"""One of several processes that serve: `python -m tamis.serve.worker SETTINGS SOCKET READY`."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from threading import Thread
from time import sleep

from tamis.errors import TamisError
from tamis.serve.logs import json_logs
from tamis.serve.settings import ServeSettings

READY, FAILED = b"ready\n", b"failed\n"
"""What a worker writes to its parent."""
PARENT_SECONDS = 1.0
"""How often a worker looks whether its parent is there."""


def end_with(parent: int) -> None:
    """End as on SIGTERM once the parent is gone, which can neither replace nor end this any more.

    Else the port would stay taken.
    """
    while os.getppid() == parent:
        sleep(PARENT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """Serve on a socket that the parent listens at; say through a pipe when it works."""
    from tamis.serve.server import serve

    settings = ServeSettings.from_json(json.loads(arguments[0]))
    listener = socket.socket(fileno=int(arguments[1]))
    pipe, parent = int(arguments[2]), os.getppid()

    def say(word: bytes) -> None:
        os.write(pipe, word)
        os.close(pipe)

    def say_ready() -> None:
        say(READY)
        Thread(target=end_with, args=(parent,), name="tamis-parent", daemon=True).start()

    with json_logs():
        try:
            serve(settings, listener, say_ready, parent=parent)
        except TamisError as error:
            say(FAILED + f"{error}\n{error.hint}".encode())
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
