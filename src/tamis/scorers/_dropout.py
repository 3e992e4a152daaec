"""Dropout with a generator of its own, so that batches may run side by side and still repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tamis.errors import require
from tamis.scorers.weights import Tensor


@dataclass(frozen=True, eq=False)
class Dropout:
    """Which share of the states and of the attention weights is left out; none while scoring."""

    hidden: float = 0.0
    attention: float = 0.0
    generator: Any = None

    def states(self, values: Tensor) -> Tensor:
        """The states, some of them zero and the others larger."""
        return _dropped(values, self.hidden, self.generator)

    def weights(self, values: Tensor) -> Tensor:
        """The attention weights, some of them zero and the others larger."""
        return _dropped(values, self.attention, self.generator)


NONE = Dropout()


def _dropped(values: Tensor, share: float, generator: Any) -> Tensor:
    if not share:
        return values
    kept = require("torch").empty_like(values).bernoulli_(1 - share, generator=generator)
    return values * kept.div_(1 - share)
