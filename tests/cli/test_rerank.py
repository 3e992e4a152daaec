"""`tamis rerank` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis import read_run
from tamis.cli.app import run
from tamis.collection.runs import read_spec
from tamis.models import open_ranker
from tamis.pipeline import passage_scores
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.types import Pairs, Scores, score_texts

DOCS = [
    {"_id": "d1", "title": "Drum sieve", "text": "A drum sieve sorts grain. The flour is fine."},
    {"_id": "d2", "title": "", "text": "A net. Fish fish fish. " + "net " * 40},
    {"_id": "d3", "title": "", "text": "Flour 🙂 \u0007 grain"},
    {"_id": "d4", "title": "Grain", "text": "The grain"},
]
QUERIES = {"q1": "drum sieve", "q2": "fish net"}
RUN = [
    "q1 Q0 d1 1 4",
    "q1 Q0 d2 2 3",
    "q1 Q0 d3 3 2",
    "q1 Q0 d4 4 1",
    "q2 Q0 d4 1 9",
    "q2 Q0 d2 2 8",
]
RERANK = ["rerank", "run.trec", "-c", "collection"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_cross_encoder: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("collection").mkdir()
    Path("model").symlink_to(tiny_cross_encoder)
    Path("collection/corpus.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    asked = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    Path("collection/queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in asked))
    Path("run.trec").write_text("".join(f"{line} bm25\n" for line in RUN))
    Path("qrels.txt").write_text("q1 0 d3 1\nq2 0 d2 1\n")
    return tmp_path


def facts(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*RERANK, "--model", "model", "--json", "--force", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_scores_are_the_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, "-o", "out.parquet")
    after = read_run("out.parquet")
    scorer = open_ranker("model").scorer
    texts = [f"{doc['title']} {doc['text']}".strip() for doc in DOCS]
    for query, words in QUERIES.items():
        expected = dict(
            zip([d["_id"] for d in DOCS], score_texts(scorer, words, texts), strict=True)
        )
        assert dict(after[query]) == pytest.approx({d: expected[d] for d in after[query].ids})
    assert after["q1"].extra["passage"].tolist() == [0] * 4
    second = after["q2"]
    previous = second.extra["previous_score"].tolist()
    assert dict(zip(second.ids, previous, strict=True)) == {"d4": 9, "d2": 8}
    assert after.queries["q1"].text == "drum sieve"
    # 24 tokens, 3 of them special, 2 the query's: 19 are left for d2's 47, twice
    assert found["scored"]["truncated"] == {"tokens": 56, "passages": 2, "documents": 2}
    assert found["scored"]["pairs"] == {"scored": 6, "from_cache": 0}
    assert found["how"]["model"] == "model"


def test_scores_are_kept_beside_the_output(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts(capsys, "-o", "out.trec")
    assert Path("out.trec.scores").is_file()
    again = facts(capsys, "-o", "out.trec", "--fusion-weight", "0.5", "--aggregate", "mean")
    assert again["scored"]["pairs"] == {"scored": 0, "from_cache": 6}
    shared = facts(capsys, "-o", "other.trec", "--cache", "out.trec.scores", "--depth", "1")
    assert shared["scored"]["pairs"] == {"scored": 0, "from_cache": 2}
    assert not Path("other.trec.scores").exists()
    facts(capsys, "-o", "none.trec", "--no-cache")
    assert not Path("none.trec.scores").exists()


def test_an_interrupted_job_says_how_to_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*RERANK, "--model", "model", "-o", "out.trec", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr(passage_scores, "FULL_CHUNK_PAIRS", 1)
        score, calls = CrossEncoder.score, list[int]()

        def interrupted(self: CrossEncoder, pairs: Pairs) -> Scores:
            calls.append(len(pairs))
            if len(calls) == 4:  # the first call tries the model out
                raise KeyboardInterrupt
            return score(self, pairs)

        patch.setattr(CrossEncoder, "score", interrupted)
        assert run(arguments) == 130
        said = "2 scores are cached in out.trec.scores"
        assert said in capsys.readouterr().err
        assert not Path("out.trec").exists()
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["scored"]["pairs"] == {
        "scored": 4,
        "from_cache": 2,
    }


def test_a_kept_score_is_of_this_model_only(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts(capsys, "-o", "out.trec")
    assert run(["import-model", "model", "-o", "short", "--max-length", "12"]) == 0
    capsys.readouterr()
    assert run([*RERANK, "--model", "short", "-o", "out.trec", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scored"]["pairs"] == {
        "scored": 6,
        "from_cache": 0,
    }


def test_the_table_for_a_person(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RERANK, "--model", "model", "-o", "out.trec"]) == 0
    printed = capsys.readouterr()
    assert "tokens 56, passages 2, documents 2" in printed.out
    assert "queries with another first document" in printed.out
    assert (
        "dropped (only .parquet can hold it): previous_score, passage, truncated_tokens"
        in printed.err
    )
    assert run([*RERANK, "--model", "model", "-o", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("q1 Q0 ")
    assert "tokens 56" in printed.err
    assert not Path("-.scores").exists()


def test_depth_and_passages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, "-o", "out.parquet", "--depth", "2", "--passages", "sentences:1:1")
    after = read_run("out.parquet")
    assert after["q1"].ids[2:] == ["d3", "d4"]
    assert after["q1"].extra["passage"][2:].tolist() == [-1, -1]
    assert found["how"]["sentences"] == "tamis-rules 1"
    windows = facts(capsys, "-o", "out.parquet", "--passages", "tokens:8:4")
    assert windows["scored"]["truncated"]["tokens"] == 0


def test_a_latency(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, "-o", "out.trec", "--latency", "30s", "--threads", "1")
    assert found["scored"]["documents_per_query"] == {"mean": 3, "min": 2, "max": 4}
    assert found["scored"]["queries_over_time_limit"] == 0
    assert not Path("out.trec.scores").exists()


def test_bert_3s(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*RERANK, "--model", "model", "--force"]
    tuning = ["--aggregate", "bert-3s", "--tune", "qrels.txt", "-m", "RR@10", "--json"]
    assert run([*arguments, "-o", "tuned.trec", *tuning]) == 0
    said = capsys.readouterr()
    assert "selected: bert-3s:" in said.err
    assert "tuned on" in said.err
    chosen = json.loads(said.out)["how"]["aggregate"]
    assert json.loads(said.out)["how"]["passages"] == "sentences:1:1"
    assert run([*arguments, "-o", "applied.trec", "--aggregate", chosen]) == 0
    assert read_run("applied.trec") == read_run("tuned.trec")
    capsys.readouterr()
    assert run([*arguments, "-o", "tuned.trec", *tuning, "--no-cache"]) == 0
    # sentences are scored to tune, and are known when that is applied
    assert json.loads(capsys.readouterr().out)["scored"]["pairs"]["scored"] == 0


def test_documents_and_queries_from_elsewhere(folder: Path) -> None:
    assert run([*RERANK, "--model", "model", "-o", "expected.parquet"]) == 0
    assert run(["index", "collection", "-o", "index"]) == 0
    Path("asked.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in QUERIES.items()))
    by_index = ["rerank", "run.trec", "-c", "index", "--model", "model", "-o", "index.parquet"]
    assert run(by_index) == 1
    assert run([*by_index, "--queries", "asked.tsv"]) == 0
    assert run(["convert", "collection", "stored"]) == 0
    assert run(["rerank", "expected.parquet", "-c", "stored", "--model", "model",
                "-o", "stored.parquet"]) == 0  # fmt: skip
    expected = read_run("expected.parquet")
    assert read_run("index.parquet") == expected
    assert np.array_equal(read_run("stored.parquet").score, expected.score)


def test_what_lacks_is_named_or_skipped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("run.trec").open("a") as file:
        file.write("q1 Q0 gone 5 3.5 bm25\n")
    assert run([*RERANK, "--model", "model", "-o", "out.trec"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "document 'gone' of query 'q1' is not in the collection" in first
    assert "skip" in second
    with Path("run.trec").open("a") as file:
        file.write("q7 Q0 d1 1 3.5 bm25\n")
    assert run([*RERANK, "--model", "model", "-o", "out.trec"]) == 1
    assert "query 'q7' of the run is not among the queries" in capsys.readouterr().err
    found = facts(capsys, "-o", "out.trec", "--on-error", "skip")
    assert found["not_reranked"] == {
        "documents_not_in_the_collection": 1,
        "queries_without_text": 1,
    }
    assert read_run("out.trec")["q1"].ids[-1] == "gone"


def test_an_empty_query_of_a_file_is_left_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("asked.tsv").write_text("q1\tdrum sieve\nq2\t \n")
    assert run([*RERANK, "--model", "model", "-o", "a.trec", "--queries", "asked.tsv"]) == 1
    assert "query 'q2' is empty" in capsys.readouterr().err
    arguments = ["-o", "out.trec", "--queries", "asked.tsv", "--on-error", "skip"]
    found = facts(capsys, *arguments)
    assert found["not_reranked"] == {"queries_without_text": 1}
    assert dict(read_run("out.trec")["q2"]) == {"d4": 9, "d2": 8}
    assert run([*RERANK, "--model", "model", "--force", *arguments]) == 0
    assert "1 bad line skipped, first: asked.tsv:2: query 'q2' is empty" in capsys.readouterr().err


def test_an_empty_document_does_not_lose_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("collection/corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "d5", "title": "", "text": " "}) + "\n")
    with Path("run.trec").open("a") as file:
        file.write("q1 Q0 d5 1 9 bm25\n")
    found = facts(capsys, "-o", "out.trec")
    assert found["not_reranked"] == {"documents_without_text": 1}
    assert found["scored"]["pairs"]["scored"] == 6
    assert read_run("out.trec")["q1"].ids[-1] == "d5"
    assert run([*RERANK, "--model", "model", "-o", "out.parquet"]) == 0
    assert "1 document without text" in capsys.readouterr().err


def test_bad_lines_of_the_collection_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("collection/corpus.jsonl").open("a") as file:
        file.write("{broken\n")
    arguments = [*RERANK, "--model", "model", "-o", "out.trec"]
    assert run(arguments) == 1
    capsys.readouterr()
    assert run([*arguments, "--on-error", "skip"]) == 0
    told = capsys.readouterr().err
    assert "warning: 1 bad line skipped, first: collection/corpus.jsonl:5: " in told


def test_a_run_says_how_it_was_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts(capsys, "-o", "out.parquet", "--passages", "sentences:2:1", "--seed", "3", "--depth", "5")
    spec = read_spec("out.parquet") or {}
    scorer, documents = spec.pop("scorer"), spec.pop("documents")
    assert spec == {
        "stage": "rerank", "version": 1, "model": "model", "passages": "sentences:2:1",
        "sentences": "tamis-rules 1", "aggregate": "max", "depth": 5, "missing": "raise", "seed": 3,
    }  # fmt: skip
    assert scorer["path"] == str(Path("model").resolve())
    assert documents["path"] == str(Path("collection").resolve())
    again = tamis.open_stage(read_spec("out.parquet") or {})
    texts = tamis.read_queries("collection/queries.jsonl")
    assert again(read_run("run.trec").with_queries(texts)) == read_run("out.parquet")
    assert run(["convert", "out.parquet", "copy.parquet"]) == 0
    assert read_spec("copy.parquet") == read_spec("out.parquet")
    assert run(["convert", "copy.parquet", "copy.trec"]) == 0
    assert "how the run was made" in capsys.readouterr().err
    assert read_spec("copy.trec") is None
    assert run(["info", "out.parquet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["made_by"]["sentences"] == "tamis-rules 1"
    assert run(["info", "out.parquet"]) == 0
    assert "sentences:2:1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--model", "model", "-o", "run.trec"], 1, "run.trec exists already"),
        (["--model", "model", "-o", "no/where.trec"], 1, "there is no folder no"),
        (["--model", "./nowhere", "-o", "out"], 1, "there is no folder ./nowhere"),
        (["--model", "collection", "-o", "out"], 1, "collection has no config.json"),
        (["--model", "model", "-o", "out", "--latency", "soon"], 2, "not a length of time"),
        (["--model", "model", "-o", "out", "--latency", "0ms"], 2, "not a length of time"),
        (["--model", "model", "-o", "out", "--aggregate", "sum"], 1, "sum of logits"),
        (["--model", "model", "-o", "out", "--aggregate", "bert-3s"], 2, "--tune QRELS"),
        (["--model", "model", "-o", "out", "--tune", "qrels.txt"], 2, "go together"),
        (["--model", "model", "-o", "out", "--passages", "pages"], 1, "not a way to split"),
        (["--model", "model", "-o", "out", "--fusion-weight", "2"], 2, "--fusion-weight"),
        (["--model", "model", "-o", "-", "--json"], 2, "--json prints on stdout"),
        (["--model", "model", "-o", "out", "--cache", "qrels.txt"], 1, "not a file of scores"),
        (["--model", "model", "-o", "out", "--cache", "x", "--no-cache"], 2, "--cache goes"),
        (["--model", "model", "-o", "out", "--cache", "out"], 2, "--cache out is the output"),
        (["--model", "model", "-o", "out", "--cache", "./run.trec"], 2, "run.trec is the run"),
    ],
)
def test_misuse(
    arguments: list[str],
    code: int,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    assert run([*RERANK, *arguments]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, lines
    assert said in lines[0]
    assert not Path("out").exists()


def test_an_index_is_not_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "collection", "-o", "index"]) == 0
    capsys.readouterr()
    assert run([*RERANK, "--model", "index", "-o", "out"]) == 1
    assert "index is an index, not a model" in capsys.readouterr().err


def test_lexical_scores_are_those_of_a_search(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RERANK, "--model", "lexical", "-o", "none.trec"]) == 1
    assert "hint: tamis index, then -c INDEX" in capsys.readouterr().err
    assert run(["index", "collection", "-o", "my.index"]) == 0
    assert run(["search", "my.index", "collection/queries.jsonl", "-o", "found.trec"]) == 0
    again = ["rerank", "found.trec", "-c", "my.index", "--queries", "collection/queries.jsonl"]
    assert run([*again, "--model", "lexical", "-o", "lexical.parquet"]) == 0
    assert read_run("lexical.parquet").to_dict() == read_run("found.trec").to_dict()
    assert not Path("lexical.parquet.scores").exists()


def test_alignment_takes_vectors_from_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("words.txt").write_text("net 1 0\nfish 1 0\ngrain 0 1\nsieve 0 1\n")
    assert run([*RERANK, "--model", "alignment:words.txt", "-o", "aligned.parquet"]) == 0
    after = read_run("aligned.parquet")
    assert after["q2"].ids == ["d2", "d4"]
    assert after["q1"].ids[0] == "d1"
    assert run([*RERANK, "--model", "alignment:nowhere.txt", "-o", "none.trec"]) == 1
    assert "error: " in capsys.readouterr().err


def test_a_back_end_and_its_own_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    given = ["-c", "collection", "--candidates", "run.trec", "--no-int8"]
    assert run(["import-model", "model", "-o", "adopted"]) == 0
    assert run(["export", "adopted", "-o", "fast", *given]) == 0
    capsys.readouterr()
    arguments = [*RERANK, "--model", "fast", "--json", "--force", "--cache", "kept"]
    for backend, known in (("fast", 0), ("onnx", 0), ("fast", 6)):
        assert run([*arguments, "-o", f"{backend}.trec", "--backend", backend]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["scored"]["pairs"] == {"scored": 6 - known, "from_cache": known}
    fast, onnx = read_run("fast.trec"), read_run("onnx.trec")
    assert onnx.score == pytest.approx(fast.score, abs=1e-4)
    assert run([*arguments, "-o", "a.trec", "--backend", "onnx-int8"]) == 1
    assert "has no onnx/model_qint8.onnx" in capsys.readouterr().err
    assert run([*arguments, "-o", "a.trec", "--dtype", "int8"]) == 1
    assert "has no onnx/model_qint8.onnx" in capsys.readouterr().err


TABLE = [
    ("q1", "d1", "drum sieve", "A drum sieve sorts grain."),
    ("q2", "d2", "fish net", "A net."),
    ("q1", "d3", "drum sieve", "Flour"),
    ("q1", "d2", "drum sieve", "A net."),
]


def write_table(path: Path) -> Path:
    rows = [
        f"{q}\t{p}\t{text}\t{passage}\t{n % 2}\n" for n, (q, p, text, passage) in enumerate(TABLE)
    ]
    path.write_text("qid\tpid\tquery\tpassage\trelevancy\n" + "".join(rows), "utf-8")
    return path


def test_a_table_brings_candidates_queries_and_texts(folder: Path) -> None:
    table = write_table(folder / "table.tsv")
    arguments = ["--model", "model", "--no-cache", "--force"]
    assert run(["rerank", str(table), *arguments, "-o", "out.parquet"]) == 0
    scorer = open_ranker("model").scorer
    reranked = read_run("out.parquet")
    assert len(reranked) == 2
    for query, doc, text, passage in TABLE:
        expected = score_texts(scorer, text, [passage])[0]
        assert dict(reranked[query])[doc] == pytest.approx(expected, rel=1e-5)
    assert run(["convert", str(table), "candidates.parquet", "--to", "run"]) == 0
    assert (
        run(["rerank", "candidates.parquet", "-c", str(table), *arguments, "-o", "again.trec"]) == 0
    )
    again = read_run("again.trec")
    for query in reranked:
        assert again[query].ids == reranked[query].ids


def test_all_candidates_of_a_table_are_re_ranked(folder: Path) -> None:
    rows = [f"q\t{n}\tdrum\tdrum {'sieve ' * (n % 7)}\t0\n" for n in range(150)]
    Path("table.tsv").write_text("".join(rows), "utf-8")
    arguments = [
        "rerank",
        "table.tsv",
        "--model",
        "model",
        "--no-cache",
        "--force",
        "-o",
        "o.parquet",
    ]
    assert run(arguments) == 0
    assert (read_run("o.parquet").extra["passage"] >= 0).sum() == 150
    assert run([*arguments, "--depth", "20"]) == 0
    assert (read_run("o.parquet").extra["passage"] >= 0).sum() == 20


def test_a_run_needs_a_collection(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rerank", "run.trec", "--model", "model", "-o", "out.trec"]) == 2
    assert "-c COLLECTION is missing" in capsys.readouterr().err


def test_a_table_is_not_replaced_by_its_ranking(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Path("table.tsv")
    table.write_text("qid\tpid\tquery\tpassage\trelevancy\n1\t7\tsieve\tA drum sieve\t1\n")
    before = table.read_text()
    command = ["rerank", "table.tsv", "--model", "model", "-o", "table.tsv", "--force"]
    assert run(command) == 1
    assert "is the table to re-rank" in capsys.readouterr().err
    assert table.read_text() == before
