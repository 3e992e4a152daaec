"""Every bad input gives its error: file, line, what was found, what would be right."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.collection.readers import open_collection, read_queries
from tamis.collection.tables import Columns
from tamis.errors import InputError, LineError

GOOD = b'{"id": "d1", "text": "one"}\n'


def error_of(path: Path, format: str | None = None, columns: Columns | None = None) -> LineError:
    with pytest.raises(LineError) as caught:
        [*open_collection(path, format=format, columns=columns).documents]
    assert caught.value.path == str(path)
    assert caught.value.hint
    return caught.value


JSON_FAULTS = [
    (b'{"id": "d2", "text": \n', "broken JSON: unexpected end of data, at character"),
    (b'{"id": "d2", "text": "caf\xe9"}\n', "byte 0xe9 at position 26 is not UTF-8"),
    (b'["d2", "two"]\n', "not a JSON object"),
    (b'{"id": "d2", "body": "two"}\n', "no field 'text'"),
    (b'{"text": "two"}\n', "no field 'id'"),
    (b'{"id": "d1", "text": "two"}\n', "document id 'd1' occurs a second time"),
    (b'{"id": "", "text": "two"}\n', "the document's id is empty"),
    (b'{"id": null, "text": "two"}\n', "the document's id is empty"),
    (b'{"id": 1.5, "text": "two"}\n', "the id in 'id' is 1.5"),
    (b'{"id": true, "text": "two"}\n', "the id in 'id' is true or false"),
    (b'{"id": "d2", "text": ["two"]}\n', "the text in 'text' is a list"),
]


@pytest.mark.parametrize(("bad", "problem"), JSON_FAULTS)
@pytest.mark.parametrize("packed", [False, True])
def test_jsonl(tmp_path: Path, bad: bytes, problem: str, packed: bool) -> None:
    path = tmp_path / "docs"
    raw = GOOD + b"\n" + bad + b'{"id": 3, "text": "three"}\n'
    path.write_bytes(gzip.compress(raw) if packed else raw)
    error = error_of(path)
    assert error.line == 3
    assert error.problem.startswith(problem)
    collection = open_collection(path, on_error="skip")
    for _ in range(2):  # going through it again counts nothing twice
        assert [d.id for d in collection.documents] == ["d1", "3"]
        assert collection.faults.count == 1
        assert [e.line for e in collection.faults.first] == [3]


def test_jsonl_without_usual_names(tmp_path: Path) -> None:
    path = tmp_path / "docs"
    path.write_text('{"sku": "a", "words": "one"}\n')
    error = error_of(path)
    assert str(error) == f"{path}:1: no field for the id (id, _id, docid, doc_id, docno, pid)"
    assert error.hint == "name it with --id, --text or --title; columns here: sku, words"
    documents = [*open_collection(path, columns=Columns(id="sku", text="words")).documents]
    assert [(d.id, d.text, dict(d.fields)) for d in documents] == [("a", "one", {})]
    assert error_of(path, columns=Columns(id="nr", text="words")).problem == "no field 'nr'"


def test_other_columns_become_fields(tmp_path: Path) -> None:
    path = tmp_path / "docs"
    path.write_text(
        '{"docno": 7, "contents": "one", "headline": "T", "year": 1958, "tags": ["a"],'
        ' "none": null, "metadata": {}, "ok": false, "by": "Perlis"}\n'
    )
    (document,) = open_collection(path).documents
    assert (document.id, document.text, document.title) == ("7", "one", "T")
    assert document.fields == {"year": "1958", "tags": '["a"]', "ok": "false", "by": "Perlis"}


CSV_FAULTS = [
    ("d2,two,extra\n", 3, "3 columns where the header has 2"),
    ("d2\n", 3, "1 columns where the header has 2"),
    ('d2,"two" more\n', 3, "not a row of cells"),
    ('d2,"two\n', 3, "not a row of cells"),
    (",two\n", 3, "the document's id is empty"),
    ("d1,two\n", 3, "document id 'd1' occurs a second time"),
    ('d2,"two\nlines"\nd2,again\n', 5, "document id 'd2' occurs a second time"),
]


@pytest.mark.parametrize(("bad", "line", "problem"), CSV_FAULTS)
@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_csv(
    tmp_path: Path, bad: str, line: int, problem: str, format: str, delimiter: str
) -> None:
    path = tmp_path / "docs"
    path.write_text(f"id,text\nd1,one\n{bad}".replace(",", delimiter), newline="")
    error = error_of(path)
    assert error.line == line
    assert error.problem.startswith(problem)
    collection = open_collection(path, on_error="skip")
    assert next(iter(collection.documents)).id == "d1"
    assert collection.format == format


def test_csv_headers(tmp_path: Path) -> None:
    path = tmp_path / "docs"
    path.write_text("id,text,id\nd1,one,x\n")
    assert error_of(path).problem == "column 'id' occurs twice"
    path.write_text("id,text\nd1,one\n")
    with pytest.raises(InputError, match="has no column 'head'") as caught:
        [*open_collection(path, format="csv", columns=Columns(title="head")).documents]
    assert caught.value.hint == "its columns: id, text"


def test_csv_rows_longer_than_pythons_limit_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "docs"
    path.write_text(f"id,text\r\nd1,{'long ' * 100_000}\r\n\r\nd2,two\r\n", newline="")
    assert [(d.id, len(d.text)) for d in open_collection(path).documents] == [
        ("d1", 500_000),
        ("d2", 3),
    ]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "docs"
    pq.write_table(
        pa.table({"id": [1, 2, 2], "text": [b"a", b"b", b"c"], "n": [0.5, None, 1]}), path
    )
    error = error_of(path)
    assert (error.line, error.problem) == (3, "document id '2' occurs a second time")
    collection = open_collection(path, on_error="skip")
    assert [(d.id, d.text, dict(d.fields)) for d in collection.documents] == [
        ("1", "a", {"n": "0.5"}),
        ("2", "b", {}),
    ]
    with pytest.raises(InputError, match="has no column 'words'"):
        [*open_collection(path, columns=Columns(text="words")).documents]
    pq.write_table(pa.table({"id": ["1"], "text": [b"\xff"]}), path)
    assert error_of(path).problem == "the bytes in 'text' are not UTF-8"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot be read"):
        open_collection(path)


@pytest.mark.parametrize("stream", [False, True])
def test_arrow(tmp_path: Path, stream: bool) -> None:
    path = tmp_path / "docs"
    table = pa.table({"id": ["1", "2"], "text": ["a", "b"]})
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(path, table.schema) as writer:
        writer.write_table(table)
    collection = open_collection(path)
    assert collection.format == "arrow"
    assert [d.text for d in collection.documents] == ["a", "b"]


TREC_FAULTS = [
    ("<DOC>\n<TEXT>x</TEXT>\n</DOC>\n", 4, "<DOC> has no <DOCNO>"),
    ("<DOC>\n<DOCNO>d2</DOCNO>\n", 4, "<DOC> has no </DOC>"),
    ("stray\n", 4, "words outside <DOC>: 'stray'"),
    ("<DOC><DOCNO>d1</DOCNO>x</DOC>\n", 4, "document id 'd1' occurs a second time"),
    ("<DOC><DOCNO></DOCNO>x</DOC>\n", 4, "the document's id is empty"),
    ("<DOC>\n<DOC><DOCNO>d3</DOCNO>x</DOC>\n", 4, "<DOC> has no </DOC>"),
]


@pytest.mark.parametrize(("bad", "line", "problem"), TREC_FAULTS)
def test_trectext(tmp_path: Path, bad: str, line: int, problem: str) -> None:
    path = tmp_path / "docs"
    path.write_text(f"<DOC>\n<DOCNO>d1</DOCNO>x\n</DOC>\n{bad}")
    error = error_of(path)
    assert (error.line, error.problem) == (line, problem)
    collection = open_collection(path, on_error="skip")
    assert [d.id for d in collection.documents][:1] == ["d1"]
    assert collection.faults.count == 1


def test_id_text(tmp_path: Path) -> None:
    path = tmp_path / "docs"
    path.write_text("".join(f"d{n}\ttext\n" for n in range(300)) + "d300 text\n\n")
    error = error_of(path)
    assert str(error) == f"{path}:301: 1 columns where 2 are expected"
    assert error.hint == "a line is, with tabs between: id text"


def test_duplicates_are_found_across_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(GOOD)
    with pytest.raises(LineError) as caught:
        [*open_collection(tmp_path, format="jsonl").documents]
    assert str(caught.value) == f"{tmp_path}/b:1: document id 'd1' occurs a second time"
    assert "--on-error skip" in caught.value.hint


def query_error_of(path: Path, format: str | None = None) -> LineError:
    with pytest.raises(LineError) as caught:
        read_queries(path, format)
    assert caught.value.path == str(path)
    assert caught.value.hint
    return caught.value


QUERY_FAULTS = [
    ("querylog", "one\n\ntwo\n", 2, "a blank line"),
    ("id-text", "q1\tone\nq1\ttwo\n", 2, "query id 'q1' occurs a second time"),
    ("id-text", "q1\tone\nq2\t\n", 2, "query 'q2' is empty"),
    ("id-text", "q1\tone\n\ttwo\n", 2, "the query's id is empty"),
    ("topics", "<top>\n<title> x\n</top>\n", 1, "<top> has no <num>"),
    ("topics", "<top>\n<num> Number: 1\n<title> x\n", 1, "<top> has no </top>"),
    ("topics", "<top>\n<num> 1\n</top>\n", 1, "query '1' is empty"),
    (
        "topics-xml",
        "<topics>\n<topic><title>x</title></topic></topics>",
        2,
        "<topic> has no number",
    ),
    ("topics-xml", "<topics>\n<topic>\n</topics>", 3, "broken XML: mismatched tag"),
    ("jsonl", '{"qid": 1, "query": "x"}\n{"qid": 2}\n', 2, "no field 'query'"),
    ("csv", "qid,query\n1,x\n1,y\n", 3, "query id '1' occurs a second time"),
]


@pytest.mark.parametrize(("format", "text", "line", "problem"), QUERY_FAULTS)
def test_queries(tmp_path: Path, format: str, text: str, line: int, problem: str) -> None:
    path = tmp_path / "queries"
    path.write_text(text)
    error = query_error_of(path, format)
    assert (error.line, error.problem) == (line, problem)


def test_msmarco_queries_that_disagree(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("d1\tone\n")
    (tmp_path / "queries.dev.tsv").write_text("q1\tone\nq2\ttwo\n")
    (tmp_path / "queries.dev.small.tsv").write_text("q1\tone\n")
    assert len(open_collection(tmp_path).queries) == 2
    (tmp_path / "queries.dev.small.tsv").write_text("q1\tother\n")
    with pytest.raises(LineError, match="query 'q1' has another text in another file"):
        _ = open_collection(tmp_path).queries
