"""One of several processes that serve: `python -m tamis.serve.worker SETTINGS SOCKET READY`."""

from __future__ import annotations

import json
import os
import socket
import sys

from tamis.errors import TamisError
from tamis.serve.logs import json_logs
from tamis.serve.settings import ServeSettings

READY, FAILED = b"ready\n", b"failed\n"
"""What a worker writes to its parent."""


def main(arguments: list[str]) -> int:
    """Serve on a socket that the parent listens at; say through a pipe when it works."""
    from tamis.serve.server import serve

    settings = ServeSettings.from_json(json.loads(arguments[0]))
    listener = socket.socket(fileno=int(arguments[1]))
    pipe = int(arguments[2])

    def say(word: bytes) -> None:
        os.write(pipe, word)
        os.close(pipe)

    with json_logs():
        try:
            serve(settings, listener, lambda: say(READY), parent=os.getppid())
        except TamisError as error:
            say(FAILED + f"{error}\n{error.hint}".encode())
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
