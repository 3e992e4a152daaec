"""Queries of a log keep their ids whatever happens to other lines; judgements carry queries."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.cli.app import run
from tamis.collection.beir import write_judged
from tamis.collection.detection import detect_format
from tamis.collection.judgements import read_qrels
from tamis.collection.querylog import query_id
from tamis.collection.readers import open_collection, read_queries
from tamis.errors import InputError
from tamis.judging import Pooled, open_judging
from tamis.text.near import normalise_query
from tamis.types import Qrels, Query

LOG = ["drum sieve", "sift flour", "C++ sieve", "C sieve"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.txt").write_text("".join(f"{line}\n" for line in LOG))
    Path("docs.jsonl").write_text('{"id": "d1", "text": "drum sieve"}\n')
    return tmp_path


def test_ids_do_not_depend_on_lines(here: Path) -> None:
    before = read_queries("log.txt")
    Path("log.txt").write_text("".join(f"{line}\n" for line in ["a new one", *reversed(LOG)]))
    after = read_queries("log.txt")
    assert len(before) == 4, "C and C++ are two queries"
    assert {query.id: query.text for query in before}.items() <= {
        query.id: query.text for query in after
    }.items()


def test_the_id_is_the_same_on_every_machine() -> None:
    assert query_id("drum sieve") == "qfea3c5fd0c6e914b"


def test_repeated_lines_count_once_and_that_is_said(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("log.txt").write_text("drum sieve\nDrum  Sieve?\nflour\ndrum sieve.\n")
    with caplog.at_level(logging.INFO, "tamis"):
        queries = read_queries("log.txt")
    assert {query.text for query in queries} == {"drum sieve", "flour"}
    assert "count once: 2 lines" in caplog.text


@given(st.text(max_size=30))
def test_only_a_blank_query_is_normalised_to_nothing(text: str) -> None:
    assert bool(normalise_query(text)) == bool(text.strip())


def test_judgements_by_line_number_are_refused_and_can_be_converted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("old.qrels").write_text("q000001 0 d1 1\nq000003 0 d1 0\n")
    collection = open_collection("docs.jsonl", queries="log.txt", qrels={"train": "old.qrels"})
    with pytest.raises(InputError, match=r"old\.qrels names queries by line number") as caught:
        _ = collection.qrels
    command = caught.value.hint.partition(": tamis ")[2].split()
    assert run(command) == 0
    target = command[2]
    assert read_qrels(target).to_dict() == {
        query_id("drum sieve"): {"d1": 1}, query_id("C++ sieve"): {"d1": 0}
    }  # fmt: skip
    assert {query.text for query in read_queries(target)} == {"drum sieve", "C++ sieve"}
    assert open_collection("docs.jsonl", queries="log.txt", qrels={"train": target}).qrels
    Path("short.txt").write_text("drum sieve\n")
    assert run(["convert", "old.qrels", "new", "--queries", "short.txt"]) == 1
    assert "has no query q000003" in capsys.readouterr().err


def test_judgements_of_a_table_of_queries_become_a_folder(here: Path) -> None:
    Path("queries.tsv").write_text("a\tdrum sieve\nb\tflour\n")
    Path("test.txt").write_text("b 0 d1 2\n")
    assert run(["convert", "test.txt", "judged", "--queries", "queries.tsv"]) == 0
    assert detect_format("judged") == "judged"
    assert read_qrels("judged/qrels/test.tsv").to_dict() == {"b": {"d1": 2}}
    assert [json.loads(line) for line in Path("judged/queries.jsonl").read_text().splitlines()] == [
        {"_id": "b", "text": "flour"}
    ]


def test_a_folder_of_judgements_brings_its_queries(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = Qrels.from_dict({"n1": {"d1": 1}, query_id("sift flour"): {"d1": 0}})
    queries = [Query("n1", "another"), Query(query_id("sift flour"), "sift flour")]
    write_judged(queries, judged, Path("judged"), "mine")
    collection = open_collection("docs.jsonl", queries="log.txt", qrels={"train": "judged"})
    assert len(collection.queries) == 5 and collection.queries["n1"].text == "another"
    assert collection.qrels["train"] == judged
    with pytest.raises(InputError, match="no documents"):
        list(open_collection("judged").documents)
    assert run(["info", "judged", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["queries"] == 2 and facts["judgements"]["mine"]["judgements"] == 2
    write_judged([Query("n1", "other words")], judged, Path("judged"), "mine", force=True)
    Path("clash.jsonl").write_text('{"_id": "n1", "text": "another"}\n')
    clash = open_collection("docs.jsonl", queries="clash.jsonl", qrels={"train": "judged"})
    with pytest.raises(InputError, match="'other words'"):
        _ = clash.queries


def test_a_folder_with_several_splits_wants_one_named(here: Path) -> None:
    write_judged([Query("q", "x")], Qrels.from_dict({"q": {"d1": 1}}), Path("judged"), "dev")
    Path("judged/qrels/test.tsv").write_text(Path("judged/qrels/dev.tsv").read_text())
    with pytest.raises(InputError, match="the splits dev, test") as caught:
        read_qrels("judged")
    assert "judged/qrels/dev.tsv" in caught.value.hint
    Path("empty").mkdir()
    with pytest.raises(InputError, match="without judgements"):
        read_qrels("empty")


def test_another_spelling_of_a_judged_query_is_the_same_query(here: Path) -> None:
    name = query_id("sift flour")
    write_judged([Query(name, "sift flour")], Qrels.from_dict({name: {"d1": 1}}), Path("j"), "mine")
    Path("log.txt").write_text("SIFT  flour?\ndrum sieve\n")
    collection = open_collection("docs.jsonl", queries="log.txt", qrels={"train": "j"})
    assert len(collection.queries) == 2 and name in collection.queries
    items = [Pooled(query, "d1", (1,)) for query in read_queries("log.txt")]
    with open_judging(items, Path("j")) as judging:
        assert judging.num_before == 1


def test_line_numbers_are_refused_by_tune_and_evaluate(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my old.qrels").write_text("q000001 0 d1 1\nq000002 0 d1 1\n")
    assert run(["index", "docs.jsonl", "-o", "i"]) == 0
    assert run(["search", "i", "log.txt", "-o", "run.trec"]) == 0
    for command in (["tune", "i", "log.txt", "my old.qrels"],
                    ["evaluate", "my old.qrels", "run.trec"]):  # fmt: skip
        capsys.readouterr()
        assert run(command) == 1
        said = capsys.readouterr().err
        assert "by line number" in said and "'my old.qrels'" in said, "quoted for a shell"
