"""`tamis label weak`, `transfer` and `teacher`, as a user types them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from tamis.cli.app import run
from tamis.labels import Examples, read_examples
from tamis.models import open_ranker
from tamis.pipeline import passage_scores
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.search import Index
from tamis.types import Pairs, Queries, Query, Scores, score_texts

DOCS = {
    "d1": "Drum sieve. Fish fish the net. A sieve.",
    "d2": "A net. The fish. Grain.",
    "d3": "Flour. The grain a flour. Sort the grain.",
    "d4": "Sort grain. Sort fish.",
}
QUERIES = {"q1": "drum sieve", "q2": "fish net", "q3": "sort grain", "q4": "the flour"}
QRELS = {
    "train": [("q1", "d1", 1), ("q2", "d2", 1)],
    "dev": [("q3", "d4", 1)],
    "test": [("q4", "d3", 1)],
}
SENTENCES = ["--passages", "sentences:1:1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("docs/qrels").mkdir(parents=True)
    rows = [{"_id": name, "text": text} for name, text in DOCS.items()]
    Path("docs/corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    Path("docs/queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    for split, judged in QRELS.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, each)) for each in judged)]
        Path(f"docs/qrels/{split}.tsv").write_text("\n".join(lines) + "\n")
    listed = [f"{query} Q0 {doc} 1 {9 - n} x\n" for query in QUERIES for n, doc in enumerate(DOCS)]
    Path("run.trec").write_text("".join(listed))
    return tmp_path


@pytest.fixture
def model(folder: Path, tiny_cross_encoder: Path) -> Path:
    Path("model").symlink_to(tiny_cross_encoder)
    return Path("model")


@pytest.fixture
def service() -> Iterator[str]:
    """A service that scores texts by their length."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] != "Bearer s3cret":
                self.send_error(401)
                return
            found = [
                {"index": n, "relevance_score": len(text)}
                for n, text in enumerate(asked["documents"])
            ]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"results": found}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v2/rerank"
    server.shutdown()
    thread.join()
    server.server_close()


def label(*arguments: str) -> Examples:
    assert run(["label", *arguments, "-o", "out.parquet", "--force"]) == 0
    return read_examples("out.parquet")


def says(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    capsys.readouterr()
    assert run(["label", *arguments]) == code
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if line.startswith(("error:", "hint:"))]
    assert len(lines) == 2
    assert lines[1].startswith("hint:")
    return said


def test_weak_with_bm25(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "docs", "-o", "index"]) == 0
    capsys.readouterr()
    made = label("weak", "-c", "docs", "--index", "index", "--split", "train", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert made.facts.items() < facts.items()
    assert facts["scorer"] == "lexical k1=1.2 b=0.75"
    assert facts["candidates"] == "bm25 k1=0.9 b=0.4 of index"
    assert (facts["collection"], facts["split"]) == ("docs", "train")
    assert list(made.queries.ids) == ["q1", "q2"]
    assert made.value.max() == 5
    by_run = label(
        "weak", "-c", "index", "--candidates", "run.trec", "--queries", "docs/queries.jsonl"
    )
    assert len(by_run) == 16
    assert by_run.facts["candidates"] == "run.trec"
    for group in range(4):
        values = by_run.value[by_run.group == group]
        assert (values.min(), values.max()) == (0, 5)


VERBS = {
    "gold": ["--split", "train"],
    "pseudo": ["--split", "train"],
    "weak": ["--split", "train"],
    "teacher": ["--split", "train", "--teacher", "model", "--threads", "1"],
    "transfer": ["--split", "train", "--method", "doc-labelled", *SENTENCES],
}


@pytest.mark.parametrize("verb", VERBS)
def test_candidates_are_searched_by_the_ranking_that_the_examples_name(
    model: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert run(["index", "docs", "-o", "index"]) == 0
    command = [verb, "-c", "docs", "--index", "index", *VERBS[verb]]
    by_bm25, by_ql = "bm25 k1=0.9 b=0.4 of index", "ql mu=1000 of index"
    usual = label(*command).facts["candidates"]
    assert usual == (by_ql if verb == "transfer" else by_bm25)
    assert label(*command, "--ranking", "ql").facts["candidates"] == by_ql
    assert label(*command, "--ranking", "bm25").facts["candidates"] == by_bm25
    both = says(
        capsys, *command, "--candidates", "run.trec", "--ranking", "ql", "-o", "x.parquet", code=2
    )
    assert "--candidates" in both and not Path("x.parquet").exists()


def test_the_ranking_decides_what_is_found(folder: Path) -> None:
    """One word six times, or both once: BM25 prefers the second, as counts saturate."""
    others = " ".join(f"word{n}" for n in range(2000))
    texts = {"many": "drum " * 6, "both": "drum sieve", "long": "sieve " * 6 + others}
    rows = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    Path("corpus.jsonl").write_text("\n".join(rows) + "\n")
    Path("log.tsv").write_text("q1\tdrum sieve\n")
    assert run(["index", "corpus.jsonl", "-o", "index"]) == 0
    firsts = {}
    for ranking in ("bm25", "ql"):
        source = getattr(Index.open("index"), ranking)()
        made = label("pseudo", "-c", "index", "--queries", "log.tsv", "--ranking", ranking)
        positive = made.docs.take(made.doc[made.is_role("positive")])
        asked = Queries.of([Query("q1", "drum sieve")])
        assert positive == source.search(asked, 1)["q1"].ids
        firsts[ranking] = positive
    assert firsts == {"bm25": ["both"], "ql": ["many"]}


def test_weak_with_alignment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("vectors.txt").write_text("drum 1 0\nsieve 0 1\nnet 0.8 0.6\nfish 0.6 0.8\n")
    made = label(
        "weak", "-c", "docs", "--candidates", "run.trec", "--split", "train",
        "--model", "alignment:vectors.txt", *SENTENCES,
    )  # fmt: skip
    drum = made.value[made.group == 0]
    assert drum[0] == 5  # "Drum sieve.", the words themselves
    assert made.facts["passages"] == "sentences:1:1"
    assert not Path("out.parquet.scores").exists()
    assert "alignment" in capsys.readouterr().out


def test_teacher_of_a_folder(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = label("teacher", "-c", "docs", "--candidates", "run.trec", "--split", "train",
                 "--teacher", "model", "--depth", "2", "--threads", "1")  # fmt: skip
    scorer = open_ranker("model").scorer
    expected = [
        *score_texts(scorer, "drum sieve", [DOCS["d1"], DOCS["d2"]]),
        *score_texts(scorer, "fish net", [DOCS["d1"], DOCS["d2"]]),
    ]
    assert made.value.tolist() == pytest.approx(expected)
    assert (made.facts["scale"], made.facts["teacher"]) == ("logit", "model")
    assert Path("out.parquet.scores").is_file()
    shown = label("teacher", "-c", "docs", "--candidates", "run.trec", "--split", "train",
                  "--teacher", "model", "--sample", "1", "--show", "1")  # fmt: skip
    assert shown.groups == 1
    assert "Drum sieve" in capsys.readouterr().out


def test_teacher_of_a_service(
    folder: Path,
    service: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asking = [
        "teacher",
        "-c",
        "docs",
        "--candidates",
        "run.trec",
        "--split",
        "dev",
        "--teacher",
        service,
    ]
    assert "key" in says(capsys, *asking, "-o", "x.parquet")
    named = [*asking, "--key-variable", "SERVICE_KEY", "--service-model", "strong"]
    assert "no variable SERVICE_KEY" in says(capsys, *named, "-o", "x.parquet")
    assert not Path("x.parquet").exists()
    monkeypatch.setenv("SERVICE_KEY", "s3cret")
    made = label(*named, "--threads", "2")
    assert made.value.tolist() == [len(text) for text in DOCS.values()]
    assert made.facts["teacher"] == f"{service} strong"
    printed = capsys.readouterr()
    assert "s3cret" not in printed.out + printed.err
    assert b"s3cret" not in Path("out.parquet").read_bytes()
    known = says(capsys, *asking, "--key-variable", "SERVICE_KEY", "-o", "none/x.parquet")
    assert "no folder" in known


def test_transfer(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["transfer", "-c", "docs", "--candidates", "run.trec", "--split", "train", *SENTENCES]
    inherited = label(*common, "--method", "doc-labelled")
    assert inherited.facts["counts"]["positive"] == 3 + 3
    assert inherited.facts["counts"]["negative"] == (3 + 3 + 2) * 2
    assert "no classes" in says(capsys, *common, "--teacher", "model", "-o", "x.parquet")
    made = label(*common, "--teacher", "model", "--threshold", "-1000")
    assert made.facts["threshold"] == {"from": "the caller", "threshold": -1000}
    assert made.facts["counts"]["positive"] == made.facts["counts"]["negative"] == 6
    scorer = open_ranker("model").scorer
    sentences = ["Drum sieve.", "Fish fish the net.", "A sieve."]
    scores = sorted(score_texts(scorer, "drum sieve", sentences).tolist())
    above = (scores[1] + scores[2]) / 2
    chosen = label(*common, "--teacher", "model", "--threshold", str(above), "--sample", "2")
    first = chosen.is_role("positive") & (chosen.query == chosen.queries.ids.number("q1"))
    assert first.sum() == 1
    assert chosen.facts["teacher"] == "model"


def test_a_threshold_is_chosen_and_recorded(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scorer = open_ranker("model").scorer
    texts = list(DOCS.values())
    best = int(np.argmax(score_texts(scorer, QUERIES["q1"], texts)))
    Path("own.tsv").write_text(f"q1 0 d{best + 1} 1\n")
    assert run(["label", "gold", "-c", "docs", "--candidates", "run.trec", "--qrels", "own.tsv",
                "--split", "train", "-o", "gold.parquet"]) == 0  # fmt: skip
    arguments = ["transfer", "-c", "docs", "--candidates", "run.trec", "--split", "dev",
                 "--teacher",
                 "model", "--keep-best", *SENTENCES]  # fmt: skip
    made = label(*arguments, "--calibrate", "gold.parquet")
    threshold = made.facts["threshold"]
    scores = sorted(score_texts(scorer, QUERIES["q1"], texts).tolist())
    assert threshold["threshold"] == pytest.approx((scores[-1] + scores[-2]) / 2)
    assert threshold["balanced accuracy"] == 1
    assert threshold["examples"] == "gold.parquet of docs"
    assert "threshold: " in capsys.readouterr().err
    Path("test.tsv").write_text("q4 0 d1 1\n")
    assert run(["label", "gold", "-c", "docs/corpus.jsonl", "--queries", "docs/queries.jsonl",
                "--candidates", "run.trec", "--qrels", "train=test.tsv", "--split", "train",
                "-o", "leak.parquet"]) == 0  # fmt: skip
    told = says(capsys, *arguments, "--calibrate", "leak.parquet", "-o", "x.parquet")
    assert "test query" in told
    assert run(["index", "docs", "-o", "index"]) == 0
    arguments[2:3] = [
        "index",
        "--queries",
        "docs/queries.jsonl",
        "--qrels",
        "dev=docs/qrels/dev.tsv",
    ]
    assert label(*arguments, "--calibrate", "gold.parquet").facts["threshold"]["threshold"] == (
        pytest.approx(threshold["threshold"])
    )


@pytest.mark.parametrize(
    "asking",
    [
        ["--split", "test"],
        ["--qrels", "train=docs/qrels/test.tsv"],
        ["--qrels", "dev=docs/qrels/test.tsv", "--split", "dev"],
    ],
)
def test_test_queries_are_refused_before_a_teacher_is_opened(
    folder: Path, asking: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["transfer", "-c", "docs", "--candidates", "run.trec", *asking, "-o", "x.parquet"]
    for method in (["--teacher", "there/is/none"], ["--method", "doc-labelled"]):
        assert re.search("is a test (split|query, such as 'q4')", says(capsys, *common, *method))
    assert not Path("x.parquet").exists()


def test_no_file_makes_test_queries_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["transfer", "-c", "docs", "--candidates", "run.trec", "--method", "doc-labelled"]
    both = ["--qrels", "train=docs/qrels/test.tsv", "--qrels", "own-test=docs/qrels/train.tsv"]
    assert "is a test query, such as 'q4'" in says(capsys, *common, *both, "-o", "x.parquet")
    common[2] = "docs/corpus.jsonl"  # which has no judgements of its own
    asked = ["--queries", "docs/queries.jsonl", "--qrels", "docs/qrels/test.tsv"]
    assert "judgements of test queries only" in says(capsys, *common, *asked, "-o", "x.parquet")
    asked += ["--split", "train"]
    assert "no judgements of a split 'train'" in says(capsys, *common, *asked, "-o", "x.parquet")


def test_bad_lines_that_are_skipped_are_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("docs/corpus.jsonl").open("a") as file:
        file.write('{"_id": "d5"}\n')
    given = ["-c", "docs", "--candidates", "run.trec", "--split", "train", "--on-error", "skip"]
    for verb in ("gold", "teacher"):
        more = ["--teacher", "lexical"] if verb == "teacher" else []
        if more:
            assert run(["index", "docs", "-o", "i", "--on-error", "skip"]) == 0
            more += ["--index", "i"]
        capsys.readouterr()
        assert run(["label", verb, *given, *more, "-o", f"{verb}.parquet"]) == 0
        told = capsys.readouterr().err
        assert verb == "teacher" or "warning: 1 bad line skipped, first: " in told


def test_a_seed_is_no_less_than_zero(folder: Path) -> None:
    for verb in ("gold", "pseudo", "weak", "transfer", "teacher"):
        assert run(["label", verb, "-c", "docs", "--seed", "-1", "-o", "x.parquet"]) == 2


def test_pseudo_labels_every_training_query_judged_or_not(folder: Path) -> None:
    path = Path("docs/queries.jsonl")
    path.write_text(path.read_text() + json.dumps({"_id": "q5", "text": "fish"}) + "\n")
    listed = "".join(f"q5 Q0 {doc} 1 {9 - n} x\n" for n, doc in enumerate(DOCS))
    Path("run.trec").write_text(Path("run.trec").read_text() + listed)
    common = ["pseudo", "-c", "docs", "--candidates", "run.trec", "--split"]
    for split, expected in (("train", ["q1", "q2", "q5"]), ("dev", ["q3", "q5"])):
        for more in ([], ["--queries", str(path)]):
            made = label(*common, split, *more)
            assert [made.queries.ids[n] for n in sorted(set(made.query.tolist()))] == expected


def test_a_sample_is_one_of_judged_queries(folder: Path) -> None:
    for sample in (1, 2):
        made = label("transfer", "-c", "docs", "--queries", "docs/queries.jsonl",
                     "--candidates", "run.trec", "--qrels", "train=docs/qrels/train.tsv",
                     "--method", "doc-labelled", "--sample", str(sample))  # fmt: skip
        assert len(set(made.query.tolist())) == sample


def test_interrupted_it_goes_on(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["label", "teacher", "-c", "docs", "--candidates", "run.trec", "--split", "train",
                 "--teacher", "model", "-o", "out.parquet"]  # fmt: skip
    monkeypatch.setattr(passage_scores, "FULL_CHUNK_PAIRS", 2)
    score, calls = CrossEncoder.score, list[int]()

    def counted(self: CrossEncoder, pairs: Pairs) -> Scores:
        calls.append(len(pairs))
        if len(calls) == 4:  # the first call tries the model out
            raise KeyboardInterrupt
        return score(self, pairs)

    monkeypatch.setattr(CrossEncoder, "score", counted)
    assert run(arguments) == 130
    assert "4 scores are kept in out.parquet.scores" in capsys.readouterr().err
    assert sorted(path.name for path in Path().glob("*.parquet*")) == ["out.parquet.scores"]
    assert run(arguments) == 0
    first = Path("out.parquet").read_bytes()
    assert sum(calls[5:]) == 4  # after another trial: the rest
    assert run([*arguments, "--no-cache", "--force"]) == 0
    assert Path("out.parquet").read_bytes() == first


def test_misuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = [
        "transfer",
        "-c",
        "docs",
        "--candidates",
        "run.trec",
        "--split",
        "train",
        "-o",
        "x.parquet",
    ]
    for options, problem in [
        ([], "needs a --teacher"),
        (["--method", "doc-labelled", "--teacher", "m"], "has no teacher"),
        (["--teacher", "m", "--threshold", "1", "--calibrate", "e"], "leave --threshold out"),
        (["--teacher", "m", "--calibrate-on", "c"], "goes with --calibrate"),
    ]:
        assert problem in says(capsys, *base, *options, code=2)
    weak = ["weak", "-c", "docs", "--candidates", "run.trec", "--split", "train", "-o", "x.parquet"]
    assert "need the statistics of an index" in says(capsys, *weak)
    unknown = ["--split", "learn", "--method", "doc-labelled"]
    assert "no judgements of a split 'learn'" in says(capsys, *base, *unknown)
    Path("x.parquet").touch()
    assert "exists already" in says(capsys, *weak)
