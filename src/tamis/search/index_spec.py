"""An index in a spec: its folder and its analyzer, and the index that such a part names.

Which documents it holds is left out: an index that has grown since is searched as it is now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tamis.errors import InputError
from tamis.registry import NUMBER, Opening, absolute, check_choice, check_keys
from tamis.search.rankings import BM25, QueryLikelihood, Ranking
from tamis.types import Condition, Encoder, Spec
from tamis.types.conditions import as_conditions

if TYPE_CHECKING:
    from tamis.search.index import Index

PARAMETERS = {"bm25": {"k1": NUMBER, "b": NUMBER}, "ql": {"mu": NUMBER}}


def index_spec(index: Index) -> Spec:
    """Where an index is, and how it analyses texts."""
    analysis = {"name": index.analyzer.name, "version": index.analyzer.version}
    return {"path": str(absolute(index.path)), "analyzer": analysis}


def open_index(values: object, opening: Opening) -> Index:
    """The index that a part of a spec names; opened once for all parts that name it."""
    from tamis.search.index import Index

    check_keys("an index", values, {"path": str, "analyzer": dict})
    spec = cast(Spec, values)
    check_keys("an analyzer", spec["analyzer"], {"name": str, "version": str})
    path = opening.path(spec["path"])
    index = opening.share(f"index {path}", lambda: Index.open(path))
    analyzer = index_spec(index)["analyzer"]
    if analyzer != spec["analyzer"]:
        old, new = (
            f"{described['name']!r} version {described['version']!r}"
            for described in (spec["analyzer"], analyzer)
        )
        raise InputError(
            f"{path} has the analyzer {new}, the spec was written for {old}",
            hint="another index was put in its place: put the old one back, or make a new spec",
        )
    return index


def open_ranking(what: str, values: Spec) -> tuple[Ranking, Spec]:
    """The ranking whose name and parameters stand in a spec, and what else stands there."""
    if "ranking" not in values:
        raise InputError(f"the spec of {what} has no 'ranking'", hint="bm25 or ql")
    name = values["ranking"]
    check_choice(f"the ranking of {what}", name, tuple(PARAMETERS))
    types = PARAMETERS[name]
    parameters = {key: values[key] for key in types if key in values}
    check_keys(f"the ranking {name}", parameters, types)
    other = {key: values[key] for key in values if key not in ("ranking", *types)}
    return BM25(**parameters) if name == "bm25" else QueryLikelihood(**parameters), other


def where_spec(conditions: tuple[Condition, ...]) -> Spec:
    """Conditions as they stand in a spec, where there are any."""
    return {"where": [str(condition) for condition in conditions]} if conditions else {}


def open_where(values: Spec) -> tuple[Condition, ...]:
    """The conditions that stand in a spec."""
    for condition in values.get("where", []):
        check_keys("a filter", {"where": condition}, {"where": str})
    return as_conditions(values.get("where", []))


def open_encoder(spec: Spec, opening: Opening) -> Encoder:
    """The encoder that a spec describes: a scorer that has embeddings of its own."""
    encoder = opening.scorer(spec)
    if not hasattr(encoder, "encode"):
        raise InputError(
            f"a {spec['scorer']} makes no embeddings", hint="a dense search needs a bi-encoder"
        )
    return cast(Encoder, encoder)
