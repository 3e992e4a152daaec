"""The kinds of system that a fit compares, one file each.

Order matters where time is short: what comes first is planned first. Retrievers come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.errors import InputError
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


def check_kinds(kinds: Sequence[SystemKind]) -> None:
    """Refuse kinds that are none, that share a key or a name, or that lack BM25."""
    for kind in kinds:
        if not isinstance(kind, SystemKind):
            raise InputError(
                f"{kind!r} is no kind of system", hint="hand in objects of your class: MyKind()"
            )
    for what in ("key", "name"):
        values = [getattr(kind, what, "") for kind in kinds]
        twice = [value for value in values if not value or values.count(value) > 1]
        if twice:
            raise InputError(
                f"the {what} {twice[0]!r} does not tell kinds of system apart",
                hint=f"give each a {what} of its own",
            )
    if not any(isinstance(kind, BM25) for kind in kinds):
        raise InputError("BM25 is not among the kinds", hint="add yours: kinds=(*KINDS, MyKind())")


def kind_openers(kinds: Sequence[SystemKind] = KINDS) -> Openers:
    """What opens the sources and stages that kinds bring themselves."""
    merged: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        for role, openers in kind.openers.items():
            merged.setdefault(role, {}).update(openers)
    return merged
