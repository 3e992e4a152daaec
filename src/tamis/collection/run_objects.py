"""Runs and judgements as people have them: ours, dictionaries, DataFrames or paths, made ours."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from tamis.collection.detection import detect_if_possible
from tamis.collection.formats import Content, contents_of
from tamis.collection.judgements import read_qrels
from tamis.collection.runs import read_run
from tamis.errors import InputError
from tamis.types import Qrels, Run, Source, Stage
from tamis.types.frames import RELEVANCE, SCORE, Frame, id_text, is_frame
from tamis.types.qrels import GRADES

AnyQrels = Qrels | Frame | Mapping[Any, Any] | str | os.PathLike[str]
AnyRun = Run | Frame | Mapping[Any, Any] | str | os.PathLike[str]
"""What people hand in; in place of a run, runs by name too."""
QRELS_FORMS = 'as Qrels, {"q1": {"d1": 1}}, a DataFrame (query_id, doc_id, relevance) or a path'
RUN_FORMS = 'as Run, {"q1": {"d1": 12.5}}, a DataFrame (query_id, doc_id, score) or a path'
ORDER = "the judgements come first, then the runs: evaluate(qrels, runs, measures)"
DEFAULT_RUN_NAME = "run"
"""Of a run that was handed in alone and is no file."""


def as_qrels(qrels: AnyQrels) -> Qrels:
    """Judgements from whatever holds them.

    >>> as_qrels({"q1": {"d1": 1, "d2": 0}})["q1"]
    {'d1': 1, 'd2': 0}
    """
    if isinstance(qrels, Qrels):
        return qrels
    if isinstance(qrels, Run):
        raise InputError("a run stands in place of the judgements", hint=ORDER)
    if is_frame(qrels):
        if SCORE in qrels.columns and RELEVANCE not in qrels.columns:
            raise InputError(
                f"the judgements have a column {SCORE!r} and none {RELEVANCE!r}",
                hint=f"if it is a run, {ORDER}; else rename the column to {RELEVANCE!r}",
            )
        return Qrels.from_pandas(qrels)
    if isinstance(qrels, str | os.PathLike):
        if "run" in _contents(qrels):
            raise InputError(f"{qrels} is a run, not judgements", hint=ORDER)
        return read_qrels(Path(qrels))
    if isinstance(qrels, Mapping):
        return Qrels.from_dict(_nested(qrels, "the judgements", _grade, QRELS_FORMS))
    raise InputError(f"the judgements are {_kind(qrels)}", hint=f"hand them in {QRELS_FORMS}")


def as_run(run: AnyRun, name: str = DEFAULT_RUN_NAME) -> Run:
    """A run from whatever holds one; `name` is what errors call it.

    >>> as_run({"q1": {"d1": 1, "d2": 2.5}})["q1"].ids
    ['d2', 'd1']
    """
    if isinstance(run, Run):
        return run
    if isinstance(run, Qrels):
        raise InputError(f"judgements stand in place of the run {name!r}", hint=ORDER)
    if isinstance(run, Source | Stage):
        raise InputError(
            f"run {name!r} is {_kind(run)}: it has not been searched with",
            hint="search with it and evaluate in one: tamis.experiment(systems, queries, qrels, …)",
        )
    if is_frame(run):
        if RELEVANCE in run.columns and SCORE not in run.columns:
            raise InputError(f"run {name!r} has a column {RELEVANCE!r} and no scores", hint=ORDER)
        return Run.from_pandas(run)
    if isinstance(run, str | os.PathLike):
        if "qrels" in _contents(run):
            raise InputError(f"{run} holds judgements, not a run", hint=ORDER)
        return read_run(Path(run))
    if isinstance(run, Mapping):
        return Run.from_dict(_nested(run, f"run {name!r}", _score, RUN_FORMS))
    raise InputError(f"run {name!r} is {_kind(run)}", hint=f"hand it in {RUN_FORMS}")


def as_runs(runs: AnyRun) -> dict[str, Run]:
    """Runs by name; one run alone is called `run`, or by the name of its file.

    >>> list(as_runs({"q1": {"d1": 1.0}})), list(as_runs({"bm25": {"q1": {"d1": 1.0}}}))
    (['run'], ['bm25'])
    """
    if isinstance(runs, str | os.PathLike):
        return {Path(runs).name: as_run(runs, Path(runs).name)}
    if isinstance(runs, list | tuple | set):
        raise InputError("the runs have no names", hint='name them: {"bm25": run, "mine": other}')
    if not isinstance(runs, Mapping) or _is_one_run(runs):
        return {DEFAULT_RUN_NAME: as_run(runs)}
    return {check_name(name): as_run(run, name) for name, run in runs.items()}


def check_name(name: object) -> str:
    """The name of a run, which must be a string."""
    if not isinstance(name, str):
        raise InputError(f"a run is named {name!r}", hint="the name of a run is a string")
    return name


def _is_one_run(runs: Mapping[Any, Any]) -> bool:
    """Whether a dictionary has scores by document below its queries, and not runs by name."""
    below = [value for value in runs.values() if isinstance(value, Mapping)]
    scores = [next(iter(value.values()), 0.0) for value in below]
    return bool(runs) and len(below) == len(runs) and not any(map(_is_nested, scores))


def _is_nested(value: object) -> bool:
    return isinstance(value, Mapping) or is_frame(value)


def _nested(table: Mapping[Any, Any], what: str, number: Any, forms: str) -> dict[str, Any]:
    """`{query: {document: number}}` with ids as strings and every number checked."""
    checked: dict[str, Any] = {}
    for query, documents in table.items():
        where = f"{what}, query {query!r}"
        if not isinstance(documents, Mapping):
            raise InputError(
                f"{where} has {_describe_value(documents)}", hint=f"hand them in {forms}"
            )
        numbers = {
            _id(doc, where): number(value, f"{where}, document {doc!r}")
            for doc, value in documents.items()
        }
        if len(numbers) < len(documents) or _id(query, what) in checked:
            raise InputError(f"{where} has an id twice", hint="7 and '7' are the same id")
        checked[_id(query, what)] = numbers
    return checked


def _id(value: object, where: str) -> str:
    text = id_text(value)
    if text is None:
        raise InputError(f"{where} has the id {value!r}", hint="ids are strings or whole numbers")
    return text


def _grade(value: Any, where: str) -> int:
    number = float(value) if isinstance(value, Real) else math.nan
    if number.is_integer() and GRADES.min <= number <= GRADES.max:
        return int(number)
    hint = "grades are whole numbers: 0, 1, 2, …"
    if isinstance(value, Real | Mapping | Run):
        hint = f"{hint}; if these are runs, {ORDER}"
    raise InputError(f"{where} has the grade {_describe_value(value)}", hint=hint)


def _score(value: Any, where: str) -> float:
    if not isinstance(value, Real) or value != value:
        raise InputError(
            f"{where} has the score {_describe_value(value)}", hint="scores are numbers"
        )
    return float(value)


def _describe_value(value: Any) -> str:
    return repr(value) if isinstance(value, str | Real) else _kind(value)


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"


def _contents(path: str | os.PathLike[str]) -> tuple[Content, ...]:
    """What a file holds; nothing where there is none, or where it cannot be told."""
    return contents_of(detect_if_possible(Path(path))) if Path(path).is_file() else ()
