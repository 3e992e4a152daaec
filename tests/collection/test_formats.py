"""A format is one object and one line in the registry; what it writes, it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis.cli.app import run as tamis
from tamis.collection.base import Collection, Faults
from tamis.collection.checks import collection_of_files
from tamis.collection.detection import detect_format
from tamis.collection.format_registry import FORMATS
from tamis.collection.formats import Format
from tamis.collection.judgements import read_qrels, write_qrels
from tamis.collection.lines import numbered_lines, writing
from tamis.collection.loss_notes import LossNotes
from tamis.collection.querylog import query_id
from tamis.collection.readers import open_collection, read_queries
from tamis.collection.runs import read_run, write_run
from tamis.collection.samples import FileHead
from tamis.collection.writers import write_collection, write_queries
from tamis.errors import InputError
from tamis.types import Document, Qrels, Queries, Query, Run, Spec

DOCUMENTS = [Document("d1", "Sieves sort grain."), Document("d2", "Drums are loud.")]
GRAIN, DRUMS = query_id("sort grain"), query_id("loud drums")
QUERIES = Queries.of([Query(GRAIN, "sort grain"), Query(DRUMS, "loud drums")])
QRELS = Qrels.from_dict({GRAIN: {"d1": 2, "d2": 0}, DRUMS: {"d2": 1}})
RUN = Run.from_dict({GRAIN: {"d1": 2.5, "d2": 1.0}, DRUMS: {"d2": 1.0}})
SMALL = Collection("small", "made", DOCUMENTS, lambda: QUERIES, lambda: {"test": QRELS})

FIRST_LINE = "#toy"


def read_toy(path: Path, faults: Faults) -> Iterator[tuple[int, Document]]:
    for number, line in numbered_lines(path, faults):
        if number > 1:
            doc_id, _, text = line.partition(" ~ ")
            yield number, Document(doc_id, text)


def read_toy_queries(path: Path, faults: Faults) -> Iterator[tuple[int, Query]]:
    return ((number, Query(doc.id, doc.text)) for number, doc in read_toy(path, faults))


def open_toy(path: Path, faults: Faults) -> Collection:
    return collection_of_files(path, "toy", [path], lambda file: read_toy(file, faults), faults)


def write_toy(collection: Collection, path: Path, notes: LossNotes, force: bool) -> None:
    rows = (f"{document.id} ~ {document.text}\n" for document in collection.documents)
    with writing(path, force) as file:
        file.write(f"{FIRST_LINE}\n{''.join(rows)}".encode())


def read_toy_run(path: Path, faults: Faults) -> Run:
    return Run.from_dict(json.loads(path.read_text().partition("\n")[2]))


def write_toy_run(
    run: Run, path: Path, notes: LossNotes, force: bool, *, tag: str, spec: Spec | None
) -> None:
    scores = {
        query: dict(zip(run[query].ids, run[query].score.tolist(), strict=True)) for query in run
    }
    path.write_text(f"#toyrun\n{json.dumps(scores)}")


def is_toy(head: FileHead) -> bool:
    return head.first == FIRST_LINE


def is_toy_run(head: FileHead) -> bool:
    return head.first == "#toyrun"


TOY = Format(
    name="toy",
    description="a line #toy, then id ~ text",
    holds=("documents", "queries"),
    suffix=".toy",
    detect=is_toy,
    open_collection=open_toy,
    read_queries=read_toy_queries,
    write_collection=write_toy,
)
TOY_RUN = Format(
    name="toyrun",
    description="a line #toyrun, then scores as JSON",
    holds=("run",),
    suffix=".toyrun",
    detect=is_toy_run,
    read_run=read_toy_run,
    write_run=write_toy_run,
)


@pytest.fixture
def registered() -> Iterator[None]:
    """The toy formats at the head of the registry, and nowhere else."""
    others = dict(FORMATS)
    FORMATS.clear()
    FORMATS.update({TOY.name: TOY, TOY_RUN.name: TOY_RUN, **others})
    yield
    FORMATS.clear()
    FORMATS.update(others)


@pytest.mark.usefixtures("registered")
def test_a_format_of_documents_is_one_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, table = tmp_path / "documents.toy", tmp_path / "documents.jsonl"
    assert write_collection(SMALL, table, "jsonl")
    assert tamis(["convert", str(table), str(path)]) == 0
    assert path.read_text().startswith(FIRST_LINE)
    assert detect_format(path) == "toy"
    assert [*open_collection(path).documents] == DOCUMENTS
    assert [*read_queries(path).ids] == ["d1", "d2"]
    assert tamis(["convert", str(path), str(tmp_path / "b"), "--to", "beir"]) == 0
    assert [*open_collection(tmp_path / "b").documents] == DOCUMENTS
    capsys.readouterr()
    assert tamis(["info", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["format"], facts["documents"]["count"]) == ("toy", 2)


@pytest.mark.usefixtures("registered")
def test_a_format_of_runs_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trec, path = tmp_path / "run.trec", tmp_path / "run.toyrun"
    write_run(RUN, trec)
    assert tamis(["convert", str(trec), str(path)]) == 0
    assert detect_format(path) == "toyrun"
    assert read_run(path) == RUN
    capsys.readouterr()
    assert tamis(["info", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 3
    assert tamis(["convert", str(path), str(tmp_path / "again"), "--to", "trec"]) == 0
    assert read_run(tmp_path / "again") == RUN


@pytest.mark.usefixtures("registered")
def test_errors_name_the_formats_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_collection(SMALL, tmp_path / "x", "absent")
    assert "toy" in caught.value.hint
    with pytest.raises(InputError) as caught:
        write_queries(QUERIES, tmp_path / "x", "toy")
    assert "querylog" in caught.value.hint and "toy" not in caught.value.hint


def names_with(writer: str) -> list[str]:
    """Every name by which a format is asked for that has this writer."""
    return [
        name
        for format in FORMATS.values()
        if getattr(format, writer)
        for name in (format.name, *format.aliases)
    ]


@pytest.mark.parametrize("name", names_with("write_collection"))
def test_collections_come_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    write_collection(SMALL, path, name)
    format = FORMATS[detect_format(path)]
    assert name in (format.name, *format.aliases)
    again = open_collection(path)
    assert [*again.documents] == DOCUMENTS
    if "collection" in format.holds:
        assert again.queries == QUERIES
        assert dict(again.qrels) == {"test": QRELS}


@pytest.mark.parametrize("name", names_with("write_queries"))
def test_queries_come_back(tmp_path: Path, name: str) -> None:
    write_queries(QUERIES, tmp_path / "x", name)
    assert detect_format(tmp_path / "x") == name
    assert read_queries(tmp_path / "x") == QUERIES


@pytest.mark.parametrize("name", names_with("write_qrels"))
def test_judgements_come_back(tmp_path: Path, name: str) -> None:
    write_qrels(QRELS, tmp_path / "x", format=name)
    assert "qrels" in FORMATS[detect_format(tmp_path / "x")].holds
    assert read_qrels(tmp_path / "x") == QRELS


@pytest.mark.parametrize("name", names_with("write_run"))
def test_runs_come_back(tmp_path: Path, name: str) -> None:
    write_run(RUN, tmp_path / "x", format=name)
    assert detect_format(tmp_path / "x") == "run"
    assert read_run(tmp_path / "x") == RUN


def test_every_writer_is_tried() -> None:
    assert {*names_with("write_collection")} >= {"beir", "store", "csv", "parquet"}
    assert {*names_with("write_qrels")} == {"trec", "qrels", "beir", "beir-qrels", "parquet"}
    assert {*names_with("write_run")} == {"trec", "run", "parquet"}
