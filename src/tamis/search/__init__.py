"""The first stage: Lucene's ranking without Java and exact search over embeddings, on disk."""

from tamis.search.defaults import default_source
from tamis.search.dense import DenseSource
from tamis.search.embeddings import EmbeddingModel
from tamis.search.index import Index
from tamis.search.rankings import BM25, QueryLikelihood
from tamis.search.rm3 import RM3

__all__ = [
    "BM25",
    "RM3",
    "DenseSource",
    "EmbeddingModel",
    "Index",
    "QueryLikelihood",
    "default_source",
]
