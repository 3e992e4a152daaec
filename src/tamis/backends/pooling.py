"""How the vectors of a text's tokens become one: the modes of sentence-transformers, by its names.

Several modes joined by `+` give one vector after the other: `cls+mean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.errors import InputError, require

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


def is_pooling(name: object) -> bool:
    """Whether this names modes of pooling.

    >>> is_pooling("mean"), is_pooling("cls+max"), is_pooling("median"), is_pooling(None)
    (True, True, False, False)
    """
    return isinstance(name, str) and all(mode in POOLINGS for mode in name.split("+"))


def check_pooling(name: str) -> str:
    """The same, if it names modes of pooling."""
    if not is_pooling(name):
        raise InputError(
            f"there is no pooling {name!r}",
            hint=f"say {', '.join(POOLINGS)}, or several such as cls+mean",
        )
    return name


def pool_text(states: Any, pooling: str, skip: int = 0) -> list[Any]:
    """The vector of one text by each mode, from its tokens' vectors: in numpy or in torch.

    >>> states = np.float32([[1, 4], [3, 0]])
    >>> [row.tolist() for row in pool_text(states, "cls+max+mean+lasttoken")]
    [[1.0, 4.0], [3.0, 4.0], [2.0, 2.0], [3.0, 0.0]]
    >>> [round(float(value), 2) for value in pool_text(states, "weightedmean")[0]]
    [2.33, 1.33]
    """
    kept = states[skip:] if skip < len(states) else states[-1:]
    return [_by_mode(kept, mode, skip) for mode in pooling.split("+")]


def _by_mode(states: Any, mode: str, skip: int) -> Any:
    if mode == "cls":
        return states[0]
    if mode == "lasttoken":
        return states[-1]
    if mode == "max":
        highest = states.max(0)
        return getattr(highest, "values", highest)
    if mode == "mean":
        return states.mean(0)
    if mode == "mean_sqrt_len_tokens":
        return states.sum(0) / len(states) ** 0.5
    places = np.arange(skip + 1, skip + 1 + len(states), dtype=np.float32)
    weights = states.new_tensor(places) if hasattr(states, "new_tensor") else places
    return weights @ states / float(places.sum())


def pool_padded(states: Any, lengths: Sequence[int], pooling: str, skip: int = 0) -> Any:
    """The vectors of texts that were padded on their right, in torch."""
    torch = require("torch")
    count = torch.tensor(list(lengths), device=states.device)[:, None]
    first = torch.full_like(count, skip).minimum(count - 1)
    place = torch.arange(states.shape[1], device=states.device)[None, :]
    mask = ((place >= first) & (place < count))[:, :, None]
    rows = torch.arange(len(states), device=states.device)
    weights = (mask * (place[:, :, None] + 1)).to(states.dtype)
    by_mode = {
        "cls": lambda: states[rows, first[:, 0]],
        "lasttoken": lambda: states[rows, count[:, 0] - 1],
        "max": lambda: states.masked_fill(~mask, float("-inf")).amax(1),
        "mean": lambda: (states * mask).sum(1) / mask.sum(1),
        "mean_sqrt_len_tokens": lambda: (states * mask).sum(1) / mask.sum(1) ** 0.5,
        "weightedmean": lambda: (states * weights).sum(1) / weights.sum(1),
    }
    return torch.cat([by_mode[mode]() for mode in pooling.split("+")], dim=1)
