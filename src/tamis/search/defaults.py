"""Which ranking a search uses: what is asked for, else what was tuned, else the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from tamis.errors import InputError
from tamis.search.rankings import BM25, QueryLikelihood, Ranking
from tamis.search.rm3 import RM3
from tamis.search.sources import IndexSource

if TYPE_CHECKING:
    from tamis.search.index import Index

PARAMETERS = {"bm25": ("k1", "b"), "ql": ("mu",), "rm3": ("terms", "documents", "weight")}


def default_source(
    index: Index,
    ranking: Literal["bm25", "ql"] | None = None,
    rm3: bool | None = None,
    parameters: Mapping[str, float] | None = None,
    threads: int | None = None,
) -> IndexSource:
    """The index as a source; `parameters` by name override what was tuned.

    The default ranking is the one tuned last, else BM25. RM3 is used by default where it was tuned
    on top of that ranking.
    """
    parameters = parameters or {}
    tuned = index.tuned
    name = ranking or _ranking_of(parameters) or tuned.get("ranking") or "bm25"
    feedback = _uses_feedback(rm3, parameters, tuned, name)
    allowed = {*PARAMETERS[name], *(PARAMETERS["rm3"] if feedback else ())}
    for parameter in parameters:
        if parameter not in allowed:
            raise InputError(
                f"{parameter} is no parameter of {name}{' and rm3' if feedback else ''}",
                hint=f"parameters here: {', '.join(sorted(allowed))}",
            )
    return IndexSource(
        index,
        _ranking(name, _merge_parameters(name, tuned, parameters)),
        RM3(**_merge_parameters("rm3", tuned, parameters)) if feedback else None,
        threads,
    )


def _ranking_of(parameters: Mapping[str, float]) -> str | None:
    """The ranking that a parameter belongs to, if there is one."""
    for name in ("bm25", "ql"):
        if any(parameter in parameters for parameter in PARAMETERS[name]):
            return name
    return None


def _uses_feedback(
    rm3: bool | None, parameters: Mapping[str, float], tuned: Mapping[str, Any], name: str
) -> bool:
    if rm3 is not None:
        return rm3
    if any(parameter in parameters for parameter in PARAMETERS["rm3"]):
        return True
    return bool("rm3" in tuned and tuned["rm3"].get("on") == name)


def _merge_parameters(
    name: str, tuned: Mapping[str, Any], overrides: Mapping[str, float]
) -> dict[str, Any]:
    parameters = dict(tuned.get(name, {}).get("parameters", {}))
    parameters |= {key: overrides[key] for key in PARAMETERS[name] if key in overrides}
    if name == "rm3":
        parameters |= {
            key: int(parameters[key]) for key in ("terms", "documents") if key in parameters
        }
    return parameters


def _ranking(name: str, parameters: Mapping[str, float]) -> Ranking:
    return BM25(**parameters) if name == "bm25" else QueryLikelihood(**parameters)
