"""What an export is judged on: queries with candidates, scored by the model and by its export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
from numpy.typing import NDArray

from tamis.collection.pydocs import open_pydocs
from tamis.errors import InputError
from tamis.evaluation import agree, evaluate
from tamis.pipeline.document_lookup import Documents
from tamis.pipeline.rerank import rerank
from tamis.search import Index
from tamis.types import Qrels, Run, Scorer

SAMPLE_QUERIES, SAMPLE_DEPTH = 30, 30
OVERLAP_DEPTH = 10
"""An export in 8-bit integers is judged by the overlap of so many first documents."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A run whose queries have texts, where its documents are, and judgements if there are any."""

    run: Run
    documents: Documents
    qrels: Qrels | None = None
    measure: str = "nDCG@10"
    name: str = "the given run"

    def score_with(self, scorer: Scorer) -> ScoredSample:
        """Score every document of the run."""
        start = process_time()
        depth = int(self.run.sizes().max(initial=1))
        reranked = rerank(scorer, self.documents, depth=depth).rerank(self.run)
        seconds = process_time() - start
        scores = np.empty(len(reranked.run.doc), np.float32)
        scores[reranked.row] = reranked.run.score
        value = None
        if self.qrels is not None:
            judged = self.qrels.select(reranked.run.queries.ids)
            if len(judged):
                evaluation = evaluate(judged, {"run": reranked.run}, [self.measure])
                value = evaluation.mean("run", self.measure)
        return ScoredSample(reranked.run, scores, value, len(scores) / seconds)


@dataclass(frozen=True, eq=False)
class ScoredSample:
    """The run as a scorer ranks it, its scores in the order of the first run, and its measure."""

    run: Run
    scores: NDArray[np.float32]
    value: float | None
    speed: float
    """Documents per second of processor time, which other work hardly changes."""

    def overlap(self, other: ScoredSample) -> float | None:
        """The mean overlap of both top tens, over queries with more candidates, if any."""
        has_more = other.run.sizes() > OVERLAP_DEPTH
        return (
            float(agree(self.run, other.run, OVERLAP_DEPTH).overlap[has_more].mean())
            if has_more.any()
            else None
        )


def check_sample(sample: Sample, ranked: bool) -> Sample:
    """The sample, if it can be scored and, where it is to be `ranked`, has a top 10 to compare."""
    if sample.run.queries.texts is None:
        raise InputError("the queries of the run have no texts", hint="run.with_queries(queries)")
    if ranked and not (sample.run.sizes() > OVERLAP_DEPTH).any():
        raise InputError(
            f"no query of the run has more than {OVERLAP_DEPTH} documents: "
            f"there is no top {OVERLAP_DEPTH} to compare",
            hint="give a run with more candidates, or leave 8-bit integers out: --no-int8",
        )
    return sample


def pydocs_sample(questions: int = SAMPLE_QUERIES, depth: int = SAMPLE_DEPTH) -> Sample:
    """Questions about Python's own documentation with what BM25 finds for them."""
    collection = open_pydocs()
    qrels = collection.qrels["test"]
    queries = collection.queries
    numbers = qrels.queries.positions_in(queries.ids)
    numbers_used = np.sort(numbers[:: max(1, len(numbers) // questions)][:questions])
    with TemporaryDirectory() as folder:
        index = Index.build(collection.documents, Path(folder) / "index")
        run = (index.bm25() % depth)(queries.select(numbers_used))
        documents = list(collection.documents)
    return Sample(run, documents, qrels.select(run.queries.ids), name=str(collection.name))
