"""The first stage: Lucene's ranking without Java and exact search over vectors, on disk."""

from tamis.search.default_source import chosen_source
from tamis.search.dense import DenseSource
from tamis.search.embeddings import VectorModel
from tamis.search.index import Index
from tamis.search.rankings import BM25, QueryLikelihood
from tamis.search.rm3 import RM3

__all__ = [
    "BM25",
    "RM3",
    "DenseSource",
    "Index",
    "QueryLikelihood",
    "VectorModel",
    "chosen_source",
]
