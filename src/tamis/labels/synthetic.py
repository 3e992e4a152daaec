"""Examples without a query log: queries made from documents, each against its own document.

Such queries are easier than people's, so what was made says how many of them the first stage
answers already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np

from tamis.durable import Progress
from tamis.errors import InputError
from tamis.labels._groups import Group, Ints, as_examples, draw, generator, group_of
from tamis.labels.example_texts import row_texts
from tamis.labels.examples import TO_THE_END, Examples, Role
from tamis.labels.query_generation import (
    MIN_REMAINING_WORDS,
    QUERY_FORMS,
    GeneratedQuery,
    QueryForm,
    body_start,
    make_queries,
    read_headings,
)
from tamis.pipeline.document_lookup import DocumentLookup, Documents, open_lookup
from tamis.scorers.lexical import Lexical
from tamis.search.sources import IndexSource
from tamis.text.passages import PassageSpec, parse_spec, split, text_of
from tamis.text.sentences import Span
from tamis.types import Document, Ids, Pairs, Passage, Queries, Query, Run, Scorer, Source
from tamis.types.pipeline import score_texts


def synthetic(
    documents: Documents,
    source: Source,
    *,
    count: int = 1000,
    made_of: Sequence[QueryForm] = QUERY_FORMS,
    passages: str = "words:150",
    negatives_per_query: int | None = 10,
    depth: int = 100,
    seed: int = 0,
) -> Examples:
    """Up to `count` queries made from documents drawn at random, a group each.

    A title or heading asks for the text below it, a sentence for the rest of its passage. The
    document is positive; negatives come from the first `depth` that `source`, which searches the
    same documents, finds for the query. Where a title asks, all texts stand without titles; where
    a sentence asks, negatives are passages as the positive is, drawn from their documents. A
    document with the same sentence is never a negative; titles that documents share are no
    queries. Where the source is an index, a negative scores below the positive as it stands there
    without its query: most of what is found has more words of the query than that, and a model
    would learn to prefer what has fewer. `facts` say what share of queries the source answers at
    rank 1, and, for an index, what share it would if the query were not in the text it was taken
    from.
    """
    if count < 1 or not made_of or depth < 2:
        raise InputError("there is nothing to make", hint="ask for one query or more, depth 2 up")
    spec, headings = parse_spec(passages), read_headings(documents)
    with open_lookup(documents, Ids.of(headings.names)) as lookup:
        queries_made = make_queries(lookup, headings, count, made_of, spec, seed)
        if not queries_made:
            raise InputError(
                f"no query can be made from {len(headings.names):,} documents",
                hint="it takes titles that no other document has, or texts of several sentences",
            )
        queries = Queries.of(Query(query.id, query.text) for query in queries_made)
        run = source.search(queries, depth)
        by_id = {query.id: query for query in queries_made}
        facts: dict[str, Any] = {"depth": depth, "seed": seed, "requested": count}
        score_limit: ScoreLimit | None = None
        if isinstance(source, IndexSource):
            lexical = Lexical(source.index, source.ranking)
            score_limit = ScoreLimit(lexical, _own_scores(run, by_id, lexical, lookup))
        sampler = _NegativeSampler(lookup, run, spec, negatives_per_query, seed, score_limit)
        examples = sampler.examples(by_id, facts)
        if score_limit is None:
            return examples
        share = rank_one_without(run, by_id, score_limit.own)
        return replace(examples, facts={**examples.facts, "origin_at_rank_1_without_query": share})


@dataclass(frozen=True)
class ScoreLimit:
    """What a negative has to score below: its query's own text, without the query."""

    scorer: Scorer
    own: Mapping[str, float]

    def below(self, query: GeneratedQuery, texts: Sequence[str]) -> list[bool]:
        """Which texts do."""
        if not texts:
            return []
        is_below = score_texts(self.scorer, query.text, texts) < self.own[query.id]
        return [bool(flag) for flag in is_below]


@dataclass(frozen=True)
class _NegativeSampler:
    """Chooses negatives, which are read for it."""

    lookup: DocumentLookup
    run: Run
    spec: PassageSpec
    count: int | None
    seed: int
    score_limit: ScoreLimit | None

    def examples(
        self, queries_by_id: Mapping[str, GeneratedQuery], facts: Mapping[str, Any]
    ) -> Examples:
        """A group for every query for which something else than its document was found."""
        counts: Counter[str] = Counter()
        groups: list[Group] = []
        docs = self.run.docs.union(Ids.of(query.origin.doc_id for query in queries_by_id.values()))
        with Progress("choosing negatives", len(self.run), "queries") as progress:
            for number, name in enumerate(self.run.queries.ids):
                progress.advance()
                group = self._group(number, queries_by_id[name], docs)
                if group is None:
                    counts["excluded_queries_without_a_negative"] += 1
                    continue
                counts[f"queries_from_{queries_by_id[name].form}s"] += 1
                groups.append(group)
        if not groups:
            raise InputError(
                "the first stage finds nothing to set against any query made",
                hint="are there other documents in the index, and enough that are about the same?",
            )
        how = {
            "labelled_by": "synthetic",
            "passages": str(self.spec),
            "negatives_per_query": self.count,
            **facts,
            "origin_at_rank_1": rank_one(self.run, queries_by_id),
        }
        origins = {n: queries_by_id[name].origin for n, name in enumerate(self.run.queries.ids)}
        return as_examples(self.run.queries, docs, groups, "synthetic", how, counts, origins)

    def _group(self, number: int, query: GeneratedQuery, docs: Ids) -> Group | None:
        negatives = self._negatives(number, query)
        if not negatives:
            return None
        doc_numbers = docs.numbers([query.origin.doc_id, *(name for name, _ in negatives)])
        role: Role = "pool" if self.count is None else "negative"
        spans = [query.answer, *(span for _, span in negatives)]
        return group_of(
            number,
            doc_numbers[:1],
            doc_numbers[1:],
            role,
            spans=spans,
            titled=query.form != "title",
        )

    def _negatives(self, number: int, query: GeneratedQuery) -> list[tuple[str, Span]]:
        """Documents and the characters of them that are negative."""
        random = generator(self.seed, query.id)
        ranked: Ints = self.run.ranking(number).doc
        order = draw(ranked, None if self.count is None else len(ranked), random)
        names = [name for name in self.run.docs.take(order) if name != query.origin.doc_id]
        batch_size = self.count or len(names) or 1
        negatives: list[tuple[str, Span]] = []
        for begin in range(0, len(names), batch_size):
            documents = self.lookup.fetch(names[begin : begin + batch_size])
            candidates = [(document, self._span(document, query, random)) for document in documents]
            spans = [(document, span) for document, span in candidates if span is not None]
            if self.score_limit is not None:
                texts = [
                    _passage_text(*document_span, titled=query.form != "title")
                    for document_span in spans
                ]
                spans = list(compress(spans, self.score_limit.below(query, texts)))
            negatives += [(document.id, span) for document, span in spans]
            if len(negatives) >= batch_size:
                break
        return negatives[:batch_size]

    def _span(
        self, document: Document, query: GeneratedQuery, random: np.random.Generator
    ) -> Span | None:
        """The characters of a document that are negative; none where it says the same."""
        if query.form == "title":
            begin = body_start(document)
            return (begin, TO_THE_END) if document.text[begin:].strip() else None
        if query.text in document.text:
            return None
        windows = [
            (passage.start, passage.end)
            for passage in split(document, self.spec).passages
            if passage.field == "text"
            and len(document.text[passage.start : passage.end].split()) >= MIN_REMAINING_WORDS
        ]
        return windows[int(random.integers(len(windows)))] if windows else None


def rank_one(run: Run, queries_by_id: Mapping[str, GeneratedQuery]) -> dict[str, float]:
    """The share of queries whose document comes first: of all, and by what they are made of."""
    firsts = ((queries_by_id[name], run.ranking(n)) for n, name in enumerate(run.queries.ids))
    return _shares(
        (query.form, ranking.docs.take(ranking.doc[:1]) == [query.origin.doc_id])
        for query, ranking in firsts
    )


def rank_one_without(
    run: Run, queries_by_id: Mapping[str, GeneratedQuery], own: Mapping[str, float]
) -> dict[str, float]:
    """The same if the texts that queries were taken from were indexed without them."""
    right = []
    for name, score in own.items():
        query = queries_by_id[name]
        other_scores = [other_score for doc, other_score in run[name] if doc != query.origin.doc_id]
        right.append((query.form, score > max(other_scores, default=0.0)))
    return _shares(right)


def _own_scores(
    run: Run, queries_by_id: Mapping[str, GeneratedQuery], lexical: Scorer, lookup: DocumentLookup
) -> dict[str, float]:
    """What the text of every query scores without the query."""
    docs = Ids.of(query.origin.doc_id for query in queries_by_id.values())
    none: Ints = np.empty(0, np.int32)
    groups, origins = [], {}
    for number, name in enumerate(run.queries.ids):
        query, titled = queries_by_id[name], queries_by_id[name].form != "title"
        doc = docs.numbers([query.origin.doc_id])
        groups.append(group_of(number, doc, none, "pool", spans=[query.answer], titled=titled))
        origins[number] = query.origin
    alone = as_examples(run.queries, docs, groups, "synthetic", {}, {}, origins)
    rows = np.arange(len(alone), dtype=np.int32)
    query_texts, texts = row_texts(alone, rows, lookup)
    scores = lexical.score(Pairs(query_texts, texts, np.stack([rows, rows], 1))).values
    return dict(zip(alone.queries.ids, scores.tolist(), strict=True))


def _passage_text(document: Document, span: Span, *, titled: bool) -> str:
    end = len(document.text) if span[1] == TO_THE_END else span[1]
    return text_of(document, Passage(document.id, 0, span[0], end), "every" if titled else "never")


def _shares(right: Iterable[tuple[str, bool]]) -> dict[str, float]:
    outcomes: dict[str, list[bool]] = {"all": []}
    for name, is_right in right:
        outcomes["all"].append(is_right)
        outcomes.setdefault(name, []).append(is_right)
    return {name: round(float(np.mean(is_right)), 4) for name, is_right in outcomes.items()}
