"""The passage of a document that answers best, with its place and its own score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.explain.trace import Step
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.passage_scores import token_spans
from tamis.pipeline.rerank import Rerank
from tamis.search import Index
from tamis.search.dense import DenseSource
from tamis.search.embeddings import encode_with_truncation, for_documents
from tamis.search.hits import matching_passage
from tamis.text.passages import PassageSpec, Tokens, parse_spec, split, text_of
from tamis.types import Document, Passage, Run
from tamis.types.columns import PASSAGE
from tamis.types.explanation import PassageFacts


@dataclass(frozen=True)
class BestPassage:
    """The passage that answers best, and what a model read of it."""

    facts: PassageFacts | None = None
    text_read: str = ""
    """The text that the model scored: the passage, perhaps after the title."""
    truncated_tokens: int = 0
    """Of all passages of the document."""


def best_passage(
    steps: Sequence[Step], query: str, document: Document, index: Index, row: Run
) -> BestPassage:
    """The passage that wins by the last model that read passages; `row` is the document alone as a
    run of the pipeline.

    Without a model it is the passage with the most of the query's terms, and has no score.
    """
    best = _best_passage(steps, query, document, index, row)
    if best.facts is None:
        return best
    terms = {*index.analyzer.terms(query)}
    spans = index.analyzer.spans(best.facts.text)
    matches = tuple((start, end) for term, start, end in spans if term in terms)
    return replace(best, facts=replace(best.facts, matches=matches))


def _best_passage(
    steps: Sequence[Step], query: str, document: Document, index: Index, row: Run
) -> BestPassage:
    reranker = next((step.of for step in reversed(steps) if isinstance(step.of, Rerank)), None)
    if reranker is not None and PASSAGE in row.extra and row.extra[PASSAGE][0] >= 0:
        return _by_reranker(reranker, document, row)
    first = steps[0].of
    sources = first.sources if isinstance(first, Hybrid) else (first,)
    dense = next((source for source in sources if isinstance(source, DenseSource)), None)
    if dense is not None:
        return _by_embeddings(dense, query, document)
    return BestPassage(_by_terms(query, document, index))


def _by_reranker(stage: Rerank, document: Document, row: Run) -> BestPassage:
    """The passage whose number the run has; its score is read from the stage."""
    number = int(row.extra[PASSAGE][0])
    values: dict[int, float] = {}
    truncated = 0
    for scores in stage.passage_scores(row.top(1)):
        values |= dict(zip(scores.numbers.tolist(), scores.values.tolist(), strict=True))
        truncated += int(scores.truncated_tokens.sum())
    tokens = token_spans(stage.scorer)
    return _best(document, stage.passages, number, values, tokens, stage.seed, truncated)


def _by_embeddings(source: DenseSource, query: str, document: Document) -> BestPassage:
    """The passage whose embedding is nearest to the query's."""
    spec = parse_spec(source.index.snapshot.embeddings[0].facts["passages"]["passages"])
    encoder = for_documents(source.encoder)
    tokens = token_spans(encoder)
    passages = split(document, spec, tokens=tokens).passages
    if not passages or not query.strip():
        return BestPassage()
    texts = [text_of(document, passage, spec.title) for passage in passages]
    rows, truncated = encode_with_truncation(encoder, texts)
    of_query, _ = encode_with_truncation(source.encoder, [query])
    products = (rows.astype(np.float64) @ of_query[0].astype(np.float64)).tolist()
    values = {passage.number: value for passage, value in zip(passages, products, strict=True)}
    best = max(values, key=lambda number: values[number])
    return _best(document, spec, best, values, tokens, 0, int(truncated.sum()))


def _best(
    document: Document,
    spec: PassageSpec,
    number: int,
    values: dict[int, float],
    tokens: Tokens | None,
    seed: int,
    truncated: int,
) -> BestPassage:
    passages = split(document, spec, tokens=tokens, seed=seed).passages
    passage = next((passage for passage in passages if passage.number == number), None)
    if passage is None:
        return BestPassage(truncated_tokens=truncated)
    facts = _record(document, passage, values.get(number), len(passages))
    return BestPassage(facts, text_of(document, passage, spec.title), truncated)


def _by_terms(query: str, document: Document, index: Index) -> PassageFacts | None:
    passage = matching_passage(document, index.analyzer.terms(query), index.analyzer)
    return None if passage is None else _record(document, passage, None, 1)


def _record(
    document: Document, passage: Passage, score: float | None, passages: int
) -> PassageFacts:
    source = document.title if passage.field == "title" else document.text
    return PassageFacts(
        passage.number,
        passage.start,
        passage.end,
        passage.field,
        source[passage.start : passage.end],
        score,
        passages,
    )
