"""The demo: Python's own documentation indexed and searched, judged on questions we wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tamis.collection.pydocs import PyDocs, open_pydocs
from tamis.evaluation import Evaluation, evaluate
from tamis.search import Index
from tamis.types import Queries, Run

MEASURES = ("nDCG@10", "RR@10", "R@100", "Success@10")


@dataclass(frozen=True)
class Demo:
    """What the demo found."""

    collection: PyDocs
    index: Index
    runs: dict[str, Run]
    evaluation: Evaluation


def run_demo(folder: Path, top: int = 100) -> Demo:
    """Index the documents in a folder, rank them for the test questions, measure the rankings."""
    collection = open_pydocs()
    index = Index.build(collection.documents, folder / "pydocs.index")
    qrels = collection.qrels["test"]
    queries: Queries = collection.queries
    asked = queries.select(qrels.queries.positions_in(queries.ids))
    sources = {"BM25": index.bm25(), "BM25+RM3": index.bm25().rm3(), "query likelihood": index.ql()}
    runs = {name: (source % top)(asked) for name, source in sources.items()}
    return Demo(collection, index, runs, evaluate(qrels, runs, MEASURES))
