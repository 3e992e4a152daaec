"""The hybrid: BM25 and embeddings of the base model, fused by their scores."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, cast

from tamis.collection.loss_notes import counted
from tamis.evaluation import evaluate, t_test
from tamis.fitting.candidates import RetrieverRuns
from tamis.fitting.context import FitInputs
from tamis.fitting.plan import EXPORT_SECONDS, MIN_QUERIES, Budget, DataSizes, Step
from tamis.fitting.query_encoder_export import describe_export, export_query_encoder
from tamis.fitting.system import Retriever
from tamis.models.encoders import find_encoder
from tamis.pages.text_format import p_text
from tamis.pipeline.document_lookup import IndexLookup
from tamis.pipeline.hybrid import lexical_dense_hybrid
from tamis.pipeline.stored_embeddings import stored_texts
from tamis.registry import Opening
from tamis.search import Index
from tamis.search.cached_encoder import CachedEncoder
from tamis.search.defaults import default_source
from tamis.search.dense import truncated_by_encoder
from tamis.search.embeddings import CountingEncoder
from tamis.types import Encoder, Spec
from tamis.types.columns import LEXICAL_SCORE

_log = logging.getLogger(__name__)
SIGNIFICANCE_LEVEL = 0.05
RECALL = "recall"


class HybridKind(Retriever):
    """Finds by words and by embeddings."""

    key, name = "hybrid", "hybrid"
    description = "encode all documents and search their embeddings too"
    in_words: ClassVar[str] = "BM25 and embeddings find documents"
    lexical_column: ClassVar[str | None] = LEXICAL_SCORE

    def is_possible(self, data: DataSizes) -> bool:
        """Beside a user's run only where the two can be compared."""
        if data.base_kind != "bi-encoder":
            return False
        return not data.user_run or data.judged >= MIN_QUERIES

    def seconds(self, budget: Budget) -> float:
        """See `SystemKind.seconds`."""
        data = budget.data
        export = EXPORT_SECONDS if data.exports else 0.0
        if data.encoded:
            return export
        return export + data.num_documents * data.passages * budget.pace * (1 - data.cached_share)

    def plan(self, budget: Budget) -> None:
        """See `SystemKind.plan`."""
        if self.is_possible(budget.data):
            step = Step(self.key, self.name, self.description, self.seconds(budget))
            budget.has_embeddings = budget.add(step)

    def prepare(self, fit: FitInputs) -> Spec:
        """Encode the documents, unless they are encoded."""
        assert fit.base is not None
        base = fit.base.folder
        if not fit.index.snapshot.embeddings:
            encoder = cast(Encoder, fit.open_model(base))
            with fit.work.timed(self.timing("encode")):
                _, model = find_encoder(str(fit.request.base))
                with fit.embeddings.on_disk(encoder) or nullcontext(encoder) as documents_encoder:
                    _take_over(fit, documents_encoder)
                    fit.index.encode(documents_encoder, model, fit.passages)
                if isinstance(documents_encoder, CachedEncoder):
                    _log.info("%s", documents_encoder.in_words())
            if counts := truncated_by_encoder(fit.index):
                _log.warning(
                    "%s of %s are longer than the base model reads, %s truncated; to read all of "
                    "them: --passages words:150:75, in Python passages=",
                    f"{counts['truncated_documents']:,}",
                    counted(fit.index.num_documents, "document"),
                    counted(counts["truncated_tokens"], "token"),
                )
        export_query_encoder(fit, base)
        opening = Opening(threads=fit.request.threads, device=fit.request.device)
        encoder = cast(Encoder, opening.scorer(fit.scorer_spec(base)))
        words = default_source(fit.index, "bm25", rm3=False)
        return lexical_dense_hybrid(words, fit.index.dense(encoder)).spec()

    def supplies_candidates(self, fit: FitInputs, runs: Mapping[str, RetrieverRuns]) -> bool:
        """Unless it finds significantly less than BM25 on judged queries; too few judged queries
        are not asked.
        """
        record = fit.work.record(
            RECALL, lambda: compare_recall(fit, runs["bm25"], runs[self.key]), self.timing("recall")
        )
        return bool(record["used"])

    def note(self, fit: FitInputs) -> str:
        """See `Retriever.note`."""
        facts: dict[str, Any] = fit.work.record(RECALL, dict, self.timing("recall"))
        used = "supplies the candidates" if facts["used"] else "does not supply the candidates"
        if fit.request.user_run is not None:
            used = "one system beside your own run"
        assert fit.base is not None
        used = f"{used}; {describe_export(fit, fit.base.folder)}"
        if facts["measure"] is None:
            return f"{used}; too few judged queries to compare its recall with BM25's"
        p = "" if facts["p_value"] is None else f", {p_text(facts['p_value'])}"
        recalls = f"{facts['hybrid']:.4f}, BM25 {facts['bm25']:.4f}"
        return f"{used}; {facts['measure']} {recalls}{p}, on judged queries before any training"


def _take_over(fit: FitInputs, encoder: object) -> None:
    """Keep the embeddings that the index or sieve which is fitted again has."""
    source = fit.collection.documents
    if not isinstance(encoder, CachedEncoder) or not isinstance(source, Index):
        return
    documents = cast(CountingEncoder, encoder.encoder)
    ids = source.snapshot.live_ids()
    for texts in stored_texts(IndexLookup(source), ids, documents, max_embeddings=sys.maxsize):
        encoder.add(*texts)
    encoder.flush()


def compare_recall(fit: FitInputs, bm25: RetrieverRuns, hybrid: RetrieverRuns) -> dict[str, Any]:
    """The recall of both on judged queries, and whether the hybrid is used."""
    qrels, measure = fit.splits.train, f"R@{fit.request.depth}"
    if len(qrels) < MIN_QUERIES:
        return {"used": True, "measure": None}
    recall = evaluate(qrels, {"bm25": bm25.train, "hybrid": hybrid.train}, [measure])
    p = t_test(recall.values("hybrid", measure) - recall.values("bm25", measure))
    means = {name: round(recall.mean(name, measure), 4) for name in recall.runs}
    is_worse = means["hybrid"] < means["bm25"] and p is not None and p < SIGNIFICANCE_LEVEL
    return {"used": not is_worse, "measure": measure, **means, "p_value": p}
