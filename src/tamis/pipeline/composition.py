"""Opens what the operators `>>` and `%` make of sources and stages."""

from __future__ import annotations

from tamis.registry import Opening, check_keys
from tamis.types import Spec
from tamis.types.pipeline import Chain, Then, Top, TopOfSource


def open_top_of_source(values: Spec, opening: Opening) -> TopOfSource:
    """See `registry.OPENERS`."""
    check_keys("the source top", values, {"k": int, "of": dict})
    return TopOfSource(opening.source(values["of"]), values["k"])


def open_then(values: Spec, opening: Opening) -> Then:
    """See `registry.OPENERS`."""
    check_keys("the source then", values, {"first": dict, "stage": dict})
    return Then(opening.source(values["first"]), opening.stage(values["stage"]))


def open_top(values: Spec, opening: Opening) -> Top:
    """See `registry.OPENERS`."""
    check_keys("the stage top", values, {"k": int})
    return Top(values["k"])


def open_chain(values: Spec, opening: Opening) -> Chain:
    """See `registry.OPENERS`."""
    check_keys("the stage chain", values, {"first": dict, "second": dict})
    return Chain(opening.stage(values["first"]), opening.stage(values["second"]))
