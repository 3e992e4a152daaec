"""The same model by torch, for those who ask for its gradients or its attention: an export in ONNX
has neither.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from tamis.backends.choice import Runtime
from tamis.errors import InputError
from tamis.scorers.origin import Origin, files_read


class Opened(Protocol):
    """A scorer that was opened from a folder."""

    @property
    def origin(self) -> Origin | None:
        """The folder."""

    @property
    def runtime(self) -> Runtime:
        """What runs it."""

    @property
    def threads(self) -> int | None:
        """How many threads it uses."""


Model = TypeVar("Model", bound=Opened)


def why_not_in_torch(scorer: Opened) -> str:
    """Why torch cannot run this model; empty where it can."""
    if not scorer.runtime.is_onnx:
        return ""
    if find_spec("torch") is None:
        return "torch is not installed"
    if scorer.origin is None:
        return "the model has no folder"
    try:
        files_read(scorer.origin.folder, "fast")
    except InputError:
        return "the model's folder has its ONNX export alone"
    return ""


def open_in_torch(scorer: Model) -> Model | None:
    """The weights of an export opened again by torch on the CPU, which takes a moment; None where
    that cannot be done.
    """
    if why_not_in_torch(scorer) or scorer.origin is None:
        return None
    settings = {**scorer.origin.settings, "threads": scorer.threads, "device": "cpu"}
    kind: Any = type(scorer)
    opened: Model = kind.open(scorer.origin.folder, **settings)
    return opened
