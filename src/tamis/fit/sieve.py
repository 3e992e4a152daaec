"""A sieve: one folder with an index, the chosen pipeline, its models and the report.

It is what `tamis fit` hands over, and all there is to search with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from tamis.collection.opening import read_queries
from tamis.fit.calibrate import Calibration
from tamis.manifest import expect
from tamis.models.folder import open_scorer, verify_model
from tamis.pipeline.hybrid import VECTORS, WORDS, words_and_vectors
from tamis.pipeline.rerank import Rerank, rerank
from tamis.search import Index
from tamis.search.choice import chosen_source
from tamis.search.index import verify
from tamis.search.vectors import for_documents
from tamis.types import Encoder, Queries, Query, Run, Scorer, Source, Spec

KIND, LAYOUT = "sieve", 2
GIVEN, HYBRID = "first stage", "hybrid"
INDEX, MODEL, ENCODER, QUERIES, REPORT = "index", "model", "encoder", "queries.jsonl", "report.html"
DEEP = 1000
"""How many documents the first stage finds."""


@dataclass(frozen=True)
class Hit:
    """A document found, and how likely it is the answer where that could be calibrated."""

    id: str
    score: float
    probability: float | None
    title: str
    text: str


@dataclass(frozen=True, eq=False)
class Pipeline:
    """How a sieve ranks: what finds documents, and what puts them in order."""

    first: str
    """`BM25`, `hybrid` where vectors are searched too, or `first stage` for the user's own, in
    whose place BM25 is searched here."""
    depth: int
    model: bool
    """Whether documents are re-ranked, or at least scored to tell how sure an answer is."""
    interpolate: float | None = None
    """How much the model counts beside what it is fused with; 0 where it only tells that, and the
    first stage's order stays."""
    passages: str = "whole"
    aggregate: str = "max"
    vectors: float | None = None
    """How much vectors count in a hybrid."""
    fused_score: Literal["lexical", "previous"] = "lexical"
    """Which score of a hybrid the model is fused with: BM25's, or the hybrid's own."""

    @property
    def lexical_column(self) -> str | None:
        """The column that has the score the model is fused with, if that is not the run's own."""
        lexical = self.first == HYBRID and self.fused_score == "lexical"
        return WORDS if self.interpolate and lexical else None

    def spec(self) -> Spec:
        """Plain JSON."""
        return dict(vars(self))


def first_stage(
    index: Index,
    kind: str,
    encoder: Encoder | None = None,
    threads: int | None = None,
    vectors: float | None = None,
) -> Source:
    """BM25 as tuned, alone or with vectors."""
    words = chosen_source(index, "bm25", rm3=False, threads=threads)
    if kind != HYBRID or encoder is None:
        return words
    share = VECTORS if vectors is None else vectors
    return words_and_vectors(words, index.dense(encoder, threads), share)


@dataclass(frozen=True, eq=False)
class Sieve:
    """A sieve that is open; made by `load_sieve`."""

    path: Path
    note: Mapping[str, Any]
    index: Index
    threads: int | None = None

    @cached_property
    def pipeline(self) -> Pipeline:
        """How it ranks."""
        return Pipeline(**self.note["pipeline"])

    @cached_property
    def scorer(self) -> Scorer | None:
        """What re-ranks, if anything does."""
        if not self.pipeline.model:
            return None
        return open_scorer(self.path / MODEL, threads=self.threads)

    @cached_property
    def first(self) -> Source:
        """The first stage."""
        encoder = None
        if self.pipeline.first == HYBRID:
            folder = self.path / ENCODER  # there where the model does not bring it
            given = open_scorer(folder, threads=self.threads) if folder.is_dir() else None
            encoder = cast(Encoder, given or for_documents(cast(Encoder, self.scorer)))
        how = self.pipeline
        return first_stage(self.index, how.first, encoder, self.threads, how.vectors)

    @cached_property
    def stage(self) -> Rerank | None:
        """The re-ranking, if there is one."""
        if self.scorer is None:
            return None
        how = self.pipeline
        return rerank(
            self.scorer,
            self.index,
            passages=how.passages,
            aggregate=how.aggregate,
            depth=how.depth,
            interpolate=how.interpolate,
            missing="skip",
            model=MODEL,
            beside=how.lexical_column,
        )

    @cached_property
    def source(self) -> Source:
        """Everything: queries in, the ranking out."""
        found, how = self.first % max(DEEP, self.pipeline.depth), self.pipeline
        needless = how.interpolate == 0 and self.calibration is None
        return found if self.stage is None or needless else found >> self.stage

    @cached_property
    def calibration(self) -> Calibration | None:
        """From scores to probabilities, where judgements allowed it."""
        record = self.note.get("calibration")
        return Calibration.of_record(record) if record else None

    @cached_property
    def queries(self) -> Queries | None:
        """The queries that were there and that nobody has judged."""
        path = self.path / QUERIES
        return read_queries(path) if path.is_file() else None

    @property
    def verified(self) -> bool:
        """Whether what it ranks was tested on judged queries."""
        return self.note.get("verified") == "yes"

    @property
    def is_own(self) -> bool:
        """Whether it searches with the first stage that it was tested with, and not with BM25 in
        place of the user's own: then `tamis rerank RUN --model SIEVE` is what was tested.
        """
        return self.pipeline.first != GIVEN

    def search(self, text: str, top: int = 10) -> list[Hit]:
        """The best documents for some words."""
        run = self.source.search(Queries.of([Query("q", text)]), top)
        chances = self.probabilities(run)
        found = []
        for number, (name, score) in enumerate(run["q"]):
            document = self.index.document(name)
            chance = None if chances is None else chances[number]
            found.append(Hit(name, score, chance, document.title, document.text))
        return found

    def probabilities(self, run: Run) -> list[float] | None:
        """How likely each row of a run of this sieve is an answer; None without a calibration."""
        from tamis.fit.options import features

        if self.calibration is None:
            return None
        rows = features(run, self.pipeline.first == "BM25")
        found: list[float] = self.calibration.probability(rows).tolist()
        return found

    def __repr__(self) -> str:
        return f"<Sieve {self.path.name}: {self.index.documents:,} documents>"


def load_sieve(path: Path | str, *, threads: int | None = None) -> Sieve:
    """A sieve that `tamis fit` wrote."""
    folder = Path(path)
    note = expect(folder, KIND, LAYOUT)
    return Sieve(folder, note, Index.open(folder / INDEX), threads)


def verify_sieve(path: Path) -> None:
    """Read all bytes of a sieve's index and models; `DamagedError` names the first changed file."""
    expect(path, KIND, LAYOUT)
    verify(path / INDEX)
    for name in (MODEL, ENCODER):
        if (path / name).is_dir():
            verify_model(path / name)
