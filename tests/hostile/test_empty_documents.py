"""A document without text is data: kept, counted, told once, found by no word, lost by no verb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tamis import open_collection, read_run
from tamis.cli.app import run
from tamis.fitting.job import run_fit
from tamis.fitting.request import FitRequest
from tamis.labels import read_examples
from tamis.models import import_model
from tamis.search import Index

THINGS = "sieve drum net grain flour fish sort".split()
PAIRS = [(one, other) for one in THINGS for other in THINGS if one != other]
EMPTY = ("empty1", "empty2")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every query is two words, the document that has both is the answer; two are empty, one of
    which is judged to be an answer.
    """
    monkeypatch.chdir(tmp_path)
    Path("docs/qrels").mkdir(parents=True)
    documents = [{"_id": f"d{n:02}", "text": f"a {one} the {other} long enough"}
                 for n, (one, other) in enumerate(PAIRS)]  # fmt: skip
    documents[3:3] = [{"_id": "empty1", "text": ""}]
    documents += [{"_id": "empty2", "title": " ", "text": "\n "}]
    Path("docs/corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    queries = [{"_id": f"q{n:02}", "text": f"{one} {other} x{n}"}
               for n, (one, other) in enumerate(PAIRS)]  # fmt: skip
    Path("docs/queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    for split, numbers in (("train", range(24)), ("test", range(24, 40))):
        rows = [f"q{n:02}\td{n:02}\t1\nq{n:02}\tempty1\t1\n" for n in numbers]
        text = "query-id\tcorpus-id\tscore\n" + "".join(rows)
        Path(f"docs/qrels/{split}.tsv").write_text(text)
    return tmp_path


@pytest.fixture
def model(tmp_path: Path, tiny_cross_encoder: Path) -> Path:
    out = tmp_path / "tiny"
    import_model(tiny_cross_encoder, out, kind="bi-encoder", pooling="mean", max_length=24)
    return out


def told_once(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, in which the empty documents were told once with their ids."""
    said = capsys.readouterr().err
    assert said.count("2 documents without text") == 1
    assert all(name in said for name in EMPTY)
    return said


def facts(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_it_is_indexed_and_found_by_no_word(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "docs", "-o", "index"]) == 0
    assert "44 documents (2 without a term)" in told_once(capsys)
    index = Index.open("index")
    assert index.document("empty2").text == "\n "
    assert run(["search", "index", "docs", "-o", "out.parquet", "--top", "100"]) == 0
    ranked = read_run("out.parquet")
    assert {name for query in ranked.queries.ids for name in ranked[query].ids}.isdisjoint(EMPTY)
    assert facts(capsys, "info", "index")["documents_without_terms"] == 2
    assert facts(capsys, "info", "docs")["documents"]["without_text"] == 2


def test_going_through_twice_counts_once(docs: Path) -> None:
    collection = open_collection("docs")
    for _ in range(2):
        assert sum(1 for _ in collection.documents) == 44
    assert (collection.faults.empty, collection.faults.first_empty) == (2, list(EMPTY))


@pytest.mark.parametrize("to", ["collection", "jsonl", "csv", "trectext", "parquet", "msmarco"])
def test_converting_keeps_it(to: str, docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert", "docs", "out", "--to", to]) == 0
    told_once(capsys)
    texts = {document.id: document.text for document in open_collection("out").documents}
    assert len(texts) == 44
    assert [texts[name].strip() for name in EMPTY] == ["", ""]


def test_a_table_of_candidates_may_hold_it(tmp_path: Path) -> None:
    table = tmp_path / "candidates.tsv"
    table.write_text("1\t7\tdrum sieve\t \t1\n1\t9\tdrum sieve\tDrums.\t0\n")
    collection = open_collection(table)
    assert [document.id for document in collection.documents] == ["7", "9"]
    assert collection.faults.first_empty == ["7"]


@pytest.mark.parametrize("passages", [[], ["--passages", "words:2:1"]])
def test_it_has_no_vectors_and_is_found_by_none(
    passages: list[str], docs: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    assert run(["index", "docs", "-o", "index", "--dense", str(model), *passages]) == 0
    search = ["search", "index", "docs", "--ranking", "dense", "--model", str(model)]
    assert run([*search, "-o", "out.parquet", "--top", "100"]) == 0
    ranked = read_run("out.parquet")
    assert {len(ranked[query]) for query in ranked.queries.ids} == {42}
    found = facts(capsys, "info", "index")
    assert "warnings" not in found or not found["warnings"]


def test_it_is_labelled_learnt_from_and_reranked(
    docs: Path, tiny_cross_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    assert run(["index", "docs", "-o", "index"]) == 0
    gold = ["label", "gold", "-c", "docs", "--index", "index", "--split", "train", "--depth", "8"]
    assert facts(capsys, *gold, "-o", "gold.parquet")["counts"]["positive"] == 48
    assert "empty1" in {*read_examples("gold.parquet").docs}
    capsys.readouterr()
    train = ["train", "gold.parquet", "-c", "docs", "--base", str(tiny_cross_encoder)]
    how = [
        "--recipe", "monobert-pairwise", "--set", "epochs=1", "--set", "max_length=24",
        "--set", "document_tokens=none", "--threads", "1",
    ]  # fmt: skip
    assert run([*train, *how, "-o", "model"]) == 0
    told_once(capsys)
    Path("run.trec").write_text("q00 Q0 empty1 1 9 a\nq00 Q0 d00 2 8 a\n")
    reranked = ["rerank", "run.trec", "-c", "docs", "--model", "model", "-o", "out.trec"]
    assert facts(capsys, *reranked)["not_reranked"] == {"documents_without_text": 1}
    assert read_run("out.trec")["q00"].ids == ["d00", "empty1"]


def test_no_query_is_made_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "Drum sieve": "A drum with a fine mesh. Flour is rubbed through it by hand, slowly.",
        "Flour mill": "Two stones grind the grain. The flour of the mill is kept in sacks.",
        "Flour sack": "A sack of flour holds fifty kilograms. It is emptied into a trough.",
        "": "",
    }
    records = (
        {"id": title[-4:] or "empty", "title": title, "text": texts[title]} for title in texts
    )
    lines = map(json.dumps, records)
    Path("docs.jsonl").write_text("\n".join(lines))
    assert run(["index", "docs.jsonl", "-o", "index"]) == 0
    pseudo = ["label", "pseudo", "-c", "index", "--from-documents", "--num-queries", "10"]
    assert run([*pseudo, "-o", "pseudo.parquet"]) == 0
    assert {*read_examples("pseudo.parquet").docs} <= {"ieve", "mill", "sack"}


def test_a_model_is_trained_and_a_sieve_made(
    docs: Path, model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("tamis.fitting.candidate_models.MAX_LENGTH", 24)
    request = FitRequest(
        "docs", Path("a.sieve"), str(model), depth=10, max_time=900.0, threads=1
    )  # fmt: skip
    with caplog.at_level("WARNING", "tamis"):
        _, sieve = run_fit(request)
    assert sieve is not None
    assert sieve.manifest["data"]["documents_without_terms"] == 2
    assert caplog.text.count("2 documents without text") == 1
    assert "documents without terms" in Path("a.sieve/report.html").read_text()
    assert sieve.search("drum sieve")
