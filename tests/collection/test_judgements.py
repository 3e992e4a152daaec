"""Judgements in TREC, BEIR and Parquet files: what is written comes back, bad lines are named."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.collection import _columns
from tamis.collection.base import Faults
from tamis.collection.judgements import read_qrels, write_qrels
from tamis.errors import InputError, LineError, OutputError
from tamis.types import Qrels

GRADES = st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-2, 3)
WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f\ufeff"),
    min_size=1,
    max_size=5,
)
CELLS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"),
    min_size=1,
    max_size=5,
)


def judgements(ids: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, dict[str, int]]]:
    judged = st.dictionaries(ids, GRADES, min_size=1, max_size=4)
    return st.dictionaries(ids, judged, min_size=1, max_size=5)


TREC = "q2 0 d7 1\nq1 0 d1 2\nq2 0 d8 0\nq1 0 d3 -2\n"
BEIR = "query-id\tcorpus-id\tscore\nq2\td7\t1\nq1\td1\t2\nq2\td8\t0\nq1\td3\t-2\n"
MEANT = {"q1": {"d1": 2, "d3": -2}, "q2": {"d7": 1, "d8": 0}}


def write(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "qrels"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def there_and_back(judged: dict[str, dict[str, int]], name: str, format: str) -> None:
    qrels = Qrels.from_dict(judged)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_qrels(qrels, path, format=format)
        back = read_qrels(path)
        assert back == qrels
        assert back.to_dict() == judged


@pytest.mark.parametrize("name", ["qrels.txt", "qrels.gz", "qrels.zst"])
@settings(max_examples=25, deadline=None)
@given(judged=judgements(WORDS))
def test_trec_there_and_back(name: str, judged: dict[str, dict[str, int]]) -> None:
    there_and_back(judged, name, "")


@pytest.mark.parametrize("name", ["test.tsv", "test.tsv.gz", "test.tsv.zst"])
@settings(max_examples=25, deadline=None)
@given(judged=judgements(CELLS))
def test_beir_there_and_back_with_spaces_in_ids(
    name: str, judged: dict[str, dict[str, int]]
) -> None:
    there_and_back(judged, name, "beir")


@settings(max_examples=25, deadline=None)
@given(judged=judgements(st.text(max_size=5)))
def test_parquet_there_and_back(judged: dict[str, dict[str, int]]) -> None:
    there_and_back(judged, "qrels.parquet", "")


@pytest.mark.parametrize(
    "content",
    [
        TREC,
        TREC[:-1],
        TREC.replace("\n", "\r\n"),
        "\ufeff" + TREC,
        "\n" + TREC.replace("\n", "\n\n"),
        TREC.replace(" ", "\t"),
        TREC.replace(" 1\n", " 1.0\n").replace("-2", "-2e0"),
        BEIR,
        BEIR[:-1],
        BEIR.partition("\n")[2],
        BEIR.replace("\n", "\r\n"),
        BEIR.replace("\n", "\n\n"),
        "\ufeff" + BEIR,
        "\ufeff" + BEIR.partition("\n")[2],
        BEIR.replace("\t1\n", "\t1.0\n"),
        BEIR.partition("\n")[2].replace("\t1\n", "\t1.0\n"),
        BEIR.partition("\n")[2].replace("\t1\n", "\t+1\n"),
    ],
)
@pytest.mark.parametrize("block", [7, 1 << 22])
def test_shapes_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, block: int
) -> None:
    monkeypatch.setattr(_columns, "BLOCK", block)
    assert read_qrels(write(tmp_path, content)).to_dict() == MEANT


def test_what_is_written(tmp_path: Path) -> None:
    qrels = Qrels.from_dict({"q1": {"d2": 1, "d1": 0}})
    write_qrels(qrels, tmp_path / "a")
    write_qrels(qrels, tmp_path / "b", format="beir")
    assert (tmp_path / "a").read_text() == "q1 0 d1 0\nq1 0 d2 1\n"
    assert (tmp_path / "b").read_text() == ("query-id\tcorpus-id\tscore\nq1\td1\t0\nq1\td2\t1\n")


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (TREC + "q3 0 d1\n", 5, "3 columns instead of 4"),
        (TREC + "q3 0 d1 1 1\n", 5, "5 columns instead of 4"),
        (TREC + "q3 0 d1 yes\n", 5, "the grade is 'yes', not a number"),
        (TREC + "q3 0 d1 nan\n", 5, "the grade is 'nan', not a number"),
        (TREC + "q3 0 d1 0.5\n", 5, "the grade is 0.5, not a whole number up to 2,147,483,647"),
        (TREC + "q3 0 d1 inf\n", 5, "the grade is inf, not a whole number up to 2,147,483,647"),
        (TREC + "\nq3 0 d1 1e10", 6, "the grade is 1e+10, not a whole number up to 2,147,483,647"),
        (TREC + "q1 0 d1 0\n", 5, "query 'q1' judges 'd1' a second time"),
        (BEIR + "q3\td1\n", 6, "2 columns, or an empty one, instead of three"),
        (BEIR + "q3\td1\t1\t1\n", 6, "4 columns, or an empty one, instead of three"),
        (BEIR + "\td1\t1\n", 6, "3 columns, or an empty one, instead of three"),
        (BEIR + "q3\t\t1\n", 6, "3 columns, or an empty one, instead of three"),
        (BEIR + "q3\td1\tyes\n", 6, "the score is 'yes', not a number"),
        (BEIR + "q3\td1\t\n", 6, "the score is '', not a number"),
        (BEIR + "q3\td1\tnan\n", 6, "the grade is nan, not a whole number up to 2,147,483,647"),
        (BEIR + "q3\td1\t0.5\n", 6, "the grade is 0.5, not a whole number up to 2,147,483,647"),
        (BEIR + "q1\td1\t2\n", 6, "query 'q1' judges 'd1' a second time"),
    ],
)
def test_a_bad_line_is_named_or_skipped(
    tmp_path: Path, content: str, line: int, problem: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(LineError) as caught:
        read_qrels(path)
    assert str(caught.value) == f"{path}:{line}: {problem}"
    assert caught.value.hint
    faults = Faults(skip=True)
    assert read_qrels(path, faults).to_dict() == MEANT
    assert faults.count == 1
    assert str(faults.first[0]) == f"{path}:{line}: {problem}"


@pytest.mark.parametrize("content", [TREC.encode(), BEIR.encode()])
def test_a_line_that_is_not_utf8(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, content + b"q\xff 0 d 1\n")
    with pytest.raises(LineError, match="byte 0xff at position 2 is not UTF-8") as caught:
        read_qrels(path)
    assert caught.value.line == content.count(b"\n") + 1
    faults = Faults(skip=True)
    assert read_qrels(path, faults).to_dict() == MEANT
    assert faults.count == 1


def test_a_second_judgement_counts_where_the_first_was_bad(tmp_path: Path) -> None:
    faults = Faults(skip=True)
    path = write(tmp_path, "q1 0 d1 0.5\nq1 0 d1 1\nq1 0 d1 3\n")
    assert read_qrels(path, faults).to_dict() == {"q1": {"d1": 1}}
    assert [fault.line for fault in faults.first] == [1, 3]


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no rows") as caught:
        read_qrels(write(tmp_path, ""))
    assert caught.value.hint == "needs: query 0 document grade"
    assert len(read_qrels(write(tmp_path, "query-id\tcorpus-id\tscore\n"))) == 0


def test_parquet_with_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "qrels.parquet"
    pq.write_table(pa.table({"query": ["q"], "doc": ["d"], "label": [1]}), path)
    with pytest.raises(InputError, match="no column 'grade'; it has: query, doc, label"):
        read_qrels(path)
    pq.write_table(pa.table({"query": [7], "doc": [1], "grade": [1]}), path)
    assert read_qrels(path).to_dict() == {"7": {"1": 1}}
    pq.write_table(pa.table({"query": ["q"], "doc": ["d"], "grade": [0.5]}), path)
    with pytest.raises(InputError, match="no whole number"):
        read_qrels(path)
    twice = {"query": ["q", "q"], "doc": ["d", "d"], "grade": [1, 2]}
    pq.write_table(pa.table(twice), path)
    with pytest.raises(InputError, match="judges document 'd' twice"):
        read_qrels(path)


@pytest.mark.parametrize("bad", ["a b", "tab\t", "new\nline", ""])
def test_ids_that_trec_cannot_hold(tmp_path: Path, bad: str) -> None:
    for judged in ({"q": {bad: 1, "d": 0}}, {bad: {"d": 1}, "q": {"d": 1}}):
        with pytest.raises(InputError) as caught:
            write_qrels(Qrels.from_dict(judged), tmp_path / "qrels")
        assert f"id {bad!r} is empty or has white space" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", ["tab\t", "new\nline", "cr\r"])
def test_ids_that_beir_cannot_hold(tmp_path: Path, bad: str) -> None:
    for judged in ({"q": {bad: 1, "d": 0}}, {bad: {"d": 1}, "q": {"d": 1}}):
        with pytest.raises(InputError, match="has a tab or a line break"):
            write_qrels(Qrels.from_dict(judged), tmp_path / "qrels", format="beir")
    assert list(tmp_path.iterdir()) == []


def test_only_ids_that_are_written_are_asked(tmp_path: Path) -> None:
    qrels = Qrels.from_dict({"q1": {"a b": 1}, "q2": {"c": 1}})
    part = qrels.select(Qrels.from_dict({"q2": {"c": 1}}).queries)
    write_qrels(part, tmp_path / "qrels")
    assert read_qrels(tmp_path / "qrels") == part


def test_a_format_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write judgements as 'csv'"):
        write_qrels(Qrels.from_dict(MEANT), tmp_path / "qrels.csv", format="csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["trec", "beir", "parquet"])
def test_what_exists_is_replaced_only_by_force(tmp_path: Path, format: str) -> None:
    path = write(tmp_path, "mine")
    qrels = Qrels.from_dict(MEANT)
    with pytest.raises(OutputError, match="exists already"):
        write_qrels(qrels, path, format=format)
    assert path.read_text() == "mine"
    write_qrels(qrels, path, format=format, force=True)
    assert read_qrels(path) == qrels


def test_rows_are_by_document_number(tmp_path: Path) -> None:
    qrels = read_qrels(write(tmp_path, TREC))
    assert qrels.grade.dtype == np.int32
    assert all(np.diff(qrels.doc[a:b]).min(initial=1) > 0 for a, b in [(0, 2), (2, 4)])
