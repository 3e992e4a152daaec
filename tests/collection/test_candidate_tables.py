"""Tables of candidates: as runs, in figures, and written from a collection and a run."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.cli.app import run as command
from tamis.collection.base import Collection, Faults
from tamis.collection.candidate_rows import reranking_to_parquet
from tamis.collection.candidate_selection import Selection, relevancy_of, select_candidates
from tamis.collection.candidate_statistics import candidate_facts
from tamis.collection.candidate_table_writer import write_candidate_table
from tamis.collection.detection import detect_format
from tamis.collection.judgements import read_qrels
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run, write_run
from tamis.collection.store import write_store
from tamis.errors import InputError, LineError
from tamis.types import Document, Qrels, Queries, Query, Run

ROWS = [
    ("20", "100", "what is a sieve", "A sieve sorts grain.", "1"),
    ("3", "9", "grain", "Drums are loud.", "0"),
    ("20", "9", "what is a sieve", "Drums are loud.", "0"),
    ("3", "1000", "grain", "Grain is wheat.", "1.0"),
]
HEADER = ("qid", "pid", "queries", "passage", "relevancy")


def write(
    path: Path, rows: Sequence[tuple[str, ...]] = ROWS, header: tuple[str, ...] = HEADER
) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *rows]), "utf-8")
    return path


# As a run


def test_as_a_run(tmp_path: Path) -> None:
    """Groups that are not contiguous are joined; no score and no order tells what is relevant."""
    run = read_run(write(tmp_path / "t.tsv"))
    assert {query: list(run[query]) for query in run} == {
        "20": [("9", 0.0), ("100", 0.0)],
        "3": [("9", 0.0), ("1000", 0.0)],
    }
    assert run.queries["20"].text == "what is a sieve"
    shuffled = read_run(write(tmp_path / "s.tsv", ROWS[::-1]))
    assert shuffled.to_dict() == run.to_dict()


def test_as_parquet_of_tamis_and_of_others(tmp_path: Path) -> None:
    expected = read_run(write(tmp_path / "t.tsv")).to_dict()
    reranking_to_parquet(tmp_path / "t.tsv", tmp_path / "t.parquet")
    assert read_run(tmp_path / "t.parquet").to_dict() == expected
    columns = {name: [row[n] for row in ROWS] for n, name in enumerate(HEADER)}
    numbers = {"relevancy": [float(row[4]) for row in ROWS], "qid": [int(row[0]) for row in ROWS]}
    pq.write_table(pa.table({**columns, **numbers, "split": ["a"] * 4}), tmp_path / "p.parquet")
    assert detect_format(tmp_path / "p.parquet") == "reranking"
    assert read_run(tmp_path / "p.parquet").to_dict() == expected
    pq.write_table(pa.table({**columns, "relevancy": [0.5] * 4}), tmp_path / "h.parquet")
    with pytest.raises(LineError, match=r"the relevancy is 0\.5, not a whole number"):
        read_run(tmp_path / "h.parquet")


def test_convert_to_run(tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv")
    for name in ("c.parquet", "c.trec"):
        assert command(["convert", str(table), str(tmp_path / name), "--to", "run"]) == 0
        assert read_run(tmp_path / name).to_dict() == read_run(table).to_dict()
    assert read_run(tmp_path / "c.parquet").queries.texts == ("what is a sieve", "grain")
    assert (tmp_path / "c.trec").read_text().startswith("20 Q0 9 1 0.0")


def test_as_judgements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path / "t.tsv")
    assert read_qrels(table).to_dict() == {"20": {"100": 1, "9": 0}, "3": {"1000": 1, "9": 0}}
    (tmp_path / "run.trec").write_text("20 Q0 100 1 2 x\n20 Q0 9 2 1 x\n3 Q0 9 1 1 x\n")
    arguments = [str(table), str(tmp_path / "run.trec"), "-m", "RR", "--json"]
    assert command(["evaluate", *arguments]) == 0
    assert "0.5" in capsys.readouterr().out


BAD = {
    "4 columns instead of 5": ("20", "7", "what is a sieve", "x"),
    "7 columns instead of 5": ("20", "7", "what is a sieve", "x", "1", "0", "0"),
    "the relevancy is 'yes'": ("20", "7", "what is a sieve", "x", "yes"),
    "the relevancy is '1e12'": ("20", "7", "what is a sieve", "x", "1e12"),
    "the relevancy is 'inf'": ("20", "7", "what is a sieve", "x", "inf"),
    "query '20' has passage '100' a second time": ROWS[0],
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_rows_are_refused_or_skipped(tmp_path: Path, problem: str) -> None:
    table = write(tmp_path / "t.tsv", [*ROWS, BAD[problem]])
    with pytest.raises(LineError, match=problem) as raised:
        read_run(table)
    assert (raised.value.line, bool(raised.value.hint)) == (6, True)
    faults = Faults(skip=True)
    assert read_run(table, faults).to_dict() == read_run(write(tmp_path / "g.tsv")).to_dict()
    assert faults.count == 1


def test_missing_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path / "t.tsv", [row[:4] for row in ROWS], HEADER[:4])
    output = str(tmp_path / "o.trec")
    assert command(["convert", str(table), output, "--format", "reranking", "--to", "run"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]


# In figures


def test_figures_by_hand() -> None:
    """Two queries of three candidates and one of one, two pairs of seven relevant."""
    judged = {
        "1": {"5": 1, "6": 0, "7": 0},
        "2": {"5": 0, "6": 0, "7": 0},
        "4": {"5": 1},
    }
    facts = candidate_facts(Qrels.from_dict(judged))
    assert facts["columns"] == {
        "qid": {"type": "int", "distinct": 3, "contiguous": False},
        "pid": {"type": "int", "distinct": 3, "contiguous": True},
        "query": {"type": "string"},
        "passage": {"type": "string"},
        "relevancy": {"type": "int", "binary": True},
    }
    candidates = facts["candidates"]
    assert candidates["pairs"] == 7
    assert candidates["by_relevancy"] == {
        "0": {"pairs": 5, "share": round(5 / 7, 6)},
        "1": {"pairs": 2, "share": round(2 / 7, 6)},
    }
    assert candidates["relevant_per_other"] == 2 / 5
    third, all_of_them = round(1 / 3, 6), {"at_most": 50, "queries": 3, "share": 1.0}
    assert candidates["largest_groups"] == {"candidates": 3, "queries": 2, "share": round(2 / 3, 6)}
    assert candidates["small_groups"] == all_of_them
    assert candidates["queries_with_none_relevant"] == {"queries": 1, "share": third}
    assert candidates["queries_with_only_relevant"] == {"queries": 1, "share": third}


def test_shares_of_the_paper_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("1", str(n), "grain", f"passage {n}", str(int(n == 7))) for n in range(900)]
    assert command(["info", str(write(tmp_path / "t.tsv", rows))]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "0 pairs 899, share 0.9989 1 pairs 1, share 0.0011" in printed
    assert command(["info", str(tmp_path / "t.tsv"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["candidates"]["by_relevancy"]["1"] == {"pairs": 1, "share": 0.001111}
    assert facts["columns"]["qid"]["type"] == "int"


# From a collection and a run


def test_relevancy_of_rows() -> None:
    run = Run.from_dict({"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"b": 1.0}, "q9": {"a": 1.0}})
    qrels = Qrels.from_dict({"q1": {"c": 2, "x": 1}, "q2": {"a": 1}, "q5": {"a": 1}})
    assert relevancy_of(run, qrels).tolist() == [0, 0, 2, 0, 0]
    assert relevancy_of(run, Qrels.from_dict({})).tolist() == [0] * 5


SCORES = st.dictionaries(st.sampled_from("stuvw"), st.floats(0, 9, width=32))
GRADES = st.dictionaries(st.sampled_from("stuvwx"), st.integers(-1, 3))


@given(
    st.dictionaries(st.sampled_from("abcd"), SCORES),
    st.dictionaries(st.sampled_from("abcde"), GRADES),
)
def test_relevancy_is_that_of_the_dictionaries(
    scores: dict[str, dict[str, float]], grades: dict[str, dict[str, int]]
) -> None:
    run, qrels = Run.from_dict(scores), Qrels.from_dict(grades)
    expected = [grades.get(q, {}).get(d, 0) for q in run for d in run[q].ids]
    assert relevancy_of(run, qrels).tolist() == expected
    selected = select_candidates(run, qrels)
    usable = sorted(q for q in scores if any(grades.get(q, {}).get(d, 0) > 0 for d in scores[q]))
    assert list(selected.run) == usable
    assert selected.num_none_relevant == len(grades) - len(usable)
    assert selected.num_not_judged == len({*scores} - {*grades})


def many(num_queries: int = 20, depth: int = 100) -> tuple[Run, Qrels]:
    """The relevant documents of query n stand at ranks n + 1 and depth."""
    scores = {
        f"q{n}": {f"d{d}": float(depth - d) for d in range(depth)} for n in range(num_queries)
    }
    grades = {f"q{n}": {f"d{n}": 1, f"d{depth - 1}": 1} for n in range(num_queries)}
    return Run.from_dict(scores), Qrels.from_dict(grades)


def test_some_queries_are_cut_with_the_relevant_kept() -> None:
    run, qrels = many()
    selection = Selection(sample=10, short_queries=4, short_depth=5, seed=3)
    selected = select_candidates(run, qrels, selection)
    sizes = selected.run.sizes()
    assert sorted(sizes.tolist()) == [5] * 4 + [100] * 6
    for number, query in enumerate(selected.run):
        ids = selected.run[query].ids
        assert {f"d{query[1:]}", "d99"} <= {*ids}
        if sizes[number] == 5:
            relevant = {int(query[1:]), 99}
            others = [n for n in range(100) if n not in relevant][: 5 - len(relevant)]
            assert ids == [f"d{n}" for n in sorted([*relevant, *others])]
    again = select_candidates(run, qrels, selection)
    assert again.run.to_dict() == selected.run.to_dict()
    other = select_candidates(run, qrels, replace(selection, seed=4))
    assert other.run.to_dict() != selected.run.to_dict()
    assert selected.notes() == [
        "10 queries, 620 pairs, 3.226% relevant",
        "10 queries left out: not drawn (seed 3)",
        "4 queries cut to at most 5 candidates (seed 3)",
    ]


def test_depth_comes_first() -> None:
    run, qrels = many()
    selected = select_candidates(run, qrels, Selection(depth=10))
    assert len(selected.run) == 10
    assert selected.num_none_relevant == 10


@pytest.mark.parametrize(
    ("selection", "problem"),
    [
        (Selection(sample=21), "21 queries asked for, but 20 with a relevant candidate"),
        (Selection(short_queries=21), "21 queries asked for, but 20 have more than 50 candidates"),
        (Selection(depth=10, short_queries=1), "but 0 have more than 50 candidates"),
        (Selection(depth=0), "depth is 0"),
        (Selection(short_queries=-1), "short_queries is -1"),
    ],
)
def test_selections_that_cannot_be_made(selection: Selection, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as raised:
        select_candidates(*many(), selection)
    assert raised.value.hint


DOCUMENTS = [
    Document("10", "A sieve\tsorts\ngrain."),
    Document("9", "Loud.", title="Drums"),
    Document("100", "Wheat."),
    Document("7", "Nobody asks."),
]
QUERIES = Queries.of([Query("20", "sieve"), Query("3", "drum\nnoise"), Query("5", "fish")])
QRELS = Qrels.from_dict({"20": {"10": 1}, "3": {"9": 2}, "5": {"7": 1}})
RUN = Run.from_dict(
    {
        "20": {"9": 3.0, "10": 2.0, "100": 1.0},
        "3": {"9": 2.0, "100": 1.0},
        "5": {"9": 1.0},
    }
)


def collection(stored_in: Path | None = None) -> Collection:
    made = Collection("toy", "none", DOCUMENTS, lambda: QUERIES, lambda: {"train": QRELS})
    if stored_in is None:
        return made
    write_store(made, stored_in)
    return open_collection(stored_in)


@pytest.mark.parametrize("is_stored", [True, False])
def test_the_table_by_hand(tmp_path: Path, is_stored: bool) -> None:
    path = tmp_path / "t.tsv"
    selected = select_candidates(RUN, QRELS)
    source = collection(tmp_path / "store" if is_stored else None)
    notes = write_candidate_table(selected.run, source, path)
    assert path.read_text() == (
        "qid\tpid\tquery\tpassage\trelevancy\tq_idx\tp_idx\n"
        "3\t100\tdrum noise\tWheat.\t0\t0\t0\n"
        "3\t9\tdrum noise\tDrums Loud.\t2\t0\t1\n"
        "20\t9\tsieve\tDrums Loud.\t0\t1\t0\n"
        "20\t100\tsieve\tWheat.\t0\t1\t1\n"
        "20\t10\tsieve\tA sieve sorts grain.\t1\t1\t2\n"
    )
    assert sorted(notes) == [
        "tabs or line breaks in 1 query were replaced by spaces: a line here is one record",
        "tabs or line breaks in 1 text were replaced by spaces: a line here is one record",
        "titles were put before the text of 1 document: the table has no column for them",
    ]
    assert sorted(file.name for file in tmp_path.iterdir() if file.name != "store") == ["t.tsv"]


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    selected = select_candidates(RUN, QRELS)
    write_candidate_table(selected.run, collection(), tmp_path / "t.tsv.gz")
    table = open_collection(tmp_path / "t.tsv.gz")
    assert table.format == "reranking"
    assert table.qrels["all"].to_dict() == {
        "20": {"10": 1, "100": 0, "9": 0},
        "3": {"100": 0, "9": 2},
    }
    assert {q: {*read_run(tmp_path / "t.tsv.gz")[q].ids} for q in ("20", "3")} == {
        "20": {"9", "10", "100"},
        "3": {"9", "100"},
    }
    reranking_to_parquet(tmp_path / "t.tsv.gz", tmp_path / "t.parquet")
    written = [line.split("\t") for line in (lines(tmp_path / "t.tsv.gz"))[1:]]
    sorted_table = pq.read_table(tmp_path / "t.parquet").to_pylist()
    for cells, row in zip(written, sorted_table, strict=True):
        names = ("qid", "pid", "query", "passage", "relevancy", "q_idx", "p_idx")
        assert cells == [str(row[name]) for name in names]


def lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_what_cannot_be_written(tmp_path: Path) -> None:
    selected = select_candidates(RUN, QRELS).run
    without = Collection("toy", "none", DOCUMENTS[:1], lambda: QUERIES)
    with pytest.raises(InputError, match=r"document '.*' of query '20' is not in the collection"):
        write_candidate_table(selected, without, tmp_path / "t.tsv")
    blank = selected.with_queries(Queries.of([Query("20", " "), Query("3", "x")]))
    with pytest.raises(InputError, match="query '20' has no text"):
        write_candidate_table(blank, collection(), tmp_path / "t.tsv")
    tabbed = Run.from_dict({"2\t0": {"9": 1.0}}).with_extra(relevancy=[1])
    tabbed = tabbed.with_queries(Queries.of([Query("2\t0", "x")]))
    with pytest.raises(InputError, match="has a tab or a line break"):
        write_candidate_table(tabbed, collection(), tmp_path / "t.tsv")
    assert [*tmp_path.iterdir()] == []


# As a user types it


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    collection(tmp_path / "docs")
    write_run(RUN, tmp_path / "run.trec")
    return tmp_path


TO_TABLE = ["convert", "docs", "t.tsv", "--to", "reranking-tsv"]


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--candidates", "run.trec", "--split", "train", "--sample", "1", "--seed", "1"]
    assert command([*TO_TABLE, *arguments]) == 0
    notes = capsys.readouterr().err
    assert "1 query left out: without a relevant document among their candidates" in notes
    assert "1 query left out: not drawn (seed 1)" in notes
    assert len(open_collection("t.tsv").qrels["all"]) == 1
    assert command(["convert", "t.tsv", "again.tsv", "--to", "reranking-tsv"]) == 0
    assert Path("again.tsv").read_bytes() == Path("t.tsv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([*TO_TABLE], "docs has no candidates of its own"),
        ([*TO_TABLE, "--candidates", "run.trec", "--split", "dev"], "has no split 'dev'"),
        ([*TO_TABLE, "--candidates", "run.trec", "--qrels", "a=none.txt"], "no query has a relev"),
    ],
)
def test_what_is_asked_for_wrongly(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    Path("none.txt").write_text("20 0 10 0\n")
    assert command(arguments) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith("hint: ")


def test_options_of_tables_are_for_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["convert", "docs", "t.jsonl", "--to", "jsonl", "--sample", "3"]) == 2
    assert "are for --to reranking-tsv" in capsys.readouterr().err


# Memory


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Twenty times the rows of the same passages cost what their numbers do: 40 bytes each."""
    passages = [f"passage {n} " + "sieve " * 100 for n in range(500)]

    def peak(num_queries: int) -> int:
        table = tmp_path / f"{num_queries}.tsv"
        with table.open("w", encoding="utf-8") as file:
            file.write("\t".join(HEADER) + "\n")
            for query in range(num_queries):
                for pid, passage in enumerate(passages):
                    file.write(f"{query}\t{pid}\tgrain {query}\t{passage}\t{int(pid == 3)}\n")
        code = (
            "import resource, sys; from tamis.collection.runs import read_run;"
            "read_run(sys.argv[1]);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(table)], capture_output=True, text=True, check=True
        )
        return 1024 * int(done.stdout)

    few, more = peak(10), peak(200)
    assert more - few < 95_000 * 100 + (20 << 20)
    assert (tmp_path / "200.tsv").stat().st_size > 55 << 20


def test_scores_are_all_the_same(tmp_path: Path) -> None:
    assert not np.any(read_run(write(tmp_path / "t.tsv")).score)
