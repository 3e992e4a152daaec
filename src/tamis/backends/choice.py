"""Which back end, device and precision run a model: what a user says, else what fits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from tamis.backends.devices import HalfPrecisionError, resolve_device, resolve_dtype
from tamis.backends.protocols import Backend, Kind
from tamis.errors import InputError

BACKENDS: tuple[Backend, ...] = get_args(Backend)
CPU = "cpu"
Opened = TypeVar("Opened")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Runtime:
    """What runs a model, on which device, in which precision."""

    backend: Backend
    device: str = CPU
    dtype: str = "float32"
    trust_remote_code: bool = False

    @property
    def is_onnx(self) -> bool:
        """Whether ONNX Runtime runs it."""
        return self.backend in ("onnx", "onnx-int8")

    def __str__(self) -> str:
        return f"{self.backend} on {self.device} in {self.dtype}"


FAST = Runtime("fast")


def choose_runtime(
    kind: Kind,
    config: Mapping[str, Any],
    folder: Path,
    backend: Backend | None = None,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: bool = False,
) -> Runtime:
    """What runs a model of this kind: the fast back end on a CPU in float32 where it has the
    architecture, else transformers. ONNX Runtime only runs what it is asked to run; `int8` asks it
    to run the 8-bit export.

    >>> choose_runtime("bi-encoder", {"model_type": "bert"}, Path("."), device="cpu").backend
    'fast'
    >>> choose_runtime("bi-encoder", {"model_type": "albert"}, Path("."), device="cpu").backend
    'transformers'
    >>> choose_runtime("bi-encoder", {"model_type": "bert"}, Path("."), dtype="int8").backend
    'onnx-int8'
    """
    if backend is not None and backend not in BACKENDS:
        raise InputError(f"there is no back end {backend!r}", hint=f"say {', '.join(BACKENDS)}")
    if dtype == "int8" and backend in (None, "onnx", "onnx-int8"):
        backend, dtype = "onnx-int8", "auto"
    if backend in ("fast", "onnx", "onnx-int8"):
        return _on_cpu(kind, config, folder, backend, device, dtype)
    place = resolve_device(device)
    precision = resolve_dtype(dtype, place)
    plain = place == CPU and precision == "float32" and not trust_remote_code
    if backend is None and plain and _is_fast(kind, config):
        return FAST
    return Runtime("transformers", place, precision, trust_remote_code)


def open_in_precision(
    open_it: Callable[[Runtime], Opened], runtime: Runtime, dtype: str
) -> tuple[Opened, Runtime]:
    """What is opened and what runs it: in float32 where `auto` stood for a half precision that the
    model does not run in.
    """
    try:
        return open_it(runtime), runtime
    except HalfPrecisionError as error:
        if dtype != "auto":
            raise
        _log.warning("%s; it runs in float32", error)
    plain = replace(runtime, dtype="float32")
    return open_it(plain), plain


def _on_cpu(
    kind: Kind, config: Mapping[str, Any], folder: Path, backend: Backend, device: str, dtype: str
) -> Runtime:
    if device != "auto" and resolve_device(device) != CPU:
        raise InputError(
            f"the back end {backend} runs on the CPU, not on {device}",
            hint="leave the back end out, or say transformers",
        )
    if dtype not in ("auto", "float32"):
        raise InputError(
            f"the back end {backend} does not run in {dtype}",
            hint="leave the back end out, or say transformers",
        )
    if backend == "fast" and not _is_fast(kind, config):
        raise InputError(
            f"the fast back end does not run {folder}, a {kind} of type "
            f"{config.get('model_type')!r}",
            hint="leave the back end out, or say transformers",
        )
    return Runtime(backend)


def _is_fast(kind: Kind, config: Mapping[str, Any]) -> bool:
    """Whether the fast back end runs it; who only runs an export does without its import."""
    from tamis.backends import fast

    return fast.applies(kind, config)
