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

QUESTIONS, DEPTH = 30, 30
"""How many questions of `tamis:pydocs`, and how many documents of each, are scored."""
TOP = 10
"""How many of a query's first documents an export in 8-bit integers is judged by."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A run whose queries have texts, where its documents are, and judgements if there are any."""

    run: Run
    documents: Documents
    qrels: Qrels | None = None
    measure: str = "nDCG@10"
    name: str = "the given run"

    def scored(self, scorer: Scorer) -> Scored:
        """Score every document of the run."""
        start = process_time()
        depth = int(self.run.sizes().max(initial=1))
        done = rerank(scorer, self.documents, depth=depth).rerank(self.run)
        seconds = process_time() - start
        scores = np.empty(len(done.run.doc), np.float32)
        scores[done.row] = done.run.score
        value = None
        if self.qrels is not None:
            judged = self.qrels.select(done.run.queries.ids)
            if len(judged):
                found = evaluate(judged, {"run": done.run}, [self.measure])
                value = found.mean("run", self.measure)
        return Scored(done.run, scores, value, len(scores) / seconds)


@dataclass(frozen=True, eq=False)
class Scored:
    """The run as a scorer ranks it, its scores in the order of the first run, what it is worth."""

    run: Run
    scores: NDArray[np.float32]
    value: float | None
    speed: float
    """Documents a second of the processors' time, which other work hardly changes."""

    def overlap(self, other: Scored) -> float | None:
        """The mean overlap of both top tens, over queries with more candidates, if any."""
        more = other.run.sizes() > TOP
        return float(agree(self.run, other.run, TOP).overlap[more].mean()) if more.any() else None


def check_sample(sample: Sample, ranked: bool) -> Sample:
    """The sample, if it can be scored and, where it is to be `ranked`, has a top 10 to compare."""
    if sample.run.queries.texts is None:
        raise InputError("the queries of the run have no texts", hint="run.with_queries(queries)")
    if ranked and not (sample.run.sizes() > TOP).any():
        raise InputError(
            f"no query of the run has more than {TOP} documents: there is no top {TOP} to compare",
            hint="give a run with more candidates, or leave 8-bit integers out: --no-int8",
        )
    return sample


def pydocs_sample(questions: int = QUESTIONS, depth: int = DEPTH) -> Sample:
    """Questions about Python's own documentation with what BM25 finds for them."""
    collection = open_pydocs()
    qrels = collection.qrels["test"]
    queries = collection.queries
    numbers = qrels.queries.positions_in(queries.ids)
    few = np.sort(numbers[:: max(1, len(numbers) // questions)][:questions])
    with TemporaryDirectory() as folder:
        index = Index.build(collection.documents, Path(folder) / "index")
        run = (index.bm25() % depth)(queries.select(few))
        documents = list(collection.documents)
    return Sample(run, documents, qrels.select(run.queries.ids), name=str(collection.name))
