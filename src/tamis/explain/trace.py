"""A pipeline run step by step, so that what every step made of a query can be asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate, fuse_scores
from tamis.pipeline.rerank import Rerank
from tamis.search.dense import DenseSource
from tamis.search.rankings import BM25
from tamis.search.sources import IndexSource
from tamis.types import Queries, Run, Source, Stage
from tamis.types.pipeline import DEFAULT_TOP, Chain, Then, Top, TopOfSource


@dataclass(frozen=True, eq=False)
class Step:
    """A source or a stage, what it was given and what it made of it."""

    of: Source | Stage
    before: Run | None
    """None of what finds documents."""
    run: Run
    runs: tuple[Run, ...] = ()
    """Of a hybrid the run of each of its sources."""
    label: str = ""
    """What people are shown, where that is not the name of the source or stage."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def name(self) -> str:
        """What people are shown."""
        return self.label or name_of(self.of)


def name_of(part: Source | Stage) -> str:
    """A source or stage in a word or two.

    >>> name_of(Top(3))
    'top 3'
    """
    match part:
        case IndexSource():
            name = "BM25" if isinstance(part.ranking, BM25) else "query likelihood"
            return f"{name} + RM3" if part.feedback else name
        case DenseSource():
            return "embeddings"
        case Hybrid():
            return "hybrid"
        case Rerank():
            return part.model.replace("_", " ") or "re-ranker"
        case Interpolate():
            return "fusion"
        case Top():
            return f"top {part.k}"
    return type(part).__name__


def numbered(names: Sequence[str]) -> list[str]:
    """The names, those that stood before with a number.

    >>> numbered(["BM25", "embeddings", "BM25"])
    ['BM25', 'embeddings', 'BM25 2']
    """
    seen: Counter[str] = Counter()
    labels = []
    for name in names:
        seen[name] += 1
        labels.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return labels


def source_names(hybrid: Hybrid) -> list[str]:
    """What the sources of a hybrid are called, each by a name of its own."""
    return numbered([name_of(source) for source in hybrid.sources])


def trace(source: Source, queries: Queries, top: int = DEFAULT_TOP) -> list[Step]:
    """The steps of `source.search(queries, top)`, the run of the last being its run.

    >>> from tempfile import mkdtemp
    >>> from tamis import Index, Query
    >>> index = Index.build({"a": "a drum sieve", "b": "a net"}, mkdtemp() + "/index")
    >>> steps = trace(index.bm25() % 10 >> Top(1), Queries.of([Query("q", "sieve")]))
    >>> [(step.name, step.run["q"].ids) for step in steps]
    [('BM25', ['a']), ('top 1', ['a'])]
    """
    steps = _trace_source(source, queries, top)
    labels = numbered([step.name for step in steps])
    return [replace(step, label=label) for step, label in zip(steps, labels, strict=True)]


def _trace_source(source: Source, queries: Queries, top: int) -> list[Step]:
    if isinstance(source, TopOfSource):
        return _trace_source(source.source, queries, min(top, source.k))
    if isinstance(source, Then):
        deep = source.source.k if isinstance(source.source, TopOfSource) else DEFAULT_TOP
        steps = _trace_source(source.source, queries, deep)
        steps += trace_stage(source.stage, steps[-1].run)
        return [*steps[:-1], replace(steps[-1], run=steps[-1].run.top(top))]
    start = perf_counter()
    if isinstance(source, Hybrid):
        runs = source.runs(queries, top)
        fused = source.fuse(runs).top(top)
        return [Step(source, None, fused, tuple(runs), seconds=perf_counter() - start)]
    run = source.search(queries, top)
    return [Step(source, None, run, seconds=perf_counter() - start)]


def trace_stage(stage: Stage, run: Run) -> list[Step]:
    """The steps of `stage(run)`, the run of the last being its run."""
    if isinstance(stage, Chain):
        steps = trace_stage(stage.first, run)
        return [*steps, *trace_stage(stage.second, steps[-1].run)]
    if isinstance(stage, Interpolate):
        steps = trace_stage(stage.stage, run)
        start = perf_counter()
        fused = fuse_scores(run, steps[-1].run, stage.weight, stage.column)
        return [*steps, Step(stage, run, fused, seconds=perf_counter() - start)]
    start = perf_counter()
    after = stage(run)
    return [Step(stage, run, after, seconds=perf_counter() - start)]


def row_of(run: Run, doc_id: str) -> int | None:
    """The row of a document in a run of one query; None where it is not there."""
    if doc_id not in run.docs or not len(run):
        return None
    rows: NDArray[np.intp] = np.flatnonzero(run.doc == run.docs.number(doc_id))
    return int(rows[0]) if len(rows) else None
