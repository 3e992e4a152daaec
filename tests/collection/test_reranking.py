"""The five-column table of candidates: as a collection, and sorted into Parquet."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.collection import candidate_rows
from tamis.collection.base import Faults
from tamis.collection.candidate_rows import reranking_to_parquet
from tamis.collection.candidate_table import open_reranking
from tamis.collection.readers import open_collection
from tamis.errors import InputError, LineError, OutputError
from tamis.types import Document

HEADER = "qid\tpid\tqueries\tpassage\trelevancy"
ROWS = [
    ("20", "100", "what is a sieve", "A sieve sorts grain.", "1"),
    ("20", "9", "what is a sieve", "Drums are loud.", "0"),
    ("3", "100", "grain", "A sieve sorts grain.", "0.0"),
    ("3", "1000", "grain", "Grain is wheat.", "1.0"),
    ("20", "10", "what is a sieve", "Körner.", "0"),
]


def write(path: Path, rows: Sequence[tuple[str, ...]] = ROWS, header: bool = True) -> Path:
    lines = [HEADER] if header else []
    lines += ["\t".join(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "train.tsv")


@pytest.mark.parametrize("header", [True, False])
def test_as_a_collection(tmp_path: Path, header: bool) -> None:
    collection = open_reranking(write(tmp_path / "train.tsv", header=header), Faults())
    assert (collection.name, collection.format) == ("train", "reranking")
    expected = [
        Document("100", "A sieve sorts grain."),
        Document("9", "Drums are loud."),
        Document("1000", "Grain is wheat."),
        Document("10", "Körner."),
    ]
    assert list(collection.documents) == expected
    assert list(collection.documents) == expected
    assert {q.id: q.text for q in collection.queries} == {"20": "what is a sieve", "3": "grain"}
    assert {split: qrels.to_dict() for split, qrels in collection.qrels.items()} == {
        "all": {"20": {"10": 0, "100": 1, "9": 0}, "3": {"100": 0, "1000": 1}}
    }


def test_packed(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv.gz"
    path.write_bytes(gzip.compress(write(tmp_path / "train.tsv").read_bytes()))
    assert len(list(open_reranking(path, Faults()).documents)) == 4


BAD = [
    (("20", "7", "what is a sieve", "x"), "4 columns instead of 5"),
    (("20", "7", "what is a sieve", "a tab", "in it", "1"), "6 columns instead of 5"),
    (("", "7", "what is a sieve", "x", "1"), "the qid is empty"),
    (("20", "7", "what is a sieve", "x", "yes"), "the relevancy is 'yes', not a whole number"),
    (("20", "7", "what is a sieve", "x", "0.5"), "the relevancy is '0.5', not a whole number"),
    (("20", "7", "what is a sieve", "x", "nan"), "the relevancy is 'nan', not a whole number"),
    (("20", "7", "another text", "x", "1"), "query '20' had another text before"),
    (("20", "9", "what is a sieve", "x", "1"), "passage '9' had another text before"),
]


@pytest.mark.parametrize(("bad", "problem"), BAD)
@pytest.mark.parametrize("batch", [1, 4096])
def test_bad_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: tuple[str, ...], problem: str, batch: int
) -> None:
    monkeypatch.setattr(candidate_rows, "BATCH_ROWS", batch)
    table = write(tmp_path / "t.tsv", [*ROWS[:2], bad, *ROWS[2:]])
    strict = open_reranking(table, Faults())
    for use in (
        lambda: list(strict.documents),
        lambda: strict.queries,
        lambda: strict.qrels,
        lambda: reranking_to_parquet(table, tmp_path / "t.parquet"),
    ):
        with pytest.raises(LineError, match=problem) as caught:
            use()
        assert (caught.value.line, bool(caught.value.hint)) == (4, True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.tsv"]
    lenient = open_reranking(table, Faults(skip=True))
    assert [document.id for document in lenient.documents] == ["100", "9", "1000", "10"]
    assert lenient.faults.count == 1
    assert lenient.qrels["all"] == open_reranking(write(tmp_path / "g.tsv"), Faults()).qrels["all"]


def test_a_passage_first_seen_on_a_bad_row_is_not_lost(tmp_path: Path) -> None:
    rows = [ROWS[0], ("20", "7", "another text", "seven", "1"), ("3", "7", "grain", "seven", "1")]
    collection = open_reranking(write(tmp_path / "t.tsv", rows), Faults(skip=True))
    assert [document.id for document in collection.documents] == ["100", "7"]
    assert collection.qrels["all"].to_dict() == {"20": {"100": 1}, "3": {"7": 1}}


@pytest.mark.parametrize("relevancy", ["0", "1"])
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_a_pair_that_occurs_twice(tmp_path: Path, relevancy: str, chunk: int) -> None:
    again = ("20", "100", "what is a sieve", "A sieve sorts grain.", relevancy)
    table = write(tmp_path / "t.tsv", [*ROWS, again])
    problem = "query '20' has passage '100' a second time"
    with pytest.raises(LineError, match=problem) as caught:
        assert open_reranking(table, Faults()).qrels
    assert caught.value.line == 7
    with pytest.raises(LineError, match=problem) as caught:
        reranking_to_parquet(table, tmp_path / "t.parquet", chunk=chunk)
    assert caught.value.line == 7
    lenient = open_reranking(table, Faults(skip=True))
    assert lenient.qrels["all"]["20"]["100"] == 1


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        open_reranking(tmp_path / "missing.tsv", Faults())


# Sorting


def test_sorted_as_numbers(table: Path, tmp_path: Path) -> None:
    notes = reranking_to_parquet(table, tmp_path / "t.parquet")
    found = pq.read_table(tmp_path / "t.parquet")
    assert notes == ["sorted by qid as numbers, relevancy ascending, pid as numbers"]
    columns = ["qid", "pid", "query", "passage", "relevancy", "q_idx", "p_idx"]
    assert found.column_names == columns
    assert list(zip(*(found[name].to_pylist() for name in columns), strict=True)) == [
        (3, 100, "grain", "A sieve sorts grain.", 0, 0, 0),
        (3, 1000, "grain", "Grain is wheat.", 1, 0, 1),
        (20, 9, "what is a sieve", "Drums are loud.", 0, 1, 0),
        (20, 10, "what is a sieve", "Körner.", 0, 1, 1),
        (20, 100, "what is a sieve", "A sieve sorts grain.", 1, 1, 2),
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.parquet", "train.tsv"]


def test_sorted_by_bytes(tmp_path: Path) -> None:
    rows = [*ROWS, ("20", "007", "what is a sieve", "Bond.", "0")]
    notes = reranking_to_parquet(write(tmp_path / "t.tsv", rows), tmp_path / "t.parquet", chunk=50)
    assert notes == ["sorted by qid as numbers, relevancy ascending, pid by bytes"]
    found = pq.read_table(tmp_path / "t.parquet")
    assert found["qid"].to_pylist() == [3, 3, 20, 20, 20, 20]
    assert found["pid"].to_pylist() == ["100", "1000", "007", "10", "9", "100"]
    assert found["p_idx"].to_pylist() == [0, 1, 0, 1, 2, 3]


def ids(numeric: bool) -> st.SearchStrategy[str]:
    if numeric:
        return st.integers(-(10**17), 10**17).map(str) | st.integers(0, 20).map(str)
    return st.text("ab9é🌾_", min_size=1, max_size=3)


@given(data=st.data(), numeric=st.tuples(st.booleans(), st.booleans()), chunk=st.integers(1, 60))
@settings(deadline=None, max_examples=40)
def test_any_chunk_size_gives_the_order_of_one_sort(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    numeric: tuple[bool, bool],
    chunk: int,
) -> None:
    pairs = data.draw(
        st.lists(st.tuples(ids(numeric[0]), ids(numeric[1])), min_size=1, max_size=40, unique=True)
    )
    rows = [
        (qid, pid, f"query {qid}", f"text {pid}", str(data.draw(st.integers(0, 2))))
        for qid, pid in pairs
    ]
    folder = tmp_path_factory.mktemp("sort")
    reranking_to_parquet(write(folder / "t.tsv", rows), folder / "t.parquet", chunk=chunk)
    found = pq.read_table(folder / "t.parquet").to_pylist()

    def key(column: int) -> list[int] | list[bytes]:
        cells = [row[column] for row in rows]
        if all(cell == str(int(cell)) for cell in cells if cell.lstrip("-").isdecimal()) and all(
            cell.lstrip("-").isdecimal() for cell in cells
        ):
            return [int(cell) for cell in cells]
        return [cell.encode() for cell in cells]

    keys = list(zip(key(0), [int(row[4]) for row in rows], key(1), strict=True))
    expected = [rows[n] for n in sorted(range(len(rows)), key=keys.__getitem__)]
    assert [(str(row["qid"]), str(row["pid"])) for row in found] == [row[:2] for row in expected]
    assert [row["passage"] for row in found] == [row[3] for row in expected]
    queries = list(dict.fromkeys(row[0] for row in expected))
    assert [row["q_idx"] for row in found] == [queries.index(row[0]) for row in expected]
    assert all(
        row["p_idx"]
        == (found[n - 1]["p_idx"] + 1 if n and found[n - 1]["qid"] == row["qid"] else 0)
        for n, row in enumerate(found)
    )


def test_a_small_chunk_makes_many_runs_and_the_same_file(tmp_path: Path) -> None:
    chance = random.Random(0)
    rows = [
        (str(q), str(p), f"query {q}", f"passage {p}", str(int(chance.random() < 0.1)))
        for q in range(20)
        for p in chance.sample(range(500), 30)
    ]
    chance.shuffle(rows)
    table = write(tmp_path / "t.tsv", rows)
    reranking_to_parquet(table, tmp_path / "small.parquet", chunk=200)
    reranking_to_parquet(table, tmp_path / "large.parquet")
    small, large = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("small", "large"))
    assert small.equals(large)
    assert large.num_rows == 600


def test_an_existing_file_is_kept_without_force(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    out.write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists already"):
        reranking_to_parquet(table, out)
    assert out.read_bytes() == b"mine"
    reranking_to_parquet(table, out, force=True)
    assert pq.read_table(out).num_rows == 5


def test_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no rows"):
        reranking_to_parquet(write(tmp_path / "t.tsv", []), tmp_path / "t.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["t.tsv"]


def test_what_was_sorted_into_parquet_opens_again(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text(
        "2\t7\tsieve\tSieves sort.\t1\n1\t9\tdrum\tDrums.\t0\n2\t9\tsieve\tDrums.\t0\n"
    )
    reranking_to_parquet(table, tmp_path / "sorted.parquet")
    again, before = open_collection(tmp_path / "sorted.parquet"), open_collection(table)
    assert again.format == "reranking"
    assert again.qrels == before.qrels
    assert again.queries == before.queries
    assert sorted(again.documents, key=lambda d: d.id) == sorted(
        before.documents, key=lambda d: d.id
    )
