"""Which device and which precision a model runs in, from what a user says and what is there."""

from __future__ import annotations

from typing import Any, Literal, get_args

from tamis.errors import InputError, install_command, is_installed, require

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


class HalfPrecisionError(InputError):
    """A model does not run in half precision."""

    def __init__(self, place: object, dtype: str, reason: str) -> None:
        super().__init__(
            f"{place} does not run in {dtype}: {reason}", hint="leave the dtype out, or say float32"
        )


def available_devices() -> list[str]:
    """The devices that torch can run on here; the CPU alone where torch is not installed."""
    if not is_installed("torch"):
        return ["cpu"]
    torch = require("torch")
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def resolve_device(device: str = "auto") -> str:
    """The device that a name stands for: `auto` is the first GPU, else the CPU.

    >>> resolve_device("cpu")
    'cpu'
    """
    if device == "cpu":
        return device
    devices = available_devices()
    if device == "auto":
        return devices[1] if len(devices) > 1 else "cpu"
    name = "cuda:0" if device == "cuda" else device
    if name not in devices:
        missing = device != "cpu" and not is_installed("torch")
        raise InputError(
            f"there is no device {device!r} here: there {_are(devices)}",
            hint=install_command("neural")
            if missing
            else f"say auto or {' or '.join(devices)}; a GPU needs its driver and a torch built "
            "for it",
        )
    return name


def _are(devices: list[str]) -> str:
    return f"is {devices[0]} alone" if len(devices) == 1 else f"are {', '.join(devices)}"


def resolve_dtype(dtype: str, device: str) -> str:
    """The precision of torch that a name stands for: `auto` is half on a GPU, else float32.

    >>> resolve_dtype("auto", "cpu"), resolve_dtype("bfloat16", "cpu")
    ('float32', 'bfloat16')
    """
    if dtype not in DTYPES:
        raise InputError(f"there is no dtype {dtype!r}", hint=f"say {', '.join(DTYPES)}")
    if dtype == "int8":
        raise InputError(
            "int8 is the precision of an 8-bit export, which ONNX Runtime runs on the CPU",
            hint="leave the dtype and the back end out, or export the model: tamis export",
        )
    if dtype != "auto":
        return dtype
    if device == "cpu":
        return "float32"
    if device.startswith("cuda") and require("torch").cuda.is_bf16_supported():
        return "bfloat16"
    return "float16"


def torch_dtype(dtype: str) -> Any:
    """The dtype of torch that a name stands for."""
    return getattr(require("torch"), dtype)
