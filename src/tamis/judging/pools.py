"""What is judged: the first documents of every ranking, in an order that tells nothing of who
found them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import xxhash

from tamis.collection.readers import read_queries
from tamis.errors import InputError, command
from tamis.fitting.sieve import KIND as SIEVE
from tamis.fitting.sieve import load_sieve
from tamis.manifest import read_manifest
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.search import Index, default_source
from tamis.types import Queries, Query, Source
from tamis.types.pipeline import Then, TopOfSource


class Judgeable(Protocol):
    """What can be judged: a sieve, or an index alone."""

    @property
    def index(self) -> Index:
        """Where the documents are."""

    @property
    def source(self) -> Source:
        """The whole pipeline."""

    @property
    def retriever(self) -> Source:
        """What finds the documents."""

    @property
    def queries(self) -> Queries | None:
        """Queries that are known but not judged."""


@dataclass(frozen=True)
class IndexAlone:
    """An index as something to judge: its own ranking is the whole pipeline."""

    index: Index
    queries: Queries | None = None

    @property
    def source(self) -> Source:
        """What `tamis search` uses: what was tuned, else BM25."""
        return default_source(self.index)

    @property
    def retriever(self) -> Source:
        """The same."""
        return self.source


def sources_of(judgeable: Judgeable) -> list[Source]:
    """Whose results are pooled: the pipeline, its retriever, what that is made of, and words
    alone; each once.
    """
    hybrid_sources = judgeable.retriever.sources if isinstance(judgeable.retriever, Hybrid) else ()
    pipeline = judgeable.retriever if _keeps_order(judgeable.source) else judgeable.source
    sources = [pipeline, judgeable.retriever, *hybrid_sources, default_source(judgeable.index)]
    return list({json.dumps(source.spec(), sort_keys=True): source for source in sources}.values())


def bm25_among(sources: Sequence[Source], judgeable: Judgeable) -> int | None:
    """The place of words alone among the sources of a pool; None where it is the only one."""
    spec = default_source(judgeable.index).spec()
    place = next(number for number, source in enumerate(sources) if source.spec() == spec)
    return place or None


def _keeps_order(pipeline: Source) -> bool:
    """Whether a pipeline ranks as its retriever does: nothing is re-ranked."""
    if isinstance(pipeline, Then) and isinstance(pipeline.stage, Interpolate):
        return pipeline.stage.weight == 0
    return isinstance(pipeline, TopOfSource)


@dataclass(frozen=True)
class Pooled:
    """A document to judge for a query, and its rank in each source: none where not found."""

    query: Query
    doc_id: str
    ranks: tuple[int | None, ...]


def pool(
    sources: Sequence[Source], queries: Queries, depth: int = 10, seed: int = 0
) -> tuple[Pooled, ...]:
    """The first `depth` documents of every source, each once, query after query.

    Queries and the documents of each come in an order drawn by the seed, so that their places tell
    nothing about who found them or at which rank. The place of one against another depends on
    nothing else: a deeper pool, or more queries, leave it as it is.
    """
    runs = [source.search(queries, depth) for source in sources]
    pooled = []
    for query in sorted(queries, key=lambda query: _lot(seed, query.id)):
        ranks: dict[str, list[int | None]] = {}
        for number, run in enumerate(runs):
            for rank, doc_id in enumerate(run[query.id].ids if query.id in run else [], 1):
                ranks.setdefault(doc_id, [None] * len(runs))[number] = rank
        for doc_id in sorted(ranks, key=lambda doc_id: _lot(seed, query.id, doc_id)):
            pooled.append(Pooled(query, doc_id, tuple(ranks[doc_id])))
    return tuple(pooled)


def sample_queries(queries: Queries, count: int, seed: int = 0) -> Queries:
    """So many of the queries, drawn by the seed; a smaller sample is part of a larger one.

    >>> queries = Queries.of(Query(f"q{n}", "sieve") for n in range(9))
    >>> few, more = (sample_queries(queries, count) for count in (2, 5))
    >>> len(few), all(query.id in more for query in few)
    (2, True)
    """
    ids = list(queries.ids)
    numbers = sorted(range(len(ids)), key=lambda number: _lot(seed, ids[number]))[:count]
    return queries.select(np.array(sorted(numbers), np.int64))


def _lot(seed: int, *ids: str) -> int:
    return int(xxhash.xxh3_64_intdigest("\0".join(ids).encode(errors="surrogatepass"), seed=seed))


def open_judgeable(folder: Path) -> Judgeable:
    """The sieve, or the index alone, that a folder holds."""
    if (read_manifest(folder) or {}).get("kind") == SIEVE:
        return load_sieve(folder)
    return IndexAlone(Index.open(folder))


def queries_to_judge(judgeable: Judgeable, folder: Path, queries: str | None) -> Queries:
    """The queries of a file or a collection, else those that a sieve knows."""
    candidates = read_queries(queries) if queries else judgeable.queries
    if candidates is None or not len(candidates) or candidates.texts is None:
        raise InputError(
            f"{queries or folder} has no queries to judge",
            hint="write some into a file, one per line: " + command("judge", folder, "queries.txt"),
        )
    return candidates
