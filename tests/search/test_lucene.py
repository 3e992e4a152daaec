"""Against Lucene's own run files of CACM, and the effectiveness published for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tamis.collection.base import Collection
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.evaluation import evaluate
from tamis.search.index import Index
from tamis.types import Run, Source

DATA = os.environ.get("TAMIS_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="TAMIS_DATA is not set")
RANKINGS = ["bm25", "qld", "bm25rm3", "qldrm3"]


@pytest.fixture(scope="module")
def collection() -> Collection:
    return open_collection(Path(str(DATA)) / "cacm")


@pytest.fixture(scope="module")
def index(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.build(collection.documents, tmp_path_factory.mktemp("cacm") / "index")


def source(index: Index, name: str) -> Source:
    ranking = index.bm25() if name.startswith("bm25") else index.ql()
    return ranking.rm3() if name.endswith("rm3") else ranking


def lucene(name: str) -> Run:
    return read_run(Path(str(DATA)) / "cacm" / "lucene-runs" / f"{name}.trec")


def test_the_terms_are_lucenes(index: Index) -> None:
    assert (index.num_documents, index.total_terms, index.distinct_terms) == (3204, 320_968, 14_363)


@pytest.mark.parametrize("name", ["bm25", "qld"])
def test_documents_and_scores_are_lucenes(name: str, index: Index, collection: Collection) -> None:
    ours, theirs = source(index, name)(collection.queries), lucene(name)
    assert list(ours) == list(theirs)
    for query in theirs:
        found, expected = dict(ours[query]), dict(theirs[query])
        assert len(found) == len(expected)
        least = min(expected.values()) if len(expected) == 1000 else -1.0
        for doc_id in found.keys() | expected.keys():
            if found.get(doc_id, 0.0) > least + 1e-3 or expected.get(doc_id, 0.0) > least + 1e-3:
                assert found[doc_id] == pytest.approx(expected[doc_id], abs=1e-3)


@pytest.mark.parametrize("name", ["bm25rm3", "qldrm3"])
def test_rm3_finds_lucenes_first_ten(name: str, index: Index, collection: Collection) -> None:
    ours, theirs = source(index, name)(collection.queries), lucene(name)
    same = sum(set(ours[query].ids[:10]) == set(theirs[query].ids[:10]) for query in theirs)
    assert same >= 0.95 * len(theirs)


@pytest.mark.parametrize(
    ("name", "precision", "at_30"),
    [
        ("bm25", 0.3124, 0.1942),
        ("bm25rm3", 0.3648, 0.2224),
        ("qld", 0.3268, 0.1942),
        ("qldrm3", 0.3629, 0.2250),
    ],
)
def test_effectiveness_is_lucenes(
    name: str, precision: float, at_30: float, index: Index, collection: Collection
) -> None:
    run = source(index, name)(collection.queries)
    table = evaluate(collection.qrels["test"], {"ours": run}, ["AP", "P@30"])
    assert round(table.mean("ours", "AP"), 4) == precision
    assert round(table.mean("ours", "P@30"), 4) == at_30
