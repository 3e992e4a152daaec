"""The one way tamis compiles a kernel: cached on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def jit(kernel: Kernel) -> Kernel:
    """Compile on first use and keep the machine code on disk for the next process."""
    return cast(Kernel, numba.njit(cache=True, nogil=True)(kernel))
