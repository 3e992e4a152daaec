"""Documents of one's own, ranked as the pipeline of a sieve ranks those of its index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar, cast

from tamis.errors import InputError
from tamis.explain.trace import Step, trace_stage
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank, rerank
from tamis.search.build import searched_text
from tamis.search.dense import DenseSource
from tamis.search.sources import IndexSource
from tamis.types import Document, Queries, Query, Run, Scorer, Source, Stage

if TYPE_CHECKING:
    from tamis.fitting.sieve import Sieve

Kind = TypeVar("Kind", bound=Source)
WrapScorer = Callable[[Scorer], Scorer]
"""What stands in for a scorer: a server's scores pairs of several requests together."""


@dataclass(frozen=True, eq=False)
class RankedDocuments:
    """Documents in the order of a pipeline, and what each of its steps made of them."""

    steps: tuple[Step, ...]
    documents: Mapping[str, Document]
    """By their ids in the runs of the steps."""
    lexical_scores: Mapping[str, float]
    """By the same ids."""

    @property
    def run(self) -> Run:
        """What the last step gives."""
        return self.steps[-1].run

    def number(self, run_id: str) -> int:
        """The place in what was handed in of the document with this id in the runs."""
        return len(self.documents) - int(run_id)

    def scores(self) -> list[tuple[int, float]]:
        """Place in what was handed in and score, best first."""
        if not self.documents:
            return []
        return [(self.number(name), score) for name, score in self.run["q"]]


def rank_documents(
    sieve: Sieve,
    query: str,
    documents: Sequence[Document],
    wrap: WrapScorer | None = None,
    skip: bool = False,
) -> RankedDocuments:
    """Rank documents as the sieve ranks, whatever their ids; of equal scores the earlier first.

    `wrap` and `skip` are those of `with_scorer`.
    """
    # of equal scores the larger id comes first: so the earlier document has it
    named = {
        name: replace(document, id=name)
        for number, document in enumerate(documents)
        for name in [f"{len(documents) - number:08}"]
    }
    start = perf_counter()
    lexical_scores = _lexical_scores(sieve, query, named)
    run = _retriever_scores(sieve, query, named, lexical_scores, wrap, skip)
    first = Step(sieve.retriever, None, run, seconds=perf_counter() - start)
    if sieve.stage is None or not documents:
        return RankedDocuments((first,), named, lexical_scores)
    stage = with_scorer(_with_documents(sieve.stage, named), wrap, skip)
    return RankedDocuments((first, *trace_stage(stage, run)), named, lexical_scores)


def with_scorer(stage: Stage, wrap: WrapScorer | None, skip: bool = False) -> Stage:
    """The same stage with what `wrap` makes of its scorer; with `skip` a document whose score is
    no number is left below.
    """
    if wrap is None:
        return stage
    if isinstance(stage, Interpolate):
        return replace(stage, stage=with_scorer(stage.stage, wrap, skip))
    if isinstance(stage, Rerank):
        missing = "skip" if skip else stage.missing
        return replace(stage, scorer=wrap(stage.scorer), missing=missing)
    return stage


def _lexical_scores(
    sieve: Sieve, query: str, documents: Mapping[str, Document]
) -> dict[str, float]:
    """The scores that the lexical part of the retriever would give."""
    lexical = _first(_sources(sieve), IndexSource)
    return {
        name: 0.0 if lexical is None else lexical.score_text(query, searched_text(document))
        for name, document in documents.items()
    }


def _sources(sieve: Sieve) -> Sequence[Source]:
    source = sieve.retriever
    return source.sources if isinstance(source, Hybrid) else (source,)


def _retriever_scores(
    sieve: Sieve,
    query: str,
    documents: Mapping[str, Document],
    lexical_scores: Mapping[str, float],
    wrap: WrapScorer | None,
    skip: bool,
) -> Run:
    """The scores that the retriever would give to documents of one's own."""
    source = sieve.retriever
    run = _one_query(query, lexical_scores)
    dense = _first(_sources(sieve), DenseSource)
    if dense is None or not isinstance(source, Hybrid) or not documents:
        return run
    scorer = cast(Scorer, dense.encoder)
    by_embedding = rerank(
        scorer if wrap is None else wrap(scorer),
        documents,
        passages=sieve.pipeline.passages,
        depth=len(documents),
        missing="skip" if skip else "raise",
    )(run)
    matched = {name: score for name, score in lexical_scores.items() if score > 0}
    return source.fuse([_one_query(query, matched), by_embedding])


def _first(sources: Sequence[Source], kind: type[Kind]) -> Kind | None:
    return next((source for source in sources if isinstance(source, kind)), None)


def _one_query(text: str, scores: Mapping[str, float]) -> Run:
    """A run of one query; without documents where there are none."""
    queries = Queries.of([Query("q", text)])
    return Run.from_dict({"q": dict(scores)}).with_queries(queries)


def _with_documents(stage: Stage, documents: Mapping[str, Document]) -> Stage:
    """The same stage on other documents, and all of them."""
    if isinstance(stage, Interpolate):
        return replace(stage, stage=_with_documents(stage.stage, documents))
    if isinstance(stage, Rerank):
        return replace(stage, documents=documents, depth=max(stage.depth, len(documents)))
    raise InputError(
        f"the stage {type(stage).__name__} ranks documents of the index, not texts of your own",
        hint="use search",
    )
