"""The command line: one short function a verb, no logic of its own.

Verbs are imported inside `main`, so that Ctrl-C is met in one line while they are, too.
"""

from __future__ import annotations

import gc
import os
import sys

OBJECTS_PER_COLLECTION = 200_000
"""New objects before Python looks for cycles of garbage. A search imports as many, and all stay:
to look through them after every 700, the default, took a tenth of its processor time."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    _open_closed_streams()
    try:
        from tamis.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before `run` was there to meet it
        print("error: interrupted", file=sys.stderr)
        code = 130
    code = _flush(code)
    gc.freeze()  # at its end Python would look through all objects thrice, a fifth of a search
    sys.exit(code)


def _open_closed_streams() -> None:
    """Give to nothing what was closed (`>&-`), so that no file is opened in its place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _flush(code: int) -> int:
    """The exit code once everything printed has arrived; who reads no more has seen enough."""
    for stream, other in ((sys.stdout, sys.stderr), (sys.stderr, None)):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if not isinstance(error, BrokenPipeError) and other is not None:
                print(f"error: standard output: {error.strerror}", file=other)
                code = code or 1
    return code


__all__ = ["main"]
