"""Judging what was found, pair by pair: the pool, a session, and the folder of judgements."""

from tamis.judging.folder import JudgedFolder
from tamis.judging.pools import (
    IndexAlone,
    Judgeable,
    Pooled,
    bm25_among,
    open_judgeable,
    pool,
    queries_to_judge,
    sample_queries,
    sources_of,
)
from tamis.judging.session import Judging, Place, open_judging

__all__ = [
    "IndexAlone",
    "Judgeable",
    "JudgedFolder",
    "Judging",
    "Place",
    "Pooled",
    "bm25_among",
    "open_judgeable",
    "open_judging",
    "pool",
    "queries_to_judge",
    "sample_queries",
    "sources_of",
]
