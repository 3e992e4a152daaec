"""A sieve: one folder with an index, the selected pipeline, its models and the report.

It is what a fit writes, and all there is to search with it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tamis.collection.objects import AnyDocuments, AnyQueries, as_queries
from tamis.collection.readers import read_queries
from tamis.collection.runs import read_run
from tamis.errors import DamagedError, InputError, UnknownKindError
from tamis.fitting.answer_features import features
from tamis.fitting.calibration import Calibration
from tamis.fitting.json_records import from_json
from tamis.fitting.lexical_scores import lexical_part, with_own_lexical_scores
from tamis.fitting.own_documents import rank_documents
from tamis.fitting.score_scale import ScoreScale
from tamis.fitting.sieve_layout import SIEVE_LAYOUT, cache_beside
from tamis.manifest import expect, read_manifest
from tamis.models.folder import verify_model
from tamis.models.ranked import Ranked
from tamis.pipeline.hybrid import Hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank
from tamis.registry import NO_OPENERS, Openers, Opening
from tamis.search import Index
from tamis.search.cached_encoder import DEFAULT_SIZE, CachedEncoder, open_cached_encoder
from tamis.search.dense import DenseSource
from tamis.search.embeddings import CountingEncoder, probe, same_encoder
from tamis.search.hits import Hit, make_hit, matching_passage, numbered_passage
from tamis.search.index import Changes, verify
from tamis.text.passages import parse_spec
from tamis.types import Document, Encoder, Passage, Queries, Query, Run, Source, Spec, Stage
from tamis.types.columns import PASSAGE
from tamis.types.conditions import Where, as_conditions
from tamis.types.explanation import Explanation

if TYPE_CHECKING:
    from tamis.explain.result import Search
    from tamis.fitting.result import FitResult

KIND = "sieve"
INDEX, MODEL, ENCODER, QUERIES = "index", "model", "encoder", "queries.jsonl"
REPORT, EVALUATION, RUNS = "report.html", "evaluation.json", "runs"
RETRIEVAL_DEPTH = 1000
"""How many documents the retriever finds at least."""
DEFAULT_FUSION_WEIGHT = 0.75
"""How much the model counts where a run of the user's own is re-ranked and no weight was tested."""
MAX_SEGMENTS = 10
"""An index with more is merged after an update."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pipeline:
    """How a sieve ranks."""

    retriever: str
    """The key of the kind of retriever that was selected; BM25 stands in for `user_run`."""
    source: Spec
    """What finds documents."""
    stage: Spec | None
    """What re-ranks them, or only scores them to tell how probable an answer is."""
    depth: int
    passages: str
    has_comparable_scores: bool = False
    """Whether the retriever's scores can be compared from query to query, as BM25's can."""
    score_scale: ScoreScale | None = None
    """From scores to 0 to 1, where there is no calibration."""

    @property
    def is_tested_retriever(self) -> bool:
        """Whether the retriever is the one that was tested, not BM25 in place of the user's."""
        return self.retriever != "user_run"


@dataclass(frozen=True, eq=False)
class Sieve:
    """A sieve that is open; made by `load_sieve`."""

    path: Path
    manifest: Mapping[str, Any]
    threads: int | None = None
    openers: Openers = field(default_factory=lambda: NO_OPENERS)
    """What opens stages and sources of one's own; see `tamis.open_stage`."""
    device: str = "auto"
    """Where its models run."""
    _lock: RLock = field(default_factory=RLock, repr=False)
    """Held while parts are opened or taken up anew, so that several threads do so once."""

    @cached_property
    def pipeline(self) -> Pipeline:
        """How it ranks."""
        with _damage_in(self.path):
            return from_json(Pipeline, self.manifest["pipeline"])

    @cached_property
    def _opening(self) -> Opening:
        return Opening(self.path, self.threads, self.openers, self.device)

    @cached_property
    def index(self) -> Index:
        """The documents."""
        path = self.path / INDEX
        return self._opening.share(f"index {path}", lambda: Index.open(path))

    @cached_property
    def stage(self) -> Stage | None:
        """What re-ranks, if anything does."""
        spec = self.pipeline.stage
        return None if spec is None else cast(Stage, self._open("stage", spec))

    @cached_property
    def retriever(self) -> Source:
        """What finds documents."""
        _ = self.stage  # its model may bring the encoder, which is opened once
        return cast(Source, self._open("source", self.pipeline.source))

    def _open(self, role: str, spec: Spec) -> Any:
        _ = self.index
        try:
            return self._opening.open(role, spec)
        except UnknownKindError:  # a kind that a system of `fitting/systems` brings itself
            from tamis.fitting import systems

            openers = systems.kind_openers(systems.KINDS)
            return replace(self._opening, openers=openers).open(role, spec)

    @cached_property
    def source(self) -> Source:
        """Everything: queries in, the ranking out."""
        if not self.pipeline.is_tested_retriever:
            _log.info(
                "%s retrieves by BM25 in place of your own retriever, which was tested", self.path
            )
        deep = self.retriever % max(RETRIEVAL_DEPTH, self.pipeline.depth)
        stage = self.stage
        if stage is None:
            return deep
        inner = stage.stage if isinstance(stage, Interpolate) else stage
        if isinstance(inner, Rerank):  # it scores the first and leaves the others below
            return deep >> _scoring_all(stage)
        return self.retriever % self.pipeline.depth >> stage  # as it was tested

    @cached_property
    def calibration(self) -> Calibration | None:
        """From scores to probabilities, where judgements allowed it."""
        record = self.manifest.get("calibration")
        return from_json(Calibration, record) if record else None

    @cached_property
    def queries(self) -> Queries | None:
        """The queries that were there and that nobody has judged."""
        path = self.path / QUERIES
        return read_queries(path) if path.is_file() else None

    @property
    def verified(self) -> bool:
        """Whether the selected system was tested on judged queries."""
        with _damage_in(self.path):
            return bool(self.manifest["verified"])

    @cached_property
    def result(self) -> FitResult:
        """Everything that the report shows."""
        from tamis.fitting.result import FitResult, evaluation_from_json

        path = self.path / EVALUATION
        with _damage_in(self.path):
            if not path.is_file():
                return FitResult.from_json(self.manifest, None)
            values = json.loads(path.read_text("utf-8"))
            runs = StoredRuns(self.path / RUNS, tuple(values["per_query"]))
            return FitResult.from_json(self.manifest, evaluation_from_json(values, runs))

    def search(self, text: str, top: int = 10, where: Where = ()) -> list[Hit]:
        """The best documents for some words; of those that match, with conditions on fields
        (`where="author=ada"`, or several in a list, which all must hold).
        """
        return self._hits(Queries.of([Query("q", query_text(text))]), top, where)["q"]

    def search_many(
        self, queries: AnyQueries, top: int = 10, where: Where = ()
    ) -> dict[str, list[Hit]]:
        """The best documents for each of several queries, in their order: strings, dictionaries, a
        DataFrame, a file. Queries that are strings alone are named by their text.
        """
        order: list[str] = []
        if isinstance(queries, list | tuple) and all(isinstance(query, str) for query in queries):
            order = list(dict.fromkeys(queries))
            queries = [Query(text, text) for text in order]
        hits = self._hits(as_queries(queries), top, where)
        return {name: hits[name] for name in order or hits}

    def _hits(self, queries: Queries, top: int, where: Where) -> dict[str, list[Hit]]:
        if not isinstance(top, int) or top < 1:
            raise InputError(f"cannot show the top {top!r}", hint="a whole number from 1 on")
        source = self.fresh_source()
        conditions = as_conditions(where)
        source = source.where(*conditions) if conditions else source
        return self.hits(source.search(queries, top))

    def fresh_source(self) -> Source:
        """What ranks, open, with the documents as they are now."""
        with self._lock:
            source = self.source
            self.refresh()
        return source

    def refresh(self) -> bool:
        """Search the documents as another process has updated them; every search does so first.

        A sieve that was fitted anew in the same place is another one: load it again.
        """
        if self.index.is_current or read_manifest(self.path) != self.manifest:
            return False
        return self.index.refresh()

    def hits(self, run: Run) -> dict[str, list[Hit]]:
        """The documents of a run of this sieve with their passages and scores, by query.

        One that the re-ranker did not score is not calibrated.
        """
        snapshot, calibrated = self.index.snapshot, self.calibration is not None
        scores = self.scores(run).tolist()
        passages = run.extra.get(PASSAGE)
        hits: dict[str, list[Hit]] = {}
        for number, query in enumerate(run.queries):
            start, hits[query.id] = int(run.offsets[number]), []
            terms = self.index.analyzer.terms(query.text)
            for place, (name, raw_score) in enumerate(run.ranking(number)):
                document = snapshot.find(name)
                if document is None:  # deleted since it was found
                    continue
                passage = -1 if passages is None else int(passages[start + place])
                hit = make_hit(
                    document,
                    self.passage_of(document, passage, terms),
                    rank=len(hits[query.id]) + 1,
                    score=scores[start + place],
                    raw_score=raw_score,
                    calibrated=calibrated and (self.stage is None or passage >= 0),
                )
                hits[query.id].append(hit)
        return hits

    def passage_of(self, document: Document, number: int, terms: list[str]) -> Passage | None:
        """The passage with this number; the one with the most of the terms where it has none."""
        spec = parse_spec(self.pipeline.passages)
        if number < 0 or spec.unit in ("whole", "tokens"):
            return matching_passage(document, terms, self.index.analyzer)
        return numbered_passage(document, spec, number)

    def explain(
        self,
        query: str,
        doc_id: str | None = None,
        other: str | None = None,
        where: Where = (),
    ) -> Explanation:
        """Why a document stands where it stands for a query, the first hit by default; against an
        `other` document also by what the two differ. `where` are the conditions of the search.
        See docs/how-to/explain.md.
        """
        from tamis.explain.result import Search  # a search needs neither

        source = self.fresh_source().where(*as_conditions(where))
        asked = Search.of(source, self.index, query_text(query))
        return self.explain_search(asked, doc_id, other)

    def explain_search(
        self, asked: Search, doc_id: str | None = None, other: str | None = None
    ) -> Explanation:
        """The same for a search of this sieve that was made already: several of its hits are
        explained without searching again.
        """
        from tamis.explain.result import ShownScores, explain_search

        calibration = self.calibration
        is_tested = self.manifest.get("threshold_test") is not None
        threshold = calibration.threshold if calibration is not None and is_tested else None
        scale = ShownScores(self.scores, calibration is not None, threshold)
        system = str(self.manifest["selected"])
        return explain_search(asked, doc_id, other, scale=scale, system=system)

    def rerank(self, query: str, texts: Iterable[str], top: int | None = None) -> list[Ranked]:
        """Texts of your own, best first, as the selected pipeline ranks documents.

        Lexical scores go by the term statistics of the index; of equal scores the earlier text
        comes first.
        """
        listed = _text_list(texts)
        documents = [Document("", text) for text in listed]
        ranked = rank_documents(self, query_text(query), documents)
        hits = [Ranked(number, score, listed[number]) for number, score in ranked.scores()]
        return hits if top is None else hits[:top]

    def update(
        self,
        documents: AnyDocuments | None = None,
        *,
        delete_missing: bool = True,
        delete: Iterable[str] = (),
        keep: AbstractSet[str] = frozenset(),
        max_deleted: float = 1.0,
        embedding_cache: str | Path | None = None,
        embedding_cache_size: int = DEFAULT_SIZE,
    ) -> Changes:
        """Make the sieve search these documents: new ones are added, changed ones replaced, and
        those that are not among them deleted if `delete_missing`; `delete` names others,
        `keep` those that stay although they are missing. It is refused where more than the share
        `max_deleted` would be missing.

        One step: killed, the sieve is what it was. Only what changed is encoded, and not even
        that where the embedding cache has it (default: the one beside the sieve). The ranking
        stays as it was selected; `changed_share` says how much of what it was selected for has
        changed.
        """
        folder = cache_beside(self.path) if embedding_cache is None else Path(embedding_cache)
        encoder = self._document_encoder()
        if encoder is None:
            if self.index.snapshot.embeddings:  # of a fit that selected words alone
                self.index.drop_embeddings()
        elif embedding_cache_size:
            encoder = open_cached_encoder(encoder, folder, max_bytes=embedding_cache_size)
        with encoder if isinstance(encoder, CachedEncoder) else nullcontext():
            changes = self.index.update(
                () if documents is None else documents,
                delete_missing=delete_missing and documents is not None,
                delete=delete,
                keep=keep,
                max_deleted=max_deleted,
                encoder=encoder,
            )
        if isinstance(encoder, CachedEncoder) and encoder.num_found + encoder.num_encoded:
            _log.info("%s", encoder.in_words())
        if len(self.index.snapshot.segments) > MAX_SEGMENTS:
            self.index.merge()
        return changes

    def _document_encoder(self) -> Encoder | None:
        """What made the embeddings of the index, where the pipeline has it."""
        if not self.index.snapshot.embeddings:
            return None
        source, stage = self.retriever, self.stage
        sources = source.sources if isinstance(source, Hybrid) else (source,)
        inner = stage.stage if isinstance(stage, Interpolate) else stage
        encoders = [dense.encoder for dense in sources if isinstance(dense, DenseSource)]
        if isinstance(inner, Rerank) and isinstance(inner.scorer, CountingEncoder):
            encoders.append(cast(Encoder, inner.scorer))
        made_by = self.index.snapshot.embeddings[0].probe
        return next((each for each in encoders if same_encoder(made_by, probe(each))), None)

    @property
    def changed_share(self) -> float:
        """How many documents have changed since the fit, by how many there were; 1 at most."""
        fitted = int(self.manifest["data"]["documents"])
        return min(1.0, self.index.num_changes / max(1, fitted))

    def warm_up(self) -> None:
        """Open everything and compile what is compiled, so that the first query is fast.

        A server that forks calls it before: all processes then share what is in memory.
        """
        self.search("words to warm up with", top=1)

    def scores(
        self, run: Run, lexical_scores: Mapping[str, float] | None = None
    ) -> NDArray[np.float64]:
        """Each row of a run of this sieve as 0 to 1: how probable it is an answer where scores
        were calibrated, else by the constants of the sieve's scale. `lexical_scores` are those of
        documents that are not in the index.
        """
        comparable = self.pipeline.has_comparable_scores
        run = with_own_lexical_scores(run, lexical_part(self.retriever), lexical_scores)
        if self.calibration is not None:
            return self.calibration.probability(features(run, comparable))
        assert self.pipeline.score_scale is not None
        return self.pipeline.score_scale.scores(run, comparable)

    def __repr__(self) -> str:
        verified = "verified" if self.verified else "not verified"
        selected = self.manifest["selected"]
        documents = f"{self.index.num_documents:,} documents"
        return f"<Sieve {self.path.name}: {documents}, {selected}, {verified}>"


@contextmanager
def _damage_in(folder: Path) -> Iterator[None]:
    """What a sieve lacks, or has in another form, as one error."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(
            f"{folder} is damaged: its records lack something ({error})", hint="fit it again"
        ) from error


@dataclass(frozen=True)
class StoredRuns(Mapping[str, Run]):
    """The rankings of test queries by the name of the system, each read when it is asked for."""

    folder: Path
    names: tuple[str, ...]

    def __getitem__(self, name: str) -> Run:
        if name not in self.names:
            raise KeyError(name)
        return read_run(run_file(self.folder, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def run_file(folder: Path, name: str) -> Path:
    """The file of the run of a system."""
    return folder / f"{name.replace('/', '-')}.parquet"


def _scoring_all(stage: Stage) -> Stage:
    """The same stage; where it only gives hits their scores, from the embeddings that a hybrid
    has, of all of them.
    """
    if not isinstance(stage, Interpolate) or stage.weight or not isinstance(stage.stage, Rerank):
        return stage
    depth = max(RETRIEVAL_DEPTH, stage.stage.depth)
    return replace(stage, stage=replace(stage.stage, depth=depth))


def query_text(query: object) -> str:
    """The text of one query: a string, a `Query` or a dictionary with a text."""
    if isinstance(query, str):
        return query
    if isinstance(query, Query | Mapping):
        return next(iter(as_queries([query]))).text
    raise InputError(
        f"the query is of type {type(query).__name__}",
        hint="one query is a string; for several use search_many",
    )


def _text_list(texts: object) -> list[str]:
    """Texts of any iterable, each a string."""
    listed = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else None
    if listed is None or not all(isinstance(text, str) for text in listed):
        raise InputError("the texts are no list of strings", hint="hand in a list: [text]")
    return listed


def load_sieve(
    path: Path | str,
    *,
    threads: int | None = None,
    openers: Openers = NO_OPENERS,
    device: str = "auto",
) -> Sieve:
    """A sieve that `tamis.fit` or `tamis fit` wrote.

    `openers` open stages and sources of one's own, as `tamis.open_stage` takes them.
    """
    if not isinstance(path, str | Path):
        raise InputError(
            f"a sieve is named by its path, not by a {type(path).__name__}",
            hint='tamis.load_sieve("my.sieve")',
        )
    folder = Path(path)
    return Sieve(folder, expect(folder, KIND, SIEVE_LAYOUT), threads, openers, device)


def verify_sieve(path: Path) -> None:
    """Read all bytes of a sieve's index and models; `DamagedError` names the first changed file."""
    expect(path, KIND, SIEVE_LAYOUT)
    verify(path / INDEX)
    for name in (MODEL, ENCODER):
        if (path / name).is_dir():
            verify_model(path / name)


@dataclass(frozen=True)
class RerankSettings:
    """How the model of a sieve re-ranks a run of the user's own."""

    model: Path
    passages: str
    depth: int
    weight: float | None
    column: str | None
    notes: tuple[str, ...]
    """What of it was not tested."""


def rerank_settings(sieve: Sieve, run: Run, weight: float | None = None) -> RerankSettings:
    """How a sieve re-ranks a run: as it was tested, unless another fusion `weight` is given.

    A run without the lexical score that the sieve fuses with is fused with its own score.
    """
    stage = sieve.stage
    column = stage.column if isinstance(stage, Interpolate) else None
    tested = stage.weight if isinstance(stage, Interpolate) else None
    inner = stage.stage if isinstance(stage, Interpolate) else stage
    if not isinstance(inner, Rerank):
        raise InputError(
            f"{sieve.path} ranks by {sieve.manifest['selected']}: it has no model",
            hint="there is nothing to re-rank with",
        )
    notes = [] if sieve.verified else [f"not verified: {sieve.manifest['reason']}"]
    if weight is None and tested == 0:
        weight = DEFAULT_FUSION_WEIGHT
        notes.append(
            f"{sieve.path} ranks what it retrieves by words and embeddings; here its model "
            f"re-ranks your run with the fusion weight {weight:g}, which was not tested"
        )
    weight = tested if weight is None else weight
    if weight and isinstance(sieve.retriever, Hybrid) and sieve.retriever.column not in run.extra:
        fused_with = "BM25" if column else "BM25 and embeddings"
        notes.append(
            f"fused with the scores of your run; the sieve fuses with those of {fused_with}"
        )
        column = None
    how = sieve.pipeline
    return RerankSettings(
        sieve.path / MODEL, how.passages, how.depth, weight, column if weight else None,
        tuple(notes),
    )  # fmt: skip
