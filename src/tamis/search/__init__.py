"""The first stage: Lucene's ranking without Java, over an index on disk."""

from tamis.search.choice import chosen_source
from tamis.search.index import Index
from tamis.search.rankings import BM25, QueryLikelihood
from tamis.search.rm3 import RM3

__all__ = ["BM25", "RM3", "Index", "QueryLikelihood", "chosen_source"]
