"""Several sources as one: each is searched for the same queries and their runs are fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from tamis.errors import InputError
from tamis.pipeline.fuse import Normalisation, reciprocal_rank, scores_in, weighted_sum
from tamis.registry import NUMBER, Opening, Types, check_choice, check_keys
from tamis.types import Condition, Queries, Run, Source, Spec
from tamis.types.columns import LEXICAL_SCORE
from tamis.types.pipeline import DEFAULT_TOP, SPEC_VERSION

Method = Literal["rrf", "sum"]
DENSE_WEIGHT = 0.6
"""How much embeddings count beside words: significantly above BM25 on each of seven collections
(docs/how-to/dense.md)."""


@dataclass(frozen=True)
class Hybrid(Source):
    """Sources whose runs are fused; each is searched `depth` deep at least.

    So the best ten are the first ten of the best thousand: a document that one source has at rank
    900 gets its points from it in either, and scores are put on one scale over the same documents.
    Where more than `depth` are asked for, each source is searched so deep.
    """

    sources: tuple[Source, ...]
    method: Method = "rrf"
    k: int = 60
    weights: tuple[float, ...] | None = None
    normalisation: Normalisation | tuple[Normalisation, ...] = "minmax"
    depth: int = DEFAULT_TOP
    column: str | None = None
    """Where the score of the first source is kept."""

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

    def where(self, *conditions: str | Condition) -> Hybrid:
        """See `Source.where`: every source is filtered."""
        return replace(self, sources=tuple(source.where(*conditions) for source in self.sources))

    def runs(self, queries: Queries, top: int) -> list[Run]:
        """The run of each source, deep enough for the best `top` of them together."""
        return [source.search(queries, max(top, self.depth)) for source in self.sources]

    def fuse(self, runs: Sequence[Run]) -> Run:
        """One run of the runs of the sources, in their order."""
        if self.method == "rrf":
            return reciprocal_rank(runs, self.k)
        fused = weighted_sum(runs, self.weights, self.normalisation)
        if self.column is None:
            return fused
        return fused.with_extra(**{self.column: scores_in(runs[0], fused)})

    def spec(self) -> Spec:
        """See `Source.spec`."""
        scale = self.normalisation
        normalisation = scale if isinstance(scale, str) else list(scale)
        how = {"k": self.k} if self.method == "rrf" else {"normalisation": normalisation}
        weights = {} if self.weights is None else {"weights": list(self.weights)}
        column = {} if self.column is None else {"column": self.column}
        return {
            "source": "hybrid",
            "version": SPEC_VERSION,
            "method": self.method,
            **how,
            **weights,
            "depth": self.depth,
            **column,
            "of": [source.spec() for source in self.sources],
        }


def open_source(values: Spec, opening: Opening) -> Hybrid:
    """See `registry.OPENERS`."""
    settings, by_rank = dict(values), values.get("method") == "rrf"
    how: dict[str, Types] = {"k": int} if by_rank else {"normalisation": (str, list)}
    more = {"column": str} if by_rank else {"column": str, "weights": list}
    check_keys("a hybrid", values, {"method": str, **how, "depth": int, "of": list}, more)
    check_choice("the method of a hybrid", values["method"], get_args(Method))
    sources = tuple(opening.source(spec) for spec in settings.pop("of"))
    scales = values.get("normalisation", [])
    for scale in [scales] if isinstance(scales, str) else scales:
        check_choice("a normalisation of a hybrid", scale, get_args(Normalisation))
    for weight in values.get("weights", []):
        check_keys("a hybrid", {"weights": weight}, {"weights": NUMBER})
    if isinstance(scales, list) and not by_rank:
        settings["normalisation"] = tuple(scales)
    if "weights" in values:
        settings["weights"] = tuple(values["weights"])
    return Hybrid(sources, **settings)


def lexical_dense_hybrid(
    words: Source, dense: Source, dense_weight: float = DENSE_WEIGHT
) -> Hybrid:
    """A lexical ranking and a dense one made one, by their scores; what `tamis fit` and
    `tamis search --ranking hybrid` search with.

    Both are put on mean 0 and deviation 1 within each query, and embeddings count `dense_weight`,
    words the rest. Few hits by words are filled up with zeros (see `weighted_sum`, `filled`); a
    dense search ranks whatever there is. The column `lexical_score` has the score by words.

    >>> from tempfile import mkdtemp
    >>> from tamis.search import Index
    >>> from tamis.types import Document, Query
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return [[float(text.count(letter)) for letter in "aeiou"] for text in texts]
    >>> texts = {"drum": "a sieve like a drum", "net": "a net for fish"}
    >>> documents = [Document(name, text) for name, text in texts.items()]
    >>> index = Index.build(documents, mkdtemp() + "/index")
    >>> index.encode(Letters())
    >>> both = lexical_dense_hybrid(index.bm25(), index.dense(Letters()))
    >>> both.search(Queries.of([Query("q", "fish net")]), 2)["q"].ids
    ['net', 'drum']
    """
    return Hybrid(
        (words, dense),
        "sum",
        weights=(1 - dense_weight, dense_weight),
        normalisation=("filled", "z"),
        column=LEXICAL_SCORE,
    )


def hybrid(
    *sources: Source,
    method: Method = "rrf",
    k: int = 60,
    weights: Sequence[float] | None = None,
    normalisation: Normalisation | tuple[Normalisation, ...] = "minmax",
    depth: int = DEFAULT_TOP,
) -> Hybrid:
    """A source of several, such as `hybrid(index.bm25(), index.dense(encoder))`.

    `rrf` fuses by rank with the constant k, `sum` by scores put on one scale, with weights.
    """
    source_weights = None if weights is None else tuple(weights)
    return Hybrid(sources, method, k, source_weights, normalisation, depth)
