"""The records and protocols that everything else is written in."""

from tamis.types.conditions import Condition
from tamis.types.ids import Ids
from tamis.types.pipeline import (
    Encoder,
    Pairs,
    Scorer,
    Scores,
    Source,
    Spec,
    Stage,
    TermStatistics,
    Top,
    score_texts,
)
from tamis.types.qrels import Qrels
from tamis.types.records import Document, Passage, Queries, Query
from tamis.types.run import Ranking, Run, join_runs

__all__ = [
    "Condition",
    "Document",
    "Encoder",
    "Ids",
    "Pairs",
    "Passage",
    "Qrels",
    "Queries",
    "Query",
    "Ranking",
    "Run",
    "Scorer",
    "Scores",
    "Source",
    "Spec",
    "Stage",
    "TermStatistics",
    "Top",
    "join_runs",
    "score_texts",
]
