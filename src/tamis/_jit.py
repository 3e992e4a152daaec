"""The one way tamis compiles a kernel: cached on disk, without the interpreter's lock."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.extending import register_jitable

from tamis.errors import is_installed

Kernel = TypeVar("Kernel", bound=Callable[..., object])
SECONDS_BETWEEN_MESSAGES = 5.0
_log = logging.getLogger("tamis.kernels")


def jit(kernel: Kernel) -> Kernel:
    """Compile on first use and keep the machine code on disk for the next process."""
    return jit_with()(kernel)


def jit_with(**flags: Any) -> Callable[[Kernel], Kernel]:
    """The same with flags of numba's own.

    `error_model="numpy"` for divisions that need no check, which would keep the compiler from
    working on several at once; `fastmath={"reassoc", "contract"}` for sums in any order.
    """

    def compiled(kernel: Kernel) -> Kernel:
        try:
            return cast(Kernel, numba.njit(cache=True, nogil=True, **flags)(kernel))
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _warn_of_no_cache()
            return cast(Kernel, numba.njit(nogil=True, **flags)(kernel))

    return compiled


def jit_helper(function: Kernel) -> Kernel:
    """For a function that only kernels call: it is compiled with them and kept on disk in them.

    It has no entry from Python, which takes as long to compile as the function itself where
    arguments are many; called from Python it is Python.

    >>> @jit_helper
    ... def twice(number: int) -> int:
    ...     return 2 * number
    >>> twice(2)
    4
    """
    return register_jitable(function)


@cache
def _warn_of_no_cache() -> None:
    _log.warning(
        "kernels are compiled anew in every process: no folder for them can be written; "
        "name one that can: NUMBA_CACHE_DIR=FOLDER"
    )


class CompilationLog(event.Listener):
    """Logs what is compiled because it is not on disk yet: when it begins and as it goes on."""

    def __init__(self) -> None:
        self.kernels, self.seconds = 0, 0.0
        self._lock, self._active, self._began, self._logged = Lock(), 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """A kernel is about to be compiled."""
        with self._lock:
            now = time.monotonic()
            self._began = self._began if self._active else now
            self._active += 1
            if not _is_ours(event):
                return
            if self.kernels == 0 and not self._logged:
                self._logged = now
                _log.info(
                    "compiling kernels, which are kept for later: their first use on this processor"
                )
            elif now - self._logged > SECONDS_BETWEEN_MESSAGES:
                self._logged = now
                seconds = self.seconds + now - self._began
                _log.info("compiling kernels: %d in %.0f s so far", self.kernels, seconds)

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        with self._lock:
            self._active -= 1
            self.kernels += _is_ours(event)
            if not self._active:
                self.seconds += time.monotonic() - self._began

    def log_total(self) -> None:
        """Log how many kernels were compiled since it was last said, and how long that took."""
        if self.kernels:
            kernels = "1 kernel" if self.kernels == 1 else f"{self.kernels} kernels"
            _log.info("compiled %s in %.1f s", kernels, self.seconds)
            self.kernels, self.seconds = 0, 0.0


def _is_ours(event: Any) -> bool:
    return bool(event.data["dispatcher"].py_func.__module__.startswith("tamis."))


def _import_array_functions() -> None:
    """Import numba's array functions without scipy.

    numba imports it with them, only to see whether it is there; no kernel here needs it, and it
    takes as long as numba itself. A kernel that does need it imports it as before.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    ensure_blas = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = ensure_blas
    arraymath.ensure_blas = ensure_blas  # type: ignore[attr-defined]
    arraymath._HAVE_BLAS = is_installed("scipy")


_import_array_functions()
COMPILATION = CompilationLog()
event.register("numba:compile", COMPILATION)  # type: ignore[no-untyped-call]
