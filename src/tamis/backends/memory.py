"""How much memory a model's weights will take, before they are read."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

import numpy as np

from tamis.backends.weights import weight_files
from tamis.errors import InputError, require

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
OVERHEAD = 1.2
"""What batches need beside the weights, and what loading holds for a moment."""
COPIES_IN_TRAINING = 4
TOKENS_OF_A_TEXT = 512
MIN_BYTES_TO_REPORT = 4 << 30
_log = logging.getLogger(__name__)


def count_parameters(folder: Path) -> int:
    """How many parameters the weights of a folder have, by their headers; files of torch's older
    format are taken to hold four bytes each.
    """
    total = 0
    for file in weight_files(folder):
        if file.suffix == ".safetensors":
            total += sum(numbers_in(file).values())
        else:
            total += file.stat().st_size // 4
    return total


def numbers_in(file: Path) -> dict[str, int]:
    """How many numbers each tensor of a safetensors file has; nothing where it has no header."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > file.stat().st_size:
            return {}
        try:
            header = json.loads(stream.read(length))
            tensors = {name: tensor["shape"] for name, tensor in header.items() if name[:2] != "__"}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}
    counts = {}
    for name, shape in tensors.items():
        counts[name] = 1
        for size in shape:
            counts[name] *= int(size)
    return counts


def check_memory(folder: Path, dtype: str, device: str, *, training: bool = False) -> None:
    """Say what a large model will need, and refuse one that does not fit.

    In training it is there four times: weights, gradients, and two averages of them.
    """
    parameters = count_parameters(folder)
    needed = parameters * BYTES[dtype] * (COPIES_IN_TRAINING if training else 1)
    free = free_memory(device)
    if needed >= MIN_BYTES_TO_REPORT:
        free_in_words = "" if free is None else f", {_gigabytes(free)} are free"
        _log.warning(
            "%s has %.1f billion parameters: %s in %s on %s%s%s",
            folder, parameters / 1e9, _gigabytes(needed),
            f"{dtype} to train it" if training else dtype, device, free_in_words,
            _time_in_words(parameters, device),
        )  # fmt: skip
    if free is not None and needed * OVERHEAD > free:
        half_fits = dtype == "float32" and needed / 2 * OVERHEAD <= free and not training
        smaller = " --dtype bfloat16 needs half of it," if half_fits else ""
        doing = " to be trained" if training else ""
        raise InputError(
            f"{folder} needs {_gigabytes(needed * OVERHEAD)} of memory{doing} in {dtype} on "
            f"{device}; "
            f"{_gigabytes(free)} are free",
            hint=f"choose a smaller model;{smaller} a larger machine or GPU would hold it",
        )


def _time_in_words(parameters: int, device: str) -> str:
    """How long a text will take, by the speed of a multiplication here; nothing for a GPU."""
    if device != "cpu":
        return ""
    seconds = 2 * TOKENS_OF_A_TEXT * parameters / operations_per_second()
    return f"; a text of {TOKENS_OF_A_TEXT} tokens takes about {seconds:.1f} seconds of all cores"


def operations_per_second() -> float:
    """How many operations a second the CPU does in a matrix multiplication, measured."""
    first = np.ones((512, 1024), np.float32)
    second = np.ones((1024, 1024), np.float32)
    first @ second
    start = time.perf_counter()
    first @ second
    return 2.0 * 512 * 1024 * 1024 / max(time.perf_counter() - start, 1e-9)


def free_memory(device: str) -> int | None:
    """How many bytes are free on a device; None where the system does not say."""
    if device.startswith("cuda"):
        return int(require("torch").cuda.mem_get_info(device)[0])
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
