"""A service in a process of its own."""

from __future__ import annotations

import contextlib
import json
import re
import select
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

START_SECONDS, END_SECONDS = 120.0, 60.0


@dataclass
class Running:
    """A service in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        texts = self.log.read_text("utf-8").splitlines()
        return [json.loads(line) for line in texts if line.startswith("{")]

    def end(self) -> int:
        """Have it end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_SECONDS)


def wait_for_line(log: Path, pattern: str, process: subprocess.Popen[str]) -> str:
    end = monotonic() + START_SECONDS
    while monotonic() < end and process.poll() is None:
        if found := re.search(pattern, log.read_text("utf-8")):
            return found[1]
        select.select([], [], [], 0.05)
    raise AssertionError(f"the service did not start: {log.read_text('utf-8')}")


Start = Callable[..., contextlib.AbstractContextManager[Running]]
