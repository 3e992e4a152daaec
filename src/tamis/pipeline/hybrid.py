"""Several sources as one: each is searched for the same queries and their runs are fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tamis.errors import InputError
from tamis.pipeline.fuse import Normalisation, reciprocal_rank, weighted_sum
from tamis.types import Queries, Run, Source, Spec
from tamis.types.pipeline import DEFAULT_TOP

Method = Literal["rrf", "sum"]


@dataclass(frozen=True)
class Hybrid(Source):
    """Sources whose runs are fused; each is searched `depth` deep at least.

    So the best ten are the first ten of the best thousand: a document that one source has at rank
    900 gets its points from it in either.
    """

    sources: tuple[Source, ...]
    method: Method = "rrf"
    k: int = 60
    weights: tuple[float, ...] | None = None
    normalisation: Normalisation = "minmax"
    depth: int = DEFAULT_TOP

    def __post_init__(self) -> None:
        if len(self.sources) < 2:
            raise InputError("a hybrid takes two sources or more", hint="or use the one alone")
        if self.method not in ("rrf", "sum"):
            raise InputError(f"no method {self.method!r}", hint="rrf or sum")
        if self.method == "rrf" and self.weights is not None:
            raise InputError("weights are for the method sum", hint='say method="sum"')

    def search(self, queries: Queries, top: int) -> Run:
        """The best `top` documents of the fused run."""
        return self.fuse(self.runs(queries, top)).top(top)

    def runs(self, queries: Queries, top: int) -> list[Run]:
        """The run of each source, deep enough for the best `top` of them together."""
        return [source.search(queries, max(top, self.depth)) for source in self.sources]

    def fuse(self, runs: Sequence[Run]) -> Run:
        """One run of the runs of the sources, in their order."""
        if self.method == "rrf":
            return reciprocal_rank(runs, self.k)
        return weighted_sum(runs, self.weights, self.normalisation)

    def spec(self) -> Spec:
        """See `Source.spec`."""
        how = {"k": self.k} if self.method == "rrf" else {"normalisation": self.normalisation}
        weights = {} if self.weights is None else {"weights": list(self.weights)}
        return {
            "source": "hybrid",
            "method": self.method,
            **how,
            **weights,
            "depth": self.depth,
            "of": [source.spec() for source in self.sources],
        }


def hybrid(
    *sources: Source,
    method: Method = "rrf",
    k: int = 60,
    weights: Sequence[float] | None = None,
    normalisation: Normalisation = "minmax",
    depth: int = DEFAULT_TOP,
) -> Hybrid:
    """A source of several, such as `hybrid(index.bm25(), index.dense(encoder))`.

    `rrf` fuses by rank with the constant k, `sum` by scores put on one scale, with weights.
    """
    given = None if weights is None else tuple(weights)
    return Hybrid(sources, method, k, given, normalisation, depth)
