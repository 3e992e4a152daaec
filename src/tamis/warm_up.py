"""Runs the common path once on a few documents, so that its kernels are compiled and on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis.collection.judgements import read_qrels
from tamis.collection.readers import open_collection, read_queries
from tamis.collection.runs import read_run, write_run
from tamis.evaluation import compare, evaluate
from tamis.pipeline.hybrid import lexical_dense_hybrid
from tamis.pipeline.rerank import rerank
from tamis.search import Index
from tamis.search.embeddings import EmbeddingModel
from tamis.types import Pairs, Scores
from tamis.types.pipeline import Scale

NUM_DOCUMENTS, NUM_QUERIES = 40, 2000
"""More queries than the tables of ids have room for at first, and with ids too long to sort."""
NUM_SEARCHED_QUERIES = 8
LONG_WORDS = "internationalisation internationally counterrevolutionary counterrevolution"
"""Words of which more than the first eight bytes are the same."""
MEASURES = ["nDCG@10", "RR@10", "AP", "P@10", "R@100"]


class ToyEncoder:
    """Embeddings of the right form: search and re-ranking have the same kernels for all models."""

    scale: Scale = "cosine"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        return np.array([[1.0, 1 / (1 + len(text))] * 8 for text in texts], np.float32)

    def score(self, pairs: Pairs) -> Scores:
        """The product of the embeddings of every pair."""
        queries, texts = self.encode(pairs.queries), self.encode(pairs.texts)
        query, text = pairs.index.T
        values = np.einsum("nd,nd->n", queries[query], texts[text])
        return Scores(values, np.zeros(len(pairs), np.int32))


def compile_common_path(folder: Path) -> None:
    """Index, search and evaluate a few documents in an empty folder.

    >>> from tempfile import mkdtemp
    >>> compile_common_path(Path(mkdtemp()))
    """
    _write_collection(folder)
    collection = open_collection(str(folder))
    index = Index.build(collection.documents, folder / "index")
    index.encode(ToyEncoder(), EmbeddingModel("toy"))
    queries = read_queries(folder / "queries.jsonl").select(np.arange(NUM_SEARCHED_QUERIES))
    bm25 = index.bm25()
    hybrid = lexical_dense_hybrid(bm25, index.dense(ToyEncoder()))
    runs = {}
    reranked = hybrid >> rerank(ToyEncoder(), index)
    for name, source in {"bm25": bm25, "hybrid": hybrid, "reranked": reranked}.items():
        for suffix in ("trec", "parquet"):
            path = folder / f"{name}.{suffix}"
            write_run(source.search(queries, 1000), path)
            runs[f"{name} {suffix}"] = read_run(path)
    index.search("grain of number 3")
    evaluation = evaluate(read_qrels(folder / "qrels" / "test.tsv"), runs, MEASURES)
    compare(evaluation, "bm25 trec")


def _write_collection(folder: Path) -> None:
    documents = [
        {
            "_id": f"d{n}",
            "title": f"Sieve {n}",
            "text": f"a drum sieve sorts grain number{n} café. {LONG_WORDS}",
        }
        for n in range(NUM_DOCUMENTS)
    ]
    queries = [{"_id": _query_id(n), "text": f"grain number{n}"} for n in range(NUM_QUERIES)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, "utf-8")
    (folder / "qrels").mkdir()
    judged = "".join(f"{_query_id(n)}\td{n}\t1\n" for n in range(NUM_SEARCHED_QUERIES))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", "utf-8")


def _query_id(number: int) -> str:
    return f"{number:04}-of-the-queries-{number:04}"
