"""The one way tamis compiles a kernel: cached on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def jit(kernel: Kernel) -> Kernel:
    """Compile on first use and keep the machine code on disk for the next process."""
    return jit_with()(kernel)


def jit_with(**flags: Any) -> Callable[[Kernel], Kernel]:
    """The same with flags of numba's own.

    `error_model="numpy"` for divisions that need no check, which would keep the compiler from
    working on several at once; `fastmath={"reassoc", "contract"}` for sums in any order.
    """
    return cast(Callable[[Kernel], Kernel], numba.njit(cache=True, nogil=True, **flags))
