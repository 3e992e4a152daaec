"""Where a training runs and in which precision: weights in float32, products in half of that where
it is said or a GPU has bfloat16.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tamis.backends.devices import resolve_device, resolve_dtype, torch_dtype
from tamis.backends.protocols import Backend
from tamis.errors import InputError, require

MIN_LOSS_SCALE = 1.0
"""A loss that has to be made smaller than it is has a gradient that is no number."""


@dataclass(frozen=True)
class Placement:
    """Where a training runs, as a user says it."""

    device: str = "auto"
    dtype: str = "auto"
    gradient_checkpointing: bool = False
    trust_remote_code: bool = False
    backend: Backend | None = None
    """Which forward learns; None: the fast one where it applies, else that of transformers."""

    def resolved(self, device: str | None = None) -> tuple[str, str]:
        """The device and the precision; `device` is that of this process, where there are some.

        >>> Placement(device="cpu").resolved(), Placement(dtype="bfloat16").resolved("cpu")
        (('cpu', 'float32'), ('cpu', 'bfloat16'))
        """
        place = device or resolve_device(self.device)
        place = "cpu" if place.startswith("cpu") else place
        return place, training_dtype(self.dtype, place)


DEFAULT_PLACEMENT = Placement()


def training_dtype(dtype: str, device: str) -> str:
    """The precision that a name stands for in training: `auto` is bfloat16 on a GPU that has it.

    >>> training_dtype("auto", "cpu"), training_dtype("float16", "cpu")
    ('float32', 'float16')
    """
    if dtype == "int8":
        raise InputError(
            "a model does not learn in int8", hint="say bfloat16, float16 or float32, or leave it"
        )
    if dtype != "auto":
        return resolve_dtype(dtype, device)
    has_bfloat16 = device.startswith("cuda") and require("torch").cuda.is_bf16_supported()
    return "bfloat16" if has_bfloat16 else "float32"


@dataclass(frozen=True, eq=False)
class Precision:
    """How a forward is run and a gradient taken in a precision."""

    device: str
    dtype: str
    scaler: Any = None
    """Of float16: what the loss is multiplied by, so that small gradients are not lost."""

    @classmethod
    def of(cls, device: str, dtype: str) -> Precision:
        """The precision of this name on a device."""
        amp = require("torch").amp
        kind = device.partition(":")[0]
        return cls(device, dtype, amp.GradScaler(kind) if dtype == "float16" else None)

    def autocast(self) -> AbstractContextManager[Any]:
        """Products in this precision inside the block."""
        if self.dtype == "float32":
            return nullcontext()
        kind = self.device.partition(":")[0]
        context: AbstractContextManager[Any] = require("torch").autocast(
            kind, dtype=torch_dtype(self.dtype)
        )
        return context

    @property
    def loss_scale(self) -> float:
        """What a loss is multiplied by before its gradient is taken."""
        if self.scaler is None:
            return 1.0
        return float(self.scaler.scale(require("torch").ones((), device=self.device)))

    def unscale(self, optimizer: Any) -> None:
        """Divide the gradients by what the loss was multiplied by."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Any, *, is_finite: bool) -> bool:
        """Let the optimizer take a step; whether it could, or a smaller scale of the loss may help.

        Where a gradient in float16 is not finite, the step is left out and the scale halved.
        """
        if self.scaler is None:
            if is_finite:
                optimizer.step()
            return is_finite
        self.scaler.step(optimizer)
        self.scaler.update()
        return is_finite or float(self.scaler.get_scale()) >= MIN_LOSS_SCALE

    def state(self) -> dict[str, Any]:
        """What the next step needs to know of the scale; empty where there is none."""
        return {} if self.scaler is None else dict(self.scaler.state_dict())

    def restore(self, state: dict[str, Any]) -> None:
        """Put the scale into the state it had."""
        if self.scaler is not None and state:
            self.scaler.load_state_dict(state)
