"""Re-ranking: the first documents of every query scored anew by their passages.

What is re-ranked stands first, by its new score. Everything else keeps its order below: what lies
deeper than `depth`, what the time did not suffice for, and what could not be scored (a document
without a text, or, where skipping was asked for, one that is not there or whose score is no
number). Its scores are the lowest new score less 1, 2, 3 and so on. A query of which nothing is
re-ranked keeps its scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis.durable import Progress
from tamis.errors import InputError
from tamis.pipeline import bert3s
from tamis.pipeline.aggregate import (
    Aggregated,
    Aggregation,
    aggregate,
    check_scale,
    parse_aggregation,
)
from tamis.pipeline.bert3s import ThreeSentences, parse_three_sentences
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import (
    DocumentLookup,
    Documents,
    missing_document_error,
    open_lookup,
)
from tamis.pipeline.documents import documents_spec
from tamis.pipeline.embedding_scores import (
    ProbedEncoder,
    StoredScores,
    as_probed_encoder,
    stored_scores,
)
from tamis.pipeline.passage_scores import PassageScorer, PassageScores
from tamis.pipeline.rerank_report import Reranked, ScoreBuffer
from tamis.pipeline.score_merge import interpolate_scores, place_unscored_below
from tamis.registry import NUMBER, Opening, Types, check_choice, check_keys, spec_of
from tamis.text.passages import PassageSpec, parse_spec
from tamis.types import Run, Scorer, Spec, Stage
from tamis.types.columns import MODEL_SCORE, PREVIOUS_SCORE
from tamis.types.pipeline import SPEC_VERSION

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rerank(Stage):
    """Re-ranks a run; made by `rerank`."""

    scorer: Scorer
    documents: Documents
    passages: PassageSpec
    aggregate: Aggregation | ThreeSentences
    depth: int
    interpolate: float | None = None
    cache: ScoreCache | None = None
    latency: float | None = None
    missing: Literal["raise", "skip"] = "raise"
    model: str = ""
    seed: int = 0
    fuse_with_column: str | None = None

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise InputError(f"cannot re-rank the first {self.depth}", hint="re-rank one at least")
        if self.interpolate is not None and not 0 <= self.interpolate <= 1:
            raise InputError(
                f"the re-ranker cannot weigh {self.interpolate:g}", hint="weigh it from 0 to 1"
            )
        if self.fuse_with_column is not None and self.interpolate is None:
            raise InputError("fuse_with_column needs a weight", hint="give interpolate too, 0 to 1")
        if self.latency is not None and (self.latency <= 0 or self.cache is not None):
            raise InputError(
                "a latency is above 0 and measured without a cache", hint="give one or the other"
            )
        if isinstance(self.aggregate, Aggregation):
            check_scale(self.aggregate, self.scorer.scale)
        elif self.interpolate is not None:
            raise InputError(
                f"{self.aggregate} weighs the first stage itself", hint="leave the other weight out"
            )

    def __call__(self, run: Run) -> Run:
        return self.rerank(run).run

    def spec(self) -> Spec:
        """See `Stage.spec`."""
        options = {
            "interpolate": self.interpolate,
            "latency": self.latency,
            "fuse_with_column": self.fuse_with_column,
        }
        plain = rerank_spec(
            spec_of("scorer", self.scorer),
            documents_spec(self.documents),
            self.passages,
            model=self.model or type(self.scorer).__name__,
            aggregate=str(self.aggregate),
            depth=self.depth,
            missing=self.missing,
            seed=self.seed,
        )
        return plain | {name: value for name, value in options.items() if value is not None}

    def rerank(self, run: Run) -> Reranked:
        """The run re-ranked, and what there is to say about it."""
        if self.fuse_with_column is not None and self.fuse_with_column not in run.extra:
            raise InputError(
                f"the run has no column {self.fuse_with_column!r}",
                hint=f"it has {', '.join(run.extra) or 'none'}; name one of these, or none",
            )
        buffer, seconds = self._score(run)
        scored = buffer.passage >= 0
        score = buffer.score
        if self.interpolate is not None:
            score = interpolate_scores(run, scored, score, self.interpolate, self.fuse_with_column)
        columns = {
            **run.extra,
            **({} if self.interpolate is None else {MODEL_SCORE: buffer.score}),
            PREVIOUS_SCORE: run.score,
            "passage": buffer.passage,
            "truncated_tokens": buffer.truncated_tokens,
            "row": np.arange(len(run.doc)),
        }
        placed = Run(
            run.queries,
            run.docs,
            run.offsets,
            run.doc,
            place_unscored_below(run, scored, score),
            columns,
        )
        extra = dict(placed.extra)
        row = extra.pop("row")
        after = Run._unchecked(
            placed.queries, placed.docs, placed.offsets, placed.doc, placed.score, extra
        )
        return Reranked(after, run, row, buffer, self, seconds)

    def _score(self, run: Run) -> tuple[ScoreBuffer, NDArray[np.float64] | None]:
        """Score the rows that are to be re-ranked; with a latency also the seconds per query."""
        buffer = ScoreBuffer.of(len(run.doc))
        if self.latency is not None:
            with self._open_scorer(run, buffer) as (scorer, rows):
                return buffer, self._score_within(self.latency, run, rows, scorer, buffer)
        for chunk in self.passage_scores(run, buffer):
            self._aggregate(run, chunk, buffer)
        return buffer, None

    def passage_scores(
        self, run: Run, buffer: ScoreBuffer | None = None
    ) -> Iterator[PassageScores]:
        """What the passages of the documents that are to be re-ranked score, chunk by chunk.

        `buffer` receives the counts of each chunk.
        """
        buffer = buffer or ScoreBuffer.of(len(run.doc))
        with (
            self._open_scorer(run, buffer) as (scorer, rows),
            Progress("re-ranking", unit="pairs") as progress,
        ):
            for chunk in scorer.score(run, rows):
                buffer.enter(chunk)
                rows_to_do = len(rows) - buffer.rows
                progress.total = buffer.computed + round(rows_to_do * buffer.pairs / buffer.rows)
                progress.advance(chunk.computed)
                yield chunk

    @contextmanager
    def _open_scorer(
        self, run: Run, buffer: ScoreBuffer
    ) -> Iterator[tuple[PassageScorer | StoredScores, Rows]]:
        """What scores passages, and the rows that are to be scored."""
        rows = np.flatnonzero(run.ranks() <= self.depth)
        doc_ids = run.docs.select(np.unique(run.doc[rows]))
        with open_lookup(self.documents, doc_ids) as lookup:
            rows = self._to_score(run, rows, lookup, buffer)
            skip = self.missing == "skip"
            stored = stored_scores(lookup, self.passages, self._encoder, skip)
            fresh = PassageScorer(self.scorer, self.passages, lookup, self.cache, self.seed, skip)
            yield stored or fresh, rows

    @cached_property
    def _encoder(self) -> ProbedEncoder | None:
        return as_probed_encoder(self.scorer)

    def _to_score(self, run: Run, rows: Rows, lookup: DocumentLookup, buffer: ScoreBuffer) -> Rows:
        """Those of the rows whose query has a text and whose document is there."""
        if run.queries.texts is None:
            raise InputError(
                "the queries of the run have no texts", hint="add them: run.with_queries(queries)"
            )
        has_text = np.array([bool(text.strip()) for text in run.queries.texts], bool)
        buffer.empty_queries = int((~has_text & (run.sizes() > 0)).sum())
        rows = rows[np.repeat(has_text, run.sizes())[rows]]
        documents = np.unique(run.doc[rows])
        exists = np.zeros(len(run.docs), bool)
        exists[documents] = lookup.has(run.docs.select(documents))
        absent = rows[~exists[run.doc[rows]]]
        if len(absent) and self.missing == "raise":
            raise missing_document_error(run, absent, "leaves them below")
        buffer.absent = len(absent)
        return rows[exists[run.doc[rows]]]

    def _score_within(
        self,
        seconds: float,
        run: Run,
        rows: Rows,
        scorer: PassageScorer | StoredScores,
        buffer: ScoreBuffer,
    ) -> NDArray[np.float64]:
        """Score each query's first documents for as long as it may take; how long each took."""
        took = np.zeros(len(run))
        bounds = np.searchsorted(rows, run.offsets)
        pace = 0.0
        for _ in scorer.score(run, rows[:1]):
            pass  # what is only done once is done before the clock starts
        with Progress("re-ranking", len(run), "queries") as progress:
            for query in range(len(run)):
                query_rows, start = rows[bounds[query] : bounds[query + 1]], perf_counter()
                num_scored = 0
                while count := affordable(seconds - took[query], pace, num_scored, len(query_rows)):
                    for chunk in scorer.score(run, query_rows[num_scored : num_scored + count]):
                        buffer.enter(chunk)
                        self._aggregate(run, chunk, buffer)
                    num_scored += count
                    took[query] = perf_counter() - start
                    pace = num_scored / took[query]
                progress.advance()
        return took

    def _aggregate(self, run: Run, chunk: PassageScores, buffer: ScoreBuffer) -> None:
        """Note the score and the winning passage of some rows."""
        best = self._aggregate_passages(chunk, run.score[chunk.rows])
        buffer.score[chunk.rows], buffer.passage[chunk.rows] = best.scores, best.passages

    def _aggregate_passages(self, chunk: PassageScores, first: NDArray[np.float32]) -> Aggregated:
        if isinstance(self.aggregate, ThreeSentences):
            return self.aggregate.aggregate(chunk, first, self.scorer.scale)
        return aggregate(
            chunk.offsets,
            chunk.values,
            self.aggregate,
            scale=self.scorer.scale,
            numbers=chunk.numbers,
        )


def rerank(
    scorer: Scorer,
    documents: Documents,
    *,
    passages: str | PassageSpec | None = None,
    aggregate: str | Aggregation | ThreeSentences = "max",
    depth: int = 100,
    interpolate: float | None = None,
    cache: ScoreCache | None = None,
    latency: float | None = None,
    missing: Literal["raise", "skip"] = "raise",
    model: str = "",
    seed: int = 0,
    fuse_with_column: str | None = None,
) -> Rerank:
    """A stage that re-ranks the first `depth` documents of every query.

    Documents are split into `passages` (default: `whole`; single sentences for `bert-3s`),
    each is scored, and `aggregate` makes one score of them. With `interpolate` w, the score is
    w times the re-ranker's and 1 - w times the first stage's, both put on 0 to 1 over the
    re-ranked documents of the query; `fuse_with_column` names the column of the run that has the
    latter (default: the score of the run). Scores are kept in `cache`. With `latency`, in seconds,
    each query is re-ranked as deep as that allows. A document of the run that is `missing`, or
    whose score is no number, is an error, or is left below. `model` is what the spec calls the
    scorer; `seed` draws passages where the spec samples them.

    The run has three columns more: `previous_score`, the score before; `passage`, the number of the
    passage that won (-1 where nothing was scored); `truncated_tokens`, how many did not fit. With
    `interpolate` also `model_score`, the re-ranker's own score.

    >>> from tamis.types import Document, Pairs, Queries, Query, Scores
    >>> class Shortness:
    ...     scale = "regression"
    ...     def score(self, pairs):
    ...         lengths = np.array([len(text) for text in pairs.texts], np.float32)
    ...         return Scores(-lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))
    >>> documents = [Document("a", "a long text"), Document("b", "short"), Document("c", "")]
    >>> run = Run.from_dict({"q": {"a": 9.0, "b": 7.0, "c": 5.0}})
    >>> run = run.with_queries(Queries.of([Query("q", "text")]))
    >>> list(rerank(Shortness(), documents, depth=2)(run)["q"])
    [('b', -5.0), ('a', -11.0), ('c', -12.0)]
    """
    how = _combination(aggregate) if isinstance(aggregate, str) else aggregate
    default = "sentences:1:1" if isinstance(how, ThreeSentences) else "whole"
    spec = passages or default
    return Rerank(
        scorer,
        documents,
        parse_spec(spec) if isinstance(spec, str) else spec,
        how,
        depth,
        interpolate,
        cache,
        latency,
        missing,
        model,
        seed,
        fuse_with_column,
    )


def rerank_spec(
    scorer: Spec,
    documents: Spec,
    passages: PassageSpec,
    *,
    model: str,
    depth: int,
    aggregate: str = "max",
    missing: Literal["raise", "skip"] = "raise",
    seed: int = 0,
) -> Spec:
    """The spec of a re-ranking by the scorer and of the documents that have these specs."""
    return {
        "stage": "rerank",
        "version": SPEC_VERSION,
        "model": model,
        "scorer": scorer,
        "documents": documents,
        **passages.record(),
        "aggregate": aggregate,
        "depth": depth,
        "missing": missing,
        "seed": seed,
    }


def _combination(text: str) -> Aggregation | ThreeSentences:
    return parse_three_sentences(text) if text.startswith(bert3s.NAME) else parse_aggregation(text)


_KEYS = {
    "model": str,
    "scorer": dict,
    "documents": dict,
    "passages": str,
    "aggregate": str,
    "depth": int,
    "missing": str,
    "seed": int,
}
_OPTIONAL: dict[str, Types] = {
    "sentences": str,
    "interpolate": NUMBER,
    "latency": NUMBER,
    "fuse_with_column": str,
}


def open_stage(values: Spec, opening: Opening) -> Rerank:
    """See `registry.OPENERS`."""
    check_keys("a re-ranking", values, _KEYS, _OPTIONAL)
    check_choice("missing", values["missing"], ("raise", "skip"))
    passages = parse_spec(values["passages"])
    splitter = passages.record().get("sentences")
    if values.get("sentences") != splitter:
        raise InputError(
            f"the spec was written where {values.get('sentences')} splits sentences, "
            f"here {splitter} does",
            hint="passages would be others: build the pipeline again",
        )
    unread = ("scorer", "documents", "passages", "sentences")
    return rerank(
        opening.scorer(values["scorer"]),
        opening.open("documents", values["documents"]),
        passages=passages,
        **{name: value for name, value in values.items() if name not in unread},
    )


def affordable(seconds: float, pace: float, scored: int, total: int) -> int:
    """How many more documents can be scored in the time left, at a pace of documents per second.

    Half of what seems possible at first, then most of the rest; the first is scored in any case.

    >>> affordable(0.2, 100.0, 0, 50), affordable(0.1, 100.0, 10, 50), affordable(0.001, 100, 9, 50)
    (10, 8, 0)
    """
    if not scored:
        return min(total, max(1, int(seconds * pace * 0.5)))
    return max(0, min(total - scored, int(seconds * pace * 0.8)))
