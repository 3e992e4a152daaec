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


def chosen_source(
    index: Index,
    ranking: Literal["bm25", "ql"] | None = None,
    rm3: bool | None = None,
    given: Mapping[str, float] | None = None,
    threads: int | None = None,
) -> IndexSource:
    """The index as a source; `given` are parameters by name, which beat what was tuned.

    Without a ranking, that is the one tuned last, else BM25. Without a word on RM3, it is used
    where it was tuned on top of that ranking.
    """
    given = given or {}
    tuned = index.tuned
    name = ranking or _named_by(given) or tuned.get("ranking") or "bm25"
    feedback = _feedback_wanted(rm3, given, tuned, name)
    allowed = {*PARAMETERS[name], *(PARAMETERS["rm3"] if feedback else ())}
    for parameter in given:
        if parameter not in allowed:
            raise InputError(
                f"{parameter} is no parameter of {name}{' and rm3' if feedback else ''}",
                hint=f"parameters here: {', '.join(sorted(allowed))}",
            )
    return IndexSource(
        index,
        _ranking(name, _merged(name, tuned, given)),
        RM3(**_merged("rm3", tuned, given)) if feedback else None,
        threads,
    )


def _named_by(given: Mapping[str, float]) -> str | None:
    """The ranking that a parameter belongs to, if one is given."""
    for name in ("bm25", "ql"):
        if any(parameter in given for parameter in PARAMETERS[name]):
            return name
    return None


def _feedback_wanted(
    rm3: bool | None, given: Mapping[str, float], tuned: Mapping[str, Any], name: str
) -> bool:
    if rm3 is not None:
        return rm3
    if any(parameter in given for parameter in PARAMETERS["rm3"]):
        return True
    return bool("rm3" in tuned and tuned["rm3"].get("on") == name)


def _merged(name: str, tuned: Mapping[str, Any], given: Mapping[str, float]) -> dict[str, Any]:
    parameters = dict(tuned.get(name, {}).get("parameters", {}))
    parameters |= {key: given[key] for key in PARAMETERS[name] if key in given}
    if name == "rm3":
        parameters |= {
            key: int(parameters[key]) for key in ("terms", "documents") if key in parameters
        }
    return parameters


def _ranking(name: str, parameters: Mapping[str, float]) -> Ranking:
    return BM25(**parameters) if name == "bm25" else QueryLikelihood(**parameters)
