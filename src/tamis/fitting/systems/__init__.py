"""The kinds of system that a fit compares, one file each.

Order matters where time is short: what comes first is planned first. Retrievers come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.fitting.system import SystemKind
from tamis.fitting.systems.base_model import BaseModelKind
from tamis.fitting.systems.bm25 import BM25
from tamis.fitting.systems.cross_encoder import CrossEncoderKind, PseudoLabelled
from tamis.fitting.systems.distilled import Distilled
from tamis.fitting.systems.fine_tuned import FineTuned
from tamis.fitting.systems.hybrid import HybridKind
from tamis.fitting.systems.infused import Infused
from tamis.fitting.systems.interpolated_weights import InterpolatedWeights
from tamis.fitting.systems.user_run import UserRun
from tamis.registry import Openers

KINDS: tuple[SystemKind, ...] = (
    BM25(),
    HybridKind(),
    UserRun(),
    BaseModelKind(),
    InterpolatedWeights(0.25),
    InterpolatedWeights(0.5),
    InterpolatedWeights(0.75),
    FineTuned(),
    Distilled(),
    PseudoLabelled(),
    CrossEncoderKind(),
    Infused(),
)


def kind_openers(kinds: Sequence[SystemKind] = KINDS) -> Openers:
    """What opens the sources and stages that kinds bring themselves."""
    merged: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        for role, openers in kind.openers.items():
            merged.setdefault(role, {}).update(openers)
    return merged
