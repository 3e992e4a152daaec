"""The one way tamis compiles a kernel: cached on disk, without the interpreter's lock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

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


class Announcer(event.Listener):
    """Says in a terminal, once, why nothing moves: what is not on disk yet is compiled."""

    has_announced = False

    def on_start(self, event: Any) -> None:
        """A kernel, ours or not, is about to be compiled."""
        ours = event.data["dispatcher"].py_func.__module__.startswith("tamis.")
        if ours and not self.has_announced and sys.stderr.isatty():
            self.has_announced = True
            print("compiling for this processor, only once: up to a minute", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """It is compiled."""


event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
