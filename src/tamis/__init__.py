"""tamis builds, judges and serves document re-rankers.

Names are imported when they are first used, so that `import tamis` costs nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from tamis import label
    from tamis.collection.judgements import read_qrels, write_qrels
    from tamis.collection.readers import open_collection, read_queries
    from tamis.collection.runs import read_run, write_run
    from tamis.evaluation import Comparison, Comparisons, Evaluation, compare
    from tamis.experiments import evaluate, experiment
    from tamis.fitting.api import fit
    from tamis.fitting.result import FitResult
    from tamis.fitting.sieve import Sieve, load_sieve
    from tamis.models.model import load_model
    from tamis.pipeline.rerank import rerank
    from tamis.registry import open_source, open_stage
    from tamis.search import Index
    from tamis.training.api import train
    from tamis.types import Document, Ids, Qrels, Queries, Query, Run, Source, Stage

_HOME = {
    "read_qrels": "tamis.collection.judgements",
    "write_qrels": "tamis.collection.judgements",
    "open_collection": "tamis.collection.readers",
    "read_queries": "tamis.collection.readers",
    "read_run": "tamis.collection.runs",
    "write_run": "tamis.collection.runs",
    "fit": "tamis.fitting.api",
    "FitResult": "tamis.fitting.result",
    "Sieve": "tamis.fitting.sieve",
    "load_sieve": "tamis.fitting.sieve",
    "Comparison": "tamis.evaluation",
    "Comparisons": "tamis.evaluation",
    "Evaluation": "tamis.evaluation",
    "compare": "tamis.evaluation",
    "evaluate": "tamis.experiments",
    "experiment": "tamis.experiments",
    "load_model": "tamis.models.model",
    "rerank": "tamis.pipeline.rerank",
    "open_source": "tamis.registry",
    "open_stage": "tamis.registry",
    "Index": "tamis.search",
    "train": "tamis.training.api",
    "Document": "tamis.types",
    "Ids": "tamis.types",
    "Qrels": "tamis.types",
    "Queries": "tamis.types",
    "Query": "tamis.types",
    "Run": "tamis.types",
    "Source": "tamis.types",
    "Stage": "tamis.types",
}

__all__ = [
    "Comparison",
    "Comparisons",
    "Document",
    "Evaluation",
    "FitResult",
    "Ids",
    "Index",
    "Qrels",
    "Queries",
    "Query",
    "Run",
    "Sieve",
    "Source",
    "Stage",
    "__version__",
    "compare",
    "evaluate",
    "experiment",
    "fit",
    "label",
    "load_model",
    "load_sieve",
    "open_collection",
    "open_source",
    "open_stage",
    "read_qrels",
    "read_queries",
    "read_run",
    "rerank",
    "train",
    "write_qrels",
    "write_run",
]


def __getattr__(name: str) -> Any:
    if name == "label":
        return import_module("tamis.label")
    if name not in _HOME:
        raise AttributeError(f"module 'tamis' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
