"""From every kind of input to every target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.collection._records import Columns
from tamis.collection.base import Collection
from tamis.collection.conversion import Request, convert_any
from tamis.collection.detection import detect_format
from tamis.collection.judgements import read_qrels, write_qrels
from tamis.collection.querylog import query_id
from tamis.collection.readers import open_collection, read_queries
from tamis.collection.runs import read_run, write_run
from tamis.collection.writers import write_collection, write_queries
from tamis.errors import InputError, LineError, OutputError, UnknownFormatError
from tamis.types import Document, Qrels, Queries, Query, Run

DOCUMENTS = [Document("d1", "Sieves sort grain."), Document("d2", "Drums are loud.")]
GRAIN, DRUMS = query_id("sort grain"), query_id("loud drums")
QUERIES = Queries.of([Query(GRAIN, "sort grain"), Query(DRUMS, "loud drums")])
QRELS = Qrels.from_dict({GRAIN: {"d1": 1, "d2": 0}, DRUMS: {"d2": 1}})
RUN = Run.from_dict({GRAIN: {"d1": 2.5, "d2": 1.0}, DRUMS: {"d2": 1.0}})

FOLDERS = ("beir", "msmarco", "trectext", "collection")
TABLES = ("jsonl", "csv", "tsv", "parquet")
OTHERS = ("arrow", "id-text", "msmarco-docs", "files", "reranking")
QUERY_FORMATS = (*TABLES, "topics", "topics-xml", "querylog")


def everything() -> Collection:
    return Collection("tiny", "beir", DOCUMENTS, lambda: QUERIES, lambda: {"test": QRELS})


def a_collection(folder: Path, format: str) -> Path:
    """The small collection in this format."""
    path = folder / f"source-{format}"
    if format in (*FOLDERS, *TABLES):
        write_collection(everything(), path, format)
    elif format == "arrow":
        table = pa.table({"id": ["d1", "d2"], "text": [d.text for d in DOCUMENTS]})
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    elif format == "id-text":
        path.write_text("".join(f"{d.id}\t{d.text}\n" for d in DOCUMENTS))
    elif format == "msmarco-docs":
        path.write_text("".join(f"{d.id}\thttp://x\t\t{d.text}\n" for d in DOCUMENTS))
    elif format == "files":
        path.mkdir()
        for document in DOCUMENTS:
            (path / f"{document.id}.txt").write_text(document.text)
    else:
        path.write_text(
            "qid\tpid\tquery\tpassage\trelevancy\n"
            f"{GRAIN}\td1\tsort grain\tSieves sort grain.\t1\n"
            f"{GRAIN}\td2\tsort grain\tDrums are loud.\t0\n"
            f"{DRUMS}\td2\tloud drums\tDrums are loud.\t1\n"
        )
    return path


def texts(path: Path) -> set[str]:
    return {document.text for document in open_collection(path).documents}


@pytest.mark.parametrize("source", [*FOLDERS, *TABLES, *OTHERS])
@pytest.mark.parametrize("to", [None, *FOLDERS, *TABLES])
def test_collections(tmp_path: Path, source: str, to: str | None) -> None:
    target = tmp_path / "target"
    request = Request(a_collection(tmp_path, source), target, to=to)
    notes = convert_any(request)
    assert detect_format(target) == (to or "collection")
    assert texts(target) == {document.text for document in DOCUMENTS}
    if source not in (*FOLDERS, "reranking"):
        return
    if to in TABLES:
        assert "dropped, because the file holds documents only: 2 queries" in notes
        assert "dropped, because the file holds documents only: 3 judgements" in notes
    else:
        made = open_collection(target)
        assert made.queries == QUERIES
        assert [part.to_dict() for part in made.qrels.values()] == [QRELS.to_dict()]


@pytest.mark.parametrize("source", [*FOLDERS, "reranking"])
@pytest.mark.parametrize("to", [None, *QUERY_FORMATS])
def test_queries_of_collections(tmp_path: Path, source: str, to: str | None) -> None:
    target = tmp_path / "target"
    convert_any(Request(a_collection(tmp_path, source), target, to=to, only_queries=True))
    assert detect_format(target) == (to or "jsonl")
    assert read_queries(target) == QUERIES


@pytest.mark.parametrize("source", [*QUERY_FORMATS, "id-text"])
@pytest.mark.parametrize("to", [None, *QUERY_FORMATS])
def test_files_of_queries(tmp_path: Path, source: str, to: str | None) -> None:
    path, target = tmp_path / "source", tmp_path / "target"
    if source == "id-text":
        path.write_text("".join(f"{query.id}\t{query.text}\n" for query in QUERIES))
    else:
        write_queries(QUERIES, path, source)
    only = source in (*TABLES, "id-text")
    convert_any(Request(path, target, to=to, only_queries=only))
    assert detect_format(target) == (to or "jsonl")
    assert read_queries(target) == QUERIES


@pytest.mark.parametrize("source", ["trec", "parquet"])
@pytest.mark.parametrize("to", [None, "trec", "parquet"])
@pytest.mark.parametrize("name", ["target", "target.parquet"])
def test_runs(tmp_path: Path, source: str, to: str | None, name: str) -> None:
    path, target = tmp_path / "source", tmp_path / name
    write_run(RUN, path, format=source)
    assert convert_any(Request(path, target, to=to)) == []
    assert detect_format(target) == "run"
    assert read_run(target) == RUN
    parquet = to == "parquet" or (to is None and name.endswith(".parquet"))
    assert (target.read_bytes()[:4] == b"PAR1") == parquet


def test_what_a_run_leaves_out_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_run(RUN.with_extra(passage=[1, 2, 3]), path)
    notes = convert_any(Request(path, tmp_path / "run.trec"))
    assert notes == ["dropped (only .parquet can hold it): passage"]


@pytest.mark.parametrize("source", ["trec", "beir", "parquet"])
@pytest.mark.parametrize("to", [None, "trec", "beir", "parquet"])
@pytest.mark.parametrize("name", ["target", "target.parquet"])
def test_judgements(tmp_path: Path, source: str, to: str | None, name: str) -> None:
    path, target = tmp_path / "source", tmp_path / name
    write_qrels(QRELS, path, format=source)
    assert convert_any(Request(path, target, to=to)) == []
    assert detect_format(target) == ("beir-qrels" if to == "beir" else "qrels")
    assert read_qrels(target) == QRELS


def test_the_reranking_table_is_indexed(tmp_path: Path) -> None:
    target = tmp_path / "target.parquet"
    notes = convert_any(Request(a_collection(tmp_path, "reranking"), target, to="indexed"))
    assert notes == ["sorted by qid by bytes, relevancy ascending, pid by bytes"]
    rows = pq.read_table(target).to_pylist()
    assert [(row["qid"], row["pid"], row["q_idx"], row["p_idx"]) for row in rows] == [
        (DRUMS, "d2", 0, 0),
        (GRAIN, "d2", 1, 0),
        (GRAIN, "d1", 1, 1),
    ]


@pytest.mark.parametrize("source", ["beir", "jsonl", "files", "id-text"])
def test_nothing_else_is_indexed(tmp_path: Path, source: str) -> None:
    with pytest.raises(InputError, match=f"is {source}, not .* qid pid query") as caught:
        convert_any(Request(a_collection(tmp_path, source), tmp_path / "target", to="indexed"))
    assert "indexed" in caught.value.hint
    assert not (tmp_path / "target").exists()


def test_a_collection_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.collection.pydocs.open_pydocs", everything)
    convert_any(Request("tamis:pydocs", tmp_path / "log", to="querylog", only_queries=True))
    assert (tmp_path / "log").read_text() == "loud drums\nsort grain\n"
    convert_any(Request("tamis:pydocs", tmp_path / "folder", to="beir"))
    assert open_collection(tmp_path / "folder").queries == QUERIES
    with pytest.raises(InputError, match="there is no collection tamis:other"):
        convert_any(Request("tamis:other", tmp_path / "other"))


@pytest.mark.parametrize(
    ("source", "to", "said"),
    [
        ("run", "beir", "cannot write a run as 'beir'"),
        ("run", "indexed", "cannot write a run as 'indexed'"),
        ("qrels", "jsonl", "cannot write judgements as 'jsonl'"),
        ("querylog", "beir", "cannot write queries as 'beir'"),
        ("beir", "word", "cannot write a collection as 'word'"),
        ("beir", "trec", "cannot write a collection as 'trec'"),
    ],
)
def test_targets_there_are_not(tmp_path: Path, source: str, to: str, said: str) -> None:
    path, target = tmp_path / "source", tmp_path / "target"
    if source == "run":
        write_run(RUN, path)
    elif source == "qrels":
        write_qrels(QRELS, path)
    elif source == "querylog":
        path.write_text("drum sieve\n")
    else:
        path = a_collection(tmp_path, source)
    with pytest.raises(InputError, match=said) as caught:
        convert_any(Request(path, target, to=to))
    assert caught.value.hint.startswith("formats: ")
    assert not target.exists()


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file or folder"):
        convert_any(Request(tmp_path / "nowhere", tmp_path / "target"))
    (tmp_path / "odd").write_bytes(b"a\tb\tc\n")
    with pytest.raises(UnknownFormatError):
        convert_any(Request(tmp_path / "odd", tmp_path / "target"))
    (tmp_path / "log").write_text("drum sieve\n")
    with pytest.raises(InputError, match="there is no format 'word'"):
        convert_any(Request(tmp_path / "log", tmp_path / "target", format="word"))


@pytest.mark.parametrize("kind", ["run", "qrels", "log", "beir"])
def test_what_exists_is_replaced_only_by_force(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "source", tmp_path / "target"
    if kind == "run":
        write_run(RUN, path)
    elif kind == "qrels":
        write_qrels(QRELS, path)
    elif kind == "log":
        path.write_text("drum sieve\n")
    else:
        path = a_collection(tmp_path, kind)
    target.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        convert_any(Request(path, target))
    assert target.read_text() == "mine"
    convert_any(Request(path, target, force=True))
    assert detect_format(target)


BAD = {
    "run": ("q1 Q0 d1 1 2.5 me\n" * 2, "lists document 'd1' a second time"),
    "qrels": ("q1 0 d1 1\nq1 0 d2 1.5\n", "the grade is 1.5"),
    "beir-qrels": ("query-id\tcorpus-id\tscore\nq\td\n", "2 columns, or an empty one"),
    "querylog": ("one\n\ntwo\n", "a blank line"),
    "jsonl": ('{"id": "d1", "text": "x"}\n{"id": "d1", "text": "y"}\n', "occurs a second time"),
}


@pytest.mark.parametrize("format", BAD)
def test_bad_lines_are_raised_or_skipped_and_told(tmp_path: Path, format: str) -> None:
    content, problem = BAD[format]
    path = tmp_path / "source"
    path.write_text(content)
    request = Request(path, tmp_path / "target", format=format)
    with pytest.raises(LineError, match=problem):
        convert_any(request)
    assert not request.target.exists()
    count, first, *_ = convert_any(replace(request, skip=True))
    assert count == "1 bad line skipped"
    assert first.startswith(f"skipped: {path}:2: ")
    assert problem in first


def test_columns_by_name(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text("sku,words\n7,drum sieve\n")
    columns = Columns(id="sku", text="words")
    convert_any(Request(path, tmp_path / "out.jsonl", to="jsonl", columns=columns))
    assert [*open_collection(tmp_path / "out.jsonl").documents] == [Document("7", "drum sieve")]


@pytest.mark.parametrize("to", ["jsonl", "beir", "collection", "tsv"])
def test_bad_front_matter_is_said_once(
    to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tamis.cli.app import run

    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("---\ntitle: [a\n---\nBody.\n")
    (folder / "b.md").write_text("Plain.\n")
    assert run(["convert", str(folder), str(tmp_path / "out"), "--to", to]) == 0
    assert capsys.readouterr().err.count("front matter of 1 file left out") == 1
