"""What scores candidates while they are labelled: BM25, a model, a service; and scores kept."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from tamis.errors import InputError
from tamis.labels.inputs import LabelInputs
from tamis.labels.rerank_service import RerankService
from tamis.models import Model, Ranker, open_ranker
from tamis.pipeline.cache import ScoreCache
from tamis.scorers.lexical import Lexical
from tamis.search.rankings import BM25
from tamis.types import Scorer

ScoringModel = str | Path | Model | Ranker | Scorer
"""A model by name or folder, the address of a service, or one that is open."""
_log = logging.getLogger(__name__)


def lexical_ranker(inputs: LabelInputs, k1: float, b: float) -> Ranker:
    """BM25 under the statistics of the index."""
    if inputs.index is None:
        raise InputError(
            "lexical scores need the statistics of an index",
            hint="tamis index, then --index INDEX",
        )
    return Ranker(Lexical(inputs.index, BM25(k1, b)), f"lexical k1={k1:g} b={b:g}", None)


def is_service(model: ScoringModel) -> bool:
    """Whether a model is named by the address of a service."""
    return isinstance(model, str) and model.startswith(("http://", "https://"))


class RunOn(TypedDict, total=False):
    """Where a model runs, and in which precision; see `open_ranker`."""

    device: str
    dtype: str
    trust_remote_code: str | Path | bool


def open_scoring_model(
    model: ScoringModel,
    inputs: LabelInputs,
    threads: int | None = None,
    service_model: str = "",
    key: str = "",
    where: RunOn | None = None,
) -> Ranker:
    """A model, or a service where the name is an address."""
    if isinstance(model, Ranker):
        return model
    if isinstance(model, Model):
        return Ranker(model.scorer, model.name, None)
    if not isinstance(model, str | Path):
        return Ranker(model, type(model).__name__, None)
    if is_service(model):
        service = RerankService(str(model), service_model, key, threads=threads or 1)
        return Ranker(service, f"{model} {service_model}".strip(), service.identity)
    options = where or {}
    if inputs.index is not None:
        return open_ranker(model, threads=threads, documents=inputs.index, **options)
    assert inputs.collection is not None
    documents = inputs.collection.documents
    return open_ranker(model, threads=threads, documents=documents, **options)


@contextmanager
def open_score_cache(path: str | Path | None, ranker: Ranker) -> Iterator[ScoreCache | None]:
    """The score cache in a file, if there is one; logs its path when the work is interrupted."""
    if path is None or ranker.identity is None:
        yield None
        return
    with ScoreCache(Path(path), ranker.identity) as cache:
        if cache.dropped:
            _log.info("%s bytes at the end of %s were not whole: dropped", cache.dropped, path)
        try:
            yield cache
        except KeyboardInterrupt:
            count = f"{len(cache):,} scores are kept in {path}"
            _log.info("interrupted: %s: the same command goes on from there", count)
            raise
