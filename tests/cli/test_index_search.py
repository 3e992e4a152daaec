"""`tamis index`, `search` and `tune` as a user types them."""

import json
from pathlib import Path

import pytest

from tamis.cli.app import run
from tamis.cli.dense import parse_size

DOCS = [
    {"id": "d1", "title": "Drum sieve", "text": "A drum sieve sorts grain."},
    {"id": "d2", "title": "Nets", "text": "Fishing nets catch fish."},
    {"id": "d3", "title": "", "text": "Flour passes the sieve; grain does not."},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    Path("queries.tsv").write_text("q1\tsieves\nq2\tfish net\nq3\tthe\n")
    assert run(["index", "docs.jsonl", "-o", "index"]) == 0
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert run(["search", "index", *arguments, "--json"]) == 0
    return [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]]


def test_search_for_a_person(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(capsys, "sieve") == ["d1", "d3"]
    assert run(["search", "index", "sieve"]) == 0
    out = capsys.readouterr().out
    assert "Drum sieve" in out
    assert "d3" in out


def test_nothing_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, reason in [("the", "no terms"), ("", "no terms"), ("zebra", "no document has")]:
        assert run(["search", "index", words]) == 0
        assert reason in capsys.readouterr().err


def test_search_many(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "index", "queries.tsv", "-o", "run.trec", "--top", "1"]) == 0
    assert "3 queries searched with bm25 k1=0.9 b=0.4, 1 without results" in capsys.readouterr().err
    lines = Path("run.trec").read_text().splitlines()
    assert [line.split()[2] for line in lines] == ["d1", "d2"]
    for options in (["--ranking", "ql"], ["--rm3"], ["--mu", "50"], ["--k1", "2", "--b", "1"]):
        assert run(["search", "index", "queries.tsv", "-o", "run.trec", "--force", *options]) == 0


def test_bad_queries_do_not_keep_the_others_from_being_answered(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['{"id": "q1", "text": " "}', '{"id": "q2", "text": "\\ud800"}']
    Path("mixed.jsonl").write_text("\n".join([*lines, '{"id": "q3", "text": "fish"}']) + "\n")
    arguments = ["search", "index", "mixed.jsonl", "-o", "run.trec"]
    assert run(arguments) == 0
    assert "2 queries skipped, first: mixed.jsonl:1" in capsys.readouterr().err
    assert Path("run.trec").read_text().startswith("q3 Q0 d2 1 ")
    assert run([*arguments, "--force", "--on-error", "raise"]) == 1


def test_fields_of_queries(folder: Path) -> None:
    line = {"id": "q", "text": "nets", "description": "sieve"}
    Path("queries.jsonl").write_text(json.dumps(line))
    arguments = ["search", "index", "queries.jsonl", "-o", "run.parquet", "--force"]
    from tamis import read_run

    assert run([*arguments, "--query-field", "description"]) == 0
    searched = read_run("run.parquet")
    assert searched["q"].ids == ["d1", "d3"]
    assert searched.queries["q"].text == "nets"
    assert run([*arguments, "--rerank-field", "description"]) == 0
    passed = read_run("run.parquet")
    assert passed["q"].ids == ["d2"]
    assert passed.queries["q"].text == "sieve"


def test_add_delete_merge(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.jsonl").write_text('{"id": "d2", "text": "sieve"}\n{"id": "d4", "text": "sieve"}\n')
    assert run(["update", "index", "more.jsonl"]) == 0
    assert sorted(found(capsys, "sieve")) == ["d1", "d2", "d3", "d4"]
    assert found(capsys, "fishing") == []
    Path("gone.txt").write_text("d1\nd9\n")
    assert run(["update", "index", "--delete", "d4", "--delete-from", "gone.txt"]) == 0
    assert "deleted 2 of 3" in capsys.readouterr().err
    assert run(["update", "index", "--merge"]) == 0
    assert "2 documents" in capsys.readouterr().err
    assert sorted(found(capsys, "sieve")) == ["d2", "d3"]
    assert run(["info", "index", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["segments"] == 1
    assert run(["info", "index", "--verify"]) == 0


def test_tune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(f"q{n:02}", f"word{n}") for n in range(12)]
    Path("asked.tsv").write_text("".join(f"{q}\t{word} grain\n" for q, word in pairs))
    Path("judged.txt").write_text("".join(f"{q} 0 {word} 1\n" for q, word in pairs))
    rows = [{"id": word, "text": f"{word} grain"} for _, word in pairs]
    Path("more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["update", "index", "more.jsonl"]) == 0
    arguments = ["tune", "index", "asked.tsv", "judged.txt"]
    assert run([*arguments, "--plot", "surface.svg"]) == 0
    captured = capsys.readouterr()
    assert "not significant" in captured.err
    assert "RR@10, mean over 12 queries" in captured.out
    assert "<svg" in Path("surface.svg").read_text()
    assert run(["info", "index", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tuned_bm25"] == {"k1": 0.9, "b": 0.4}
    assert run([*arguments, "--ranking", "rm3", "--json", "--no-save"]) == 0
    assert json.loads(capsys.readouterr().out)["ranking"] == "rm3"
    assert run([*arguments, "--plot", "surface.bmp"]) == 1
    assert "test split" not in capsys.readouterr().err
    Path("judged.txt").rename("DevTest.txt")
    assert run([*arguments[:3], "DevTest.txt", "--no-save"]) == 0
    assert "warning: DevTest.txt is a test split" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["index", "-o", "index"], 2, "COLLECTION"),
        (["index", "docs.jsonl", "-o", "index"], 1, "exists already"),
        (["update", "index"], 2, "nothing to change"),
        (["index", "docs.jsonl", "-o", "x", "--memory", "lots"], 2, "no amount of memory"),
        (["index", "docs.jsonl", "-o", "x", "--analyzer", "klingon"], 1, "klingon"),
        (["search", "docs.jsonl", "sieve"], 1, "docs.jsonl"),
        (["search", "index", "sieve", "--top", "0"], 2, "--top"),
        (["search", "index", "sieve", "--k1", "-1"], 1, "k1 is -1"),
        (["search", "index", "sieve", "--ranking", "ql", "--b", "0.5"], 1, "no parameter of ql"),
        (["search", "index", "nowhere.tsv", "-o", "run"], 1, "nowhere.tsv"),
        (["tune", "index", "queries.tsv", "qrels.txt"], 1, "too few"),
    ],
)
def test_misuse(
    arguments: list[str],
    code: int,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("qrels.txt").write_text("q1 0 d1 1\n")
    capsys.readouterr()
    assert run(arguments) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert said in lines[0]


def test_sizes() -> None:
    assert parse_size("2GB") == 2_000_000_000
    assert parse_size("512 MiB") == 512 * 1024**2
    assert parse_size("1.5k") == 1500
