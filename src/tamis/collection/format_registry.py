"""Every format there is, a line each; detection asks them in this order.

Formats with marks of their own come before those known by the look of most lines, and plain text,
which anything could be, comes last.
"""

from __future__ import annotations

from tamis.collection.beir import BEIR, JUDGED
from tamis.collection.candidate_table import RERANKING
from tamis.collection.csv_tsv import CSV, TSV
from tamis.collection.files import FILES
from tamis.collection.formats import Format
from tamis.collection.jsonl import JSONL
from tamis.collection.judgements import BEIR_QRELS, QRELS
from tamis.collection.msmarco import ID_TEXT, MSMARCO, MSMARCO_DOCS
from tamis.collection.multirc import MULTIRC
from tamis.collection.parquet import ARROW, PARQUET
from tamis.collection.querylog import QUERYLOG
from tamis.collection.runs import RUN
from tamis.collection.store import COLLECTION
from tamis.collection.trec_documents import TRECTEXT
from tamis.collection.trec_topics import TOPICS, TOPICS_XML

FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        COLLECTION,
        BEIR,
        JUDGED,
        MSMARCO,
        MULTIRC,
        TRECTEXT,
        FILES,
        RERANKING,
        PARQUET,
        ARROW,
        JSONL,
        BEIR_QRELS,
        TSV,
        CSV,
        RUN,
        QRELS,
        ID_TEXT,
        MSMARCO_DOCS,
        TOPICS,
        TOPICS_XML,
        QUERYLOG,
    )
}
