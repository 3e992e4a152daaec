"""The texts that a run finds for its queries, whole or by passages, and how a scorer scores them.

What cannot be a candidate (a document without a text, a query without one, a document that is not
in the collection, with `missing="skip"`) is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis import __version__
from tamis.durable import Progress
from tamis.errors import InputError
from tamis.labels.examples import (
    LABEL_SOURCES,
    LABEL_TYPES,
    ROLES,
    TO_THE_END,
    Examples,
    LabelSource,
    LabelType,
)
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import (
    DocumentLookup,
    Documents,
    missing_document_error,
    open_lookup,
)
from tamis.pipeline.passage_scores import DOCUMENTS_PER_FETCH, PassageScorer, token_spans
from tamis.text.passages import PassageSpec, Tokens, parse_spec, split, text_of
from tamis.types import Document, Run, Scorer

Rows = NDArray[np.int64]
Missing = Literal["raise", "skip"]


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts by reference, ascending by the `row` of the run whose document they are of."""

    row: Rows
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    titled: NDArray[np.bool_]
    digest: NDArray[np.uint64]
    """A hash of what a scorer reads: equal texts have equal ones."""

    def __len__(self) -> int:
        return len(self.row)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.integer[Any]]) -> Texts:
        """Some of them."""
        return Texts(**{column.name: getattr(self, column.name)[rows] for column in fields(self)})


def join_texts(first: Texts, second: Texts) -> tuple[Texts, Rows]:
    """Both together in the order of their rows, and the place each had in one after the other."""
    both = {
        column.name: np.concatenate([getattr(first, column.name), getattr(second, column.name)])
        for column in fields(Texts)
    }
    order = np.argsort(both["row"], kind="stable")
    return Texts(**both).select(order), order


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows of a run that can be labelled, and where their documents are read."""

    run: Run
    rows: Rows
    spec: PassageSpec
    lookup: DocumentLookup
    tokens: Tokens | None
    seed: int
    counts: dict[str, int] = field(default_factory=dict)
    """How much was left out or truncated, by reason."""

    @cached_property
    def query(self) -> Rows:
        """The number of the query of every row of the run."""
        return np.repeat(np.arange(len(self.run)), self.run.sizes())

    def texts(self, rows: Rows) -> Texts:
        """The texts of the documents of these rows (ascending); each document is split once."""
        distinct, which = np.unique(self.run.doc[rows], return_inverse=True)
        spans: list[tuple[int, int, bool, int]] = []
        ends = [0]
        with Progress("splitting", len(distinct), "documents") as progress:
            for begin in range(0, len(distinct), DOCUMENTS_PER_FETCH):
                documents = self.lookup.fetch(
                    self.run.docs.take(distinct[begin : begin + DOCUMENTS_PER_FETCH])
                )
                for document in documents:
                    spans.extend(self._split(document))
                    ends.append(len(spans))
                progress.advance(len(documents))
        offsets = np.array(ends, np.int64)
        sizes = np.diff(offsets)[which]
        self._count("left out: documents without text", int((sizes == 0).sum()))
        into = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = into + np.repeat(offsets[:-1][which], sizes)
        start, end, titled, digest = _columns(spans)
        return Texts(np.repeat(rows, sizes), start[place], end[place], titled[place], digest[place])

    def _split(self, document: Document) -> Iterator[tuple[int, int, bool, int]]:
        """Start, end, whether the title stands before it, and the hash of each text."""
        split_document = split(document, self.spec, tokens=self.tokens, seed=self.seed)
        self._count("left out: words in no passage", split_document.left_out)
        for passage in split_document.passages:
            text = text_of(document, passage, self.spec.title)
            digest = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
            if self.spec.unit == "whole" or passage.field == "title":
                yield 0, TO_THE_END, True, digest
            else:
                titled = self.spec.title == "every" or passage.number == 0
                yield passage.start, passage.end, titled, digest

    def _count(self, name: str, count: int) -> None:
        if count:
            self.counts[name] = self.counts.get(name, 0) + count

    def score(
        self, texts: Texts, scorer: Scorer, cache: ScoreCache | None = None
    ) -> NDArray[np.float32]:
        """The scores of texts, which must be all texts of their rows."""
        rows = np.unique(texts.row)
        passages = PassageScorer(scorer, self.spec, self.lookup, cache, self.seed)
        values = np.empty(len(texts), np.float32)
        scored = computed = truncated_tokens = 0
        with Progress("scoring", len(texts), "texts") as progress:
            for batch in passages.score(self.run, rows):
                values[scored : scored + len(batch.values)] = batch.values
                scored, computed = scored + len(batch.values), computed + batch.computed
                truncated_tokens += int((batch.truncated_tokens > 0).sum())
                progress.total = computed + len(texts) - scored
                progress.advance(batch.computed)
        self._count("texts cut to fit the scorer", truncated_tokens)
        return values

    def examples(
        self,
        texts: Texts,
        value: NDArray[Any],
        role: NDArray[np.int8],
        *,
        source: LabelSource,
        kind: LabelType,
        facts: Mapping[str, Any],
        counts: Mapping[str, int],
    ) -> Examples:
        """These texts as examples, one group per query."""
        queries, group = np.unique(self.query[texts.row], return_inverse=True)
        used, doc = np.unique(self.run.doc[texts.row], return_inverse=True)
        count = len(texts)
        roles = {str(name): int((role == number).sum()) for number, name in enumerate(ROLES)}
        totals: dict[str, int] = {"queries": len(queries), "documents": len(used)}
        all_counts = {**totals, **roles, **counts, **self.counts}
        return Examples(
            self.run.queries.select(queries),
            self.run.docs.select(used),
            group.astype(np.int32),
            group.astype(np.int32),
            doc.astype(np.int32),
            texts.start,
            texts.end,
            texts.titled,
            value.astype(np.float32),
            role,
            np.full(count, LABEL_SOURCES.index(source), np.int8),
            np.full(count, LABEL_TYPES.index(kind), np.int8),
            facts={
                **facts,
                **self.spec.record(),
                "seed": self.seed,
                "counts": {what: count for what, count in all_counts.items() if count},
                "tamis": __version__,
            },
        )


@contextmanager
def open_candidates(
    run: Run,
    documents: Documents,
    passages: str | PassageSpec,
    *,
    depth: int,
    scorer: Scorer | None = None,
    missing: Missing = "raise",
    seed: int = 0,
) -> Iterator[Candidates]:
    """The first `depth` documents of every query, for as long as the block lasts."""
    if depth < 1:
        raise InputError(f"cannot label the first {depth}", hint="label one at least")
    if run.queries.texts is None:
        raise InputError(
            "the queries of the run have no texts",
            hint="add them: --queries FILE (run.with_queries(queries))",
        )
    spec = parse_spec(passages) if isinstance(passages, str) else passages
    tokens = None if scorer is None else token_spans(scorer)
    rows = np.flatnonzero(run.ranks() <= depth)
    with open_lookup(documents, run.docs.select(np.unique(run.doc[rows]))) as lookup:
        counts: dict[str, int] = {}
        rows = _usable(run, rows, lookup, missing, counts)
        yield Candidates(run, rows, spec, lookup, tokens, seed, counts)


def _usable(
    run: Run, rows: Rows, lookup: DocumentLookup, missing: Missing, counts: dict[str, int]
) -> Rows:
    """Those of the rows whose query has a text and whose document is there."""
    has_text = np.array([bool(text.strip()) for text in run.queries.texts or ()], bool)
    empty = int((~has_text & (run.sizes() > 0)).sum())
    rows = rows[np.repeat(has_text, run.sizes())[rows]]
    doc_numbers = np.unique(run.doc[rows])
    in_collection = np.zeros(len(run.docs), bool)
    in_collection[doc_numbers] = lookup.has(run.docs.select(doc_numbers))
    absent = rows[~in_collection[run.doc[rows]]]
    if len(absent) and missing == "raise":
        raise missing_document_error(run, absent, "leaves them out")
    counts["excluded_queries_without_text"] = empty
    counts["excluded_documents_not_in_the_collection"] = len(absent)
    return rows[in_collection[run.doc[rows]]]


def same_role(count: int, role: Literal["positive", "negative", "pool"]) -> NDArray[np.int8]:
    """One role for so many rows."""
    return np.full(count, ROLES.index(role), np.int8)


def _columns(
    spans: list[tuple[int, int, bool, int]],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_], NDArray[np.uint64]]:
    return (
        np.array([start for start, *_ in spans], np.int32),
        np.array([end for _, end, *_ in spans], np.int32),
        np.array([titled for *_, titled, _ in spans], bool),
        np.array([digest for *_, digest in spans], np.uint64),
    )
