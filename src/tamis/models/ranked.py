"""What ranking texts of one's own gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ranked:
    """A text in a ranking: its place in the list that was handed in, its score, itself."""

    index: int
    score: float
    text: str
