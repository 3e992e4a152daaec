"""ir_datasets as collections, with datasets registered from local files: no network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tamis.collection.irdatasets import open_irdatasets, split_of
from tamis.errors import InputError
from tamis.types import Document, Query


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("ir_datasets")
        patch.setenv("IR_DATASETS_HOME", str(folder))
        patch.setenv("IR_DATASETS_TMP", str(folder / "tmp"))
        yield folder


Register = Callable[..., None]


@pytest.fixture
def register() -> Iterator[Register]:
    import ir_datasets

    names = []

    def add(name: str, *parts: Any) -> None:
        ir_datasets.registry.register(name, ir_datasets.Dataset(*parts))
        names.append(name)

    yield add
    for name in names:
        del ir_datasets.registry._registered[name]


def local(path: Path, content: str) -> Any:
    from ir_datasets.util import LocalDownload

    path.write_text(content, "utf-8")
    return LocalDownload(path)


TOPICS = """<top>
<num> Number: 1
<title> sieve
<desc> Description:
What is a sieve?
<narr> Narrative:
Drum sieves count.
</top>
"""


def test_documents_queries_and_judgements_from_files(tmp_path: Path, register: Register) -> None:
    from ir_datasets.formats import TrecQrels, TrecQueries, TsvDocs

    register(
        "tamis-test/dev/small",
        TsvDocs(local(tmp_path / "docs.tsv", "d1\tA sieve sorts.\nd2\tDrums.\n"), lang="en"),
        TrecQueries(local(tmp_path / "topics", TOPICS), lang="en"),
        TrecQrels(local(tmp_path / "qrels", "1 0 d1 1\n1 0 d2 0\n"), {0: "no", 1: "yes"}),
    )
    collection = open_irdatasets("tamis-test/dev/small")
    assert (collection.name, collection.format) == ("tamis-test/dev/small", "ir_datasets")
    documents = [Document("d1", "A sieve sorts."), Document("d2", "Drums.")]
    assert list(collection.documents) == documents
    assert list(collection.documents) == documents
    assert list(collection.queries) == [
        Query(
            "1",
            "sieve",
            {"description": "What is a sieve?", "narrative": "Drum sieves count."},
        )
    ]
    assert {split: qrels.to_dict() for split, qrels in collection.qrels.items()} == {
        "dev": {"1": {"d1": 1, "d2": 0}}
    }


class News(NamedTuple):
    doc_id: str
    headline: str
    body: str
    year: int
    marked_up_doc: str
    links: tuple[str, ...] = ()

    def default_text(self) -> str:
        return f"{self.headline} {self.body}"


class Paper(NamedTuple):
    doc_id: str
    title: str
    abstract: str
    body: str
    url: str

    def default_text(self) -> str:
        return f"{self.title}\n{self.abstract}\n{self.body}"


class Bare(NamedTuple):
    doc_id: str
    title: str
    contents: str


class Judged(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int


class JudgedBySubtopic(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    subtopic_id: str


class Records:
    """A dataset of records made up on the spot."""

    def __init__(self, docs: list[Any], qrels: list[Any] | None = None) -> None:
        self._docs, self._qrels = docs, qrels or []

    def docs_handler(self) -> Records:
        return self

    def docs_iter(self) -> Iterator[Any]:
        return iter(self._docs)

    def qrels_handler(self) -> Records:
        return self

    def qrels_iter(self) -> Iterator[Any]:
        return iter(self._qrels)


def test_the_parts_of_documents(register: Register) -> None:
    docs = [
        News("d1", "Sieves", "They sort.", 1999, "<h>Sieves</h>"),
        Paper("d2", "Drums", "Short.", "Long.", "https://a.example"),
        Bare("d3", "Grain", "Wheat."),
    ]
    register("tamis-test-parts", Records(docs))
    collection = open_irdatasets("tamis-test-parts")
    assert list(collection.documents) == [
        Document("d1", "They sort.", "Sieves", {"year": "1999"}),
        Document("d2", "Short.\nLong.", "Drums", {"url": "https://a.example"}),
        Document("d3", "Wheat.", "Grain"),
    ]
    assert len(collection.queries) == 0


def test_judgements_given_twice(register: Register) -> None:
    same = [Judged("q", "d1", 1), Judged("q", "d2", 0), Judged("q", "d1", 1)]
    register("tamis-test-same/train", Records([], same))
    assert open_irdatasets("tamis-test-same/train").qrels["train"].to_dict() == {
        "q": {"d1": 1, "d2": 0}
    }
    register("tamis-test-torn", Records([], [*same, Judged("q", "d2", 2)]))
    with pytest.raises(InputError, match="judges document 'd2' both 0 and 2 for query 'q'"):
        assert open_irdatasets("tamis-test-torn").qrels


def test_of_subtopics_the_best_judgement_counts(register: Register) -> None:
    judged = [JudgedBySubtopic("q", "d1", grade, str(grade)) for grade in (1, 2, 0)]
    register("tamis-test-subtopics", Records([], judged))
    assert open_irdatasets("tamis-test-subtopics").qrels["test"]["q"] == {"d1": 2}


def test_no_judgements_at_all(register: Register) -> None:
    register("tamis-test-none", Records([]))
    assert len(open_irdatasets("tamis-test-none").qrels["test"]) == 0


@pytest.mark.parametrize(
    ("dataset_id", "split"),
    [
        ("beir/scifact/train", "train"),
        ("msmarco-passage/dev/small", "dev"),
        ("beir/hotpotqa/test", "test"),
        ("msmarco-passage/trec-dl-2019/judged", "test"),
        ("train", "test"),
    ],
)
def test_splits(dataset_id: str, split: str) -> None:
    assert split_of(dataset_id) == split


# Faults


def test_an_unknown_dataset() -> None:
    with pytest.raises(InputError, match="no dataset 'nobody-knows-this'"):
        open_irdatasets("nobody-knows-this")


def test_a_dataset_without_documents(register: Register) -> None:
    register("tamis-test-bare/test", object())
    with pytest.raises(InputError, match="has no documents"):
        open_irdatasets("tamis-test-bare/test")


class Unreachable:
    def stream(self) -> Any:
        import requests

        raise requests.exceptions.ConnectionError("no route to host\nand more")


def test_a_download_that_fails(tmp_path: Path, home: Path, register: Register) -> None:
    from ir_datasets.formats import TrecQrels, TsvDocs
    from ir_datasets.util import Download, LocalDownload

    one = Download([Unreachable()], cache_path=str(tmp_path / "docs"))
    two = Download([Unreachable(), Unreachable()], cache_path=str(tmp_path / "qrels"))
    register("tamis-test-far", TsvDocs(one, lang="en"), TrecQrels(two, {}))
    collection = open_irdatasets("tamis-test-far")
    with pytest.raises(InputError, match=r"cannot get tamis-test-far: no route to host$") as caught:
        list(collection.documents)
    assert "ir_datasets export tamis-test-far docs" in caught.value.hint
    assert str(home) in caught.value.hint
    with pytest.raises(InputError, match="All download sources failed"):
        assert collection.qrels
    register("tamis-test-absent", TsvDocs(LocalDownload(tmp_path / "absent"), lang="en"))
    with pytest.raises(InputError, match="cannot get tamis-test-absent"):
        list(open_irdatasets("tamis-test-absent").documents)


def test_nothing_is_imported_before_a_dataset_is_opened(tmp_path: Path) -> None:
    script = "import sys, tamis.collection.irdatasets; print('ir_datasets' in sys.modules)"
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("IR_DATASETS_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "False\n"
    assert not (tmp_path / ".ir_datasets").exists()
