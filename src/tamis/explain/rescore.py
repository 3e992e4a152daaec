"""Documents scored as a pipeline would score them, on the scale of a query's candidates.

So a document outside the candidates has a score, and so has a text with a word taken out. What a
source would have to rank anew (a learnt ranker, a source of one's own) is not scored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tamis.explain.fusion import (
    PartScale,
    fused_score,
    fusion_settings,
    hybrid_scales,
    stage_scales,
)
from tamis.explain.terms import WeightedQuery
from tamis.explain.trace import Step, source_names
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.passage_scores import token_spans
from tamis.pipeline.rerank import Rerank
from tamis.search.build import searched_text
from tamis.search.dense import DenseSource
from tamis.search.embeddings import encode_with_truncation, for_documents
from tamis.search.sources import IndexSource
from tamis.text.passages import parse_spec, split, text_of
from tamis.types import Document, Queries, Run, Source
from tamis.types.columns import MODEL_SCORE, PREVIOUS_SCORE
from tamis.types.pipeline import Top

Values = NDArray[np.float64]


@dataclass(eq=False)
class Rescored:
    """The scores of some documents, step after step."""

    score: Values
    passages: NDArray[np.int32]
    truncated_tokens: NDArray[np.int64]
    parts: dict[str, Values] = field(default_factory=dict)
    """The raw scores of sources and models, by name."""
    columns: dict[str, Values] = field(default_factory=dict)
    """The columns that a run of the pipeline would have."""
    after: list[Values] = field(default_factory=list)
    """The scores after each step."""


def can_rescore(steps: Sequence[Step]) -> bool:
    """Whether every step scores a document by itself."""
    for step in steps:
        part = step.of
        sources = part.sources if isinstance(part, Hybrid) else ()
        inner = part.stage if isinstance(part, Interpolate) else part
        if not isinstance(inner, Rerank | Top | Hybrid | IndexSource | DenseSource):
            return False
        if not all(isinstance(source, IndexSource | DenseSource) for source in sources):
            return False
    return True


def rescore(
    steps: Sequence[Step],
    query: str,
    documents: Sequence[Document],
    found: Sequence[bool] | None = None,
    *,
    unweighted: bool = True,
) -> Rescored:
    """The scores of documents by the steps of a pipeline.

    `found` says of each source of a hybrid whether it found the document; one that it did not find
    keeps the score of such documents. Without `unweighted`, models of weight 0 are not run.
    """
    state = Rescored(
        np.zeros(len(documents)),
        np.full(len(documents), -1, np.int32),
        np.zeros(len(documents), np.int64),
    )
    for number, step in enumerate(steps):
        if isinstance(step.of, Hybrid):
            _hybrid(state, step, query, documents, found)
        elif isinstance(step.of, Source):
            _source(state, step.of, step.name, query, documents)
        elif isinstance(step.of, Rerank):
            following = steps[number + 1] if number + 1 < len(steps) else None
            settings = fusion_settings(following or step)
            fuses = following is not None and isinstance(following.of, Interpolate)
            if unweighted or not fuses or settings is None or settings[0]:
                _model(state, step, query, documents)
            if not fuses:
                _fuse(state, step, documents)
        elif isinstance(step.of, Interpolate):
            _fuse(state, step, documents)
        state.after.append(state.score)
    return state


def _source(
    state: Rescored, source: Source, name: str, query: str, documents: Sequence[Document]
) -> None:
    if isinstance(source, IndexSource):
        weighted = WeightedQuery.of(source, query)
        texts = (searched_text(document) for document in documents)
        state.score = np.array([weighted.score(text) for text in texts])
    else:
        assert isinstance(source, DenseSource)
        state.score, state.passages, state.truncated_tokens = _products(source, query, documents)
    state.parts[name] = state.score


def _products(
    source: DenseSource, query: str, documents: Sequence[Document]
) -> tuple[Values, NDArray[np.int32], NDArray[np.int64]]:
    """The best product of the query's embedding with one of each document's passages."""
    spec = parse_spec(source.index.snapshot.embeddings[0].facts["passages"]["passages"])
    encoder = for_documents(source.encoder)
    texts: dict[str, int] = {}
    owner, row, number = [], [], []
    for place, document in enumerate(documents):
        for passage in split(document, spec, tokens=token_spans(encoder)).passages:
            text = text_of(document, passage, spec.title)
            owner.append(place)
            row.append(texts.setdefault(text, len(texts)))
            number.append(passage.number)
    score = np.full(len(documents), np.nan)
    passages = np.full(len(documents), -1, np.int32)
    truncated = np.zeros(len(documents), np.int64)
    if not texts or not query.strip():
        return np.nan_to_num(score), passages, truncated
    of_query, of_texts = (
        encode_with_truncation(source.encoder, [query]),
        encode_with_truncation(encoder, list(texts)),
    )
    values = of_texts[0].astype(np.float64) @ of_query[0][0].astype(np.float64)
    for place, at, passage_number in zip(owner, row, number, strict=True):
        if not values[at] <= score[place]:
            score[place], passages[place] = values[at], passage_number
            truncated[place] = of_texts[1][at] + of_query[1][0]
    return np.nan_to_num(score), passages, truncated


def _hybrid(
    state: Rescored,
    step: Step,
    query: str,
    documents: Sequence[Document],
    found: Sequence[bool] | None,
) -> None:
    assert isinstance(step.of, Hybrid)
    raw: list[Sequence[float | None]] = []
    for number, (source, name) in enumerate(
        zip(step.of.sources, source_names(step.of), strict=True)
    ):
        if found is not None and not found[number]:
            raw.append([None] * len(documents))
            continue
        _source(state, source, name, query, documents)
        is_lexical = isinstance(source, IndexSource)
        raw.append([None if is_lexical and not s else s for s in state.score.tolist()])
        if is_lexical and step.of.column:
            state.columns[step.of.column] = state.score
    state.score = _fused(hybrid_scales(step.of, step.runs), raw, documents)


def _fused(
    scales: Sequence[PartScale],
    raw: Sequence[Sequence[float | None]],
    documents: Sequence[Document],
) -> Values:
    rows = zip(zip(*raw, strict=True), documents, strict=True)
    return np.array([fused_score(scales, scores, document.id) for scores, document in rows])


def _model(state: Rescored, step: Step, query: str, documents: Sequence[Document]) -> None:
    """The scores of a re-ranker's model, of the whole text of each document."""
    assert isinstance(step.of, Rerank)
    names = [f"{number:08}" for number in range(len(documents))]
    stage = replace(
        step.of,
        documents=dict(zip(names, documents, strict=True)),
        depth=len(documents),
        interpolate=None,
        fuse_with_column=None,
        cache=None,
        latency=None,
        missing="skip",
    )
    run = Run.from_dict({"q": dict(zip(names, state.score.tolist(), strict=True))})
    queries = Queries(run.queries.ids, (query,))
    after = stage(run.with_queries(queries))
    order = after.doc  # the table of ids is in the order of the names
    model = np.full(len(documents), np.nan)
    scored = after.extra["passage"] >= 0
    model[order[scored]] = after.score[scored]
    state.passages[order] = after.extra["passage"]
    state.truncated_tokens[order] = after.extra["truncated_tokens"]
    state.columns[PREVIOUS_SCORE] = state.score
    state.columns[MODEL_SCORE] = model
    state.parts[step.name] = model
    if fusion_settings(step) is None:
        state.score = np.where(np.isnan(model), state.score, model)


def _fuse(state: Rescored, step: Step, documents: Sequence[Document]) -> None:
    settings, scales = fusion_settings(step), stage_scales(step)
    if settings is None or not scales:
        return
    previous = state.columns.get(PREVIOUS_SCORE, state.score)
    before = state.columns.get(settings[1], previous)
    model = state.columns.get(MODEL_SCORE, np.zeros(len(state.score)))
    fused = _fused(scales, [before.tolist(), np.nan_to_num(model).tolist()], documents)
    state.score = np.where(np.isnan(model), previous, fused)
