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
from tamis.labels._groups import Group, Ints, as_examples, drawn, generator, group_of
from tamis.labels.example_texts import row_texts
from tamis.labels.examples import TO_THE_END, Examples, Role
from tamis.labels.query_generation import (
    LEAST_LEFT,
    MADE,
    Made,
    MadeQuery,
    body_start,
    make_queries,
    read_headings,
)
from tamis.pipeline.document_lookup import Documents, Library, library
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
    made_of: Sequence[Made] = MADE,
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
    spec, read = parse_spec(passages), read_headings(documents)
    with library(documents, Ids.of(read.names)) as opened:
        made = make_queries(opened, read, count, made_of, spec, seed)
        if not made:
            raise InputError(
                f"no query can be made from {len(read.names):,} documents",
                hint="it takes titles that no other document has, or texts of several sentences",
            )
        queries = Queries.of(Query(each.id, each.text) for each in made)
        run = source.search(queries, depth)
        by_id = {each.id: each for each in made}
        facts: dict[str, Any] = {"depth": depth, "seed": seed, "asked for": count}
        least: Least | None = None
        if isinstance(source, IndexSource):
            lexical = Lexical(source.index, source.ranking)
            least = Least(lexical, _own_scores(run, by_id, lexical, opened))
        drawing = _Drawing(opened, run, spec, negatives_per_query, seed, least)
        examples = drawing.examples(by_id, facts)
        if least is None:
            return examples
        share = rank_one_without(run, by_id, least.own)
        return replace(examples, facts={**examples.facts, "and with the query taken out": share})


@dataclass(frozen=True)
class Least:
    """What a negative has to score below: its query's own text, without the query."""

    scorer: Scorer
    own: Mapping[str, float]

    def below(self, query: MadeQuery, texts: Sequence[str]) -> list[bool]:
        """Which texts do."""
        if not texts:
            return []
        found = score_texts(self.scorer, query.text, texts) < self.own[query.id]
        return [bool(each) for each in found]


@dataclass(frozen=True)
class _Drawing:
    """Chooses negatives, which are read for it."""

    opened: Library
    run: Run
    spec: PassageSpec
    count: int | None
    seed: int
    least: Least | None

    def examples(self, made: Mapping[str, MadeQuery], facts: Mapping[str, Any]) -> Examples:
        """A group for every query for which something else than its document was found."""
        counts: Counter[str] = Counter()
        groups: list[Group] = []
        docs = self.run.docs.union(Ids.of(each.origin.doc_id for each in made.values()))
        with Progress("choosing negatives", len(self.run), "queries") as progress:
            for number, name in enumerate(self.run.queries.ids):
                progress.advance()
                group = self._group(number, made[name], docs)
                if group is None:
                    counts["left out: queries without a negative"] += 1
                    continue
                counts[f"made of a {made[name].made}"] += 1
                groups.append(group)
        if not groups:
            raise InputError(
                "the first stage finds nothing to set against any query made",
                hint="are there other documents in the index, and enough that are about the same?",
            )
        how = {
            "made by": "synthetic",
            "passages": str(self.spec),
            "negatives per query": self.count,
            **facts,
            "first stage has it at rank 1": rank_one(self.run, made),
        }
        origins = {n: made[name].origin for n, name in enumerate(self.run.queries.ids)}
        return as_examples(self.run.queries, docs, groups, "synthetic", how, counts, origins)

    def _group(self, number: int, query: MadeQuery, docs: Ids) -> Group | None:
        negatives = self._negatives(number, query)
        if not negatives:
            return None
        found = docs.numbers([query.origin.doc_id, *(name for name, _ in negatives)])
        role: Role = "pool" if self.count is None else "negative"
        spans = [query.answer, *(span for _, span in negatives)]
        return group_of(
            number, found[:1], found[1:], role, spans=spans, titled=query.made != "title"
        )

    def _negatives(self, number: int, query: MadeQuery) -> list[tuple[str, Span]]:
        """Documents and the characters of them that are negative."""
        random = generator(self.seed, query.id)
        found: Ints = self.run.ranking(number).doc
        order = drawn(found, None if self.count is None else len(found), random)
        names = [name for name in self.run.docs.take(order) if name != query.origin.doc_id]
        wanted = self.count or len(names) or 1
        chosen: list[tuple[str, Span]] = []
        for begin in range(0, len(names), wanted):
            some = [(document, self._span(document, query, random))
                    for document in self.opened.fetch(names[begin : begin + wanted])]  # fmt: skip
            spans = [(document, span) for document, span in some if span is not None]
            if self.least is not None:
                texts = [_passage_text(*each, titled=query.made != "title") for each in spans]
                spans = list(compress(spans, self.least.below(query, texts)))
            chosen += [(document.id, span) for document, span in spans]
            if len(chosen) >= wanted:
                break
        return chosen[:wanted]

    def _span(
        self, document: Document, query: MadeQuery, random: np.random.Generator
    ) -> Span | None:
        """The characters of a document that are negative; none where it says the same."""
        if query.made == "title":
            begin = body_start(document)
            return (begin, TO_THE_END) if document.text[begin:].strip() else None
        if query.text in document.text:
            return None
        windows = [
            (each.start, each.end)
            for each in split(document, self.spec).passages
            if each.field == "text"
            and len(document.text[each.start : each.end].split()) >= LEAST_LEFT
        ]
        return windows[int(random.integers(len(windows)))] if windows else None


def rank_one(run: Run, made: Mapping[str, MadeQuery]) -> dict[str, float]:
    """The share of queries whose document comes first: of all, and by what they are made of."""
    firsts = ((made[name], run.ranking(n)) for n, name in enumerate(run.queries.ids))
    return _shares(
        (query.made, found.docs.take(found.doc[:1]) == [query.origin.doc_id])
        for query, found in firsts
    )


def rank_one_without(
    run: Run, made: Mapping[str, MadeQuery], own: Mapping[str, float]
) -> dict[str, float]:
    """The same if the texts that queries were taken from were indexed without them."""
    right = []
    for name, score in own.items():
        query = made[name]
        others = [other for doc, other in run[name] if doc != query.origin.doc_id]
        right.append((query.made, score > max(others, default=0.0)))
    return _shares(right)


def _own_scores(
    run: Run, made: Mapping[str, MadeQuery], lexical: Scorer, opened: Library
) -> dict[str, float]:
    """What the text of every query scores without the query."""
    docs = Ids.of(each.origin.doc_id for each in made.values())
    none: Ints = np.empty(0, np.int32)
    groups, origins = [], {}
    for number, name in enumerate(run.queries.ids):
        query, titled = made[name], made[name].made != "title"
        doc = docs.numbers([query.origin.doc_id])
        groups.append(group_of(number, doc, none, "pool", spans=[query.answer], titled=titled))
        origins[number] = query.origin
    alone = as_examples(run.queries, docs, groups, "synthetic", {}, {}, origins)
    rows = np.arange(len(alone), dtype=np.int32)
    asked, texts = row_texts(alone, rows, opened)
    found = lexical.score(Pairs(asked, texts, np.stack([rows, rows], 1))).values
    return dict(zip(alone.queries.ids, found.tolist(), strict=True))


def _passage_text(document: Document, span: Span, *, titled: bool) -> str:
    end = len(document.text) if span[1] == TO_THE_END else span[1]
    return text_of(document, Passage(document.id, 0, span[0], end), "every" if titled else "never")


def _shares(right: Iterable[tuple[str, bool]]) -> dict[str, float]:
    found: dict[str, list[bool]] = {"all": []}
    for name, each in right:
        found["all"].append(each)
        found.setdefault(name, []).append(each)
    return {name: round(float(np.mean(each)), 4) for name, each in found.items()}
