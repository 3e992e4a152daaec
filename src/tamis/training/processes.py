"""The processes that train one model together: one alone, or those that torchrun started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tamis.backends.devices import resolve_device
from tamis.errors import require


class Processes(Protocol):
    """What a process knows of those it trains with; accelerate's `Accelerator` is one."""

    @property
    def process_index(self) -> int:
        """The number of this process."""

    @property
    def num_processes(self) -> int:
        """How many there are."""

    @property
    def is_main_process(self) -> bool:
        """Whether this one validates and writes."""

    @property
    def device(self) -> Any:
        """Where this process runs its part."""

    def reduce(self, tensor: Any, reduction: str) -> Any:
        """The sum of what all processes have."""

    def wait_for_everyone(self) -> None:
        """Go on when all are here."""


@dataclass(frozen=True)
class OneProcess:
    """A process that trains alone."""

    device: str
    process_index: int = 0
    num_processes: int = 1
    is_main_process: bool = True

    def reduce(self, tensor: Any, reduction: str) -> Any:
        """What this process has."""
        return tensor

    def wait_for_everyone(self) -> None:
        """There is nobody to wait for."""


def processes_for(device: str = "auto") -> Processes:
    """The processes that this one trains with, on a device.

    >>> processes_for("cpu").num_processes
    1
    """
    place = resolve_device(device)
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
        return OneProcess(place)
    processes: Processes = require("accelerate").Accelerator(cpu=place == "cpu")
    return processes


def broadcast(results: Sequence[Any]) -> list[Any]:
    """What the first process has, sent to all."""
    sent: list[Any] = require("accelerate.utils").broadcast_object_list(list(results))
    return sent
