"""Why a document stands where it stands: one query, one pipeline, one document or two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.explain.breakdown import breakdown
from tamis.explain.differences import difference
from tamis.explain.features import feature_contributions
from tamis.explain.fusion import (
    fusion_settings,
    hybrid_parts,
    hybrid_scales,
    stage_parts,
    stage_scales,
)
from tamis.explain.hints import Hints, hints_of
from tamis.explain.notes import MAX_WORDS, matched_terms, notes_of
from tamis.explain.passage import BestPassage, best_passage
from tamis.explain.rescore import Rescored, can_rescore, rescore
from tamis.explain.sentences import sentence_parts
from tamis.explain.terms import WeightedQuery, forms_of, without_term
from tamis.explain.trace import Step, row_of, trace
from tamis.pipeline.bert3s import ThreeSentences
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.rerank import Rerank
from tamis.search import Index, default_source
from tamis.search.dense import DenseSource
from tamis.search.hits import lexical_score
from tamis.search.sources import IndexSource
from tamis.types import Document, Ids, Queries, Query, Run, Source
from tamis.types.columns import MODEL_SCORE, PASSAGE, TRUNCATED_TOKENS
from tamis.types.conditions import Where, as_conditions
from tamis.types.explanation import (
    Explanation,
    FusionPart,
    LexicalFacts,
    Neighbour,
    StageResult,
    TermPart,
    WordEffect,
)


@dataclass(frozen=True)
class ShownScores:
    """From the rows of a run to scores from 0 to 1, as hits have them."""

    scores: Callable[[Run], NDArray[np.float64]]
    calibrated: bool = False
    threshold: float | None = None


def explain_index(
    index: Index,
    query: str,
    doc_id: str | None = None,
    other: str | None = None,
    where: Where = (),
) -> Explanation:
    """The explanation of a result of the ranking that `index.search` uses; see `Index.explain`."""
    scale = ShownScores(lambda run: lexical_score(run.score))
    source = default_source(index).where(*as_conditions(where))
    return explain_result(source, index, query, doc_id, other, scale=scale)


def explain_result(
    source: Source,
    index: Index,
    query: str,
    doc_id: str | None = None,
    other: str | None = None,
    *,
    scale: ShownScores | None = None,
    system: str | None = None,
) -> Explanation:
    """Why a document (the first hit by default) stands where it stands in `source`'s ranking.

    Against an `other` document every contribution is compared. A document outside the candidates
    is scored on their scale and has no rank. `system` is what people call the pipeline.

    >>> from tempfile import mkdtemp
    >>> index = Index.build({"a": "a drum sieve", "b": "a net"}, mkdtemp() + "/index")
    >>> found = explain_result(index.bm25(), index, "sieve net", "a")
    >>> [(part.term, part.status) for part in found.terms]
    [('siev', 'matched'), ('net', 'missing')]
    """
    asked = Search.of(source, index, query)
    return explain_search(asked, doc_id, other, scale=scale, system=system)


def explain_search(
    asked: Search,
    doc_id: str | None = None,
    other: str | None = None,
    *,
    scale: ShownScores | None = None,
    system: str | None = None,
) -> Explanation:
    """The same for a search that was made already, of which several results may be explained."""
    document = asked.document(doc_id)
    if document.id == other:
        raise InputError(f"document {other!r} is compared with itself", hint="name another one")
    this = asked.standing(document)
    found = replace(asked.explain(this, scale, words=True), system=system)
    if other is None:
        return found
    that = asked.standing(asked.document(other))
    beside = asked.explain(that, scale, words=False)
    breakdowns = asked.breakdown(this, found), asked.breakdown(that, beside)
    return replace(found, against=difference(found, beside, breakdowns))


@dataclass(frozen=True, eq=False)
class Standing:
    """A document, and where the pipeline placed it: in a row of its last run, or scored anew."""

    document: Document
    row: int | None
    rescored: Rescored | None

    def scores(self, steps: Sequence[Step]) -> list[float | None]:
        """Its score after each step; None where a step did not give it."""
        scores: list[float | None] = []
        for number, step in enumerate(steps):
            row = row_of(step.run, self.document.id)
            if row is not None:
                scores.append(float(step.run.score[row]))
            elif self.rescored is not None:
                scores.append(float(self.rescored.after[number][0]))
            else:
                scores.append(None)
        return scores


@dataclass(frozen=True, eq=False)
class Search:
    """A query, and what every step of a pipeline made of it."""

    index: Index
    query: str
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, source: Source, index: Index, query: str) -> Search:
        """Search once, step by step."""
        if not query.strip():
            raise InputError("the query is empty", hint="explain what was searched for")
        return cls(index, query, tuple(trace(source, Queries.of([Query("q", query)]))))

    @property
    def run(self) -> Run:
        """What the last step gives."""
        return self.steps[-1].run

    @cached_property
    def can_rescore(self) -> bool:
        """Whether a text that is no candidate can be scored."""
        return can_rescore(self.steps)

    @cached_property
    def lexical(self) -> WeightedQuery | None:
        """The query as the lexical source of the pipeline searches for it, if there is one."""
        sources = (source for source in self._sources if isinstance(source, IndexSource))
        lexical = next(sources, None)
        return None if lexical is None else WeightedQuery.of(lexical, self.query)

    @cached_property
    def words(self) -> WeightedQuery:
        """The words that are taken out: as the lexical source reads them, else as BM25 does."""
        return self.lexical or WeightedQuery.of(self.index.bm25(), self.query)

    @cached_property
    def _scorer(self) -> object | None:
        """The model that scores last, if one does: a re-ranker's, else the embeddings'."""
        rerankers = [step.of for step in self.steps if isinstance(step.of, Rerank)]
        if rerankers:
            return rerankers[-1].scorer
        dense = [source for source in self._sources if isinstance(source, DenseSource)]
        return dense[0].encoder if dense else None

    @cached_property
    def _sources(self) -> tuple[Source, ...]:
        """What finds documents, of a hybrid each of its sources."""
        first = self.steps[0].of
        if isinstance(first, Hybrid):
            return first.sources
        return (first,) if isinstance(first, Source) else ()

    def document(self, doc_id: str | None) -> Document:
        """The document with an id; the first hit without one."""
        if doc_id is None:
            if not len(self.run.doc):
                raise InputError(
                    "nothing was found: there is no first hit to explain",
                    hint="name a document by its id to see what it lacks",
                )
            doc_id = self.run.docs[int(self.run.doc[0])]
        document = self.index.snapshot.find(doc_id)
        if document is None:
            raise InputError(
                f"there is no document {doc_id!r} in {self.index.path}",
                hint="ids are those that a search prints",
            )
        return document

    def standing(self, document: Document) -> Standing:
        """Where a document stands."""
        row = row_of(self.run, document.id)
        return Standing(document, row, None if row is not None else self._rescored(document))

    def explain(self, of: Standing, scale: ShownScores | None, *, words: bool) -> Explanation:
        """The explanation of one document, without a comparison."""
        document, row, rescored = of.document, of.row, of.rescored
        score = float(self.run.score[row] if rescored is None else rescored.score[0])
        unscored = self._unscored_by(of)
        lexical, terms = self._terms(document)
        one = self._row(document, row, rescored)
        parts = self._parts(document, rescored)
        best = best_passage(self.steps, self.query, document, self.index, one)
        matched = matched_terms(self.words.parts(self.index.document_vector(document.id)))
        effects = self._words(document, score, matched) if words and not unscored else ()
        hints = self._hints(best) if effects else Hints()
        return Explanation(
            self.query, document.id, document.title, None if row is None else row + 1, score,
            None if scale is None else self._shown(scale, one, row if unscored else None),
            scale is not None and scale.calibrated and not unscored,
            None if scale is None else scale.threshold,
            None, self._stages(of), parts, lexical, terms, best.facts, best.truncated_tokens,
            hints.beside(effects), feature_contributions(self.steps, document.id),
            self._neighbours(row), None,
            notes_of(self, of, terms, len(matched), unscored, hints.why_not),
        )  # fmt: skip

    def breakdown(self, of: Standing, found: Explanation) -> dict[str, float]:
        """What adds up to the score of an explained document, by name."""
        unscored = self._unscored_by(of)
        if unscored:
            return {f"order below {unscored}": found.score}
        return breakdown(self.steps, of.scores(self.steps), found.parts, found.features)

    def _shown(self, scale: ShownScores, alone: Run, unscored_row: int | None) -> float:
        """The score that a hit has; where no model scored it, it has that beside those scored."""
        if unscored_row is None:
            return float(scale.scores(alone)[0])
        keep = self.run.extra[PASSAGE] >= 0
        keep[unscored_row] = True
        return float(scale.scores(self.run.rows(keep))[keep[:unscored_row].sum()])

    def _unscored_by(self, of: Standing) -> str:
        """The name of the last model, where it left the document below those that it scored."""
        step = next((step for step in reversed(self.steps) if isinstance(step.of, Rerank)), None)
        row = None if step is None or of.row is None else row_of(step.run, of.document.id)
        if step is None or row is None or step.run.extra[PASSAGE][row] >= 0:
            return ""
        return step.name

    def _hints(self, best: BestPassage) -> Hints:
        if self._scorer is None or best.facts is None:
            return Hints()
        return hints_of(self._scorer, self.query, best.text_read, self.index.analyzer)

    def _neighbours(self, row: int | None) -> tuple[Neighbour, ...]:
        """The documents above and below."""
        if row is None:
            return ()
        rows = [place for place in (row - 1, row + 1) if 0 <= place < len(self.run.doc)]
        neighbours = []
        for place in rows:
            doc_id, score = self.run.docs[int(self.run.doc[place])], float(self.run.score[place])
            document = self.index.snapshot.find(doc_id)
            title = "" if document is None else document.title
            difference = float(self.run.score[row]) - score
            neighbours.append(Neighbour(doc_id, title, place + 1, score, difference))
        return tuple(neighbours)

    def _rescored(self, document: Document) -> Rescored:
        if not self.can_rescore:
            last = self.steps[-1].name
            raise InputError(
                f"document {document.id!r} is not among the candidates, and {last} scores no other",
                hint="name one that the search finds, or retrieve more candidates",
            )
        return rescore(self.steps, self.query, [document])

    def _row(self, document: Document, row: int | None, rescored: Rescored | None) -> Run:
        """The document alone as a run with the columns of the pipeline."""
        if row is not None:
            keep = np.zeros(len(self.run.doc), bool)
            keep[row] = True
            return self.run.rows(keep)
        assert rescored is not None
        columns: dict[str, NDArray[Any]] = {
            PASSAGE: rescored.passages,
            TRUNCATED_TOKENS: rescored.truncated_tokens,
            **rescored.columns,
        }
        extra = {name: column for name, column in columns.items() if name in self.run.extra}
        return Run(
            self.run.queries, Ids.of([document.id]), np.array([0, 1]), np.zeros(1, np.int32),
            rescored.score.astype(np.float32), extra,
        )  # fmt: skip

    def _stages(self, of: Standing) -> tuple[StageResult, ...]:
        stages: list[StageResult] = []
        rank: int | None = None
        before: float | None = None
        for step, score in zip(self.steps, of.scores(self.steps), strict=True):
            row = row_of(step.run, of.document.id)
            after = None if row is None else row + 1
            stages.append(StageResult(step.name, rank, before, after, score, len(step.run.doc)))
            rank, before = after, score
        return tuple(stages)

    def _parts(self, document: Document, rescored: Rescored | None) -> tuple[FusionPart, ...]:
        parts: list[FusionPart] = []
        for step in self.steps:
            if rescored is not None:
                parts += _parts_outside(step, rescored, document.id)
            elif isinstance(step.of, Hybrid):
                parts += hybrid_parts(step, document.id)
            elif isinstance(step.of, Rerank) and isinstance(step.of.aggregate, ThreeSentences):
                parts += sentence_parts(step, document.id)
            else:
                parts += stage_parts(step, document.id)
        return tuple(parts)

    def _terms(self, document: Document) -> tuple[LexicalFacts | None, tuple[TermPart, ...]]:
        if self.lexical is None:
            return None, ()
        counts = self.index.document_vector(document.id)
        terms = self.lexical.parts(counts)
        return self.lexical.facts(counts, sum(part.contribution for part in terms)), terms

    def _words(
        self,
        document: Document,
        score: float,
        matched: Sequence[str],
    ) -> tuple[WordEffect, ...]:
        """The score without each matched word, all in one batch."""
        matched = matched[:MAX_WORDS]
        if not matched or not self.can_rescore:
            return ()
        source = self.words.source
        edited = [without_term(document, term, source) for term in matched]
        rescored = rescore(
            self.steps, self.query, edited, self._found(document.id), unweighted=False
        )
        return tuple(
            WordEffect(
                term,
                forms_of(document, term, source),
                float(rescored.score[n]),
                float(rescored.score[n]) - score,
                {name: float(values[n]) for name, values in rescored.parts.items()},
            )
            for n, term in enumerate(matched)
        )

    def _found(self, doc_id: str) -> list[bool] | None:
        """Of each source of a hybrid whether it found the document; None where none did."""
        found = [row_of(run, doc_id) is not None for run in self.steps[0].runs]
        return found if any(found) else None


def _parts_outside(step: Step, rescored: Rescored, doc_id: str) -> list[FusionPart]:
    """The parts of a fusion for a document that no source found."""
    if isinstance(step.of, Hybrid):
        scales = hybrid_scales(step.of, step.runs)
        lexical = {
            scale.name
            for scale, source in zip(scales, step.of.sources, strict=True)
            if isinstance(source, IndexSource)
        }
        raw = {scale.name: float(rescored.parts[scale.name][0]) for scale in scales}
        return [
            scale.part(
                step.name,
                None,
                None if scale.name in lexical and not raw[scale.name] else raw[scale.name],
                doc_id,
            )
            for scale in scales
        ]
    settings, scales = fusion_settings(step), stage_scales(step)
    if settings is None or not scales:
        return []
    scores = rescored.columns[settings[1]], rescored.columns[MODEL_SCORE]
    return [
        scale.part(step.name, None, float(np.nan_to_num(score[0])), doc_id)
        for scale, score in zip(scales, scores, strict=True)
    ]
