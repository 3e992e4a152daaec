"""`tamis label gold`, `tamis label pseudo` and `tamis info` of examples, as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tamis.cli.app import run
from tamis.cli.label import negatives_per_query
from tamis.collection.beir import write_judged
from tamis.collection.querylog import query_id
from tamis.labels import Examples, join_examples, read_examples
from tamis.search import Index
from tamis.text.near import query_hash
from tamis.types import Qrels, Queries, Query

DOCS = {
    "tamis": ("Drum sieve", "A drum with a fine mesh. Flour is rubbed through it by hand, slowly."),
    "mill": ("Flour mill", "Two stones grind the grain. The flour of the mill is kept in sacks."),
    "sack": ("Flour sack", "A sack of flour holds fifty kilograms. It is emptied into a trough."),
    "copy": ("", "A drum with a fine mesh. Flour is rubbed through it by hand, slowly."),
    "fish": ("Fish net", "A net of strong yarn catches fish. It is mended on the beach by two."),
}
QUERIES = {
    "q1": "flour through a mesh",
    "q2": "flour stones",
    "q3": "fish flour",
    "q4": "zebra",
    "q5": "flour sacks",
}
QRELS = {
    "train": "q1\ttamis\t2\nq1\tsack\t0\nq2\tmill\t1\n",
    "dev": "q3\tfish\t1\n",
    "test": "q5\tsack\t1\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("docs/qrels").mkdir(parents=True)
    lines = [{"_id": n, "title": t, "text": x} for n, (t, x) in DOCS.items()]
    Path("docs/corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    asked = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    Path("docs/queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in asked))
    for split, rows in QRELS.items():
        Path(f"docs/qrels/{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    Path("log.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in QUERIES.items()))
    assert run(["index", "docs", "-o", "index"]) == 0
    return tmp_path


def made(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Examples, dict[str, Any]]:
    capsys.readouterr()
    assert run(["label", *arguments, "-o", "out.parquet", "--json", "--force"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read_examples("out.parquet"), facts


def fails(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    capsys.readouterr()
    assert run([*arguments]) == code
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 2
    assert not Path("out.parquet").exists()
    return said


def rows(examples: Examples) -> set[tuple[str, str, str]]:
    names = ("positive", "negative", "pool")
    return {
        (examples.queries.ids[int(q)], examples.docs[int(d)], names[int(r)])
        for q, d, r in zip(examples.query, examples.doc, examples.role, strict=True)
    }


def test_gold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, facts = made(capsys, "gold", "-c", "docs", "--index", "index", "--split", "train")
    assert rows(found) == {
        ("q1", "tamis", "positive"), ("q1", "sack", "pool"), ("q1", "mill", "pool"),
        ("q2", "mill", "positive"), ("q2", "tamis", "pool"), ("q2", "sack", "pool"),
        ("q2", "copy", "pool"),
    }  # fmt: skip
    assert facts["counts"]["excluded_copies_of_a_positive"] == 1
    assert facts["collection"] == "docs"
    assert facts["candidates"] == "bm25 k1=0.9 b=0.4 of index"
    assert facts["split"] == "train"
    assert found.facts.items() < facts.items()


def test_gold_of_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("qrels.txt").write_text("q1 0 tamis 1\n")
    files = ("--queries", "log.tsv", "--qrels", "qrels.txt")
    found, facts = made(capsys, "gold", "-c", "index", *files, "--negatives", "1")
    assert facts["counts"]["excluded_queries_without_a_judgement"] == 4
    assert facts["counts"]["queries"] == facts["counts"]["positive"] == 1
    assert run(["search", "index", "log.tsv", "-o", "run.trec"]) == 0
    same, facts = made(
        capsys, "gold", "-c", "docs", "--candidates", "run.trec", *files, "--negatives", "1"
    )
    assert same == found
    assert facts["candidates"] == "run.trec"


def test_other_negatives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("gold", "-c", "docs", "--split", "train", "--negatives-from")
    judged, _ = made(capsys, *common, "judged")
    assert rows(judged) == {
        ("q1", "tamis", "positive"), ("q1", "sack", "pool"), ("q2", "mill", "positive"),
    }  # fmt: skip
    drawn, _ = made(capsys, *common, "random", "--negatives", "2", "--grade", "2")
    assert rows(drawn) >= {("q1", "tamis", "positive")}
    assert not [row for row in rows(drawn) if row[0] != "q1"]
    mixed, _ = made(capsys, *common, "mixed", "--index", "index")
    assert ("q2", "fish", "pool") in rows(mixed)


def test_pseudo_labels_every_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, facts = made(capsys, "pseudo", "-c", "index", "--queries", "log.tsv")
    assert facts["counts"]["queries"] == 4
    assert facts["counts"]["excluded_queries_with_fewer_than_two_results"] == 1
    source = Index.open("index").bm25()
    asked = Queries.of(Query(name, text) for name, text in QUERIES.items())
    firsts = {name: source.search(asked, 1)[name].ids for name in QUERIES}
    positives = {(query, doc) for query, doc, role in rows(found) if role == "positive"}
    assert positives == {(name, ids[0]) for name, ids in firsts.items() if ids}
    split, _ = made(capsys, "pseudo", "-c", "docs", "--index", "index", "--split", "train")
    assert {query for query, _, _ in rows(split)} == {"q1", "q2"}
    one, facts = made(capsys, "pseudo", "-c", "index", "--queries", "log.tsv", "--sample", "1")
    assert len({query for query, _, _ in rows(one)}) == facts["counts"]["queries"] == 1


def test_pseudo_uses_what_was_tuned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Index.open("index").record_tuned(
        {"ranking": "bm25", "parameters": {"k1": 2.0, "b": 0.1}, "measure": "RR"}
    )
    _, facts = made(capsys, "pseudo", "-c", "index", "--queries", "log.tsv")
    assert facts["candidates"] == "bm25 k1=2 b=0.1 of index"


def test_judgements_play_no_part_in_pseudo(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("pseudo", "-c", "docs", "--index", "index", "--queries", "log.tsv")
    before, _ = made(capsys, *command)
    Path("docs/qrels/train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tfish\t1\n")
    assert made(capsys, *command)[0] == before


def test_from_documents(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, facts = made(
        capsys, "pseudo", "-c", "index", "--from-documents", "--num-queries", "4", "--show", "50"
    )
    assert facts["labelled_by"] == "synthetic"
    assert facts["counts"]["queries"] == found.groups == len(facts["shown"])
    assert 0 <= facts["origin_at_rank_1"]["all"] <= 1
    assert all(origin.doc_id in DOCS for origin in found.origins.values())
    titles, _ = made(capsys, "pseudo", "-c", "index", "--from-documents", "--query-source", "title")
    assert not titles.titled.any()


def test_texts_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["gold", "-c", "docs", "--index", "index", "--split", "train", "--show", "5"]
    assert run(["label", *arguments, "-o", "out.parquet"]) == 0
    out, err = capsys.readouterr()
    assert "flour through a mesh  q1" in out
    assert "positive  1  tamis  Drum sieve A drum with a fine mesh." in out
    assert "excluded copies of a positive" in out
    assert "out.parquet: 7 examples of 2 groups" in err


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = made(capsys, "gold", "-c", "docs", "--index", "index", "--split", "train")
    capsys.readouterr()
    assert run(["info", "out.parquet"]) == 0
    out, err = capsys.readouterr()
    assert "positive 2, pool 5" in out
    assert "give --candidates RUN" in err
    assert run(["info", "out.parquet", "-c", "docs", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["characters"]["positive"]["min"] > 50
    assert facts["judged"]["pool"] == {"relevant": 0, "not_relevant": 1, "not_judged": 4}
    assert run(["info", "out.parquet", "-c", "index", "--queries", "log.tsv", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["likely_false_negatives"]["of_not_positive"] == 5
    Path("run.trec").write_text("q2 Q0 copy 1 9 x\nq2 Q0 mill 2 8 x\nq1 Q0 sack 1 1 x\n")
    scored = ["info", "out.parquet", "--candidates", "run.trec", "--qrels", "docs/qrels/train.tsv"]
    assert run(scored) == 0
    assert "warning: 1 of 5 negatives (20%), in 1 query, may be false" in capsys.readouterr().err
    assert run(["info", "out.parquet", "-c", "docs", "--show", "1"]) == 0
    assert "pool" in capsys.readouterr().out
    assert len(found) == 7


def test_info_of_synthetic_examples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(capsys, "pseudo", "-c", "index", "--from-documents")
    assert run(["info", "out.parquet", "-c", "index", "--json", "--show", "2"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["by"]["source"] == {"synthetic": facts["rows"]}
    assert "likely_false_negatives" in facts
    assert len(facts["shown"]) == 2


def test_the_split_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["-c", "docs", "--index", "index", "-o", "out.parquet"]
    for verb in ("gold", "pseudo"):
        said = fails(capsys, "label", verb, *both)
        assert "docs has the splits dev, test, train: which may be learnt from?" in said
        assert "--split train" in said
    Path("docs/qrels/dev.tsv").unlink()
    assert rows(made(capsys, "gold", *both[:4])[0]) >= {("q1", "tamis", "positive")}
    pseudo, _ = made(capsys, "pseudo", *both[:4])
    assert {query for query, _, _ in rows(pseudo)} == {"q1", "q2", "q3"}  # but not the test's


def test_queries_of_a_whole_collection_come_with_its_splits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["-c", "index", "--queries", "docs"]
    assert "which may be learnt from" in fails(
        capsys, "label", "pseudo", *both, "-o", "out.parquet"
    )
    found, _ = made(capsys, "pseudo", *both, "--split", "train")
    assert {query for query, _, _ in rows(found)} == {"q1", "q2"}
    same, _ = made(capsys, "gold", *both, "--split", "train")
    assert same == made(capsys, "gold", "-c", "docs", "--index", "index", "--split", "train")[0]


def test_a_split_that_is_not_known_is_not_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["label", "pseudo", "-c", "index", "--queries", "log.tsv", "-o", "out.parquet"]
    assert "no judgements of a split 'train'" in fails(capsys, *command, "--split", "train")
    found, _ = made(capsys, "pseudo", "-c", "docs", "--index", "index", "--queries", "log.tsv",
                    "--split", "train")  # fmt: skip
    assert {query for query, _, _ in rows(found)} == {"q1", "q2"}


def test_a_test_split_is_not_labelled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("docs/qrels/test.tsv").rename("docs/qrels/DevTestA.tsv")
    arguments = ["-c", "docs", "--index", "index", "-o", "out.parquet"]
    for verb in ("gold", "pseudo", "weak"):
        said = fails(capsys, "label", verb, *arguments, "--split", "DevTestA")
        assert "DevTestA is a test split" in said
    assert run(["label", "gold", *arguments, "--split", "train"]) == 0
    assert "held out: 1 query of DevTestA" in capsys.readouterr().err


def test_queries_that_repeat_a_test_query_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"same": "Flour  sacks?", "near": "sacks flour", "other": "flour mill"}
    asked = [{"_id": name, "text": text} for name, text in (QUERIES | more).items()]
    Path("docs/queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in asked))
    rows = "".join(f"{name}\tmill\t1\n" for name in more)
    with Path("docs/qrels/train.tsv").open("a") as file:
        file.write(rows)
    common = ["-c", "docs", "--index", "index"]
    for verb in ("gold", "pseudo", "weak"):
        found, facts = made(capsys, verb, *common, "--split", "train")
        names = {found.queries.ids[n] for n in found.query.tolist()}
        assert "other" in names and not {"same", "near", "q5"} & names, verb
        assert facts["test_query_hashes"] == [query_hash("flour sacks")]
    Path("log.txt").write_text("\n".join((QUERIES | more).values()) + "\n")
    found, _ = made(capsys, "pseudo", *common, "--queries", "log.txt")
    texts = {query_id(text): text for text in (QUERIES | more).values()}
    labelled = {texts[found.queries.ids[n]] for n in found.query.tolist()}
    assert "flour mill" in labelled and not {"flour sacks", *list(more.values())[:2]} & labelled
    assert run(["label", "gold", *common, "--split", "train", "-o", "x.parquet"]) == 0
    assert "2 queries, such as" in capsys.readouterr().err


def test_titles_that_repeat_a_test_query_are_not_made_queries(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "pseudo",
        "-c",
        "docs",
        "--index",
        "index",
        "--from-documents",
        "--query-source",
        "title",
    ]
    origins = []
    for test_query in ("flour sacks", "Flour mill?"):
        asked = [{"_id": n, "text": x} for n, x in {**QUERIES, "q5": test_query}.items()]
        Path("docs/queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in asked))
        found, _ = made(capsys, *command)
        origins.append({found.origins[n].doc_id for n in found.query.tolist()})
    assert origins[0] - origins[1] == {"mill"}


def test_what_is_missing_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", "out.parquet"]
    said = fails(capsys, "label", "gold", "-c", "docs", "--split", "train", *out)
    assert "docs is no index" in said and "--candidates RUN" in said
    assert "no queries" in fails(capsys, "label", "pseudo", "-c", "index", *out)
    assert "no judgements" in fails(
        capsys, "label", "gold", "-c", "index", "--queries", "log.tsv", *out
    )
    said = fails(capsys, "label", "gold", "-c", "docs", "--index", "index", "--split", "x", *out)
    assert "no judgements of a split 'x'" in said
    Path("run.trec").write_text("q9 Q0 tamis 1 1 x\n")
    said = fails(capsys, "label", "pseudo", "-c", "docs", "--split", "train",
                 "--candidates", "run.trec",
                 *out)  # fmt: skip
    assert "none of the 3 queries" in said
    Path("qrels.txt").write_text("q1 0 gone 1\n")
    gone = ["label", "gold", "-c", "index", "--queries", "log.tsv", "--qrels", "qrels.txt", *out]
    assert "'gone', judged relevant for query 'q1', is not in the" in fails(capsys, *gone)
    assert "none of 5 queries" in fails(capsys, *gone, "--on-error", "skip")


def test_misuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["label", "pseudo", "-c", "index", "-o", "out.parquet"]
    for wrong in (
        ["--from-documents", "--queries", "log.tsv"],
        ["--num-queries", "3"],
        ["--negatives", "none"],
        ["--negatives", "0"],
    ):
        fails(capsys, *common, *wrong, code=2)
    fails(capsys, "label", code=2)
    fails(capsys, "info", "docs", "--show", "3", code=2)
    with pytest.raises(Exception, match="no number of negatives"):
        negatives_per_query("-1")


def test_an_output_that_exists_is_refused_before_the_work(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("there.parquet").write_text("mine")
    said = fails(capsys, "label", "pseudo", "-c", "no-such-index", "-o", "there.parquet")
    assert "exists already" in said
    assert Path("there.parquet").read_text() == "mine"


KILLED = """
import os, pathlib, signal, sys
import pyarrow.parquet as parquet
from tamis import durable
from tamis.cli.app import run
from tamis.collection.querylog import query_id

def dies(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moment = sys.argv[1]
if moment == "writing":
    parquet.ParquetWriter.write_table = dies  # the file is begun
elif moment == "syncing":
    durable._sync = dies
elif moment == "renaming":
    pathlib.Path.replace = dies
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("moment", ["writing", "syncing", "renaming"])
def test_killed_at_any_moment_nothing_is_half_written(folder: Path, moment: str) -> None:
    arguments = ["label", "pseudo", "-c", "index", "--queries", "log.tsv", "-o", "out.parquet"]
    command = [sys.executable, "-c", KILLED, moment, *arguments]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not Path("out.parquet").exists()
    assert run(arguments) == 0
    whole = read_examples("out.parquet")
    again = [*command, "--force", "--seed", "1"]
    assert subprocess.run(again, check=False).returncode == -signal.SIGKILL
    assert read_examples("out.parquet") == whole


def test_a_folder_of_judgements_brings_the_queries_to_label(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = Qrels.from_dict({"new": {"mill": 1}})
    write_judged([Query("new", "flour mill")], judged, Path("judged"), "mine")
    for where in ("index", "docs"):
        command = ["gold", "-c", where, "--qrels", "judged", "--split", "train"]
        found, _ = made(capsys, *command, *(["--index", "index"] if where == "docs" else []))
        assert {found.queries.ids[n] for n in found.query.tolist()} == {"new"}


def test_transfer_leaves_test_queries_out_as_the_other_verbs_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("docs/qrels/train.tsv").open("a") as file:
        file.write("q5\tsack\t1\n")  # which is a test query
    command = ["transfer", "-c", "docs", "--index", "index", "--split", "train", "--method"]
    found, _ = made(capsys, *command, "doc-labelled")
    assert {found.queries.ids[n] for n in found.query.tolist()} == {"q1", "q2"}


def test_joined_examples_know_the_test_queries_of_all(folder: Path) -> None:
    parts = [Examples.of_rows([("q", "d", 1.0, "positive")], source="gold",
                              facts={"test_query_hashes": [each]}) for each in "ab"]  # fmt: skip
    assert join_examples(parts).facts["test_query_hashes"] == ["a", "b"]
