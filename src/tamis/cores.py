"""How many processor cores there are to use, on every system."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The cores this process may run on; where the system does not tell, as on macOS, all.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
