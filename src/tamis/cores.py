"""The processor: how many cores there are to use, on every system, and what it is."""

from __future__ import annotations

import os
import platform
from pathlib import Path

INSTRUCTIONS = {"AVX2": ("avx2",), "AVX512": ("avx512f",), "VNNI": ("avx512_vnni", "avx_vnni")}
"""Those that decide how fast 8-bit products are, with the flags by which Linux names them."""


def usable_cores() -> int:
    """The cores this process may run on; where the system does not tell, as on macOS, all.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """The name of this machine's processor; on Linux with its instructions for 8-bit products."""
    path = Path("/proc/cpuinfo")
    return processor_in(path.read_text() if path.is_file() else "")


def processor_in(cpuinfo: str) -> str:
    r"""The same from what Linux says of it.

    >>> processor_in("model name : AMD EPYC\nflags : fpu avx2 avx512f avx512_vnni")
    'AMD EPYC (AVX2, AVX512, VNNI)'
    >>> processor_in("model name : Old\nflags : fpu")
    'Old (no AVX2)'
    """
    pairs = [line.split(":", 1) for line in cpuinfo.splitlines() if ":" in line]
    values = {name.strip(): value.strip() for name, value in reversed(pairs)}
    name = values.get("model name") or platform.processor() or platform.machine()
    if "flags" not in values:
        return name
    flags = set(values["flags"].split())
    instructions = [label for label, names in INSTRUCTIONS.items() if flags.intersection(names)]
    return f"{name} ({', '.join(instructions) or 'no AVX2'})"
