"""Real collections are read whole, and real runs measured as published."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.collection.judgements import read_qrels
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.evaluation import evaluate

COUNTS = {
    "insuranceqa": (27_413, 16_889, {"train": 21_325, "dev": 3_354, "test": 3_308}),
    "squad": (2_067, 10_570, {"train": 5_540, "dev": 1_774, "test": 3_256}),
    "medquad": (15_809, 10_976, {"train": 9_455, "dev": 1_140, "test": 1_700}),
    "openbookqa": (1_326, 5_957, {"train": 4_957, "dev": 500, "test": 500}),
    "wikiqa": (26_196, 1_242, {"train": 8_672, "dev": 1_130, "test": 2_351}),
    "scifact": (5_183, 1_109, {"train": 919, "test": 339}),
    "trec-dl19": (14_581, 43, {"test": 9_260}),
    "covidqa": (98, 1_380, {"train": 880, "dev": 200, "test": 300}),
    "aila": (2_914, 50, {"test": 195}),
    "cacm": (3_204, 64, {"test": 796}),
}
"""Documents, queries, and judged pairs by split."""

REPEATED = {"medquad": (4_095, 0), "wikiqa": (0, 1)}
"""Lines with a document id, and with a pair judged, that stood before; not counted as read."""

LUCENE = {
    "bm25": (0.3123, 0.1942),
    "bm25rm3": (0.3648, 0.2224),
    "qld": (0.3265, 0.1942),
    "qldrm3": (0.3629, 0.2250),
}
"""AP and P@30 of Lucene's runs on CACM, as Anserini publishes them."""


@pytest.mark.parametrize("name", COUNTS)
def test_everything_is_read(data: Path, name: str) -> None:
    documents, queries, judged = COUNTS[name]
    again, judged_again = REPEATED.get(name, (0, 0))
    collection = open_collection(data / name, on_error="skip")
    assert collection.format == "beir"
    assert sum(1 for _ in collection.documents) == documents - again
    assert collection.faults.count == again
    assert len(collection.queries) == queries
    found = {split: len(part.doc) for split, part in collection.qrels.items()}
    assert found.keys() == judged.keys()
    assert sum(found.values()) == sum(judged.values()) - judged_again
    assert judged_again or found == judged
    assert collection.faults.count == again + judged_again


@pytest.mark.parametrize("name", LUCENE)
def test_runs_of_lucene_on_cacm(data: Path, name: str) -> None:
    qrels = read_qrels(data / "cacm" / "qrels" / "test.tsv")
    run = read_run(data / "cacm" / "lucene-runs" / f"{name}.trec")
    evaluation = evaluate(qrels, {name: run}, ["AP", "P@30"])
    precision = (round(evaluation.mean(name, "AP"), 4), round(evaluation.mean(name, "P@30"), 4))
    assert precision == LUCENE[name]


def test_the_first_hundred_of_deep_learning_2019(data: Path) -> None:
    qrels = read_qrels(data / "trec-dl19" / "qrels" / "test.tsv")
    run = read_run(data / "trec-dl19" / "bm25-top100.trec")
    assert round(evaluate(qrels, {"bm25": run}, ["nDCG@10"]).mean("bm25", "nDCG@10"), 4) == 0.5058
