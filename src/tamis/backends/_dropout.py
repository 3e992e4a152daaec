"""Dropout from a generator of its own, so that batches may run side by side and still repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.weights import Tensor
from tamis.errors import require

SHARE_STEPS = 1 << 16
"""A share is rounded to one in so many: two random bytes decide about a value."""


@dataclass(frozen=True, eq=False)
class Dropout:
    """Which share of the states and of the attention weights is left out; none while scoring."""

    hidden: float = 0.0
    attention: float = 0.0
    generator: Any = None

    def states(self, values: Tensor) -> Tensor:
        """The states, some of them zero and the others larger."""
        return _drop(values, self.hidden, self.generator)

    def weights(self, values: Tensor) -> Tensor:
        """The attention weights, some of them zero and the others larger."""
        return _drop(values, self.attention, self.generator)


NO_DROPOUT = Dropout()


def generator_of(seed: int, device: Any) -> Any:
    """Random numbers for one batch on a device; numpy's come ten times as fast as torch's."""
    if device.type == "cpu":
        return np.random.Generator(np.random.SFC64(seed))
    return require("torch").Generator(device).manual_seed(seed)


def _drop(values: Tensor, share: float, generator: Any) -> Tensor:
    if not share:
        return values
    torch = require("torch")
    if isinstance(generator, np.random.Generator):
        factors = torch.from_numpy(_factors(values.numel(), share, generator))
        return values * factors.view(values.shape)
    mask = torch.empty_like(values).bernoulli_(1 - share, generator=generator)
    return values * mask.div_(1 - share)


def _factors(count: int, share: float, generator: np.random.Generator) -> NDArray[np.float32]:
    """Zero for about this share of so many values, and for the others what keeps their mean."""
    words = generator.integers(0, 2**64 - 1, -(-count // 4), np.uint64, endpoint=True)
    lowest = round(share * SHARE_STEPS)
    is_kept = words.view(np.uint16)[:count] >= lowest
    factors: NDArray[np.float32] = np.multiply(
        is_kept, SHARE_STEPS / (SHARE_STEPS - lowest), dtype=np.float32
    )
    return factors
